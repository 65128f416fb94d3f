/* Draws the lanes of the timeline. Where many items share a pixel column, the columns are computed
 * (model/intervals.ts) and written as pixels: one row of an image per strip, stretched to the strip's
 * height. Where few items are visible, they are drawn as boxes with names. */
import type { TimeScale } from "../util/axis";
import type { Surface } from "../util/canvas";
import { shortName } from "../model/format";
import { frameNumber } from "../model/frame";
import type { Intervals } from "../model/intervals";
import type { Lane, Lanes, Strip } from "./lanes";
import type { Model } from "../model/model";
import { inkOn, mix, palette } from "../util/palette";
import { NONE, POLL_OPEN, SAMPLE_PREEMPTED, TASK_CALLBACK } from "../model/schema";
import { TASKS, Tones, TONE_CPU, TONE_DIM, TONE_FRAME, TONE_NONE, TONE_OFF, TONE_PARK, TONE_PREEMPTED,
  TONE_SPIKE, TONE_WAIT } from "./tones";

/** Boxes are drawn one by one if there are fewer than one per this many pixels. */
const BOX_PIXELS = 4;
/** Matches of a search are coloured as if they covered at least this much of their column. */
const LIT = 0.6;
const LEAST_LABEL = 30;
/** Width of the ticks of samples. */
const TICK = 1.5;

/** The pixels of a strip as drawn last. */
interface Kept {
  readonly pixels: Uint32Array;
  step: number;
  first: number;
}

interface Dense {
  readonly row: number;
  readonly y: number;
  readonly height: number;
}

export class LanePainter {
  private readonly image = document.createElement("canvas");
  private readonly imageCtx: CanvasRenderingContext2D;
  private pixels: ImageData | null = null;
  private words: Uint32Array = new Uint32Array(0);
  private dense: Dense[] = [];
  private tones = new Tones();
  private kept = new WeakMap<Strip, Kept>();
  private lit: Uint8Array | null = null;
  private litStrips = new WeakMap<Strip, Intervals>();

  constructor(private readonly model: Model, private readonly lanes: Lanes) {
    const ctx = this.image.getContext("2d", { willReadFrequently: true });
    if (!ctx) throw new Error("This browser has no 2D canvas.");
    this.imageCtx = ctx;
  }

  /** Call when the theme has changed. */
  retone(): void {
    this.tones = new Tones();
    this.kept = new WeakMap();
  }

  /** Sets the tasks to show in colour; null: all. The others are dimmed. Returns true if this changed. */
  light(lit: Uint8Array | null): boolean {
    if (lit === this.lit) return false;
    this.lit = lit;
    this.kept = new WeakMap();
    this.litStrips = new WeakMap();
    return true;
  }

  /** Draws lanes [from, to); lane i is at tops[i] * unit - scroll. */
  paint(surface: Surface, scale: TimeScale, from: number, to: number, unit: number, offset: number): void {
    const { ctx } = surface;
    const colours = palette();
    const wide = Math.max(1, Math.round(scale.width * surface.ratio));
    let strips = 0;
    for (let index = from; index < to; index++) {
      const lane = this.lanes.lanes[index];
      if (lane?.kind === "thread") strips += this.lanes.stripsOf(lane.thread).length;
    }
    this.prepare(wide, Math.max(1, strips));
    ctx.save();
    ctx.beginPath();
    ctx.rect(scale.x, 0, scale.width, surface.height);
    ctx.clip();
    const boxes: (() => void)[] = [];
    for (let index = from; index < to; index++) {
      const lane = this.lanes.lanes[index];
      if (!lane) continue;
      const top = (this.lanes.tops[index] as number) * unit + offset;
      const bottom = (this.lanes.tops[index + 1] as number) * unit + offset;
      ctx.fillStyle = colours.line;
      ctx.fillRect(0, Math.round(bottom) - 1, surface.width, 1);
      if (lane.kind !== "thread") {
        this.chart(surface, scale, lane, top, bottom - top);
        continue;
      }
      for (const strip of this.lanes.stripsOf(lane.thread)) {
        const y = Math.round(top + strip.y * unit), height = Math.max(2, Math.round(strip.height * unit));
        if (this.few(strip.intervals, scale)) boxes.push(() => this.boxes(surface, scale, strip, y, height));
        else {
          this.columns(strip, scale, wide, y, height);
          if (strip.kind === "poll" || strip.kind === "frame") boxes.push(() => this.longNames(surface, scale, strip, y, height));
        }
      }
    }
    this.flush(surface, scale, wide);
    surface.setFont(colours.fontSmall);
    for (const box of boxes) box();
    ctx.restore();
  }

  /** The tone of a row of a strip. */
  private tone(strip: Strip, row: number): number {
    const { frames, polls, samples } = this.model.tables;
    switch (strip.kind) {
      case "frame": return frames.spike[row] ? TONE_SPIKE : TONE_FRAME;
      case "park": return TONE_PARK;
      case "cpu": return TONE_CPU;
      case "off":
        if (samples.kind[row] === SAMPLE_PREEMPTED) return TONE_PREEMPTED;
        return this.lanes.inWork(row) ? TONE_OFF : TONE_WAIT;
      case "poll": {
        const task = polls.task[row] as number;
        if (task === NONE) return this.lit ? TONE_DIM : TONE_NONE;
        return this.lit && this.lit[task] === 0 ? TONE_DIM : task % TASKS;
      }
    }
  }

  private few(intervals: Intervals, scale: TimeScale): boolean {
    const from = intervals.firstEndingAfter(scale.t0);
    return intervals.firstEndingAfter(scale.t1) - from < scale.width / BOX_PIXELS;
  }

  /* Many ----------------------------------------------------------------------------------------- */

  private prepare(width: number, rows: number): void {
    if (!this.pixels || this.pixels.width !== width || this.pixels.height < rows) {
      this.image.width = width;
      this.image.height = rows + 8;
      this.pixels = this.imageCtx.createImageData(width, rows + 8);
      this.words = new Uint32Array(this.pixels.data.buffer);
    }
    this.dense = [];
  }

  /** Columns start at multiples of their width in time. So while the user pans, computed columns are
   * reused, and only new ones are computed. */
  private columns(strip: Strip, scale: TimeScale, wide: number, y: number, height: number): void {
    const row = this.dense.length;
    const step = (scale.t1 - scale.t0) / wide;
    const first = Math.floor(scale.t0 / step);
    let kept = this.kept.get(strip);
    if (!kept || kept.pixels.length !== wide) {
      kept = { pixels: new Uint32Array(wide), step: 0, first: 0 };
      this.kept.set(strip, kept);
    }
    const moved = kept.step === step ? first - kept.first : wide;
    if (Math.abs(moved) >= wide) this.compute(strip, kept.pixels, first, step, 0, wide);
    else if (moved > 0) {
      kept.pixels.copyWithin(0, moved);
      this.compute(strip, kept.pixels, first, step, wide - moved, wide);
    } else if (moved < 0) {
      kept.pixels.copyWithin(-moved, 0);
      this.compute(strip, kept.pixels, first, step, 0, -moved);
    }
    kept.step = step;
    kept.first = first;
    this.words.set(kept.pixels, row * wide);
    this.dense.push({ row, y, height });
  }

  /** Pixels [from, to) of a strip; pixel 0 is column FIRST. */
  private compute(strip: Strip, pixels: Uint32Array, first: number, step: number, from: number, to: number): void {
    const { tones } = this;
    const ticks = strip.kind === "cpu", dim = strip.kind === "poll" && this.lit !== null;
    const put = (source: Pick<Intervals, "columns">, least: number, toneOf: (best: number) => number): void =>
      source.columns((first + from) * step, step, to - from, (run) => {
        const cover = ticks ? Math.min(1, (run.to - run.from) / 4) : Math.max(least, run.cover);
        const colour = tones.pixel(toneOf(run.best), cover);
        for (let x = from + run.x0, end = from + run.x1; x < end; x++) pixels[x] = colour;
      });
    pixels.fill(0, from, to);
    const far = ticks ? null : this.lanes.farOf(strip);
    put(far && step >= far.finest ? far : strip.intervals, 0,
      (best) => dim ? TONE_DIM : this.tone(strip, strip.intervals.row(best)));
    if (!dim) return;
    // Highlighted items are always visible, even beside longer ones that are not highlighted.
    const lit = this.litOf(strip);
    put(lit, LIT, (best) => this.tone(strip, lit.row(best)));
  }

  /** The polls of a strip whose tasks are highlighted. */
  private litOf(strip: Strip): Intervals {
    let found = this.litStrips.get(strip);
    if (!found) {
      const { task } = this.model.tables.polls;
      const { intervals } = strip;
      found = intervals.only((index) => {
        const own = task[intervals.row(index)] as number;
        return own !== NONE && this.lit?.[own] === 1;
      });
      this.litStrips.set(strip, found);
    }
    return found;
  }

  private flush(surface: Surface, scale: TimeScale, wide: number): void {
    if (!this.pixels || this.dense.length === 0) return;
    this.imageCtx.putImageData(this.pixels, 0, 0, 0, 0, wide, this.dense.length);
    surface.ctx.imageSmoothingEnabled = false;
    for (const { row, y, height } of this.dense) {
      surface.ctx.drawImage(this.image, 0, row, wide, 1, scale.x, y, scale.width, height);
    }
  }

  /* Few ------------------------------------------------------------------------------------------ */

  private boxes(surface: Surface, scale: TimeScale, strip: Strip, y: number, height: number): void {
    const { ctx } = surface;
    const { intervals } = strip;
    for (let i = intervals.firstEndingAfter(scale.t0); i < intervals.count; i++) {
      const start = intervals.start[i] as number;
      if (start >= scale.t1) break;
      const x0 = Math.max(scale.x - 2, scale.toX(start));
      const x1 = Math.min(scale.right + 2, scale.toX(intervals.end(i)));
      const row = intervals.row(i);
      const tone = this.tone(strip, row);
      const width = Math.max(strip.kind === "cpu" ? TICK : 1, x1 - x0 > 3 ? x1 - x0 - 1 : x1 - x0);
      const colour = this.tones.css[tone] ?? "#888888";
      ctx.fillStyle = colour;
      ctx.fillRect(x0, y, width, height);
      if (strip.kind === "poll" && ((this.model.tables.polls.flags[row] as number) & POLL_OPEN)) {
        openEnd(ctx, x1, y, height, palette().surface);
      }
      const least = strip.kind === "park" ? LEAST_LABEL * 2 : LEAST_LABEL;
      if (width > least && height >= 9) {
        const left = Math.max(x0, scale.x);
        surface.text(this.label(strip, row), left + 3, y + height / 2 + 0.5, x1 - left - 6, this.ink(tone));
      }
    }
  }

  /** Where many items share columns, draws the names of those that are wide enough. */
  private longNames(surface: Surface, scale: TimeScale, strip: Strip, y: number, height: number): void {
    const { intervals } = strip;
    const from = intervals.firstEndingAfter(scale.t0), to = intervals.firstEndingAfter(scale.t1);
    for (const i of intervals.atLeast(LEAST_LABEL * scale.step, from, Math.min(intervals.count, to + 1))) {
      const x0 = Math.max(scale.x, scale.toX(intervals.start[i] as number)), x1 = Math.min(scale.right, scale.toX(intervals.end(i)));
      const row = intervals.row(i);
      if (x1 - x0 > LEAST_LABEL) {
        surface.text(this.label(strip, row), x0 + 3, y + height / 2 + 0.5, x1 - x0 - 6, this.ink(this.tone(strip, row)));
      }
    }
  }

  private ink(tone: number): string {
    return tone === TONE_PARK || tone === TONE_DIM ? palette().textDim : inkOn(this.tones.css[tone] ?? "#888888");
  }

  private label(strip: Strip, row: number): string {
    const { frames, functions, polls } = this.model.tables;
    switch (strip.kind) {
      case "frame": {
        const root = frames.root[row] as number;
        const name = root === NONE ? "frame" : shortName(this.model.label(functions.name[root] as number));
        return `${name} ${frameNumber(this.model.tables, row)}`;
      }
      case "poll": return this.pollLabel(polls.task[row] as number);
      case "park": return "parked";
      default: return "";
    }
  }

  /** For a callback only its function: the prefix ("timer on_compute") takes too much room. */
  private pollLabel(task: number): string {
    const name = this.model.taskName(task);
    const space = name.indexOf(" ");
    const callback = task !== NONE && this.model.tables.tasks.kind[task] === TASK_CALLBACK;
    return shortName(callback && space > 0 ? name.slice(space + 1) : name);
  }

  /* Charts --------------------------------------------------------------------------------------- */

  private chart(surface: Surface, scale: TimeScale, lane: Lane, top: number, height: number): void {
    const { ctx } = surface;
    const colours = palette();
    const steps = this.lanes.chartOf(lane);
    const low = Math.min(0, steps.least), high = Math.max(steps.most, low + 1e-9);
    const pad = 5, inner = height - 2 * pad;
    const toY = (value: number): number => top + pad + inner * (1 - (value - low) / (high - low));
    const colour = colours.series[lane.kind === "queue" ? 0 : 2] ?? colours.accent;
    const zero = toY(0);
    const lines: [number, number, number][] = [];
    ctx.fillStyle = mix(colour, colours.surface, 0.76);
    steps.columns(scale.t0, scale.step, Math.ceil(scale.width), (x, least, most) => {
      const y = toY(most);
      ctx.fillRect(scale.x + x, Math.min(y, zero), 1, Math.abs(zero - y));
      lines.push([scale.x + x, y, toY(least)]);
    });
    ctx.fillStyle = mix(colour, colours.surface, 0.45); // the range of values within the column
    for (const [x, y, bottom] of lines) if (bottom > y + 1) ctx.fillRect(x, y, 1, bottom - y);
    ctx.fillStyle = colour;
    for (const [x, y] of lines) ctx.fillRect(x, y - 0.75, 1, 1.5);
  }
}

/** The end of an item that had not ended: a notched edge. */
function openEnd(ctx: CanvasRenderingContext2D, x: number, y: number, height: number, colour: string): void {
  ctx.fillStyle = colour;
  for (let at = y; at < y + height; at += 4) ctx.fillRect(x - 3, at, 3, 2);
}
