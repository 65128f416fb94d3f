import assert from "node:assert/strict";
import { test } from "node:test";
import { followSelection } from "../src/model/follow";
import type { Model } from "../src/model/model";
import type { Selection } from "../src/model/state";
import { open } from "./open";
import { synthetic } from "./synthetic";

const SIZES = { frames: 5, polls: 200, samples: 150, threads: 3, sites: 10 };

function rows(model: Model): Selection[] {
  const t = model.tables, all: Selection[] = [];
  for (let poll = 0; poll < t.polls.rows; poll++) all.push({ kind: "poll", poll });
  for (let park = 0; park < t.parks.rows; park++) all.push({ kind: "park", park });
  for (let thread = 0; thread < t.threads.rows; thread++) all.push({ kind: "thread", thread }, { kind: "range", t0: 1, t1: 2, thread });
  for (let node = 0; node < t.nodes.rows; node++) all.push({ kind: "node", node });
  for (let site = 0; site < t.sites.rows; site++) all.push({ kind: "site", site });
  return all;
}

/** What a selection is, whatever its row. */
function what(s: Selection, model: Model): unknown {
  const t = model.tables;
  const stack = (node: number): unknown => model.stack(node).map((n) => {
    const code = t.nodes.code[n]!;
    return [model.codeName(code), model.placeOf(code)];
  });
  switch (s.kind) {
    case "poll": return [t.threads.tid[t.polls.thread[s.poll]!], t.polls.start[s.poll]];
    case "park": return [t.threads.tid[t.parks.thread[s.park]!], t.parks.start[s.park]];
    case "thread": return t.threads.tid[s.thread];
    case "range": return [s.t0, s.t1, t.threads.tid[s.thread!]];
    case "node": return stack(s.node);
    case "site": return [stack(t.sites.node[s.site]!), t.sites.flags[s.site]];
    default: return null;
  }
}

test("each row of one reading is found in another reading of the same data", async () => {
  const old = await open(synthetic(SIZES)), next = await open(synthetic(SIZES));
  assert.ok(rows(old).length > 200);
  for (const selection of rows(old)) {
    const found = followSelection(selection, old, next);
    if (found === null) throw new Error(`not found: ${JSON.stringify(selection)}`);
    assert.equal(found.kind, selection.kind);
    assert.deepEqual(what(found, next), what(selection, old));
  }
});

test("what is not in the other reading is not selected there", async () => {
  const old = await open(synthetic(SIZES)), next = await open(synthetic({ ...SIZES, polls: 0, threads: 1, sites: 0 }));
  assert.equal(followSelection({ kind: "thread", thread: 2 }, old, next), null);
  assert.equal(followSelection({ kind: "poll", poll: 7 }, old, next), null);
  assert.equal(followSelection({ kind: "site", site: 3 }, old, next), null);
  assert.equal(followSelection({ kind: "range", t0: 1, t1: 2, thread: 2 }, old, next), null);
  assert.deepEqual(followSelection({ kind: "range", t0: 1, t1: 2 }, old, next), { kind: "range", t0: 1, t1: 2 });
});
