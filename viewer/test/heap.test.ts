/* Places of allocations, stacks without library plumbing, and trends of memory. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { leadersOf, placesOf } from "../src/model/heap_places";
import { trendOf } from "../src/model/heap_series";
import { NONE, SITE_MMAP } from "../src/model/schema";
import { open } from "./open";
import { PageWriter, type PackedPage } from "./writer";

/** Stacks: main, parse, xmalloc, malloc as nodes 0 to 3; main, load, malloc as nodes 0, 4, 5. */
function stacks(peak = [0, 0, 0, 0]): PackedPage {
  const w = new PageWriter();
  const names = ["main", "parse", "xmalloc", "malloc", "load"].map((name) => w.string(name));
  const each = (value: number): number[] => names.map(() => value);
  w.table("code", 5, { function: names, file: each(w.string("a.c")), line: [1, 2, 3, 4, 5], module: each(NONE), inlined: each(0),
    plumbing: [0, 0, 0, 1, 0] });
  w.table("nodes", 6, { parent: [NONE, 0, 1, 2, 0, 4], code: [0, 1, 2, 3, 4, 3] });
  const node = [3, 2, 5, 5];
  const all = (value: number): number[] => node.map(() => value);
  w.table("sites", 4, { node, live_bytes: [8, 16, 32, 64], live_objects: all(1), allocated_bytes: all(64), allocated_objects: all(1),
    freed_bytes: all(0), peak_bytes: peak, churn_bytes: all(0), median_life: all(-1), live_samples: all(1), samples: all(1),
    oldest: all(0), freed_samples: all(0), site_node: [1, 1, 4, 4], caller_node: [0, 0, NONE, NONE], flags: [0, 0, 0, SITE_MMAP] });
  return w.pack({ duration_ns: 10 });
}

test("sites are grouped to places by function, line, caller and kind of memory", async () => {
  const places = placesOf(await open(stacks()));
  assert.deepEqual(places.map(({ name, caller, mmap, live, sites }) => [name, caller, mmap, live, sites]),
    [["load", "", true, 64, [3]], ["load", "", false, 32, [2]], ["parse", "main", false, 24, [1, 0]]]);
});

test("the site that leads a place depends on the figure", async () => {
  const model = await open(stacks([90, 8, 0, 0]));
  const place = placesOf(model).find(({ name }) => name === "parse")!;
  assert.deepEqual(leadersOf(model, place, "live"), [1, 0]);
  assert.deepEqual(leadersOf(model, place, "peak"), [0, 1]);
  assert.deepEqual(leadersOf(model, place, "leaks"), [1, 0]);
});

test("a stack is named after its innermost function that is not plumbing", async () => {
  const model = await open(stacks());
  assert.deepEqual([3, 2, 5, 0].map((node) => model.functionOf(model.ownNode(node))), ["xmalloc", "xmalloc", "load", "main"]);
});

const at = Float64Array.from({ length: 20 }, (_, i) => i * 1e9);
const trend = (value: (i: number) => number): string => trendOf(at, at.map((_, i) => value(i))).word;

test("trends: steady growth, growth that ended, a sawtooth, no data", () => {
  assert.equal(trend((i) => 100 + 10 * i), "grows");
  assert.ok(Math.abs(trendOf(at, at.map((_, i) => 100 + 10 * i)).rate - 10) < 1e-9);
  assert.equal(trend((i) => Math.min(i, 8) * 10), "grew, then flat");
  assert.equal(trend((i) => 300 - 10 * i), "shrinks");
  assert.equal(trend((i) => 100 + 50 * (i % 3)), "varies");
  assert.equal(trend(() => 100), "flat");
  assert.equal(trendOf(at.slice(0, 3), at.slice(0, 3)).word, "-");
});
