/* The lanes of the timeline: charts of queues and values, then one lane per thread. The positions of all
 * lanes are computed at once (there can be 10 000). The contents of a lane are prepared when it is first
 * drawn. */
import { Buckets } from "../model/buckets";
import { Intervals, nest } from "../model/intervals";
import type { Groups, Model } from "../model/model";
import { lowerBound } from "../model/model";
import { POLL_NESTED, SAMPLE_CPU, SAMPLE_OFF } from "../model/schema";
import { Steps } from "../model/steps";

/** A row of a lane: items of one kind that do not overlap. */
export interface Strip {
  readonly kind: "frame" | "poll" | "park" | "cpu" | "off";
  /** Distance from the top of the lane, and height: CSS pixels at 16 px text. */
  readonly y: number;
  readonly height: number;
  readonly intervals: Intervals;
}

export type Lane =
  | { readonly kind: "thread"; readonly thread: number; readonly title: string }
  | { readonly kind: "queue" | "value"; readonly key: number; readonly title: string };

const FRAME_HEIGHT = 13, POLL_HEIGHT = 15, NESTED_HEIGHT = 9, TICK_HEIGHT = 6, PAD = 4, GAP = 1;
const LEAST_HEIGHT = 22, CHART_HEIGHT = 44, LOW_CHART_HEIGHT = 36;
const FEW_CHARTS = 2, MOST_CHARTS = 6;
const MOST_LAYERS = 3;
/** Strips with fewer items are drawn without buckets. */
const MANY = 8192;

export class Lanes {
  readonly lanes: readonly Lane[];
  /** Top of each lane, and the end of the last one: CSS pixels at 16 px text. */
  readonly tops: Float64Array;
  /** The number of threads without events. */
  readonly empty: number;
  private readonly strips = new Map<number, readonly Strip[]>();
  private readonly far = new WeakMap<Strip, Buckets>();
  private readonly charts = new Map<Lane, Steps>();
  private readonly layers: Uint8Array;
  private readonly seen: Uint8Array;
  private readonly indices: Int32Array;
  private readonly hurts: Uint8Array;

  /** PID: only the lanes of this process; 0: all. */
  constructor(private readonly model: Model, pid = 0) {
    const { threads, queue_names } = model.tables;
    this.layers = pollLayers(model);
    this.seen = sampleKinds(model);
    this.hurts = new Uint8Array(model.tables.samples.rows);
    const lanes: Lane[] = [], charts: Lane[] = [];
    for (let key = 0; key < queue_names.rows; key++) {
      charts.push({ kind: "queue", key, title: model.label(queue_names.name[key] as number) });
    }
    for (const key of model.valuesByName().keys()) charts.push({ kind: "value", key, title: model.label(key) });
    const rows = Array.from({ length: threads.rows }, (_, row) => row).filter((row) =>
      this.parts(row) > 0 && (pid === 0 || threads.pid[row] === pid));
    rows.sort((a, b) => (threads.place[a] as number) - (threads.place[b] as number) ||
      (threads.is_main[b] as number) - (threads.is_main[a] as number) || a - b);
    for (const thread of rows) lanes.push({ kind: "thread", thread, title: model.laneName(thread) });
    this.empty = (pid === 0 ? threads.rows : threads.pid.filter((of) => of === pid).length) - rows.length;
    // A few charts come first; many of them (a queue for each of 64 workers) come after the threads.
    if (charts.length <= MOST_CHARTS) lanes.unshift(...charts);
    else lanes.push(...charts);
    const chartHeight = charts.length <= FEW_CHARTS ? CHART_HEIGHT : LOW_CHART_HEIGHT;
    this.lanes = lanes;
    this.tops = new Float64Array(lanes.length + 1);
    this.indices = new Int32Array(threads.rows).fill(-1);
    for (const [index, lane] of lanes.entries()) {
      if (lane.kind === "thread") this.indices[lane.thread] = index;
      this.tops[index + 1] = (this.tops[index] as number) +
        (lane.kind === "thread" ? this.heightOf(lane.thread) : chartHeight);
    }
  }

  get height(): number {
    return this.tops[this.lanes.length] as number;
  }

  /** Index of the lane at Y (at 16 px text); -1: none. */
  laneAt(y: number): number {
    if (y < 0 || y >= this.height) return -1;
    let low = 0, high = this.lanes.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if ((this.tops[middle] as number) <= y) low = middle;
      else high = middle;
    }
    return low;
  }

  /** Index of a thread's lane; -1 when it has none. */
  laneOfThread(thread: number): number {
    return this.indices[thread] ?? -1;
  }

  stripsOf(thread: number): readonly Strip[] {
    let strips = this.strips.get(thread);
    if (!strips) this.strips.set(thread, strips = this.makeStrips(thread));
    return strips;
  }

  /** Was a thread that left the CPU (a row of samples in a prepared lane) inside a poll or a frame? If not,
   * it was idle. */
  inWork(sample: number): boolean {
    return this.hurts[sample] === 1;
  }

  /** The strip for low zoom levels; null if it has too few items to need one. */
  farOf(strip: Strip): Buckets | null {
    if (strip.intervals.count < MANY) return null;
    let far = this.far.get(strip);
    if (!far) this.far.set(strip, far = new Buckets(strip.intervals, this.model.end));
    return far;
  }

  chartOf(lane: Lane): Steps {
    let steps = this.charts.get(lane);
    if (!steps) this.charts.set(lane, steps = this.makeChart(lane));
    return steps;
  }

  /* Heights: the same rules as makeStrips(), without creating strips ------------------------------ */

  private frames(thread: number): number {
    const { start } = this.model.framesByThread();
    return (start[thread + 1] as number) - (start[thread] as number);
  }

  private parts(thread: number): number {
    const parks = this.model.parksOf(thread);
    return (this.frames(thread) > 0 ? 1 : 0) + (this.layers[thread] as number) +
      (parks.to > parks.from ? 1 : 0) + (this.seen[thread] as number);
  }

  private heightOf(thread: number): number {
    const parks = this.model.parksOf(thread);
    const layers = this.layers[thread] as number, seen = this.seen[thread] as number;
    let height = 0;
    if (this.frames(thread) > 0) height += FRAME_HEIGHT + GAP;
    if (layers > 0 || parks.to > parks.from) height += POLL_HEIGHT + GAP;
    if (layers > 1) height += (layers - 1) * (NESTED_HEIGHT + GAP);
    if (seen & 1) height += TICK_HEIGHT + GAP;
    if (seen & 2) height += TICK_HEIGHT + GAP;
    return Math.max(LEAST_HEIGHT, height + 2 * PAD);
  }

  private makeStrips(thread: number): Strip[] {
    const { model } = this;
    const { polls, parks, frames, samples } = model.tables;
    const strips: Strip[] = [];
    let y = PAD;
    const add = (kind: Strip["kind"], height: number, intervals: Intervals): void => {
      strips.push({ kind, y, height, intervals });
    };
    if (this.frames(thread) > 0) {
      const rows = members(model.framesByThread(), thread);
      const [only] = nest(gather(frames.start, rows), gather(frames.wall, rows), 0, 1);
      if (only) add("frame", FRAME_HEIGHT, renumber(only, rows));
      y += FRAME_HEIGHT + GAP;
    }
    const parked = model.parksOf(thread), polled = model.pollsOf(thread);
    if (parked.to > parked.from) {
      const [only] = nest(parks.start.subarray(parked.from, parked.to),
        parks.length.subarray(parked.from, parked.to), parked.from, 1);
      if (only) add("park", POLL_HEIGHT, only);
    }
    if (polled.to > polled.from) {
      const layers = nest(polls.start.subarray(polled.from, polled.to),
        polls.length.subarray(polled.from, polled.to), polled.from, MOST_LAYERS);
      for (const [depth, layer] of layers.entries()) {
        add("poll", depth === 0 ? POLL_HEIGHT : NESTED_HEIGHT, layer);
        y += (depth === 0 ? POLL_HEIGHT : NESTED_HEIGHT) + GAP;
      }
    } else if (parked.to > parked.from) y += POLL_HEIGHT + GAP;
    const sampled = members(model.samplesByThread(), thread);
    const on = sampled.filter((row) => samples.kind[row] === SAMPLE_CPU);
    if (on.length > 0) {
      add("cpu", TICK_HEIGHT, new Intervals(gather(samples.at, on), new Float64Array(on.length), on));
      y += TICK_HEIGHT + GAP;
    }
    const off = sampled.filter((row) => (samples.kind[row] as number) >= SAMPLE_OFF);
    if (off.length > 0) {
      const starts = gather(samples.at, off);
      const away = Float64Array.from(off, (row, i) =>
        samples.value[row] || Math.max(0, model.end - (starts[i] as number))); // 0: it did not return
      const [only] = nest(starts, away, 0, 1);
      if (only) add("off", TICK_HEIGHT, renumber(only, off));
      const work = strips.filter((strip) => strip.kind === "poll" || strip.kind === "frame");
      for (const [i, row] of off.entries()) {
        if (work.some((strip) => strip.intervals.at(starts[i] as number, 0) >= 0)) this.hurts[row] = 1;
      }
    }
    return strips;
  }

  private makeChart(lane: Lane): Steps {
    const { queues, values } = this.model.tables;
    if (lane.kind === "thread") return new Steps(new Float64Array(0), new Float64Array(0));
    if (lane.kind === "queue") {
      const rows = members(this.model.queuesByName(), lane.key);
      return new Steps(gather(queues.at, rows), gather(queues.depth, rows));
    }
    const rows = this.model.valuesByName().get(lane.key) ?? new Uint32Array(0);
    return new Steps(gather(values.at, rows), gather(values.value, rows));
  }
}

/* Helpers ---------------------------------------------------------------------------------------- */

function members(groups: Groups, key: number): Uint32Array {
  return groups.list.subarray(groups.start[key] as number, groups.start[key + 1] as number);
}

function gather(values: Float64Array, rows: Uint32Array): Float64Array {
  const found = new Float64Array(rows.length);
  for (let i = 0; i < rows.length; i++) found[i] = values[rows[i] as number] as number;
  return found;
}

/** The same intervals, with row numbers looked up in ROWS. */
function renumber(intervals: Intervals, rows: Uint32Array): Intervals {
  const own = new Uint32Array(intervals.count);
  for (let i = 0; i < own.length; i++) own[i] = rows[intervals.row(i)] as number;
  return new Intervals(intervals.start, intervals.length, own);
}

/** The number of layers that the polls of each thread need (at most MOST_LAYERS); 0: no polls. One pass
 * over all polls, with the same rule as nest(). */
function pollLayers(model: Model): Uint8Array {
  const { start, length, flags } = model.tables.polls;
  const layers = new Uint8Array(model.tables.threads.rows);
  const ends = new Float64Array(MOST_LAYERS);
  for (let thread = 0; thread < layers.length; thread++) {
    const { from, to } = model.pollsOf(thread);
    if (from === to) continue;
    ends.fill(-1);
    let most = 1, end = -1;
    for (let row = from; row < to; row++) {
      const begin = start[row] as number;
      if (begin >= end && ((flags[row] as number) & POLL_NESTED) === 0 && most === 1) {
        end = ends[0] = begin + (length[row] as number);
        continue;
      }
      let depth = 0;
      while (depth < MOST_LAYERS - 1 && (ends[depth] as number) > begin) depth++;
      ends[depth] = begin + (length[row] as number);
      end = Math.max(end, ends[depth] as number);
      if (depth + 1 > most) most = depth + 1;
    }
    layers[thread] = most;
  }
  return layers;
}

/** Bits for the samples that each thread has: 1 on the CPU, 2 off the CPU. */
function sampleKinds(model: Model): Uint8Array {
  const { thread, kind, rows } = model.tables.samples;
  const seen = new Uint8Array(model.tables.threads.rows);
  for (let row = 0; row < rows; row++) seen[thread[row] as number] |= kind[row] === SAMPLE_CPU ? 1 : 2;
  return seen;
}

/** Rows of marks in [t0, t1). */
export function marksIn(model: Model, t0: number, t1: number): { from: number; to: number } {
  const { at, rows } = model.tables.marks;
  return { from: lowerBound(at, t0, 0, rows), to: lowerBound(at, t1, 0, rows) };
}
