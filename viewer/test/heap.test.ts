/* Which frame is to blame for an allocation, and words for how memory went. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { trendOf } from "../src/heap_series";
import { isPlumbing, isWrapper, roleOf, siteOf } from "../src/plumbing";

test("plumbing is the C library, std and malloc's family; a namesake elsewhere is not", () => {
  assert.ok(isPlumbing("anything", "libc.so.6"));
  assert.ok(isPlumbing("std::vector<int>::push_back(int&&)", "game"));
  assert.ok(isPlumbing("void std::vector<int>::_M_realloc_insert<int>(int&&)", "game"));
  assert.ok(isPlumbing("operator new(unsigned long)", "game"));
  assert.ok(!isPlumbing("stdlib_like", "game"));
  assert.ok(!isPlumbing("make<std::string>(std::string const&)", "game"));
});

test("wrappers are matched whole", () => {
  assert.ok(isWrapper("xmalloc") && isWrapper("g_malloc0_n") && isWrapper("sqlite3DbStrNDup"));
  assert.ok(!isWrapper("my_xmalloc") && !isWrapper("xmalloc2") && !isWrapper("a".repeat(100000)));
});

test("the site is the first frame that counts, its caller the next other function that does", () => {
  const names = ["malloc", "xmalloc", "parse", "parse", "std::sort", "main"];
  const roles = names.map((name) => roleOf(name, "game"));
  const same = (a: number, b: number): boolean => names[a] === names[b];
  assert.deepEqual(siteOf(roles, same), { site: 2, caller: 5 });
  assert.deepEqual(siteOf(roles.slice(0, 5), same), { site: 2, caller: -1 });
  assert.deepEqual(siteOf([2, 1], () => false), { site: 1, caller: -1 });
  assert.deepEqual(siteOf([2, 2], () => false), { site: 0, caller: -1 });
});

const at = Float64Array.from({ length: 20 }, (_, i) => i * 1e9);
const trend = (value: (i: number) => number): string => trendOf(at, at.map((_, i) => value(i))).word;

test("trends: growth that goes on, growth that ended, a saw, nothing", () => {
  assert.equal(trend((i) => 100 + 10 * i), "grows");
  assert.ok(Math.abs(trendOf(at, at.map((_, i) => 100 + 10 * i)).rate - 10) < 1e-9);
  assert.equal(trend((i) => Math.min(i, 8) * 10), "grew, then flat");
  assert.equal(trend((i) => 300 - 10 * i), "shrinks");
  assert.equal(trend((i) => 100 + 50 * (i % 3)), "varies");
  assert.equal(trend(() => 100), "flat");
  assert.equal(trendOf(at.slice(0, 3), at.slice(0, 3)).word, "-");
});
