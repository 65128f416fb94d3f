import assert from "node:assert/strict";
import { test } from "node:test";
import { brief, bytes, count, cut, moment, nearName, ns, percent, safe, shortName, tick } from "../src/model/format";

test("invisible characters are shown as code points", () => {
  assert.equal(safe("a\u202eb\u0000c\u007f"), "a‹U+202E›b‹U+0000›c‹U+007F›");
  assert.equal(safe("\u200b\u2066\ufeff\u2028\ud800x\u0085"), "‹U+200B›‹U+2066›‹U+FEFF›‹U+2028›‹U+D800›x‹U+0085›");
  assert.equal(safe("<b>é 漢字 🎹 </b>"), "<b>é 漢字 🎹 </b>");
});

test("names are cut in the middle, never inside a character", () => {
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
  // The same values as for units_time() in tests/unit/tool/util/test_units.c.
  const cases: [number, string][] = [[0, "0ns"], [840, "840ns"], [999.6, "1.0us"], [12345, "12.3us"], [1.2e6, "1.2ms"],
    [1250, "1.2us"], [1350, "1.4us"], [1750, "1.8us"], [999949, "999.9us"], [999950, "1.0ms"], [999.6e6, "999.6ms"],
    [3.4e9, "3.4s"], [125e9, "125.0s"], [7260e9, "7260.0s"], [-1, "-"], [NaN, "-"]];
  for (const [value, text] of cases) assert.equal(ns(value), text);
  assert.equal(moment(1500000000, 1e9), "2s");
  assert.equal(moment(1500000000, 1e8), "1.5s");
  assert.equal(moment(1234567890, 1), "1.234567890s");
});

test("sizes, counts and shares are formatted", () => {
  assert.deepEqual([bytes(0), bytes(1023), bytes(1024), bytes(1.5 * 1048576), bytes(-2048), bytes(NaN)],
    ["0B", "1023B", "1.0KB", "1.5MB", "-2.0KB", "-"]);
  assert.deepEqual([bytes(1280), bytes(1792), bytes(1048524), bytes(1048525), bytes(2 ** 40), bytes(2 ** 52), bytes(-0.2)],
    ["1.2KB", "1.8KB", "1023.9KB", "1.0MB", "1.0TB", "4096.0TB", "0B"]);
  assert.deepEqual([count(0), count(1234567), count(-1), count(999)], ["0", "1\u202f234\u202f567", "-", "999"]);
  assert.deepEqual([brief(12), brief(12345), brief(4.5e6)], ["12", "12.3k", "4.50M"]);
  assert.deepEqual([percent(1, 3), percent(3, 3), percent(1, 0)], ["33.3%", "100.0%", "-"]);
});

test("axis labels have no trailing zero", () => {
  assert.deepEqual(["2.0MB", "2.5MB", "10.0ms", "840ns", "0B"].map(tick), ["2MB", "2.5MB", "10ms", "840ns", "0B"]);
});

test("places", () => {
  assert.deepEqual(["src/world/grid.c:19", "/home/me/game/src/grid.c:19", "../sysdeps/unix/brk.c:37", "./elf/dl-init.c:2", "/a.c", ""]
    .map(nearName), ["src/world/grid.c:19", "src/grid.c:19", "unix/brk.c:37", "elf/dl-init.c:2", "/a.c", ""]);
});

test("short names have no argument list", () => {
  assert.equal(shortName("collide(Body const&, Body const&)"), "collide");
  assert.equal(shortName("(anonymous namespace)::f(int)"), "(anonymous namespace)::f(int)");
  assert.equal(shortName("main"), "main");
});
