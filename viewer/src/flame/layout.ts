/* The positions of boxes: horizontally as shares of the graph, from 0 to 1; vertically as levels.
 *
 * Children are placed side by side from the left edge of their parent, sorted by first sample or by
 * weight. The self weight of the parent is the empty space at its right. The layout is the same for all
 * zooms. `visible` walks down from the root and skips boxes that are outside of the window or narrower
 * than a pixel, so the cost of drawing depends on what is visible. Runs of narrow siblings become one
 * stripe (dust), so that they are not invisible. */
import type { Tree } from "../model/trie";

export type Order = "first" | "weight";

export interface Layout {
  tree: Tree;
  order: Order;
  x0: Float64Array;
  x1: Float64Array;
  depth: Uint16Array; /* of the root: 0 */
  deepest: number;
  start: Uint32Array; /* children of n: children[start[n]] to children[start[n + 1]] */
  children: Uint32Array;
}

export interface Window {
  left: number; /* shares of the whole */
  right: number;
  pixels: number; /* the width of that */
  top: number; /* levels */
  bottom: number;
}

/* What to draw. Dust is triples: level, left, right. */
export interface Boxes {
  nodes: number[];
  dust: number[];
}

function childrenOf(tree: Tree): { start: Uint32Array; children: Uint32Array } {
  const start = new Uint32Array(tree.count + 2);
  const weight = tree.total[0]!;
  for (let n = 1; n < tree.count; n++) {
    const slot = tree.parent[n]! + 2;
    if (weight[n]! > 0) start[slot] = start[slot]! + 1;
  }
  for (let n = 2; n < start.length; n++) start[n] = start[n]! + start[n - 1]!;
  const children = new Uint32Array(start[tree.count + 1]!);
  for (let n = 1; n < tree.count; n++) {
    if (!(weight[n]! > 0)) continue;
    const slot = tree.parent[n]! + 1;
    const at = start[slot]!;
    children[at] = n;
    start[slot] = at + 1;
  }
  return { start: start.subarray(0, tree.count + 1), children };
}

function sortChildren(tree: Tree, order: Order, start: Uint32Array, children: Uint32Array): void {
  const weight = tree.total[0]!;
  const first = tree.first;
  if (order === "first" && !first) return;
  const compare =
    order === "weight"
      ? (a: number, b: number): number => weight[b]! - weight[a]! || a - b
      : (a: number, b: number): number => first![a]! - first![b]! || a - b;
  for (let n = 0; n < tree.count; n++) {
    const from = start[n]!;
    const to = start[n + 1]!;
    if (to - from > FEW) children.subarray(from, to).sort(compare);
    else insertionSort(children, from, to, compare);
  }
}

/** Most nodes have few children, for which an insertion sort is faster than sort(). */
const FEW = 24;

function insertionSort(list: Uint32Array, from: number, to: number,
  compare: (a: number, b: number) => number): void {
  for (let i = from + 1; i < to; i++) {
    const item = list[i]!;
    let at = i;
    for (; at > from && compare(list[at - 1]!, item) > 0; at--) list[at] = list[at - 1]!;
    list[at] = item;
  }
}

export function layOut(tree: Tree, order: Order): Layout {
  const { start, children } = childrenOf(tree);
  sortChildren(tree, order, start, children);
  const x0 = new Float64Array(tree.count);
  const x1 = new Float64Array(tree.count);
  const depth = new Uint16Array(tree.count);
  const weight = tree.total[0]!;
  const whole = weight[0]! > 0 ? weight[0]! : 1;
  let deepest = 0;
  x1[0] = weight[0]! > 0 ? 1 : 0;
  for (let n = 0; n < tree.count; n++) {
    if (depth[n]! > deepest) deepest = depth[n]!;
    let x = x0[n]!;
    for (let i = start[n]!; i < start[n + 1]!; i++) {
      const child = children[i]!;
      x0[child] = x;
      x = Math.min(x + weight[child]! / whole, x1[n]!);
      x1[child] = x;
      depth[child] = Math.min(depth[n]! + 1, 0xffff);
    }
  }
  return { tree, order, x0, x1, depth, deepest, start, children };
}

/* The first child of n that ends to the right of x. */
function firstChild(l: Layout, n: number, x: number): number {
  let low = l.start[n]!;
  let high = l.start[n + 1]!;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (l.x1[l.children[middle]!]! <= x) low = middle + 1;
    else high = middle;
  }
  return low;
}

export function visible(l: Layout, w: Window, leastPixels = 1): Boxes {
  const out: Boxes = { nodes: [], dust: [] };
  if (l.tree.count === 0 || !(w.right > w.left) || !(w.pixels > 0)) return out;
  const least = ((w.right - w.left) / w.pixels) * leastPixels;
  const stack = [0];
  while (stack.length > 0) {
    const n = stack.pop()!;
    const level = l.depth[n]!;
    if (level >= w.top) out.nodes.push(n);
    if (level + 1 >= w.bottom) continue;
    const end = l.start[n + 1]!;
    let dustFrom = -1;
    let dustTo = 0;
    for (let i = firstChild(l, n, w.left); i < end; i++) {
      const child = l.children[i]!;
      const from = l.x0[child]!;
      if (from >= w.right) break;
      if (l.x1[child]! - from >= least) {
        stack.push(child);
        if (dustFrom >= 0) putDust(out, w, level + 1, dustFrom, dustTo, least);
        dustFrom = -1;
        continue;
      }
      if (dustFrom < 0) dustFrom = from;
      dustTo = l.x1[child]!;
      if (l.order === "weight") {
        dustTo = l.x1[l.children[end - 1]!]!;
        break;
      }
    }
    if (dustFrom >= 0) putDust(out, w, level + 1, dustFrom, dustTo, least);
  }
  return out;
}

function putDust(out: Boxes, w: Window, level: number, from: number, to: number, least: number): void {
  if (level >= w.top && to - from >= least) out.dust.push(level, from, to);
}

/* The box at a point, or -1. */
export function boxAt(l: Layout, x: number, level: number): number {
  let n = 0;
  if (l.tree.count === 0 || x < l.x0[0]! || x >= l.x1[0]!) return -1;
  for (let depth = 0; depth < level; depth++) {
    const i = firstChild(l, n, x);
    if (i >= l.start[n + 1]! || l.x0[l.children[i]!]! > x) return -1;
    n = l.children[i]!;
  }
  return n;
}

/* ---- moving from box to box ---- */

export type Step = "up" | "down" | "left" | "right";

function heaviestChild(l: Layout, n: number): number {
  let best = -1;
  for (let i = l.start[n]!; i < l.start[n + 1]!; i++) {
    const child = l.children[i]!;
    if (best < 0 || l.tree.total[0]![child]! > l.tree.total[0]![best]!) best = child;
  }
  return best;
}

/* The next box on the same level, also below other parents: the nearest one on that level. */
function beside(l: Layout, n: number, right: boolean): number {
  const level = l.depth[n]!;
  let up = n;
  while (up !== 0) {
    const parent = l.tree.parent[up]!;
    let i = firstChild(l, parent, l.x0[up]!);
    for (;;) {
      i += right ? 1 : -1;
      if (i < l.start[parent]! || i >= l.start[parent + 1]!) break;
      const found = edge(l, l.children[i]!, level, right);
      if (found >= 0) return found;
    }
    up = parent;
  }
  return n;
}

/* The leftmost (or rightmost) descendant of n on a level, or -1. */
function edge(l: Layout, n: number, level: number, leftmost: boolean): number {
  const stack = [n];
  while (stack.length > 0) {
    const at = stack.pop()!;
    if (l.depth[at] === level) return at;
    const from = l.start[at]!;
    const to = l.start[at + 1]!;
    if (leftmost) for (let i = to - 1; i >= from; i--) stack.push(l.children[i]!);
    else for (let i = from; i < to; i++) stack.push(l.children[i]!);
  }
  return -1;
}

export function step(l: Layout, n: number, how: Step): number {
  if (how === "up") return l.tree.parent[n]!;
  if (how === "down") {
    const child = heaviestChild(l, n);
    return child < 0 ? n : child;
  }
  return n === 0 ? n : beside(l, n, how === "right");
}

/* The box with this path of keys, or the deepest existing one on the path. */
export function findPath(l: Layout, path: number[]): number {
  let n = 0;
  for (const key of path) {
    let next = -1;
    for (let i = l.start[n]!; i < l.start[n + 1]! && next < 0; i++)
      if (l.tree.key[l.children[i]!] === key) next = l.children[i]!;
    if (next < 0) break;
    n = next;
  }
  return n;
}

/* ---- searching ---- */

/* The share of the graph in boxes whose key matches. Boxes inside matching boxes count once. */
export function matchedShare(tree: Tree, matches: Uint8Array): number {
  const within = new Uint8Array(tree.count);
  const weight = tree.total[0]!;
  let sum = 0;
  for (let n = 1; n < tree.count; n++) {
    if (within[tree.parent[n]!]) within[n] = 1;
    else if (matches[tree.key[n]!]) {
      within[n] = 1;
      sum += weight[n]!;
    }
  }
  return weight[0]! > 0 ? sum / weight[0]! : 0;
}
