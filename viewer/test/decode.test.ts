import assert from "node:assert/strict";
import { test } from "node:test";
import { deflateSync } from "node:zlib";
import { decodeColumn, fromBase64, inflateBlock, joinData, Texts } from "../src/model/decode";
import type { ColumnCode, ColumnInfo, ColumnType } from "../src/model/page";
import { random } from "./synthetic";
import { encode, toBase64 } from "./writer";
import type { Code, Type } from "./writer";

function info(type: ColumnType, code: ColumnCode, bytes: number): ColumnInfo {
  return { name: "c", type, code, block: 0, at: 0, bytes };
}

function roundTrip(values: number[], type: Type, code: Code): number[] {
  const bytes = encode(values, type, code);
  return Array.from(decodeColumn(bytes, info(type, code, bytes.length), values.length));
}

test("columns of every type and code are decoded to their values", () => {
  const next = random(3);
  const many = (most: number): number[] => Array.from({ length: 300 }, () => Math.floor(next() * most));
  const codes: Code[] = ["plain", "delta", "planes", "delta-planes"];
  for (const code of codes) {
    for (const [type, most] of [["u8", 256], ["u16", 65536], ["u32", 4294967296], ["i64", 2 ** 53]] as const) {
      const values = [0, most - 1, 0, 1, ...many(most), most - 1];
      assert.deepEqual(roundTrip(values, type, code), values, `${type} ${code}`);
    }
    assert.deepEqual(roundTrip([-1, 5, -70000000000, 0], "i64", code), [-1, 5, -70000000000, 0], `negative ${code}`);
    assert.deepEqual(roundTrip([], "i64", code), []);
  }
  for (const code of ["plain", "planes"] as const) {
    assert.deepEqual(roundTrip([0.1, -2.5e300, 1e-300], "f64", code), [0.1, -2.5e300, 1e-300]);
  }
});

test("delta-coded i64 values carry from the low to the high word", () => {
  assert.deepEqual(roundTrip([0xffffffff, 0x100000000, 0x1ffffffff, 0x200000001], "i64", "delta-planes"),
    [0xffffffff, 0x100000000, 0x1ffffffff, 0x200000001]);
});

test("a column at an unaligned position in a block is decoded", () => {
  const bytes = encode([7, 8, 9], "u32", "plain");
  const block = new Uint8Array(bytes.length + 8);
  block.set(bytes, 3);
  const column = decodeColumn(block.subarray(1), { ...info("u32", "plain", 12), at: 2 }, 3);
  assert.deepEqual(Array.from(column), [7, 8, 9]);
});

test("a column whose size does not match its rows is refused", () => {
  assert.throws(() => decodeColumn(new Uint8Array(11), info("u32", "plain", 11), 3), /11 bytes for 3 rows/);
  assert.throws(() => decodeColumn(new Uint8Array(8), info("u32", "plain", 12), 3), /8 bytes for 3 rows/);
  assert.throws(() => decodeColumn(new Uint8Array(8), info("f64", "delta", 8), 1), /differences/);
});

test("base64 is decoded by the browser and by the table", () => {
  const next = random(9);
  for (let length = 0; length < 40; length++) {
    const bytes = Uint8Array.from({ length }, () => Math.floor(next() * 256));
    const text = toBase64(bytes)[0] ?? "";
    assert.deepEqual(Array.from(fromBase64(`\n${text}\n`)), Array.from(bytes));
    assert.deepEqual(Array.from(fromBase64(text, false)), Array.from(bytes));
  }
});

test("text that is not base64 is refused", () => {
  for (const text of ["AAA$", "AAAAA", "A", "AA=A", "AAA\u00e9", "ÿÿÿÿ", "=", "===="]) {
    assert.throws(() => fromBase64(text, false), /damaged|truncated/);
    assert.throws(() => fromBase64(text), /damaged|truncated/);
  }
});

test("base64 texts are decoded separately and joined", () => {
  const bytes = Uint8Array.from({ length: 10 }, (_, i) => i);
  assert.deepEqual(Array.from(joinData(toBase64(bytes, 4))), Array.from(bytes));
  assert.throws(() => joinData([]), /no data/);
});

test("blocks: valid, truncated, damaged, too large", async () => {
  const raw = new Uint8Array(100000).fill(65);
  const packed = Uint8Array.from(deflateSync(raw)); // not a Buffer: its slice() does not copy
  const block = { name: "b", at: 0, bytes: packed.length, raw_bytes: raw.length, codec: "deflate" } as const;
  assert.deepEqual(await inflateBlock(packed, block), raw);
  await assert.rejects(() => inflateBlock(packed.subarray(0, packed.length - 1), block), /truncated/);
  const cut = packed.subarray(0, packed.length - 20);
  await assert.rejects(() => inflateBlock(cut, { ...block, bytes: cut.length }), /damaged/);
  const damaged = packed.slice();
  damaged[20] = (damaged[20] as number) ^ 0x55;
  await assert.rejects(() => inflateBlock(damaged, block), /damaged|holds/);
  await assert.rejects(() => inflateBlock(packed, { ...block, raw_bytes: raw.length - 1 }), /more than the 99999/);
  await assert.rejects(() => inflateBlock(packed, { ...block, raw_bytes: raw.length + 1 }), /holds 100000 bytes/);
  await assert.rejects(() => inflateBlock(packed, { ...block, raw_bytes: 2 ** 40 }), /more than .* can hold/);
});

test("texts", () => {
  const bytes = Uint8Array.from([1, 0, 0, 0, 65, 0, 0, 0, 0, 2, 0, 0, 0, 0xc3, 0xa9]);
  const column = { ...info("text", "plain", bytes.length) };
  const texts = new Texts(bytes, column, 3);
  assert.deepEqual([texts.get(0), texts.get(1), texts.get(2)], ["A", "", "é"]);
  assert.throws(() => texts.get(3), /no text 3/);
  assert.throws(() => new Texts(bytes, column, 4), /do not fit|truncated/);
  const long = bytes.slice();
  long[9] = 200;
  assert.throws(() => new Texts(long, column, 3), /Text 2 of c is truncated/);
});
