/* The cost of drawing a flame graph. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Surface } from "../src/util/canvas";
import { Labels } from "../src/flame/labels";
import { layOut } from "../src/flame/layout";
import { paint, type Picture } from "../src/flame/paint";
import type { Tree } from "../src/model/trie";

// The palette is read from the page's style; any values will do.
const page = { document: { documentElement: null }, getComputedStyle: () => ({ getPropertyValue: () => "#ffffff", fontSize: "16px" }) };
Object.assign(globalThis, page);

/** COUNT stacks of DEPTH functions each, with equal weights, side by side. */
function stacks(count: number, depth: number): Tree {
  const nodes = 1 + count * depth;
  const parent = new Uint32Array(nodes), total = new Float64Array(nodes).fill(1);
  for (let n = 1; n < nodes; n++) parent[n] = (n - 1) % depth === 0 ? 0 : n - 1;
  total[0] = count;
  return { count: nodes, parent, key: Uint32Array.from({ length: nodes }, (_, n) => n), self: [total], total: [total], first: null,
    cut: null, leaf: null };
}

/** The rectangles of a graph 1000 pixels wide: [x, y, width, height]. */
function drawn(tree: Tree, colour: (node: number) => string): number[][] {
  const rects: number[][] = [];
  const ctx = { fillRect: (...rect: number[]) => rects.push(rect), fillText: () => undefined, fillStyle: "", globalAlpha: 1 };
  const surface = { ctx, width: 1000, height: 400, reset: () => undefined, measure: () => 7 } as unknown as Surface;
  const labels = new Labels(() => 7, () => "name");
  const picture: Picture = { layout: layOut(tree, "weight"), colours: { of: colour, legend: [] }, labels, left: 0, right: 1, scroll: 0,
    row: 20, matches: null, cursor: -1, hover: -1, focus: 0, figure: () => "" };
  paint(surface, picture);
  return rects.slice(1); // without the background
}

test("a narrow stack is drawn as one rectangle per run of equal colours", () => {
  const one = drawn(stacks(500, 10), () => "#808080");
  assert.equal(one.length, 1 + 500);
  assert.ok(one.slice(1).every(([, y, width, height]) => y === 20 && width! < 2 && height === 199));
  const two = drawn(stacks(500, 10), (node) => node === 0 || (node - 1) % 10 < 4 ? "#808080" : "#404040");
  assert.equal(two.length, 1 + 2 * 500);
});

test("visible boxes are drawn as separate rectangles", () => {
  const rects = drawn(stacks(5, 10), () => "#808080");
  assert.equal(rects.length, 1 + 50);
  assert.ok(rects.every(([, , , height]) => height === 19));
});

test("adjacent stacks that are too narrow to see are merged into stripes", () => {
  const tree = stacks(300, 1);
  // Each of 300 boxes of 3.3 pixels has eight children of 0.4 pixels, which become dust.
  const parent = [...tree.parent], total = [...tree.total[0]!];
  for (let n = 1; n <= 300; n++) for (let i = 0; i < 8; i++) {
    parent.push(n);
    total.push(0.12);
  }
  const weights = Float64Array.from(total);
  const rects = drawn({ ...tree, count: parent.length, parent: Uint32Array.from(parent),
    key: Uint32Array.from(parent, (_, n) => n), self: [weights], total: [weights] }, () => "#808080");
  const dust = rects.filter(([, y]) => y === 40);
  assert.ok(dust.length < 10, `${dust.length} stripes`);
  assert.ok(Math.abs(dust.reduce((sum, [, , width]) => sum + width!, 0) - 1000) < 20);
});
