/* Weights of stacks in flame graphs, for the whole run and for selections. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { isScope, scopeOf, upperBound, WHOLE } from "../src/model/scope";
import { mergeStacks, topDown } from "../src/model/trie";
import { ask, DIFFS, QUESTIONS, questionsOf, type Question } from "../src/model/weight";
import { boxFigure, changeText } from "../src/flame/words";
import { layOut } from "../src/flame/layout";
import { NONE, SAMPLE_CPU, SAMPLE_OFF, type Tables } from "../src/model/schema";
import { SCHEMA } from "../src/model/tables";

type Columns = Record<string, number[]>;

/** Tables of a page from lists; missing columns are empty. */
function tables(given: Record<string, Columns>): Tables {
  const made: Record<string, Record<string, unknown>> = {};
  for (const [name, columns] of Object.entries(SCHEMA)) {
    const own = given[name] ?? {};
    made[name] = { rows: Object.values(own)[0]?.length ?? 0 };
    for (const [column, kind] of Object.entries(columns as Record<string, string>)) {
      const values = own[column] ?? [];
      made[name]![column] = kind === "u8" ? Uint8Array.from(values)
        : /^(ns|num|length)/.test(kind) ? Float64Array.from(values) : Uint32Array.from(values);
    }
  }
  return made as unknown as Tables;
}

/* Three stacks: a, a < b, a < c. Samples every 10 ns, on threads 0 and 1 alternately. */
const nodes = { parent: [NONE, 0, 0], code: [0, 1, 2] };
const run = tables({
  nodes,
  samples: {
    at: [0, 10, 20, 30, 40, 50], thread: [0, 1, 0, 1, 0, 1], node: [0, 1, 2, 1, 1, NONE],
    kind: [SAMPLE_CPU, SAMPLE_CPU, SAMPLE_CPU, SAMPLE_OFF, SAMPLE_CPU, SAMPLE_CPU], value: [1, 2, 4, 8, 16, 32],
  },
  frames: { start: [10, 10], wall: [25, 25], took: [31, 30], thread: [0, 0] },
  polls: { start: [0, 35, 5], length: [5, 10, 10], thread: [0, 0, 1], task: [3, 3, 3] },
  blocks_live: { at: [15, 90], size: [10, 10], weight: [100, 200], thread: [0, 1], node: [1, 2] },
  sites: { node: [1, 2], live_bytes: [100, 200], live_objects: [10, 20], allocated_bytes: [1000, 300],
    allocated_objects: [1, 1], freed_bytes: [900, 100], peak_bytes: [0, 0], churn_bytes: [0, -5],
    median_life: [1000, -1], live_samples: [1, 1], samples: [3, 3], oldest: [0, 0] },
  diff: { node: [0, 1, 2], a_cpu: [0, 100, 50], b_cpu: [10, 100, 0], a_alloc: [0, 0, 0], b_alloc: [0, 0, 0],
    a_live: [0, 0, 0], b_live: [0, 0, 0] },
});
const trie = mergeStacks(run.nodes.parent, run.nodes.code, Uint32Array.of(0, 1, 2));
const question = (id: string): Question => [...QUESTIONS, ...DIFFS].find((q) => q.id === id)!;
const sum = (values: Float64Array): number => values.reduce((a, b) => a + b, 0);
const cpu = (selection: Parameters<typeof scopeOf>[1]): number =>
  sum(ask(question("cpu"), run, trie, scopeOf(run, selection)).channels[0]!);

test("questionsOf returns the questions that the page has data for", () => {
  assert.deepEqual(questionsOf(run).map((q) => q.id), ["diffcpu", "cpu", "off", "allocated", "live", "life"]);
});

test("samples are limited to a range, a frame, a poll, a thread or a task", () => {
  assert.equal(cpu(null), 1 + 2 + 4 + 16 + 32);
  assert.equal(cpu({ kind: "range", t0: 10, t1: 40 }), 2 + 4);
  assert.equal(cpu({ kind: "range", t0: 10, t1: 41, thread: 0 }), 4 + 16);
  assert.equal(cpu({ kind: "frame", frame: 0 }), 4 + 16, "uses `took`, not `wall`");
  assert.equal(cpu({ kind: "frame", frame: 1 }), 4, "excludes its end");
  assert.equal(cpu({ kind: "poll", poll: 1 }), 16);
  assert.equal(cpu({ kind: "thread", thread: 1 }), 2 + 32);
  assert.equal(cpu({ kind: "task", task: 3 }), 1 + 2 + 16);
  assert.equal(cpu({ kind: "node", node: 1 }), cpu(null));
  assert.ok(isScope({ kind: "task", task: 3 }) && !isScope({ kind: "node", node: 1 }));
});

test("only the part of an off-CPU interval inside the scope counts", () => {
  const off = (selection: Parameters<typeof scopeOf>[1]): number =>
    sum(ask(question("off"), run, trie, scopeOf(run, selection)).channels[0]!);
  assert.equal(off({ kind: "range", t0: 0, t1: 100 }), 8); // from 30 to 38
  assert.equal(off({ kind: "range", t0: 33, t1: 100 }), 5);
  assert.equal(off({ kind: "range", t0: 33, t1: 36, thread: 1 }), 3);
  assert.equal(off({ kind: "range", t0: 0, t1: 36, thread: 0 }), 0);
  assert.equal(off({ kind: "range", t0: 38, t1: 100 }), 0);
});

test("off-CPU time is not CPU time; a sample without a stack counts only in the total", () => {
  assert.equal(sum(ask(question("off"), run, trie, WHOLE).channels[0]!), 8);
  const { channels, rests } = ask(question("cpu"), run, trie, WHOLE);
  assert.equal(rests, 5);
  const tree = topDown(trie, channels, null);
  assert.equal(tree.total[0]![0], 55);
  assert.equal(tree.total[0]![1], 23);
});

test("live bytes can be limited to a time range; other heap sums cover the whole run and are marked so", () => {
  const range = scopeOf(run, { kind: "range", t0: 0, t1: 50 });
  const live = ask(question("live"), run, trie, range);
  assert.deepEqual([sum(live.channels[0]!), sum(live.channels[1]!), live.whole], [100, 10, false]);
  const made = ask(question("allocated"), run, trie, range);
  assert.deepEqual([sum(made.channels[0]!), made.whole], [1300, true]);
  assert.equal(ask(question("allocated"), run, trie, WHOLE).whole, false);
});

test("negative estimates count as 0, and unknown lifetimes are not in the mean", () => {
  assert.equal(sum(ask(question("churn"), run, trie, WHOLE).channels[0]!), 0);
  const { channels } = ask(question("life"), run, trie, WHOLE);
  assert.equal(sum(channels[0]!), 1000);
  assert.equal(sum(channels[2]!), 900);
});

test("a comparison has the values of both runs for all widths, and formats the change", () => {
  for (const widths of ["after", "before", "both"] as const) {
    const answer = ask(question("diffcpu"), run, trie, WHOLE, widths);
    assert.equal(sum(answer.channels[0]!), { after: 110, before: 150, both: 260 }[widths]);
    const layout = layOut(topDown(trie, answer.channels, null), "weight");
    assert.deepEqual([layout.tree.total[1]![0], layout.tree.total[2]![0]], [150, 110]);
    assert.equal(boxFigure(answer, layout, 1), "−27%");
    assert.equal(boxFigure(answer, layout, 2), "same");
    assert.equal(boxFigure(answer, layout, 3), "gone");
    assert.equal(changeText(answer, 100, 250), "+150ns (2.50×)");
    assert.equal(changeText(answer, 0, 5), "new, 5ns");
    assert.equal(changeText(answer, 5, 0), "gone, 5ns before");
  }
});

test("upperBound counts the elements that are not greater", () => {
  assert.deepEqual([0, 1, 2, 3, 9].map((v) => upperBound([1, 2, 2, 5], v)), [0, 1, 3, 3, 4]);
});
