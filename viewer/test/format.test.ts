import assert from "node:assert/strict";
import { test } from "node:test";
import { brief, bytes, count, cut, moment, ns, percent, safe, shortName } from "../src/format";

test("what cannot be seen is written out", () => {
  assert.equal(safe("a\u202eb\u0000c\u007f"), "a‹U+202E›b‹U+0000›c‹U+007F›");
  assert.equal(safe("\u200b\u2066\ufeff\u2028\ud800x\u0085"), "‹U+200B›‹U+2066›‹U+FEFF›‹U+2028›‹U+D800›x‹U+0085›");
  assert.equal(safe("<b>é 漢字 🎹 </b>"), "<b>é 漢字 🎹 </b>");
});

test("names are cut in the middle, never through a character", () => {
  assert.equal(cut("abcdefghijklmnopqrstuvwxyz", 13), "abcdefgh…wxyz");
  assert.equal(cut("abc", 3), "abc");
  assert.equal(cut("abcd", 1), "…");
  for (let most = 1; most < 30; most++) {
    const shown = cut("🎹".repeat(20), most);
    assert.ok(shown.length <= most);
    assert.ok(!/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/.test(shown), shown);
  }
  assert.equal(cut("x".repeat(100000), 50).length, 50);
});

test("times", () => {
  const cases: [number, string][] = [[0, "0 ns"], [840, "840 ns"], [999.6, "1.00 µs"], [12345, "12.3 µs"], [1.2e6, "1.20 ms"],
    [999.6e6, "1.00 s"], [3.4e9, "3.40 s"], [125e9, "2 m 05 s"], [7260e9, "2 h 01 m"], [-1, "-"], [NaN, "-"]];
  for (const [value, text] of cases) assert.equal(ns(value), text);
  assert.equal(moment(1500000000, 1e9), "2 s");
  assert.equal(moment(1500000000, 1e8), "1.5 s");
  assert.equal(moment(1234567890, 1), "1.234567890 s");
});

test("sizes, counts and parts", () => {
  assert.deepEqual([bytes(0), bytes(1023), bytes(1024), bytes(1.5 * 1048576), bytes(-2048), bytes(NaN)],
    ["0 B", "1023 B", "1.00 KiB", "1.50 MiB", "-2.00 KiB", "-"]);
  assert.deepEqual([count(0), count(1234567), count(-1), count(999)], ["0", "1\u202f234\u202f567", "-", "999"]);
  assert.deepEqual([brief(12), brief(12345), brief(4.5e6)], ["12", "12.3k", "4.50M"]);
  assert.deepEqual([percent(1, 3), percent(3, 3), percent(1, 0)], ["33.3 %", "100 %", "-"]);
});

test("short names", () => {
  assert.equal(shortName("collide(Body const&, Body const&)"), "collide");
  assert.equal(shortName("(anonymous namespace)::f(int)"), "(anonymous namespace)::f(int)");
  assert.equal(shortName("main"), "main");
});
