import assert from "node:assert/strict";
import { test } from "node:test";
import { readSelection, Store, withoutRows, writeSelection } from "../src/model/state";
import type { Selection } from "../src/model/state";

const VIEWS = ["overview", "timeline"];

function store(hash = ""): Store {
  return new Store({ end: 1e9, has: (s: Selection) => s.kind !== "frame" || s.frame < 10 }, VIEWS, hash);
}

test("the hash preserves the complete state", () => {
  const a = store();
  a.set({ view: "timeline", t0: 1000, t1: 250000, search: "a&b=ü#", selection: { kind: "range", t0: 5, t1: 9, thread: 2 },
    pins: [{ kind: "frame", frame: 3 }, { kind: "site", site: 9 }], options: { "flame.form": "inverted" } });
  const b = store(a.hash());
  assert.deepEqual(b.state, a.state);
  b.restore("");
  assert.deepEqual(b.state, store().state);
});

test("every kind of selection can be written to the hash and read back", () => {
  const kinds: Selection[] = [{ kind: "range", t0: 1, t1: 2 }, { kind: "range", t0: 1, t1: 2, thread: 0 }, { kind: "frame", frame: 0 },
    { kind: "poll", poll: 4294967294 }, { kind: "park", park: 1 }, { kind: "sample", sample: 1 }, { kind: "thread", thread: 1 },
    { kind: "task", task: 1 }, { kind: "function", function: 1 }, { kind: "node", node: 1 }, { kind: "site", site: 1 }];
  for (const selection of kinds) assert.deepEqual(readSelection(writeSelection(selection)), selection);
});

test("a hostile hash gives a valid state", () => {
  for (const hash of ["#v=__proto__&t=9-1&s=frame:99", "#t=-5-1e9&s=<script>", "#t=0-99999999999999999999&s=range:9-1",
    "#p=frame:1,,frame:99,x:y&q=" + "x".repeat(10000), "#%%%=%", "#__proto__.x=1&constructor.name=2"]) {
    const { state } = store(hash);
    assert.ok(VIEWS.includes(state.view));
    assert.ok(state.t0 >= 0 && state.t1 <= 1e9 && state.t0 < state.t1, hash);
    assert.equal(state.selection, null);
    assert.ok(state.search.length <= 500);
    assert.ok(state.pins.length <= 1);
  }
});

test("the time range stays inside the run and above the minimum width", () => {
  const s = store();
  s.zoom(-500, 1000);
  assert.deepEqual([s.state.t0, s.state.t1], [0, 1500]);
  s.zoom(999999900, 1000000900);
  assert.deepEqual([s.state.t0, s.state.t1], [999999000, 1000000000]);
  s.zoom(500, 501);
  assert.deepEqual([s.state.t0, s.state.t1], [500, 600]);
  s.zoom(NaN, Infinity);
  assert.ok(s.state.t0 >= 0 && s.state.t1 <= 1e9 && s.state.t0 < s.state.t1);
});

test("listeners are called once per change, and only if something changed", () => {
  const s = store();
  const heard: string[][] = [];
  const stop = s.subscribe((changed) => heard.push([...changed].sort()));
  s.set({ view: "timeline", search: "x" });
  s.set({ view: "timeline" });
  s.select({ kind: "frame", frame: 99 });
  s.select({ kind: "frame", frame: 1 });
  s.select({ kind: "frame", frame: 1 });
  s.togglePin({ kind: "frame", frame: 1 });
  s.setOption("flame.form", "inverted");
  s.setOption("flame.form", null);
  stop();
  s.set({ search: "" });
  assert.deepEqual(heard, [["search", "view"], ["selection"], ["pins"], ["options"], ["options"]]);
});

test("a run that grows keeps the range, or moves it along if it reached to the end", () => {
  const whole = store(), fixed = store(), last = store();
  const longer = { end: 3e9, has: () => true };
  fixed.zoom(2e8, 4e8);
  last.zoom(9e8, 1e9);
  last.set({ search: "x", selection: { kind: "poll", poll: 5 }, pins: [{ kind: "site", site: 1 }, { kind: "poll", poll: 5 }] });
  for (const s of [whole, fixed, last]) {
    s.grow(longer, VIEWS, (selection) => selection.kind === "poll" ? { kind: "poll", poll: selection.poll + 2 } : null);
  }
  assert.deepEqual([whole.state.t0, whole.state.t1], [0, 3e9]);
  assert.deepEqual([fixed.state.t0, fixed.state.t1], [2e8, 4e8]);
  assert.deepEqual([last.state.t0, last.state.t1], [29e8, 3e9]);
  assert.equal(whole.hash(), store().hash());
  assert.deepEqual(last.state.selection, { kind: "poll", poll: 7 });
  assert.deepEqual(last.state.pins, [{ kind: "poll", poll: 7 }]);
  assert.equal(last.state.search, "x");
});

test("a link to a page that is live has no rows", () => {
  assert.equal(withoutRows("#v=timeline&t=1-2&s=poll:3&q=s%3D&p=site:1"), "#v=timeline&t=1-2&q=s%3D");
});
