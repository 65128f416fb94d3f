/* A strip above a time view that shows the whole run: how busy it was, where the spikes are, and which part
 * is visible below. Dragging in it moves that part. */
import { TimeScale } from "./axis";
import { Surface } from "./canvas";
import type { Model } from "../model/model";
import { mix, palette } from "./palette";
import type { Palette } from "./palette";
import { SAMPLE_CPU } from "../model/schema";
import type { Store } from "../model/state";

const BUCKETS = 1024;

export class Minimap {
  private readonly surface: Surface;
  private drag: { x: number; t0: number } | null = null;
  private readonly run = document.createElement("canvas");
  private drawnWith: Palette | null = null;
  private readonly busy: Float64Array;
  private readonly spikes: Uint8Array;

  /** SHOWS: how busy the run was, or its longest frames. INSET: free pixels at the left. */
  constructor(parent: HTMLElement, model: Model, private readonly store: Store, shows: "activity" | "frames",
    private readonly inset: () => number) {
    this.surface = new Surface(parent, "The whole run; drag to move the visible part");
    this.busy = model.keep(`minimap: ${shows}`, () => shows === "frames" ? longest(model) : activity(model));
    this.spikes = model.keep("minimap: spikes", () => spikeBuckets(model));
    const { canvas } = this.surface;
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", () => (this.drag = null));
    canvas.addEventListener("pointercancel", () => (this.drag = null));
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const { t0, t1 } = store.state;
      const grow = ((t1 - t0) * (Math.exp(Math.max(-600, Math.min(600, event.deltaY)) * 0.0018) - 1)) / 2;
      store.zoom(t0 - grow, t1 + grow);
    }, { passive: false });
  }

  draw(): void {
    const { surface } = this;
    const colours = palette();
    const scale = this.scale();
    if (surface.fit() || this.drawnWith !== colours) this.drawRun();
    surface.reset();
    surface.ctx.drawImage(this.run, 0, 0, surface.width, surface.height);
    this.window(scale);
  }

  /** Only the window changes while the user pans, so the rest is drawn once. */
  private drawRun(): void {
    const { surface, run } = this;
    const colours = this.drawnWith = palette();
    run.width = surface.canvas.width;
    run.height = surface.canvas.height;
    const ctx = run.getContext("2d");
    if (!ctx) return;
    ctx.scale(surface.ratio, surface.ratio);
    ctx.fillStyle = colours.surface;
    ctx.fillRect(0, 0, surface.width, surface.height);
    const { height } = surface, scale = this.scale(), column = scale.width / BUCKETS;
    ctx.fillStyle = mix(colours.accent, colours.surface, 0.45);
    for (let i = 0; i < BUCKETS; i++) {
      const tall = (this.busy[i] as number) * (height - 6);
      const x = Math.floor(scale.x + i * column), next = Math.max(x + 1, Math.floor(scale.x + (i + 1) * column));
      if (tall > 0) ctx.fillRect(x, height - Math.max(1, tall), next - x, Math.max(1, tall));
    }
    ctx.fillStyle = colours.bad;
    for (let i = 0; i < BUCKETS; i++) if (this.spikes[i]) ctx.fillRect(scale.x + i * column, 0, 1.5, 4);
  }

  private window(scale: TimeScale): void {
    const { ctx, height } = this.surface;
    const colours = palette();
    const { t0, t1 } = this.store.state;
    const a = scale.toX(t0), b = Math.max(scale.toX(t1), a + 2);
    ctx.fillStyle = colours.background;
    ctx.globalAlpha = 0.72;
    ctx.fillRect(scale.x, 0, a - scale.x, height);
    ctx.fillRect(b, 0, scale.right - b, height);
    ctx.globalAlpha = 1;
    ctx.strokeStyle = colours.accent;
    ctx.lineWidth = 1.5;
    ctx.strokeRect(a + 0.75, 0.75, Math.max(1, b - a - 1.5), height - 1.5);
  }

  private scale(): TimeScale {
    const x = this.inset();
    return new TimeScale(0, this.store.bounds.end, x, Math.max(1, this.surface.width - x));
  }

  private down(event: PointerEvent): void {
    const { x } = this.surface.point(event);
    const { t0, t1 } = this.store.state;
    const time = this.scale().toTime(x);
    if (time < t0 || time >= t1) this.store.zoom(time - (t1 - t0) / 2, time + (t1 - t0) / 2);
    this.drag = { x, t0: this.store.state.t0 };
    try {
      this.surface.canvas.setPointerCapture(event.pointerId);
    } catch {
      // See time_input.ts.
    }
  }

  private move(event: PointerEvent): void {
    if (!this.drag) return;
    const { t0, t1 } = this.store.state;
    const left = this.drag.t0 + (this.surface.point(event).x - this.drag.x) * this.scale().step;
    this.store.zoom(left, left + t1 - t0);
  }
}

/** How busy each 1/1024 of the run was, relative to the busiest: time in polls and frames, or CPU samples. */
function activity(model: Model): Float64Array {
  const { polls, frames, samples } = model.tables;
  const busy = new Float64Array(BUCKETS);
  const step = model.end / BUCKETS;
  if (polls.rows > 0) spread(busy, step, polls.start, polls.length);
  else if (frames.rows > 0) spread(busy, step, frames.start, frames.wall);
  else {
    // A sample represents the time before it.
    const on = samples.value.map((value, row) => (samples.kind[row] === SAMPLE_CPU ? value : 0));
    spread(busy, step, samples.at.map((time, row) => Math.max(0, time - (on[row] as number))), on);
  }
  return ofMost(busy);
}

/** The longest frame of each part, relative to the longest of all. */
function longest(model: Model): Float64Array {
  const { start, wall, rows } = model.tables.frames;
  const found = new Float64Array(BUCKETS);
  const step = model.end / BUCKETS;
  for (let row = 0; row < rows; row++) {
    const i = bucket(start[row] as number, step);
    found[i] = Math.max(found[i] as number, wall[row] as number);
  }
  return ofMost(found);
}

function ofMost(values: Float64Array): Float64Array {
  let most = 0;
  for (const value of values) most = Math.max(most, value);
  return most > 0 ? values.map((value) => value / most) : values;
}

function bucket(time: number, step: number): number {
  return Math.min(BUCKETS - 1, Math.max(0, Math.floor(time / step)));
}

/** Adds the share of each bucket that the intervals cover. For fully covered buckets only the first and the
 * last are recorded, so that long intervals cost no more than short ones. */
function spread(busy: Float64Array, step: number, start: Float64Array, length: Float64Array): void {
  const whole = new Float64Array(BUCKETS + 1);
  for (let row = 0; row < start.length; row++) {
    const from = start[row] as number, to = from + (length[row] as number);
    const first = bucket(from, step), last = bucket(to, step);
    if (first === last) busy[first] += to - from;
    else {
      busy[first] += (first + 1) * step - from;
      busy[last] += to - last * step;
      whole[first + 1]++;
      whole[last]--;
    }
  }
  for (let i = 0, open = 0; i < BUCKETS; i++) {
    open += whole[i] as number;
    busy[i] += open * step;
  }
}

function spikeBuckets(model: Model): Uint8Array {
  const { start, spike, rows } = model.tables.frames;
  const found = new Uint8Array(BUCKETS);
  for (let row = 0; row < rows; row++) {
    if (spike[row]) found[bucket(start[row] as number, model.end / BUCKETS)] = 1;
  }
  return found;
}
