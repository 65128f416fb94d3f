/* The legend of the timeline: the tasks with the most time in polls, and the other strips. A click on a
 * task shows only that task in colour. */
import { button, h } from "../util/element";
import { cut, shortName } from "../model/format";
import type { Model } from "../model/model";
import { category, mix, palette } from "../util/palette";
import { SAMPLE_CPU, SAMPLE_OFF, SAMPLE_PREEMPTED } from "../model/schema";
import type { Store } from "../model/state";
import { frameColour, TASKS, waitColour } from "./tones";

const MOST_TASKS = 6;

export class Legend {
  readonly element = h("ul", { class: "legend", "aria-label": "Colours" });

  constructor(private readonly model: Model, private readonly store: Store) {}

  /** LIT: the tasks in colour; null: all. */
  update(lit: Uint8Array | null): void {
    const { tasks, frames, parks, samples } = this.model.tables;
    const colours = palette();
    const order = Array.from({ length: tasks.rows }, (_, row) => row)
      .sort((a, b) => (lit ? (lit[b] as number) - (lit[a] as number) : 0) ||
        (tasks.total[b] as number) - (tasks.total[a] as number));
    const items: HTMLElement[] = [];
    if (frames.rows > 0) {
      items.push(item(frameColour(), "frame"), item(colours.bad, "spike"));
    }
    for (const task of order.slice(0, MOST_TASKS)) {
      const { selection } = this.store.state;
      const alone = selection?.kind === "task" && selection.task === task;
      const dim = lit !== null && lit[task] === 0;
      items.push(item(dim ? colours.idle : category(task % TASKS),
        button(cut(shortName(this.model.taskName(task)), 28), () =>
          this.store.select(alone ? null : { kind: "task", task }),
        { class: "link", "aria-pressed": String(alone), title: "Show only this task in colour" })));
    }
    if (order.length > MOST_TASKS) items.push(h("li", {}, `+ ${order.length - MOST_TASKS} tasks`));
    if (parks.rows > 0) items.push(item(colours.idle, "parked"));
    const kinds = this.model.keep("legend: sample kinds", () => new Set(samples.kind));
    if (kinds.has(SAMPLE_CPU)) items.push(item(mix(colours.textFaint, colours.surface, 0.25), "CPU sample"));
    if (kinds.has(SAMPLE_OFF)) {
      const work = this.model.tables.polls.rows + frames.rows > 0;
      if (work) items.push(item(colours.series[5], "off CPU during work"));
      items.push(item(waitColour(), work ? "off CPU, idle" : "off CPU"));
    }
    if (kinds.has(SAMPLE_PREEMPTED)) items.push(item(colours.series[1], "preempted"));
    this.element.replaceChildren(...items);
  }
}

function item(colour: string | undefined, content: string | HTMLElement): HTMLElement {
  const swatch = h("span", { class: "swatch" });
  swatch.style.background = colour ?? "";
  return h("li", {}, swatch, content);
}
