/* The trees of flame graphs, compared with slow and simple computations. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { invert } from "../src/flame/invert";
import { boxAt, findPath, layOut, matchedShare, step, visible } from "../src/flame/layout";
import { mergeStacks, pathOf, topDown, type Tree } from "../src/model/trie";
import { changeOf, typicalLife } from "../src/model/weight";
import { sumFunctions } from "../src/model/function_sums";
import { NONE } from "../src/model/schema";
import { random } from "./synthetic";

interface Made {
  parents: Uint32Array;
  codes: Uint32Array;
  keyOfCode: Uint32Array;
  weights: number[];
}

/** Random stacks: NODES rows, two lines of code for each of KEYS functions. */
function made(nodes: number, keys: number, seed: number): Made {
  const next = random(seed);
  const parents = new Uint32Array(nodes), codes = new Uint32Array(nodes);
  const depth = new Uint8Array(nodes);
  const weights: number[] = [];
  for (let n = 0; n < nodes; n++) {
    let up = n === 0 || next() < 0.02 ? NONE : Math.floor(next() * n);
    if (up !== NONE && depth[up]! > 60) up = NONE;
    parents[n] = up;
    depth[n] = up === NONE ? 1 : depth[up]! + 1;
    codes[n] = Math.floor(next() * keys * 2);
    weights.push(next() < 0.5 ? Math.floor(next() * 1000) : 0);
  }
  const keyOfCode = Uint32Array.from({ length: keys * 2 }, (_, code) => code >> 1);
  return { parents, codes, keyOfCode, weights };
}

/** The keys of a row's stack, outermost first. */
function stackOf(m: Made, row: number): number[] {
  const found: number[] = [];
  for (let n = row; n !== NONE; n = m.parents[n]!) found.unshift(m.keyOfCode[m.codes[n]!]!);
  return found;
}

function trees(m: Made): { trie: ReturnType<typeof mergeStacks>; down: Tree; up: Tree; whole: number } {
  const trie = mergeStacks(m.parents, m.codes, m.keyOfCode);
  const channels = [new Float64Array(trie.count), new Float64Array(trie.count)];
  m.weights.forEach((weight, row) => {
    const n = trie.ofRow[row]!;
    channels[0]![n] = channels[0]![n]! + weight;
    channels[1]![n] = channels[1]![n]! + (weight > 0 ? 1 : 0);
  });
  return { trie, down: topDown(trie, channels, null), up: invert(trie, channels, null, 0),
    whole: m.weights.reduce((a, b) => a + b, 0) };
}

function childSums(tree: Tree): Float64Array {
  const sums = new Float64Array(tree.count);
  for (let n = 1; n < tree.count; n++) sums[tree.parent[n]!] = sums[tree.parent[n]!]! + tree.total[0]![n]!;
  return sums;
}

test("children never weigh more than their parent, and the root has the total weight", () => {
  const { down, up, whole } = trees(made(3000, 40, 3));
  for (const tree of [down, up]) {
    assert.equal(tree.total[0]![0], whole);
    childSums(tree).forEach((sum, n) => assert.ok(sum <= tree.total[0]![n]!, `node ${n}`));
  }
});

test("a top-down box is the sum of the stacks that begin with its path", () => {
  const m = made(400, 12, 5);
  const { down } = trees(m);
  const sums = new Map<string, number>();
  m.weights.forEach((weight, row) => {
    const stack = stackOf(m, row);
    for (let n = 1; n <= stack.length; n++) {
      const path = stack.slice(0, n).join();
      sums.set(path, (sums.get(path) ?? 0) + weight);
    }
  });
  assert.equal(down.count - 1, sums.size);
  for (let n = 1; n < down.count; n++) assert.equal(down.total[0]![n], sums.get(pathOf(down, n).join()));
});

test("an inverted box is the sum of the stacks that end with its path", () => {
  const m = made(400, 12, 9);
  const { up } = trees(m);
  const sums = new Map<string, number>();
  m.weights.forEach((weight, row) => {
    const stack = stackOf(m, row).reverse();
    for (let n = 1; weight > 0 && n <= stack.length; n++) {
      const path = stack.slice(0, n).join();
      sums.set(path, (sums.get(path) ?? 0) + weight);
    }
  });
  assert.equal(up.count - 1, sums.size);
  for (let n = 1; n < up.count; n++) assert.equal(up.total[0]![n], sums.get(pathOf(up, n).join()));
});

test("a cut inverted tree has the same boxes except those that were cut, and can be refined", () => {
  const { trie, down, up, whole } = trees(made(2000, 30, 11));
  const coarse = invert(trie, down.self, null, whole / 50);
  assert.ok(coarse.count < up.count);
  const full = layOut(up, "weight"), rough = layOut(coarse, "weight");
  for (let n = 1; n < coarse.count; n++) {
    const same = findPath(full, pathOf(coarse, n));
    assert.equal(up.total[0]![same], coarse.total[0]![n]);
    const kids = rough.start[n + 1]! - rough.start[n]!;
    assert.equal(kids, coarse.cut![n] ? 0 : full.start[same + 1]! - full.start[same]!);
  }
  const cut = coarse.cut!.findIndex((is, n) => is === 1 && up.total[0]![findPath(full, pathOf(coarse, n))]! > 0);
  assert.ok(cut > 0);
  const path = pathOf(coarse, cut);
  const fine = layOut(invert(trie, down.self, null, 0, path), "weight");
  const there = findPath(fine, path), same = findPath(full, path);
  assert.equal(fine.start[there + 1]! - fine.start[there]!, full.start[same + 1]! - full.start[same]!);
});

test("boxes are inside their parents without overlap, and boxAt finds them", () => {
  const { down, up } = trees(made(2000, 30, 13));
  for (const layout of [layOut(down, "first"), layOut(down, "weight"), layOut(up, "weight")]) {
    const { x0, x1, start, children, tree, depth } = layout;
    for (let n = 0; n < tree.count; n++) {
      let x = x0[n]!;
      for (let i = start[n]!; i < start[n + 1]!; i++) {
        const child = children[i]!;
        assert.ok(x0[child]! >= x - 1e-12 && x1[child]! <= x1[n]! + 1e-12);
        x = x1[child]!;
        if (layout.order === "weight" && i > start[n]!) {
          assert.ok(tree.total[0]![children[i - 1]!]! >= tree.total[0]![child]!);
        }
        if (x1[child]! - x0[child]! > 1e-9) {
          assert.equal(boxAt(layout, (x0[child]! + x1[child]!) / 2, depth[child]!), child);
        }
      }
    }
  }
});

test("visible boxes are those inside the window that are wide enough", () => {
  const { down } = trees(made(20000, 200, 17));
  const layout = layOut(down, "first");
  for (const [left, right] of [[0, 1], [0.2, 0.21], [0.5, 0.5001]] as const) {
    const pixels = 1000, least = (right - left) / pixels;
    const drawn = visible(layout, { left, right, pixels, top: 0, bottom: 99 }).nodes.sort((a, b) => a - b);
    const expected: number[] = [];
    for (let n = 0; n < down.count; n++) {
      let shown = true; // the node and all its ancestors are wide enough
      for (let up = n; shown && up !== 0; up = down.parent[up]!) {
        shown = layout.x1[up]! - layout.x0[up]! >= least && layout.x1[up]! > left && layout.x0[up]! < right;
      }
      if (shown) expected.push(n);
    }
    assert.deepEqual(drawn, expected);
  }
});

test("arrow keys move to the parent, to the heaviest child, and along a whole level", () => {
  const { down } = trees(made(500, 10, 19));
  const layout = layOut(down, "weight");
  const first = step(layout, 0, "down");
  assert.equal(first, layout.children[layout.start[0]!]);
  assert.equal(step(layout, first, "up"), 0);
  const level = [...layout.depth.keys()].filter((n) => layout.depth[n] === 3 && layout.x1[n]! > layout.x0[n]!)
    .sort((a, b) => layout.x0[a]! - layout.x0[b]!);
  let at = level[0]!;
  const seen = [at];
  for (let next = step(layout, at, "right"); next !== at; next = step(layout, at, "right")) seen.push(at = next);
  assert.deepEqual(seen, level);
  for (let i = level.length - 1; i > 0; i--) assert.equal(step(layout, level[i]!, "left"), level[i - 1]);
});

test("the matched share counts a box inside a matching box once", () => {
  const parents = Uint32Array.of(NONE, 0, 1, 0), codes = Uint32Array.of(0, 1, 1, 2);
  const trie = mergeStacks(parents, codes, Uint32Array.of(0, 1, 2));
  const self = new Float64Array(trie.count);
  for (const [row, weight] of [[1, 10], [2, 30], [3, 60]] as const) self[trie.ofRow[row]!] = weight;
  const tree = topDown(trie, [self], null);
  assert.equal(matchedShare(tree, Uint8Array.of(0, 1, 0)), 0.4);
  assert.equal(matchedShare(tree, Uint8Array.of(1, 1, 1)), 1);
});

test("a recursive function counts once in its total", () => {
  const parents = Uint32Array.of(NONE, 0, 1, 2), codes = Uint32Array.of(0, 1, 0, 1);
  const trie = mergeStacks(parents, codes, Uint32Array.of(0, 1));
  const self = new Float64Array(trie.count).fill(1);
  self[0] = 0;
  const { self: own, total } = sumFunctions(topDown(trie, [self], null), 2);
  assert.deepEqual([...own[0]!], [2, 2]);
  assert.deepEqual([...total[0]!], [4, 3]);
});

test("changes are scaled from a quarter to four times and clamped", () => {
  assert.equal(changeOf(0, 0), 0);
  assert.equal(changeOf(0, 5), 1);
  assert.equal(changeOf(5, 0), -1);
  assert.equal(changeOf(5, 5), 0);
  assert.equal(changeOf(1, 2), 0.5);
  assert.equal(changeOf(2, 1), -0.5);
  assert.equal(changeOf(1, 100), 1);
});

test("a typical lifetime is the geometric mean of medians, weighted by bytes", () => {
  const total = [Float64Array.of(2), Float64Array.of(Math.log(1e3) + Math.log(1e5)), Float64Array.of(2)];
  assert.ok(Math.abs(typicalLife(total, 0) - 1e4) < 1e-6);
  assert.equal(typicalLife([Float64Array.of(1), Float64Array.of(0), Float64Array.of(0)], 0), -1);
});

test("rows with broken parents or codes are attached to the root", () => {
  const trie = mergeStacks(Uint32Array.of(1, 0, 7), Uint32Array.of(9, 0, 0), Uint32Array.of(0));
  for (let n = 1; n < trie.count; n++) assert.ok(trie.parent[n]! < n);
});
