/* Draws the overlay of the lanes: selection, hovered item, dragged range, marks of the program, and the
 * arrow from the waker of a poll to the poll. */
import type { TimeScale } from "../util/axis";
import type { Surface } from "../util/canvas";
import { ns } from "../model/format";
import { marksIn } from "./lanes";
import type { Lanes, Strip } from "./lanes";
import type { Model } from "../model/model";
import { palette } from "../util/palette";
import { NONE } from "../model/schema";
import type { Selection } from "../model/state";
import { holds } from "./hit";

export interface Overlay {
  readonly surface: Surface;
  readonly scale: TimeScale;
  readonly model: Model;
  readonly lanes: Lanes;
  readonly unit: number;
  /** Nothing is drawn above TOP; the first lane is at OFFSET. */
  readonly top: number;
  readonly offset: number;
  readonly selection: Selection | null;
  readonly hovered: Selection | null;
  readonly dragged: { t0: number; t1: number } | null;
}

const MOST_MARKS = 400;

/** Marks: a line, and the name where there is room. */
export function drawMarks(surface: Surface, scale: TimeScale, model: Model, top: number): void {
  const { at, name } = model.tables.marks;
  const { from, to } = marksIn(model, scale.t0, scale.t1);
  if (from === to) return;
  const { ctx } = surface;
  const colours = palette();
  surface.setFont(colours.fontSmall);
  const step = Math.max(1, Math.floor((to - from) / MOST_MARKS));
  let free = -Infinity;
  for (let row = from; row < to; row += step) {
    const x = scale.toX(at[row] as number);
    ctx.fillStyle = colours.series[3] ?? colours.accent;
    ctx.fillRect(x, top, 1, surface.height - top);
    if (x < free) continue;
    const label = surface.fitted(model.label(name[row] as number), 160);
    const wide = surface.measure(label);
    ctx.fillStyle = colours.raised;
    ctx.fillRect(x + 1, surface.height - 17, wide + 8, 17);
    surface.text(label, x + 5, surface.height - 8, 200, colours.textDim);
    free = x + wide + 12;
  }
}

export function drawOverlay(over: Overlay): void {
  const { surface, scale } = over;
  const { ctx } = surface;
  const colours = palette();
  surface.reset(colours.fontSmall);
  ctx.clearRect(0, 0, surface.width, surface.height);
  ctx.save();
  ctx.beginPath();
  ctx.rect(scale.x, over.top, scale.width, surface.height - over.top);
  ctx.clip();
  if (over.dragged) drawRange(over, over.dragged);
  if (over.selection) drawSelection(over, over.selection, colours.accent, 2);
  if (over.hovered) drawSelection(over, over.hovered, colours.text, 1);
  for (const one of [over.selection, over.hovered]) if (one?.kind === "poll") drawWake(over, one.poll);
  ctx.restore();
}

function drawRange(over: Overlay, range: { t0: number; t1: number; thread?: number }): void {
  const { surface, scale } = over;
  const { ctx } = surface;
  const colours = palette();
  const x0 = Math.max(scale.x - 2, scale.toX(range.t0)), x1 = Math.min(scale.right + 2, scale.toX(range.t1));
  let y = over.top, height = surface.height - over.top;
  if (range.thread !== undefined) {
    const lane = over.lanes.laneOfThread(range.thread);
    if (lane < 0) return;
    y = (over.lanes.tops[lane] as number) * over.unit + over.offset;
    height = (over.lanes.tops[lane + 1] as number) * over.unit + over.offset - y;
  }
  ctx.fillStyle = colours.accent;
  ctx.globalAlpha = 0.14;
  ctx.fillRect(x0, y, x1 - x0, height);
  ctx.globalAlpha = 1;
  ctx.fillRect(x0, y, 1, height);
  ctx.fillRect(x1 - 1, y, 1, height);
  const text = ns(range.t1 - range.t0);
  const wide = surface.measure(text);
  if (x1 - x0 > wide + 10) surface.text(text, (x0 + x1 - wide) / 2, Math.max(y, over.top) + 9, 200, colours.accent);
}

/** The position of a thread's strip on the canvas. FITS selects the strip; for a poll, the layer that
 * contains it. */
function stripBox(over: Overlay, thread: number, fits: (strip: Strip) => boolean): { y: number; height: number } | null {
  const lane = over.lanes.laneOfThread(thread);
  if (lane < 0) return null;
  const top = (over.lanes.tops[lane] as number) * over.unit + over.offset;
  const bottom = (over.lanes.tops[lane + 1] as number) * over.unit + over.offset;
  if (bottom < over.top || top > over.surface.height) return null; // not visible: do not prepare it
  const strip = over.lanes.stripsOf(thread).find(fits);
  return strip ? { y: Math.round(top + strip.y * over.unit), height: Math.round(strip.height * over.unit) } : null;
}

function drawSelection(over: Overlay, selection: Selection, colour: string, thick: number): void {
  if (selection.kind === "range") return drawRange(over, selection);
  const range = over.model.rangeOf(selection);
  if (!range || range.thread === undefined || selection.kind === "thread") return;
  const box = stripBox(over, range.thread, (strip) => holds(over.model, strip, selection, range.t0));
  if (!box) return;
  const { ctx } = over.surface;
  const x0 = Math.max(over.scale.x - 4, over.scale.toX(range.t0));
  const x1 = Math.min(over.scale.right + 4, Math.max(over.scale.toX(range.t1), x0 + 2));
  ctx.strokeStyle = colour;
  ctx.lineWidth = thick;
  ctx.strokeRect(x0 - thick / 2, box.y - thick / 2, x1 - x0 + thick, box.height + thick);
}

/** The arrow from the waker, at the time of the wake, to the poll. The dashed part is the wait. */
function drawWake(over: Overlay, poll: number): void {
  const { polls } = over.model.tables;
  const wake = (polls.wake_at[poll] as number) - 1;
  const waker = polls.waker_thread[poll] as number;
  if (wake < 0) return;
  const own = laneMiddle(over, polls.thread[poll] as number);
  if (own === null) return;
  const { ctx } = over.surface;
  const from = over.scale.toX(wake), to = over.scale.toX(polls.start[poll] as number);
  ctx.strokeStyle = ctx.fillStyle = palette().bad;
  ctx.lineWidth = 1.5;
  ctx.setLineDash([4, 3]);
  line(ctx, from, own, to, own);
  ctx.setLineDash([]);
  const source = waker === NONE ? null : laneMiddle(over, waker);
  if (source !== null && source !== own) {
    line(ctx, from, source, from, own);
    ctx.beginPath();
    ctx.arc(from, source, 3, 0, 2 * Math.PI);
    ctx.fill();
  }
  ctx.beginPath();
  ctx.moveTo(to, own);
  ctx.lineTo(to - 6, own - 4);
  ctx.lineTo(to - 6, own + 4);
  ctx.fill();
}

/** The middle of a thread's work strip, or of its lane if the strip is not visible. */
function laneMiddle(over: Overlay, thread: number): number | null {
  const box = stripBox(over, thread, (strip) => strip.kind === "poll" || strip.kind === "frame");
  if (box) return box.y + box.height / 2;
  const lane = over.lanes.laneOfThread(thread);
  if (lane < 0) return null;
  return (((over.lanes.tops[lane] as number) + (over.lanes.tops[lane + 1] as number)) / 2) * over.unit + over.offset;
}

function line(ctx: CanvasRenderingContext2D, x0: number, y0: number, x1: number, y1: number): void {
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.lineTo(x1, y1);
  ctx.stroke();
}
