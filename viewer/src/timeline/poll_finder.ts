/* Search in the timeline: tasks, threads and frame functions whose names contain the text. */
import type { Model } from "../model/model";
import { NONE } from "../model/schema";
import type { Selection, State } from "../model/state";

export class PollFinder {
  private text = "";
  private found: Uint8Array | null = null;
  private chosen: { task: number; lit: Uint8Array } | null = null;

  constructor(private readonly model: Model) {}

  /** 1 for each highlighted task (the same array for the same search); null: no search and no task
   * selected. */
  tasks(text: string, selection: Selection | null): Uint8Array | null {
    const { tasks } = this.model.tables;
    if (text !== "") return this.matching(text);
    if (selection?.kind !== "task") return null;
    if (this.chosen?.task !== selection.task) {
      this.chosen = { task: selection.task, lit: new Uint8Array(tasks.rows) };
      this.chosen.lit[selection.task] = 1;
    }
    return this.chosen.lit;
  }

  /** The number of polls of matching tasks. */
  count(text: string): number {
    const lit = this.matching(text);
    const { polls } = this.model.tables.tasks;
    let sum = 0;
    for (let task = 0; task < lit.length; task++) if (lit[task]) sum += polls[task] as number;
    return sum;
  }

  /** The next (or previous) matching poll, relative to the selection or to the start of the visible range;
   * null: none. */
  next(state: State, direction: 1 | -1): number | null {
    const lit = this.tasks(state.search.toLowerCase(), state.selection);
    if (!lit) return null;
    const { start, task, rows } = this.model.tables.polls;
    const selected = state.selection?.kind === "poll" ? state.selection.poll : -1;
    const here = selected >= 0 ? start[selected] as number : state.t0;
    let best: number | null = null, nearest = Infinity;
    for (let row = 0; row < rows; row++) {
      const own = task[row] as number;
      if (own === NONE || lit[own] === 0 || row === selected) continue;
      const distance = direction * ((start[row] as number) - here);
      if (distance < nearest && (distance > 0 || (distance === 0 && direction * (row - selected) > 0))) {
        nearest = distance;
        best = row;
      }
    }
    return best;
  }

  private matching(text: string): Uint8Array {
    if (this.found && this.text === text) return this.found;
    const { tasks } = this.model.tables;
    const lit = new Uint8Array(tasks.rows);
    for (let task = 0; task < tasks.rows; task++) {
      if (this.model.taskName(task).toLowerCase().includes(text)) lit[task] = 1;
    }
    this.text = text;
    return (this.found = lit);
  }
}
