/* Finds what is at a point of the timeline, and describes it for the tooltip. */
import type { TimeScale } from "../util/axis";
import { brief, cut, moment, ns } from "../model/format";
import { frameNumber } from "../model/frame";
import type { Lane, Lanes, Strip } from "./lanes";
import type { Model } from "../model/model";
import { NONE, POLL_OPEN, SAMPLE_CPU, SAMPLE_PREEMPTED } from "../model/schema";
import type { Selection } from "../model/state";
import type { TipLine } from "../util/tooltip";

export interface Hit {
  readonly lane: Lane;
  /** What a click selects; null: nothing is there. */
  readonly selection: Selection | null;
  readonly strip: Strip | null;
  readonly tip: readonly TipLine[];
}

/** Items at this distance in pixels still count as hit. */
const SLACK = 3;

/** Y is relative to the top of the first lane, at 16 px text. */
export function hitAt(model: Model, lanes: Lanes, scale: TimeScale, x: number, y: number): Hit | null {
  const index = lanes.laneAt(y);
  const lane = lanes.lanes[index];
  if (!lane) return null;
  const time = scale.toTime(x);
  if (lane.kind !== "thread") return chartHit(lanes, lane, scale, time);
  const inside = y - (lanes.tops[index] as number);
  if (x < scale.x) {
    return { lane, selection: { kind: "thread", thread: lane.thread }, strip: null, tip: threadTip(model, lane.thread) };
  }
  // Polls are drawn over parks, so the last strip with an item at this point is the visible one.
  const strips = lanes.stripsOf(lane.thread).filter((strip) =>
    inside >= strip.y - 0.5 && inside < strip.y + strip.height + 0.5);
  for (const strip of strips.reverse()) {
    const found = strip.intervals.at(time, strip.kind === "park" ? 0 : SLACK * scale.step);
    if (found < 0) continue;
    const row = strip.intervals.row(found);
    return { lane, strip, selection: selectionIn(strip, row), tip: tipOf(model, strip, row, scale) };
  }
  return { lane, selection: null, strip: null, tip: [] };
}

/** What a click on ROW of STRIP selects. */
export function selectionIn(strip: Strip, row: number): Selection {
  switch (strip.kind) {
    case "frame": return { kind: "frame", frame: row };
    case "poll": return { kind: "poll", poll: row };
    case "park": return { kind: "park", park: row };
    default: return { kind: "sample", sample: row };
  }
}

function chartHit(lanes: Lanes, lane: Lane, scale: TimeScale, time: number): Hit {
  const value = lanes.chartOf(lane).valueAt(time);
  return { lane, selection: null, strip: null,
    tip: [lane.title, ["at", moment(time, scale.step)], [lane.kind === "queue" ? "depth" : "value", brief(value)]] };
}

function threadTip(model: Model, thread: number): TipLine[] {
  const { threads } = model.tables;
  return [model.threadName(thread), ["name", model.label(threads.name[thread] as number) || "-"],
    ["tid", String(threads.tid[thread] as number)]];
}

export function tipOf(model: Model, strip: Strip, row: number, scale: TimeScale): TipLine[] {
  const { frames, polls, parks, samples } = model.tables;
  const when = (time: number): TipLine => ["at", moment(time, Math.min(scale.step, 1e6))];
  switch (strip.kind) {
    case "frame":
      return [`frame ${frameNumber(model.tables, row)}${frames.spike[row] ? ", a spike" : ""}`,
        ["took", ns(frames.wall[row] as number)], when(frames.start[row] as number)];
    case "poll": return pollTip(model, row, when(polls.start[row] as number));
    case "park": return ["parked", ["for", ns(parks.length[row] as number)], when(parks.start[row] as number)];
    default: {
      const node = samples.node[row] as number;
      const kind = samples.kind[row] as number;
      const away = samples.value[row] as number;
      const what = kind === SAMPLE_CPU ? "CPU sample"
        : kind === SAMPLE_PREEMPTED ? "preempted" : "off the CPU";
      const tip: TipLine[] = [what, ["in", cut(model.functionOf(node), 120)]];
      if (kind !== SAMPLE_CPU) tip.push(["off the CPU for", away > 0 ? ns(away) : "the rest of the run"]);
      return [...tip, when(samples.at[row] as number)];
    }
  }
}

function pollTip(model: Model, row: number, when: TipLine): TipLine[] {
  const { polls } = model.tables;
  const wake = polls.wake_at[row] as number, waker = polls.waker_task[row] as number;
  const thread = polls.waker_thread[row] as number;
  const open = ((polls.flags[row] as number) & POLL_OPEN) !== 0;
  const tip: TipLine[] = [model.taskName(polls.task[row] as number),
    ["took", `${ns(polls.length[row] as number)}${open ? ", not finished" : ""}`], when];
  if (wake > 0) tip.push(["waited after wake", ns(Math.max(0, (polls.start[row] as number) - (wake - 1)))]);
  if (waker !== NONE) tip.push(["woken by", model.taskName(waker)]);
  else if (thread !== NONE) tip.push(["woken by", model.threadName(thread)]);
  return tip;
}

/** Is SELECTION, which starts at TIME, in STRIP? */
export function holds(model: Model, strip: Strip, selection: Selection, time: number): boolean {
  switch (selection.kind) {
    case "frame": return strip.kind === "frame";
    case "park": return strip.kind === "park";
    case "sample": return strip.kind === (model.tables.samples.kind[selection.sample] === 0 ? "cpu" : "off");
    case "poll": {
      if (strip.kind !== "poll") return false;
      const found = strip.intervals.at(time, 0);
      return found >= 0 && strip.intervals.row(found) === selection.poll;
    }
    default: return false;
  }
}
