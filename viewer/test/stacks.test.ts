/* Samples grouped by their stacks. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { byStack } from "../src/frames/about_frame";
import { NONE } from "../src/model/schema";
import { open } from "./open";
import { PageWriter } from "./writer";

test("times off the CPU on one stack are one row, independent of lines; preempted ones are a separate row", async () => {
  const w = new PageWriter();
  const [main, wait] = [w.string("main"), w.string("wait")];
  w.table("threads", 1, { tid: [1], name: [main], worker: [NONE], is_main: [1], pid: [0], process: [NONE], place: [0] });
  w.table("code", 3, { function: [main, wait, wait], file: [NONE, NONE, NONE], line: [1, 2, 3], module: [NONE, NONE, NONE],
    inlined: [0, 0, 0], plumbing: [0, 0, 0] });
  w.table("nodes", 3, { parent: [NONE, 0, 0], code: [0, 1, 2] }); // main, and wait() at two lines
  w.table("samples", 6, { at: [1, 2, 3, 4, 5, 6], thread: [0, 0, 0, 0, 0, 0], node: [1, 2, 1, 0, 1, NONE],
    kind: [1, 1, 1, 1, 2, 1], value: [10, 30, 20, 5, 40, 1] });
  const model = await open(w.pack({ duration_ns: 100 }));
  const { value } = model.tables.samples;
  const found = byStack(model, [0, 1, 2, 3, 4, 5], (row) => value[row]!);
  assert.deepEqual(found, [{ first: 1, hits: 3, time: 60 }, { first: 4, hits: 1, time: 40 }, { first: 3, hits: 1, time: 5 },
    { first: 5, hits: 1, time: 1 }]);
});
