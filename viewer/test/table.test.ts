/* Sorting, sparks, and lists of the largest values. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { greatest } from "../src/overview/fact";
import { halfWidth, list, member, number, text, type Json } from "../src/model/figures";
import type { Tables } from "../src/model/schema";
import { Sparks, SPARK_COLUMNS } from "../src/model/sparks";
import { ordered, type Sheet } from "../src/overview/sheet";

const values = Float64Array.of(3, NaN, 10, 1, 3);
const names = ["c", "b", "Alpha", "e", "a"];
const sheet: Sheet = {
  id: "x", title: "", rows: 5, by: "v", about: "", name: (row) => names[row]!, place: () => "",
  selection: () => null, columns: [{ id: "v", title: "", about: "", kind: "ns", values }],
};

test("rows are sorted by a column in both directions, unknown values last, and the sort is stable", () => {
  assert.deepEqual([...ordered(sheet, "v", true, "")], [2, 0, 4, 3, 1]);
  assert.deepEqual([...ordered(sheet, "v", false, "")], [3, 0, 4, 2, 1]);
  assert.deepEqual([...ordered(sheet, "name", false, "")], [4, 2, 1, 0, 3]);
  assert.deepEqual([...ordered(sheet, "v", true, "a")], [2, 4]);
});

/** Two functions in 1000 frames; the second one only in some. */
function tables(): Tables {
  const frame: number[] = [], fn: number[] = [], self: number[] = [];
  for (let i = 0; i < 1000; i++) {
    frame.push(i);
    fn.push(0);
    self.push(i === 500 ? 900 : 10);
    if (i >= 990) {
      frame.push(i);
      fn.push(1);
      self.push(i);
    }
  }
  return {
    frames: { rows: 1000 }, functions: { rows: 2 },
    frame_functions: { rows: frame.length, frame: Uint32Array.from(frame), function: Uint32Array.from(fn),
      self: Float64Array.from(self) },
  } as unknown as Tables;
}

test("a spark shows a single slow frame, and distinguishes 'not called' from 'fast'", () => {
  const sparks = new Sparks(tables());
  const first = sparks.columns(0);
  assert.equal(first.length, SPARK_COLUMNS);
  assert.equal(Math.max(...first), 900);
  assert.equal(first.filter((value) => value > 10).length, 1);
  const second = sparks.columns(1);
  assert.equal(second[0], -1);
  assert.equal(second[SPARK_COLUMNS - 1], 999);
  assert.deepEqual(sparks.worstFrames(0, 2).map(({ frame }) => frame), [500, 0]);
  assert.deepEqual(sparks.worstFrames(1, 3), [{ frame: 999, self: 999 }, { frame: 998, self: 998 },
    { frame: 997, self: 997 }]);
});

test("greatest returns the largest values in order, without zeros", () => {
  const of = [5, 0, 9, 9, 1, 7];
  assert.deepEqual(greatest(6, 3, (row) => of[row]!), [2, 3, 5]);
  assert.deepEqual(greatest(6, 9, (row) => of[row]!), [2, 3, 5, 0, 4]);
  assert.deepEqual(greatest(0, 3, () => 1), []);
});

test("unexpected JSON is null and shown as '-'", () => {
  const json: Json = { a: 1, b: "x", c: [1, 3], d: { e: null } };
  assert.equal(number(json, "a"), 1);
  assert.equal(number(json, "b"), null);
  assert.equal(number(null, "a"), null);
  assert.equal(text(json, "a"), null);
  assert.equal(member(json, "toString"), null);
  assert.deepEqual(list(json, "d"), []);
  assert.equal(halfWidth(json, "c"), 1);
  assert.equal(halfWidth(json, "a"), null);
  const rough: Json = { live_bytes: 10, live_bytes_ci95: [9, 24] };
  assert.equal(halfWidth(rough, "live_bytes_ci95"), 14, "to the farther end, as in the report");
});
