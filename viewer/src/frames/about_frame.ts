/* The details panel for a frame, a time range and a thread. Combines the three instruments: functions
 * (exact), CPU samples and allocations. */
import { describe } from "../util/details";
import type { Panel, PanelRow } from "../util/details";
import { bytes, count, cut, moment, ns, percent, shortName, times } from "../model/format";
import { frameNumber } from "../model/frame";
import { kindOfFrame } from "../model/frame_kinds";
import { trieOf } from "../model/keys";
import { lowerBound } from "../model/model";
import type { Model, TimeRange } from "../model/model";
import { NONE, SAMPLE_OFF, SAMPLE_PREEMPTED } from "../model/schema";
import type { Selection, Store } from "../model/state";

const MOST_STACKS = 12;

/** Links from a time range to the views that show it. */
export function timeLinks(panel: Panel, selection: Selection, model: Model, store: Store): void {
  const range = model.rangeOf(selection);
  const links: [string, () => void][] = [];
  if (range && store.offers("flame") && model.tables.samples.rows > 0) {
    links.push(["Show as a flame graph", () => store.open("flame", selection)]);
  }
  for (const [view, text] of [["timeline", "Show in the timeline"], ["frames", "Show in the frames view"]] as const) {
    if (!range || store.state.view === view || !store.offers(view)) continue;
    links.push([text, () => {
      const pad = Math.max(100, range.t1 - range.t0);
      store.open(view, selection);
      store.zoom(range.t0 - pad, range.t1 + pad);
    }]);
  }
  if (links.length > 0) panel.links(links);
}

/** The innermost function of a stack and its caller. If the innermost one is library plumbing, the first
 * frame outside of it that is not. */
function whereIn(model: Model, node: number): string {
  const short = (name: string): string => cut(shortName(name), 48);
  const name = short(model.functionOf(node));
  if (node === NONE) return name;
  const parent = model.tables.nodes.parent[node] as number;
  const site = model.functionOf(model.ownNode(node));
  if (site !== model.functionOf(node) && (parent === NONE || site !== model.functionOf(parent))) {
    return `${name} ← … ← ${short(site)}`;
  }
  return parent === NONE ? name : `${name} ← ${short(model.functionOf(parent))}`;
}

/** What a thread did in a range: on the CPU and off the CPU, the larger part first. */
export function insideOf(panel: Panel, model: Model, range: TimeRange, store: Store): void {
  const { samples } = model.tables;
  const away = (row: number): number =>
    Math.min(samples.value[row] || Infinity, range.t1 - (samples.at[row] as number));
  const rows = range.thread === undefined ? [] : model.samplesIn(range.t0, range.t1, range.thread, null)
    .filter((row) => (samples.kind[row] as number) >= SAMPLE_OFF);
  const sum = rows.reduce((all, row) => all + away(row), 0);
  const parts = [(): void => cpuStacks(panel, model, range, store),
    (): void => offCpu(panel, model, range, store, rows, sum, away)];
  for (const part of sum > (range.t1 - range.t0) / 2 ? parts.reverse() : parts) part();
}

/** The time off the CPU, and the stacks where it was spent. */
function offCpu(panel: Panel, model: Model, range: TimeRange, store: Store, rows: number[], sum: number,
  away: (row: number) => number): void {
  if (rows.length === 0) return;
  const { samples } = model.tables;
  panel.heading("Off the CPU");
  panel.text(`${ns(sum)} (${percent(sum, range.t1 - range.t0)}), in ${count(rows.length)} ` +
    (rows.length === 1 ? "interval." : "intervals."));
  const merged = byStack(model, rows, away);
  panel.table("Where it was off the CPU", ["function ← caller", "intervals", "time"],
    merged.slice(0, MOST_STACKS).map(({ first, hits, time }) => ({
      cells: [whereIn(model, samples.node[first] as number) +
        (samples.kind[first] === SAMPLE_PREEMPTED ? ", preempted" : ""), count(hits), ns(time)],
      part: sum > 0 ? time / sum : 0,
      go: () => store.select({ kind: "sample", sample: first }),
    })));
  if (merged.length > MOST_STACKS) panel.text(`… and ${count(merged.length - MOST_STACKS)} more stacks`);
}

/** Samples of one kind on one stack. */
interface Alike {
  /** The row of samples with the largest weight. */
  first: number;
  hits: number;
  time: number;
}

/** Groups ROWS of samples by the functions on their stacks, ignoring lines; largest weight first. */
export function byStack(model: Model, rows: readonly number[], weight: (row: number) => number): Alike[] {
  const { node: nodes, kind } = model.tables.samples;
  const { ofRow, count: all } = trieOf(model);
  const found = new Map<number, Alike>();
  for (const row of rows) {
    const node = nodes[row] as number, time = weight(row);
    const key = (node === NONE ? 0 : ofRow[node] as number) + all * (kind[row] as number);
    const known = found.get(key);
    if (!known) {
      found.set(key, { first: row, hits: 1, time });
      continue;
    }
    if (time > weight(known.first)) known.first = row;
    known.hits++;
    known.time += time;
  }
  return [...found.values()].sort((a, b) => b.time - a.time);
}

/** CPU samples of a range: their number, and the most frequent stacks. */
function cpuStacks(panel: Panel, model: Model, range: TimeRange, store: Store): void {
  const { samples } = model.tables;
  if (samples.rows === 0) return;
  const rows = model.samplesIn(range.t0, range.t1, range.thread);
  panel.heading("CPU stacks");
  if (rows.length === 0) {
    panel.text("No CPU samples here.");
    return;
  }
  const order = byStack(model, rows, () => 1);
  const lines = order.slice(0, MOST_STACKS).map(({ first, hits }): PanelRow => {
    const node = samples.node[first] as number;
    const row: PanelRow = { cells: [whereIn(model, node), count(hits), percent(hits, rows.length)],
      part: hits / rows.length };
    return node === NONE ? row : { ...row, go: () => store.select({ kind: "node", node }) };
  });
  panel.table("CPU stacks", ["function ← caller", "samples", "share"], lines);
  if (order.length > MOST_STACKS) panel.text(`… and ${count(order.length - MOST_STACKS)} more stacks`);
}

describe("frame", (panel, selection, model, store) => {
  const { frames, functions } = model.tables;
  const row = selection.frame;
  const root = frames.root[row] as number, wall = frames.wall[row] as number;
  const median = kindOfFrame(model, row)?.figures().p50 ?? 0;
  panel.title(`Frame ${frameNumber(model.tables, row)}${frames.spike[row] ? ": a spike" : ""}`,
    root === NONE ? "" : model.label(functions.name[root] as number));
  panel.facts([
    ["took", median > 0 ? `${ns(wall)}, ${times(wall / median)} the median of ${ns(median)}` : ns(wall)],
    ["started at", moment(frames.start[row] as number, 1000)],
    ["thread", model.threadName(frames.thread[row] as number)],
    ["allocated", `${bytes(frames.alloc_bytes[row] as number)} in ${count(frames.alloc_count[row] as number)}`],
  ]);
  timeLinks(panel, selection, model, store);
  frameFunctions(panel, row, model, store);
  const range = model.rangeOf(selection);
  if (range) insideOf(panel, model, range, store);
}, (selection, model) => `frame ${frameNumber(model.tables, selection.frame)}, ` +
  ns(model.tables.frames.wall[selection.frame] as number));

function frameFunctions(panel: Panel, frame: number, model: Model, store: Store): void {
  const { frame_functions: own, functions } = model.tables;
  const { from, to } = model.functionsOf(frame);
  panel.heading("Functions");
  if (from === to) {
    panel.text("The page does not have the functions of this frame. It has them for the slowest frames.");
    return;
  }
  let sum = 0;
  const rows = Array.from({ length: to - from }, (_, i) => from + i);
  for (const row of rows) sum += own.self[row] as number;
  rows.sort((a, b) => (own.self[b] as number) - (own.self[a] as number));
  panel.table("Functions of the frame", ["function", "self", "calls", "allocated"], rows.map((row) => {
    const fn = own.function[row] as number, allocs = own.alloc_count[row] as number;
    return {
      cells: [model.label(functions.name[fn] as number), ns(own.self[row] as number),
        count(own.calls[row] as number), allocs > 0 ? `${bytes(own.alloc_bytes[row] as number)} in ${count(allocs)}` : "0"],
      part: sum > 0 ? (own.self[row] as number) / sum : 0,
      go: () => store.select({ kind: "function", function: fn }),
    };
  }));
}

describe("range", (panel, selection, model, store) => {
  const { frames, polls } = model.tables;
  panel.title(`A range of ${ns(selection.t1 - selection.t0)}`);
  const facts: [string, string][] = [["from", moment(selection.t0, 1000)], ["to", moment(selection.t1, 1000)],
    ["thread", selection.thread === undefined ? "all" : model.threadName(selection.thread)]];
  if (frames.rows > 0) {
    let begun = 0, spikes = 0;
    const last = lowerBound(frames.start, selection.t1, 0, frames.rows);
    for (let row = lowerBound(frames.start, selection.t0, 0, frames.rows); row < last; row++) {
      if (selection.thread !== undefined && frames.thread[row] !== selection.thread) continue;
      begun++;
      spikes += frames.spike[row] as number;
    }
    facts.push(["frames started", `${count(begun)}, ${count(spikes)} of them spikes`]);
  }
  if (polls.rows > 0 && selection.thread !== undefined) {
    const { from, to } = model.pollsOf(selection.thread);
    const first = lowerBound(polls.start, selection.t0, from, to), last = lowerBound(polls.start, selection.t1, from, to);
    facts.push(["polls started", count(last - first)]);
  }
  panel.facts(facts);
  timeLinks(panel, selection, model, store);
  cpuStacks(panel, model, selection, store);
}, (selection) => `range of ${ns(selection.t1 - selection.t0)} at ${moment(selection.t0, 1e6)}`);

describe("thread", (panel, selection, model, store) => {
  const { threads } = model.tables;
  const row = selection.thread;
  panel.title("Thread", model.threadName(row));
  const polls = model.pollsOf(row), groups = model.framesByThread();
  panel.facts([
    ["name", model.label(threads.name[row] as number) || "-"], ["tid", String(threads.tid[row] as number)],
    ["main thread", threads.is_main[row] ? "yes" : "no"], ["polls", count(polls.to - polls.from)],
    ["frames", count((groups.start[row + 1] as number) - (groups.start[row] as number))],
  ]);
  timeLinks(panel, selection, model, store);
  cpuStacks(panel, model, { t0: 0, t1: model.end, thread: row }, store);
}, (selection, model) => model.threadName(selection.thread));
