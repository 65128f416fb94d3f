/* Draws a flame graph: the visible boxes, with their names as far as they fit. During a zoom everything is
 * redrawn in every animation frame, and most visible stacks are one or two pixels wide. Adjacent levels of
 * such a stack with the same colour and width are drawn as one rectangle instead of one per function.
 * Labels come from the cache in labels.ts. */
import type { Surface } from "../util/canvas";
import type { Colours } from "./colours";
import type { Labels } from "./labels";
import { visible, type Layout, type Window } from "./layout";
import { inkOn, mix, palette } from "../util/palette";

export interface Picture {
  readonly layout: Layout;
  readonly colours: Colours;
  readonly labels: Labels;
  readonly left: number;
  readonly right: number;
  /** Scrolled pixels above the canvas. */
  readonly scroll: number;
  readonly row: number;
  /** By key; null: no search. */
  readonly matches: Uint8Array | null;
  /** Boxes, or -1. */
  readonly cursor: number;
  readonly hover: number;
  readonly focus: number;
  /** A figure to draw after the name if there is room. */
  figure(node: number): string;
}

const PAD = 4;
/** Narrower boxes have no text. */
const LEAST_TEXT = 26;
/** Minimum room for a figure beside the name. */
const LEAST_FIGURE = 30;

export function rowHeight(): number {
  return Math.round((parseFloat(palette().font) || 12) * 1.6);
}

/** Narrower boxes are merged into strokes. */
const NARROW = 3;

/** Takes boxes in order, with the children of a box right after it, and merges rectangles where possible. */
class Strokes {
  private a = 0;
  private b = 0;
  private top = 0;
  private bottom = -2;
  private colour = "";
  private fill = "";
  drawn = 0;

  constructor(private readonly ctx: CanvasRenderingContext2D, private readonly row: number, private readonly scroll: number) {}

  add(a: number, b: number, depth: number, colour: string): void {
    if (depth === this.bottom + 1 && colour === this.colour && b - a < NARROW && Math.abs(a - this.a) < 0.25 &&
        Math.abs(b - this.b) < 0.25) {
      this.bottom = depth;
      return;
    }
    this.end();
    this.a = a;
    this.b = b;
    this.top = this.bottom = depth;
    this.colour = colour;
  }

  end(): void {
    if (this.colour === "") return;
    if (this.colour !== this.fill) this.ctx.fillStyle = this.fill = this.colour;
    const wide = this.b - this.a;
    this.ctx.fillRect(this.a, this.top * this.row - this.scroll, Math.max(wide - (wide > NARROW ? 1 : 0.4), 0.6),
      (this.bottom - this.top + 1) * this.row - 1);
    this.drawn++;
  }
}

/** Draws everything; returns the number of rectangles. */
export function paint(surface: Surface, p: Picture): number {
  const { ctx, width, height } = surface;
  const { layout } = p;
  const theme = palette();
  surface.reset(theme.font);
  p.labels.setFont(theme.font);
  ctx.fillStyle = theme.surface;
  ctx.fillRect(0, 0, width, height);
  const w: Window = {
    left: p.left, right: p.right, pixels: width,
    top: Math.floor(p.scroll / p.row), bottom: Math.ceil((p.scroll + height) / p.row),
  };
  const scale = width / (p.right - p.left);
  const boxes = visible(layout, w);
  paintDust(surface, p, scale, boxes.dust);
  const focusDepth = layout.depth[p.focus]!;
  const faded = new Map<string, string>();
  const labelled: number[] = [], fills: string[] = [];
  const strokes = new Strokes(ctx, p.row, p.scroll);
  for (const node of boxes.nodes) {
    const a = Math.max((layout.x0[node]! - p.left) * scale, 0);
    const b = Math.min((layout.x1[node]! - p.left) * scale, width);
    const colour = fillOf(p, node, b - a < NARROW, focusDepth, faded);
    strokes.add(a, b, layout.depth[node]!, colour);
    if (b - a < LEAST_TEXT) continue;
    labelled.push(node);
    fills.push(colour);
  }
  strokes.end();
  paintLabels(surface, p, scale, labelled, fills);
  outline(surface, p, scale, p.hover, theme.textDim, 1);
  outline(surface, p, scale, p.cursor, theme.accent, 2);
  paintScroll(surface, p);
  return strokes.drawn;
}

function fillOf(p: Picture, node: number, narrow: boolean, focusDepth: number, faded: Map<string, string>): string {
  const own = p.colours.of(node, narrow);
  const searched = p.matches !== null && node !== 0;
  if (searched && p.matches![p.layout.tree.key[node]!]) return palette().accent;
  if (!searched && p.layout.depth[node]! >= focusDepth) return own;
  let pale = faded.get(own);
  if (pale === undefined) faded.set(own, (pale = mix(own, palette().surface, 0.5)));
  return pale;
}

function paintLabels(surface: Surface, p: Picture, scale: number, nodes: readonly number[],
  fills: readonly string[]): void {
  const { ctx, width } = surface;
  const { x0, x1, depth, tree } = p.layout;
  const inks = new Map<string, string>();
  let fill = "";
  for (const [i, node] of nodes.entries()) {
    const a = Math.max((x0[node]! - p.left) * scale, 0) + PAD;
    const room = Math.min((x1[node]! - p.left) * scale, width) - PAD - a;
    const y = depth[node]! * p.row - p.scroll + (p.row - 1) / 2 + 0.5;
    const key = tree.key[node]!;
    const shown = p.labels.fit(key, room);
    if (shown === "") continue;
    if (fills[i] !== fill) {
      fill = fills[i]!;
      let ink = inks.get(fill);
      if (ink === undefined) inks.set(fill, (ink = inkOn(fill)));
      ctx.fillStyle = ink;
    }
    ctx.fillText(shown, a, y);
    const left = room - p.labels.width(key);
    if (left < LEAST_FIGURE) continue;
    const figure = p.figure(node);
    if (left <= surface.measure(figure) + 14) continue;
    ctx.globalAlpha = 0.8;
    ctx.fillText(figure, a + room - left + 10, y);
    ctx.globalAlpha = 1;
  }
}

/* Narrow siblings, drawn as one stripe without detail. Stripes arrive from right to left on each level;
 * adjacent ones are merged. */
function paintDust(surface: Surface, p: Picture, scale: number, dust: readonly number[]): void {
  const { ctx, width } = surface;
  const theme = palette();
  ctx.fillStyle = mix(theme.idle, theme.textFaint, 0.18);
  const left: number[] = [], right: number[] = [];
  const put = (level: number): void =>
    ctx.fillRect(left[level]!, level * p.row - p.scroll, Math.max(right[level]! - left[level]! - 0.5, 0.5), p.row - 1);
  for (let i = 0; i < dust.length; i += 3) {
    const level = dust[i]!;
    const a = Math.max((dust[i + 1]! - p.left) * scale, 0);
    const b = Math.min((dust[i + 2]! - p.left) * scale, width);
    if (left[level] === undefined || b < left[level]! - 0.75 || a > left[level]!) {
      if (left[level] !== undefined) put(level);
      right[level] = b;
    }
    left[level] = a;
  }
  for (const level of left.keys()) if (left[level] !== undefined) put(level);
}

function outline(surface: Surface, p: Picture, scale: number, node: number, colour: string, thick: number): void {
  if (node < 0) return;
  const { ctx, width } = surface;
  const a = Math.max((p.layout.x0[node]! - p.left) * scale, 0);
  const b = Math.min((p.layout.x1[node]! - p.left) * scale, width);
  if (b <= a) return;
  ctx.strokeStyle = colour;
  ctx.lineWidth = thick;
  const y = p.layout.depth[node]! * p.row - p.scroll;
  ctx.strokeRect(a + thick / 2, y + thick / 2, Math.max(b - a - thick, 1), p.row - 1 - thick);
}

/* Draws where the canvas is in a taller graph. */
function paintScroll(surface: Surface, p: Picture): void {
  const { ctx, width, height } = surface;
  const tall = (p.layout.deepest + 1) * p.row;
  if (tall <= height) return;
  ctx.fillStyle = palette().lineStrong;
  ctx.fillRect(width - 4, height * p.scroll / tall, 3, Math.max(height * height / tall, 16));
}
