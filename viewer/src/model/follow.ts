/* Two readings of a recording that is being written. Row numbers differ between them, so a selection is
 * found again by what it is: a thread by its id, a poll by its thread and start, a stack by its frames. */
import type { Model } from "./model";
import type { Selection } from "./state";

/** SELECTION of OLD as a selection of NEXT; null if it is not there. */
export function followSelection(selection: Selection, old: Model, next: Model): Selection | null {
  switch (selection.kind) {
    case "range": {
      if (selection.thread === undefined) return selection;
      const thread = threadOf(old, next, selection.thread);
      return thread === null ? null : { ...selection, thread };
    }
    case "thread": {
      const thread = threadOf(old, next, selection.thread);
      return thread === null ? null : { kind: "thread", thread };
    }
    case "poll": {
      const { polls } = old.tables;
      const poll = startingAt(old, next, polls.thread[selection.poll]!, polls.start[selection.poll]!, "polls");
      return poll === null ? null : { kind: "poll", poll };
    }
    case "park": {
      const { parks } = old.tables;
      const park = startingAt(old, next, parks.thread[selection.park]!, parks.start[selection.park]!, "parks");
      return park === null ? null : { kind: "park", park };
    }
    case "sample": {
      const sample = sampleOf(old, next, selection.sample);
      return sample === null ? null : { kind: "sample", sample };
    }
    case "task": {
      const name = old.text(old.tables.tasks.name[selection.task]!), { tasks } = next.tables;
      const task = tasks.name.findIndex((row, at) => next.text(row) === name &&
        tasks.kind[at] === old.tables.tasks.kind[selection.task]);
      return task < 0 ? null : { kind: "task", task };
    }
    case "node": {
      const [node] = nodesOf(old, next, selection.node);
      return node === undefined ? null : { kind: "node", node };
    }
    case "site": {
      const nodes = nodesOf(old, next, old.tables.sites.node[selection.site]!), { sites } = next.tables;
      const site = sites.node.findIndex((row, at) => nodes.includes(row) &&
        sites.flags[at] === old.tables.sites.flags[selection.site]);
      return site < 0 ? null : { kind: "site", site };
    }
    default:
      return null; // frames and functions of instrumented programs are not followed
  }
}

function threadOf(old: Model, next: Model, thread: number): number | null {
  const found = next.tables.threads.tid.indexOf(old.tables.threads.tid[thread]!);
  return found < 0 ? null : found;
}

/** Times of events move a little when a reading has newer points of the clock. */
const CLOCK_NS = 1e6;

/** The row of a poll or a park: the nearest one. */
function startingAt(old: Model, next: Model, thread: number, start: number, table: "polls" | "parks"): number | null {
  const now = threadOf(old, next, thread);
  if (now === null) return null;
  const starts = next.tables[table].start;
  const { from, to } = table === "polls" ? next.pollsOf(now) : next.parksOf(now);
  let best: number | null = null;
  for (let row = from; row < to; row++) {
    const far = Math.abs(starts[row]! - start);
    if (far < (best === null ? CLOCK_NS : Math.abs(starts[best]! - start))) best = row;
  }
  return best;
}

function sampleOf(old: Model, next: Model, sample: number): number | null {
  const { samples } = next.tables, was = old.tables.samples;
  const thread = threadOf(old, next, was.thread[sample]!);
  const found = samples.at.findIndex((at, row) => at === was.at[sample] && samples.thread[row] === thread &&
    samples.kind[row] === was.kind[sample]);
  return found < 0 ? null : found;
}

/** What a frame is, as a text. */
function frameText(model: Model, node: number): string {
  const { code, nodes } = model.tables;
  const row = nodes.code[node]!;
  return JSON.stringify([model.text(code.function[row]!), model.text(code.file[row]!), code.line[row],
    model.text(code.module[row]!), code.inlined[row]]);
}

/** The rows with the same frames. The tool writes each stack once, but the format allows more. */
function nodesOf(old: Model, next: Model, node: number): number[] {
  const { start, list } = next.children();
  let here = [next.tables.nodes.rows]; // the key of the roots
  for (const step of old.stack(node)) {
    const wanted = frameText(old, step);
    here = here.flatMap((at) => [...list.subarray(start[at]!, start[at + 1]!)])
      .filter((row) => frameText(next, row) === wanted);
  }
  return here;
}
