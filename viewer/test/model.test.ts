import assert from "node:assert/strict";
import { test } from "node:test";
import { readMeta } from "../src/model/page";
import { NONE } from "../src/model/schema";
import { open } from "./open";
import { random, synthetic } from "./synthetic";
import { PageWriter } from "./writer";
import type { PackedPage } from "./writer";

/** Opens and verifies a page. Returns the error message; "" if there is none. */
async function verdict(page: PackedPage): Promise<string> {
  try {
    const model = await open(page);
    for (const step of model.verify()) void step;
    return "";
  } catch (error) {
    assert.equal((error as Error).name, "PageError", String((error as Error).stack));
    return (error as Error).message;
  }
}

const SIZES = { frames: 50, polls: 400, samples: 300, threads: 3, sites: 10 };

test("a valid page is read and verified", async () => {
  const model = await open(synthetic(SIZES));
  for (const step of model.verify()) void step;
  assert.equal(model.tables.frames.rows, 50);
  assert.equal(model.tables.polls.start.length, 400);
  assert.equal(model.tables.diff.rows, 0);
  assert.equal(model.tables.diff.node.length, 0);
  assert.equal(model.threadName(0), "game");
  assert.equal(model.threadName(1), "worker 1");
});

test("pollsOf returns the polls of one thread in order", async () => {
  const model = await open(synthetic(SIZES));
  const { thread, start } = model.tables.polls;
  let seen = 0;
  for (let t = 0; t < model.tables.threads.rows; t++) {
    const { from, to } = model.pollsOf(t);
    for (let row = from; row < to; row++) assert.equal(thread[row], t);
    for (let row = from + 1; row < to; row++) assert.ok((start[row] as number) >= (start[row - 1] as number));
    seen += to - from;
  }
  assert.equal(seen, 400);
});

test("samplesIn agrees with a linear search", async () => {
  const model = await open(synthetic(SIZES));
  const { at, thread, kind, rows } = model.tables.samples;
  const next = random(5);
  for (let i = 0; i < 50; i++) {
    const t0 = next() * model.end, t1 = t0 + next() * (model.end - t0);
    const own = i % 2 ? Math.floor(next() * 3) : undefined, wanted = i % 3 ? 0 : null;
    const plain: number[] = [];
    for (let row = 0; row < rows; row++) {
      if ((at[row] as number) >= t0 && (at[row] as number) < t1 && (own === undefined || thread[row] === own) &&
        (wanted === null || kind[row] === wanted)) plain.push(row);
    }
    assert.deepEqual(model.samplesIn(t0, t1, own, wanted), plain);
  }
});

test("children is the inverse of parent", async () => {
  const model = await open(synthetic(SIZES));
  const { start, list } = model.children();
  const { parent, rows } = model.tables.nodes;
  assert.equal(list.length, rows);
  for (let key = 0; key <= rows; key++) {
    for (let i = start[key] as number; i < (start[key + 1] as number); i++) {
      assert.equal(parent[list[i] as number], key === rows ? NONE : key);
    }
  }
  for (let node = 0; node < rows; node++) {
    const stack = model.stack(node);
    assert.equal(stack[stack.length - 1], node);
    assert.equal(parent[stack[0] as number], NONE);
  }
});

test("functionsOf and rangeOf return the rows of a frame and the range of a selection", async () => {
  const model = await open(synthetic(SIZES));
  assert.deepEqual(model.functionsOf(7), { from: 28, to: 32 });
  const { start, took } = model.tables.frames;
  assert.deepEqual(model.rangeOf({ kind: "frame", frame: 7 }),
    { t0: start[7], t1: (start[7] as number) + (took[7] as number), thread: 0 });
  assert.equal(model.rangeOf({ kind: "site", site: 1 }), null);
  assert.equal(model.has({ kind: "frame", frame: 49 }), true);
  assert.equal(model.has({ kind: "frame", frame: 50 }), false);
});

function small(change: (columns: { parent: number[]; code: number[]; at: number[]; value: number[] }) => void): PackedPage {
  const w = new PageWriter();
  const c = { parent: [NONE, 0, 1], code: [0, 0, 0], at: [1, 2, 3], value: [5, 5, 5] };
  change(c);
  const name = w.string("f");
  w.table("threads", 1, { tid: [1], name: [name], worker: [NONE], is_main: [1], pid: [0], process: [NONE], place: [0] });
  w.table("code", 1, { function: [name], file: [NONE], line: [0], module: [NONE], inlined: [0], plumbing: [0] });
  w.table("nodes", 3, { parent: c.parent, code: c.code });
  w.table("samples", 3, { at: c.at, thread: [0, 0, 0], node: [0, 1, 2], kind: [0, 0, 0], value: c.value });
  return w.pack({ duration_ns: 10 });
}

test("errors name the broken table and column", async () => {
  assert.equal(await verdict(small(() => undefined)), "");
  assert.ok(/nodes.parent of row 1 does not come before/.test(await verdict(small((c) => (c.parent[1] = 1)))));
  assert.ok(/nodes.parent of row 1 does not come before/.test(await verdict(small((c) => (c.parent[1] = 2)))));
  assert.ok(/nodes.code of row 2 is 9, and there are 1/.test(await verdict(small((c) => (c.code[2] = 9)))));
  assert.ok(/samples.at of row 2 is out of order/.test(await verdict(small((c) => (c.at[2] = 0)))));
  assert.ok(/samples.value of row 0 is negative/.test(await verdict(small((c) => (c.value[0] = -1)))));
});

test("an inconsistent description is refused before anything is allocated", async () => {
  const change = async (edit: (meta: any) => void): Promise<string> => {
    const page = small(() => undefined);
    edit(page.meta);
    return verdict(page);
  };
  assert.ok(/rows need/.test(await change((meta) => (meta.tables.nodes.rows = 4))));
  assert.ok(/rows need/.test(await change((meta) => (meta.tables.nodes.rows = 4000000000))));
  assert.ok(/whole number/.test(await change((meta) => (meta.tables.nodes.rows = -1))));
  assert.ok(/whole number/.test(await change((meta) => (meta.tables.nodes.rows = "x"))));
  assert.ok(/ends at byte/.test(await change((meta) => (meta.tables.nodes.columns[0].at = 1e6))));
  assert.ok(/does not exist/.test(await change((meta) => (meta.tables.nodes.columns[0].block = 99))));
  assert.ok(/no column parent/.test(await change((meta) => meta.tables.nodes.columns.shift())));
  assert.ok(/type u128/.test(await change((meta) => (meta.tables.nodes.columns[0].type = "u128"))));
  assert.ok(/truncated/.test(await change((meta) => (meta.blocks[0].at = 1e9))));
  assert.ok(/codec lzma/.test(await change((meta) => (meta.blocks[0].codec = "lzma"))));
  assert.ok(/not a list/.test(await change((meta) => (meta.blocks = null))));
  assert.ok(/format 2/.test(await change((meta) => (meta.format = 2))));
  assert.throws(() => readMeta("{"), /not JSON/);
  assert.throws(() => readMeta("[]"), /not an object/);
});

test("pages with randomly changed bytes are read or cause a PageError, and never hang", async () => {
  const next = random(11);
  let refused = 0;
  for (let round = 0; round < 150; round++) {
    const page = synthetic({ frames: 20, polls: 60, samples: 40, threads: 2, sites: 4 });
    const plain = round % 2 === 0;
    if (plain) {
      for (let i = 0; i < 3; i++) page.data[Math.floor(next() * page.data.length)] = Math.floor(next() * 256);
    } else {
      const text = JSON.stringify(page.meta);
      const at = Math.floor(next() * text.length);
      const changed = text.slice(0, at) + String(Math.floor(next() * 10)) + text.slice(at + 1);
      try {
        page.meta = JSON.parse(changed) as Record<string, unknown>;
      } catch {
        continue;
      }
    }
    if ((await verdict(page)) !== "") refused++;
  }
  assert.ok(refused > 60, `only ${refused} were refused`);
});
