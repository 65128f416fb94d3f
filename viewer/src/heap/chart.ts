/* The chart of memory over time: live bytes in layers by place, the largest at the bottom; resident bytes
 * and allocated bytes as lines. Values are known only at snapshots, which are marked by ticks; the lines
 * between them are interpolated. */
import { drawAxis, roundBytes, TimeScale } from "../util/axis";
import { Surface } from "../util/canvas";
import { bytes, moment, shortName, tick } from "../model/format";
import type { Series } from "../model/heap_series";
import { category, mix, palette } from "../util/palette";
import type { State } from "../model/state";
import type { TipLine } from "../util/tooltip";

export interface ChartLines {
  readonly resident: boolean;
  readonly allocated: boolean;
}

/** The exact peak, if the recording has it; snapshots can miss it. */
export interface Peak {
  readonly at: number;
  readonly bytes: number;
}

export function layerColour(index: number, last: boolean): string {
  const { surface, idle, textFaint } = palette();
  return last ? mix(idle, textFaint, 0.25) : mix(category(index), surface, 0.3);
}

export class HeapChart {
  scale = new TimeScale(0, 1, 0, 1);
  private readonly top = 22;
  private bottom = 0;
  private most = 1;

  constructor(readonly surface: Surface, private readonly series: Series, private readonly peak: Peak | null) {}

  draw(state: State, lines: ChartLines, hot: number, hover: number): void {
    const { surface, series } = this;
    const { ctx, width, height } = surface;
    const theme = palette();
    surface.reset(theme.fontSmall);
    ctx.fillStyle = theme.surface;
    ctx.fillRect(0, 0, width, height);
    const gutter = surface.measure("0000MB") + 10;
    this.scale = new TimeScale(state.t0, state.t1, gutter, Math.max(width - gutter - 6, 10));
    this.bottom = height - 6;
    this.most = this.highest(lines);
    this.grid(gutter);
    drawAxis(surface, this.scale, 0, this.top - 4, this.bottom);
    ctx.save();
    ctx.beginPath();
    ctx.rect(gutter, 0, this.scale.width, height);
    ctx.clip();
    this.gaps();
    this.layers(hot);
    this.ticks();
    if (lines.allocated) this.line(series.allocated, theme.warn, [2, 3], 1.5);
    if (lines.resident) this.line(series.resident, theme.textDim, [6, 4], 1.5);
    this.line(series.live, theme.text, [], 1.5);
    if (hover >= 0) this.cursor(hover);
    ctx.restore();
    this.mark();
  }

  private y(value: number): number {
    return this.bottom - (this.bottom - this.top) * Math.min(value / this.most, 1.2);
  }

  private highest(lines: ChartLines): number {
    let most = this.peak?.bytes ?? 0;
    const { at, live, resident, allocated } = this.series;
    for (let i = 0; i < at.length; i++) {
      most = Math.max(most, live[i]!);
      if (lines.resident) most = Math.max(most, resident[i]!);
      if (lines.allocated) most = Math.max(most, allocated[i]!);
    }
    return Math.max(most * 1.06, 1);
  }

  private grid(gutter: number): void {
    const { ctx } = this.surface;
    const theme = palette();
    const step = roundBytes(this.most / 6);
    for (let value = 0; value <= this.most; value += step) {
      const y = Math.round(this.y(value)) + 0.5;
      ctx.fillStyle = theme.line;
      ctx.fillRect(gutter, y - 0.5, this.scale.width, 1);
      ctx.fillStyle = theme.textDim;
      const label = value === 0 ? "0" : tick(bytes(value));
      if (y > this.top + 4 || value > 0) ctx.fillText(label, gutter - 6 - this.surface.measure(label), y);
    }
  }

  /** Labels the time before the first and after the last snapshot, for which there are no values. */
  private gaps(): void {
    const { ctx } = this.surface;
    const { at } = this.series;
    if (at.length === 0) return;
    const theme = palette();
    const first = this.scale.toX(at[0]!), last = this.scale.toX(at[at.length - 1]!);
    for (const [from, to, text] of [[this.scale.x, first, "no snapshot yet"],
      [last, this.scale.right, "no snapshot since"]] as const) {
      if (to - from < 1) continue;
      ctx.fillStyle = theme.background;
      ctx.fillRect(from, this.top, to - from, this.bottom - this.top);
      const wide = this.surface.measure(text);
      if (to - from > wide + 16) {
        this.surface.text(text, (from + to - wide) / 2, (this.top + this.bottom) / 2, to - from, theme.textDim);
      }
    }
  }

  private layers(hot: number): void {
    const { ctx } = this.surface;
    const { at, layers } = this.series;
    if (at.length === 0) return;
    const base = new Float64Array(at.length);
    layers.forEach((layer, index) => {
      const colour = layerColour(index, layer.place === null);
      ctx.fillStyle = hot >= 0 && hot !== index ? mix(colour, palette().surface, 0.4) : colour;
      ctx.beginPath();
      for (let i = 0; i < at.length; i++) {
        ctx.lineTo(this.scale.toX(at[i]!), this.y(base[i]! + layer.values[i]!));
      }
      for (let i = at.length - 1; i >= 0; i--) ctx.lineTo(this.scale.toX(at[i]!), this.y(base[i]!));
      ctx.fill();
      for (let i = 0; i < at.length; i++) base[i] = base[i]! + layer.values[i]!;
    });
  }

  private line(values: Float64Array, colour: string, dash: number[], thick: number): void {
    const { ctx } = this.surface;
    ctx.strokeStyle = colour;
    ctx.lineWidth = thick;
    ctx.setLineDash(dash);
    ctx.beginPath();
    let started = false;
    for (let i = 0; i < values.length; i++) {
      if (!(values[i]! > 0) && values !== this.series.live) continue; // 0: unknown
      const x = this.scale.toX(this.series.at[i]!), y = this.y(values[i]!);
      if (started) ctx.lineTo(x, y);
      else ctx.moveTo(x, y);
      started = true;
    }
    ctx.stroke();
    ctx.setLineDash([]);
  }

  private ticks(): void {
    const { ctx } = this.surface;
    ctx.fillStyle = palette().lineStrong;
    let last = -Infinity;
    for (const at of this.series.at) {
      const x = this.scale.toX(at);
      if (x - last < 3) continue;
      last = x;
      ctx.fillRect(x - 0.5, this.bottom, 1, 4);
    }
  }

  private mark(): void {
    const { ctx, surface } = { ctx: this.surface.ctx, surface: this.surface };
    const theme = palette();
    if (!this.peak || this.peak.at < this.scale.t0 || this.peak.at > this.scale.t1) return;
    const x = this.scale.toX(this.peak.at), y = this.y(this.peak.bytes);
    ctx.fillStyle = theme.bad;
    ctx.beginPath();
    ctx.arc(x, y, 3.5, 0, 2 * Math.PI);
    ctx.fill();
    const label = `peak ${bytes(this.peak.bytes)}`;
    const wide = surface.measure(label);
    const left = x + 8 + wide > this.scale.right ? x - 8 - wide : x + 8;
    ctx.fillStyle = theme.surface;
    ctx.globalAlpha = 0.85;
    ctx.fillRect(left - 3, y - 8, wide + 6, 16);
    ctx.globalAlpha = 1;
    surface.text(label, left, y, 300, theme.bad);
  }

  private cursor(row: number): void {
    const { ctx } = this.surface;
    ctx.fillStyle = palette().textDim;
    ctx.fillRect(Math.round(this.scale.toX(this.series.at[row]!)), this.top, 1, this.bottom - this.top);
  }

  /** The snapshot nearest to X, or -1. */
  rowAt(x: number): number {
    const { at } = this.series;
    const time = this.scale.toTime(x);
    let best = -1;
    for (let i = 0; i < at.length; i++) {
      if (best < 0 || Math.abs(at[i]! - time) < Math.abs(at[best]! - time)) best = i;
    }
    return best;
  }

  /** The layer at a point of a snapshot, or -1. */
  layerAt(row: number, y: number): number {
    if (row < 0) return -1;
    let base = 0;
    for (let index = 0; index < this.series.layers.length; index++) {
      base += this.series.layers[index]!.values[row]!;
      if (y >= this.y(base)) return y <= this.bottom ? index : -1;
    }
    return -1;
  }

  lines(row: number, hot: number): TipLine[] {
    const { at, live, allocated, resident, layers } = this.series;
    const found: TipLine[] = [`Snapshot at ${moment(at[row]!, 1e6)}`, ["live", bytes(live[row]!)]];
    layers.forEach((layer, index) => {
      if (!(layer.values[row]! >= 0.5)) return;
      const name = layer.place ? shortName(layer.place.name) : "other places";
      found.push([hot === index ? `▸ ${name}` : name, bytes(layer.values[row]!)]);
    });
    if (resident[row]! > 0) found.push(["resident", bytes(resident[row]!)]);
    found.push(["allocated so far", bytes(allocated[row]!)]);
    return found;
  }
}
