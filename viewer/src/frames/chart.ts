/* Draws the frames as bars over time; the height is the duration or another measure. If several frames
 * share a pixel column, the pale bar is the longest and the full bar is the mean. */
import { roundBytes, drawAxis, roundStep, TimeScale } from "../util/axis";
import type { Surface } from "../util/canvas";
import { brief, bytes, ns, tick } from "../model/format";
import type { FrameFigures, Measure } from "../model/frame_kinds";
import type { Intervals } from "../model/intervals";
import { lowerBound } from "../model/model";
import { mix, palette } from "../util/palette";

export interface FrameChart {
  readonly surface: Surface;
  readonly scale: TimeScale;
  readonly frames: Intervals;
  readonly measure: Measure;
  readonly figures: FrameFigures;
  readonly spike: Uint8Array;
  readonly wall: Float64Array;
  /** Frames of several kinds: a spike is relative to the median of its kind, so there is no common line. */
  readonly mixed: boolean;
  readonly logarithmic: boolean;
  /** Height of the axis at the bottom. */
  readonly axis: number;
}

/** Converts a value to a y coordinate; 0 is the top of the canvas. */
export type ToY = (value: number) => number;

const HEADROOM = 1.12;

export function showValue(value: number, measure: Measure): string {
  return measure === "wall" ? ns(value) : measure === "bytes" ? bytes(value) : brief(value);
}

/** Frames that start in [t0, t1): indices. */
export function framesIn(frames: Intervals, t0: number, t1: number): [number, number] {
  return [lowerBound(frames.start, t0, 0, frames.count), lowerBound(frames.start, t1, 0, frames.count)];
}

export function drawFrames(chart: FrameChart): ToY {
  const { surface, scale, frames, figures } = chart;
  const colours = palette();
  const floor = surface.height - chart.axis;
  // Includes the frame before: a long one may reach into the visible range.
  const [first, to] = framesIn(frames, scale.t0, scale.t1);
  const from = Math.max(0, first - 1);
  const most = to > from ? frames.length[frames.longest(from, to)] as number : 0;
  const lines = chart.measure === "wall" ? figures.p50 * 2 : 0;
  const toY = heightScale(Math.max(most, lines, 1), floor, chart.logarithmic);
  drawAxis(surface, scale, floor, chart.axis, floor + chart.axis);
  drawGrid(chart, Math.max(most, lines, 1), toY, floor);
  surface.ctx.save();
  surface.ctx.beginPath();
  surface.ctx.rect(scale.x, 0, scale.width, floor);
  surface.ctx.clip();
  if (to - from < scale.width) drawBars(chart, from, to, toY, floor);
  else drawColumns(chart, toY, floor);
  surface.ctx.restore();
  if (chart.measure === "wall") drawLines(chart, toY);
  surface.ctx.fillStyle = colours.lineStrong;
  surface.ctx.fillRect(scale.x, floor, scale.width, 1);
  return toY;
}

function heightScale(most: number, floor: number, logarithmic: boolean): ToY {
  if (!logarithmic) return (value) => floor - (value / (most * HEADROOM)) * floor;
  const high = Math.log10(most * 1.5), low = Math.max(0, high - 5);
  return (value) => floor - (Math.max(0, Math.log10(Math.max(value, 1)) - low) / (high - low)) * floor;
}

function plainColour(): string {
  const { series, surface } = palette();
  return mix(series[0] ?? "", surface, 0.25);
}

function colourOf(chart: FrameChart, index: number): string {
  const { bad } = palette();
  return chart.spike[chart.frames.row(index)] ? bad : plainColour();
}

function drawBars(chart: FrameChart, from: number, to: number, toY: ToY, floor: number): void {
  const { surface, scale, frames, wall } = chart;
  for (let i = from; i < to; i++) {
    const x = Math.round(scale.toX(frames.start[i] as number));
    const next = i + 1 < to ? Math.round(scale.toX(frames.start[i + 1] as number)) : Infinity;
    const end = Math.round(scale.toX((frames.start[i] as number) + (wall[frames.row(i)] as number)));
    // Closes gaps of one pixel between bars, which would look like a pattern.
    const width = next - x < 4 ? next - x : end - x > 6 && next <= end + 1 ? end - x - 1 : end - x;
    const y = toY(frames.length[i] as number);
    surface.ctx.fillStyle = colourOf(chart, i);
    surface.ctx.fillRect(x, y, Math.max(1, width), Math.max(1, floor - y));
  }
}

function drawColumns(chart: FrameChart, toY: ToY, floor: number): void {
  const { surface, scale, frames } = chart;
  const { ctx } = surface;
  const colours = palette();
  const plain = plainColour(), pale = mix(plain, colours.surface, 0.55);
  const columns = Math.ceil(scale.width);
  const bars: [number, number, number, boolean][] = [];
  let i = lowerBound(frames.start, scale.t0, 0, frames.count);
  for (let x = 0; x < columns && i < frames.count; x++) {
    const right = scale.t0 + (x + 1) * scale.step;
    const j = lowerBound(frames.start, right, i, Math.min(frames.count, i + 0x7fffffff));
    if (j > i) {
      const best = frames.longest(i, j);
      bars.push([x, toY(frames.length[best] as number), toY(frames.sum(i, j) / (j - i)),
        chart.spike[frames.row(best)] === 1]);
    }
    i = j;
  }
  // One colour after the other, because changing the colour of a canvas is slow.
  const fill = (colour: string, spikes: boolean, top: 1 | 2, width: number): void => {
    ctx.fillStyle = colour;
    for (const bar of bars) {
      if (bar[3] === spikes) ctx.fillRect(scale.x + bar[0], bar[top], width, Math.max(1, floor - bar[top]));
    }
  };
  fill(pale, false, 1, 1);
  fill(plain, false, 2, 1);
  fill(colours.bad, true, 1, 2); // a single column must be visible
}

function drawGrid(chart: FrameChart, most: number, toY: ToY, floor: number): void {
  const { surface, scale } = chart;
  const colours = palette();
  surface.setFont(colours.fontSmall);
  const label = (value: number): void => {
    const y = Math.round(toY(value)) + 0.5;
    if (y < 8 || y > floor - 4) return;
    surface.ctx.fillStyle = colours.line;
    surface.ctx.fillRect(scale.x, y, scale.width, 1);
    const text = tick(showValue(value, chart.measure));
    surface.text(text, scale.x - surface.measure(text) - 8, y, 100, colours.textDim);
  };
  if (chart.logarithmic) for (let value = 1; value < most * 2; value *= 10) label(value);
  else {
    const lines = Math.max(2, floor / 60);
    const step = chart.measure === "bytes" ? roundBytes(most * HEADROOM / lines) : roundStep(most * HEADROOM, lines);
    for (let value = step; value < most * HEADROOM; value += step) label(value);
  }
  surface.text("0", scale.x - surface.measure("0") - 8, floor - 1, 40, colours.textDim);
}

function drawLines(chart: FrameChart, toY: ToY): void {
  const { surface, scale, figures } = chart;
  const colours = palette();
  const { ctx } = surface;
  const lines: [number, string, string, number[]][] = [
    [figures.p50, "median", colours.text, []],
    [figures.p99, "p99", colours.text, [2, 3]],
  ];
  if (!chart.mixed) lines.push([figures.p50 * 2, "spike: 2 × median", colours.bad, [6, 4]]);
  let free = Infinity;
  for (const [value, name, colour, dash] of lines.sort((a, b) => a[0] - b[0])) {
    const y = Math.round(toY(value)) + 0.5;
    if (value <= 0 || y < 0) continue;
    ctx.strokeStyle = colour;
    ctx.lineWidth = 1;
    ctx.setLineDash(dash);
    ctx.beginPath();
    ctx.moveTo(scale.x, y);
    ctx.lineTo(scale.right, y);
    ctx.stroke();
    ctx.setLineDash([]);
    const text = `${name} ${ns(value)}`;
    const middle = Math.min(y - 8, free - 14); // stacks the labels of adjacent lines upwards
    free = middle;
    const wide = surface.measure(text), x = scale.right - wide - 8;
    ctx.fillStyle = colours.surface;
    ctx.fillRect(x - 4, middle - 7, wide + 8, 14); // hides the bars behind the text
    surface.text(text, x, middle, 400, colour);
  }
}
