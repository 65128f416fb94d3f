/* Draws a flame graph: what `visible` says, box by box, with as much of the name as fits. Widths of names
 * are measured once; a name that is too long is cut by proportion and not measured again, so that a zoom
 * costs no more than the boxes it shows.
 */
import type { Surface } from "./canvas";
import type { Colours } from "./flame_colours";
import { visible, type Layout, type Window } from "./flame_layout";
import { cut } from "./format";
import { inkOn, mix, palette } from "./palette";

export interface Picture {
  readonly layout: Layout;
  readonly colours: Colours;
  readonly left: number;
  readonly right: number;
  /** Pixels above the canvas. */
  readonly scroll: number;
  readonly row: number;
  /** By key, or null when nothing is searched. */
  readonly matches: Uint8Array | null;
  /** Boxes, or -1. */
  readonly cursor: number;
  readonly hover: number;
  readonly focus: number;
  name(node: number): string;
  /** A figure to put behind the name where there is room. */
  figure(node: number): string;
}

const PAD = 4;
/** Narrower boxes have no text. */
const LEAST_TEXT = 26;

export function rowHeight(): number {
  return Math.round((parseFloat(palette().font) || 12) * 1.6);
}

/** Left and right edge of a box, in pixels of the canvas. */
export function edges(p: Picture, width: number, from: number, to: number): [number, number] {
  const scale = width / (p.right - p.left);
  return [(from - p.left) * scale, (to - p.left) * scale];
}

/** Draws all of it; the number of boxes drawn. */
export function paint(surface: Surface, p: Picture): number {
  const { ctx, width, height } = surface;
  const { layout } = p;
  const theme = palette();
  surface.reset(theme.font);
  ctx.fillStyle = theme.surface;
  ctx.fillRect(0, 0, width, height);
  const w: Window = {
    left: p.left, right: p.right, pixels: width,
    top: Math.floor(p.scroll / p.row), bottom: Math.ceil((p.scroll + height) / p.row),
  };
  const boxes = visible(layout, w);
  paintDust(surface, p, boxes.dust);
  const focusDepth = layout.depth[p.focus]!;
  const inks = new Map<string, string>();
  const faded = new Map<string, string>();
  let fill = "";
  const labels: number[] = [];
  for (const node of boxes.nodes) {
    const [x0, x1] = edges(p, width, layout.x0[node]!, layout.x1[node]!);
    const a = Math.max(x0, 0), b = Math.min(x1, width);
    const colour = fillOf(p, node, focusDepth, faded);
    if (colour !== fill) ctx.fillStyle = fill = colour;
    const gap = b - a > 3 ? 1 : 0.4;
    ctx.fillRect(a, layout.depth[node]! * p.row - p.scroll, Math.max(b - a - gap, 0.6), p.row - 1);
    if (b - a >= LEAST_TEXT) labels.push(node);
  }
  for (const node of labels) paintLabel(surface, p, node, focusDepth, inks, faded);
  outline(surface, p, p.hover, theme.textDim, 1);
  outline(surface, p, p.cursor, theme.accent, 2);
  paintScroll(surface, p);
  return boxes.nodes.length;
}

function fillOf(p: Picture, node: number, focusDepth: number, faded: Map<string, string>): string {
  const own = p.colours.of(node);
  const searched = p.matches !== null && node !== 0;
  if (searched && p.matches![p.layout.tree.key[node]!]) return palette().accent;
  if (!searched && p.layout.depth[node]! >= focusDepth) return own;
  let pale = faded.get(own);
  if (pale === undefined) faded.set(own, (pale = mix(own, palette().surface, 0.5)));
  return pale;
}

function paintLabel(surface: Surface, p: Picture, node: number, focusDepth: number, inks: Map<string, string>,
  faded: Map<string, string>): void {
  const { ctx, width } = surface;
  const [x0, x1] = edges(p, width, p.layout.x0[node]!, p.layout.x1[node]!);
  const a = Math.max(x0, 0), b = Math.min(x1, width);
  const y = p.layout.depth[node]! * p.row - p.scroll + (p.row - 1) / 2 + 0.5;
  const room = b - a - 2 * PAD;
  const name = p.name(node);
  const long = surface.measure(name);
  const fill = fillOf(p, node, focusDepth, faded);
  let ink = inks.get(fill);
  if (ink === undefined) inks.set(fill, (ink = inkOn(fill)));
  ctx.fillStyle = ink;
  if (long > room) {
    let letters = Math.floor(name.length * room / long) - 1;
    // Its ends may be wider than the middle that goes.
    if (letters >= 3) letters = Math.floor(letters * Math.min(1, room / surface.measure(cut(name, letters))));
    if (letters >= 3) ctx.fillText(cut(name, letters), a + PAD, y);
    return;
  }
  ctx.fillText(name, a + PAD, y);
  const figure = p.figure(node);
  const needs = surface.measure(figure) + 14;
  if (room - long > needs) {
    ctx.globalAlpha = 0.68;
    ctx.fillText(figure, a + PAD + long + 10, y);
    ctx.globalAlpha = 1;
  }
}

/* Narrow siblings: their place is taken, by nothing that could be told apart. */
function paintDust(surface: Surface, p: Picture, dust: readonly number[]): void {
  const { ctx, width } = surface;
  const theme = palette();
  ctx.fillStyle = mix(theme.idle, theme.textFaint, 0.18);
  for (let i = 0; i < dust.length; i += 3) {
    const [x0, x1] = edges(p, width, dust[i + 1]!, dust[i + 2]!);
    const a = Math.max(x0, 0), b = Math.min(x1, width);
    ctx.fillRect(a, dust[i]! * p.row - p.scroll, Math.max(b - a - 0.5, 0.5), p.row - 1);
  }
}

function outline(surface: Surface, p: Picture, node: number, colour: string, thick: number): void {
  if (node < 0) return;
  const { ctx, width } = surface;
  const [x0, x1] = edges(p, width, p.layout.x0[node]!, p.layout.x1[node]!);
  const a = Math.max(x0, 0), b = Math.min(x1, width);
  if (b <= a) return;
  ctx.strokeStyle = colour;
  ctx.lineWidth = thick;
  const y = p.layout.depth[node]! * p.row - p.scroll;
  ctx.strokeRect(a + thick / 2, y + thick / 2, Math.max(b - a - thick, 1), p.row - 1 - thick);
}

/* Where the canvas is on a graph that is taller. */
function paintScroll(surface: Surface, p: Picture): void {
  const { ctx, width, height } = surface;
  const tall = (p.layout.deepest + 1) * p.row;
  if (tall <= height) return;
  ctx.fillStyle = palette().lineStrong;
  ctx.fillRect(width - 4, height * p.scroll / tall, 3, Math.max(height * height / tall, 16));
}
