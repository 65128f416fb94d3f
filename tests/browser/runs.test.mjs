/* Other runs than the game: a leak, CPU samples alone, a comparison of two; and runs with hardly anything in them. */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { rows, show, tab } from "./browser.mjs";
import { figure, says } from "./figures.mjs";
import { perfRefused, Project } from "./piano.mjs";

const NO_PERF = perfRefused();
const LEAK = `
  #include <stdlib.h>
  #include <string.h>
  #include <time.h>
  static void *kept[100000];
  static void pause_ms(long ms) { struct timespec t = {0, ms * 1000000}; nanosleep(&t, NULL); }
  static void leak(int i) { kept[i] = malloc(4096); memset(kept[i], 1, 4096); }
  static void churn(void) { void *p = malloc(1 << 16); memset(p, 1, 1 << 16); free(p); }
  static void keep(void) { kept[99999] = malloc(3 << 20); }
  int main(void) {
    keep();
    for (int i = 0; i < 4000; i++) { leak(i); churn(); if (i % 100 == 0) pause_ms(5); }
    return 0;
  }`;
/** A program whose functions hot and cold take so many parts of its time. */
const BURN = (hot, cold) => `
  static volatile unsigned sum;
  #define BURN(n) for (long i = 0; i < (n) * 1000000L; i++) sum = sum * 1664525 + 1
  __attribute__((noinline)) void hot(void) { BURN(${hot}); }
  __attribute__((noinline)) void cold(void) { BURN(${cold}); }
  int main(void) { hot(); cold(); return 0; }`;

const project = new Project();
let leak, heap;

before(() => {
  const recording = project.record("leak.rec", ["--heap=16K", "--snapshot-every", "0.02"], project.compile("leak", LEAK));
  leak = project.view("leak.html", recording);
  heap = project.json("report", recording, "--heap");
});

test("a leak is named on the first page, and a click leads to who holds it", async () => {
  const view = await show(leak);
  const card = view.locator(".headlines button").first();
  const words = await card.innerText();
  const place = heap.places.find(({ function: name }) => name === "leak");
  assert.match(words, /Grows/); // for half a second: too early to call it a leak
  assert.match(words, /\bleak\b/);
  says(words, place.live_bytes, "held by leak()");
  await card.click();
  assert.equal(await view.getByRole("tab", { selected: true }).innerText(), "Heap");
  const shown = await rows(view, "table[aria-label='What may leak']");
  const [row] = shown.filter(([name]) => name.startsWith("leak"));
  assert.ok(row.join(" ").includes("grows"), row.join(" | "));
  assert.match(await view.locator(".details .full-name").innerText(), /^leak$/);
});

test("live tables and sums of a leaking program are those of the report", async () => {
  const view = await show(leak, { hash: "#v=heap&heap.table=live" });
  const shown = await rows(view, "table[aria-label='Who holds memory']");
  const wanted = heap.places.filter((place) => place.live_bytes > 0).sort((a, b) => b.live_bytes - a.live_bytes);
  assert.equal(shown.length, wanted.length);
  for (const [at, place] of wanted.entries()) {
    const [name, live, , half, objects, allocated, samples] = shown[at];
    assert.ok(name.startsWith(place.function), `${name}, not ${place.function}`);
    says(live, place.live_bytes, `${name}: live`);
    says(half, (place.live_bytes_ci95[1] - place.live_bytes_ci95[0]) / 2, `${name}: interval`);
    says(objects, place.live_objects, `${name}: objects`);
    says(allocated, place.allocated_bytes, `${name}: allocated`);
    says(samples, place.samples, `${name}: samples`);
  }
  await view.locator("table.heap-table .heap-open").first().click();
  assert.match(await view.locator(".heap-stacks").innerText(), /leak[^]*main/);
  await view.locator(".heap-stacks").getByRole("button", { name: "Flame graph" }).click();
  await view.locator("#tab-flame[aria-selected=true]").waitFor();
});

test("CPU samples alone: hot and cold, by time", { skip: NO_PERF }, async () => {
  const recording = project.record("cpu.rec", ["--cpu=999"], project.compile("burn", BURN(90, 30)));
  const report = project.json("report", recording, "--cpu");
  const view = await show(project.view("cpu.html", recording));
  assert.deepEqual(await view.getByRole("tab").allInnerTexts(), ["Overview", "Timeline", "Flame graph", "Functions"]);
  says(await view.locator(".question-cpu > p").innerText(), report.cpu.cpu_ns, "CPU time");
  await tab(view, "Functions");
  for (const name of ["hot", "cold"]) {
    const row = view.getByRole("row").filter({ has: view.getByRole("gridcell", { name, exact: true }) });
    const cells = await row.getByRole("gridcell").allInnerTexts();
    const heads = await view.getByRole("columnheader").allInnerTexts();
    const wanted = report.functions.find((one) => one.name === name);
    const total = heads.findIndex((head) => /^Total/.test(head) && !head.includes("%"));
    says(cells[total], wanted.total_ns, name);
  }
});

test("two recordings compared: what grew is said, and drawn", { skip: NO_PERF }, async () => {
  const flags = ["--cpu=999", "--heap=64K"];
  const one = project.record("one.rec", flags, project.compile("before/burn", BURN(20, 60)));
  const two = project.record("two.rec", flags, project.compile("after/burn", BURN(120, 60)));
  const view = await show(project.view("diff.html", one, two));
  const [before_, after_] = [one, two].map((path) => project.json("report", path, "--cpu"));
  const [was, is] = [before_, after_].map(({ functions }) => functions.find(({ name }) => name === "hot").self_ns);
  const [, grew] = /Largest change on the CPU\s+\+([^]*?)\s+hot\b/.exec(await view.locator(".headlines").innerText());
  says(grew, is - was, "hot");
  await tab(view, "Flame graph");
  const weights = await view.getByRole("combobox", { name: "What the widths are" }).locator("option").allInnerTexts();
  assert.ok(weights.some((text) => /before|change|differ|compar/i.test(text)), weights.join(", "));
  const sum = figure(await view.locator(".flame-foot b").innerText());
  assert.ok(Math.abs(sum.value - after_.cpu.cpu_ns) <= sum.slack * 1.01, `${sum.value}, not ${after_.cpu.cpu_ns}`);
  for (const name of await view.getByRole("tab").allInnerTexts()) await tab(view, name);
});

test("two runs of functions compared", async () => {
  const run = (self) => [{ format_version: 2, run_id: "1_1", timestamp_ms: 1740000000123, functions: ["update", "draw"] },
    { thread: 1, tid: 1, name: "main", start_ns: 0 },
    ...Array.from({ length: 40 }, (_, i) => ({ frame: i, thread: 1, depth: 0, root: 0, start_ns: i * 2e7, wall_ns: self + 1e6,
      fns: [{ id: 0, calls: 1, self_ns: self, ac: 0, ab: 0 }, { id: 1, calls: 1, self_ns: 1e6, ac: 0, ab: 0 }] }))]
    .map((line) => JSON.stringify(line)).join("\n") + "\n";
  const one = project.write("one.ndjson", run(3e6)), two = project.write("two.ndjson", run(9e6));
  const view = await show(project.view("spans.html", one, two));
  const { functions } = project.json("diff", one, two);
  const update = functions.find(({ name }) => name === "update");
  const said = await view.locator(".headlines").innerText();
  assert.match(said, /Largest change\s[^]*update/);
  says(/\+([\d.]+ \S+)/.exec(said)[1], update.self_ns[1] - update.self_ns[0], JSON.stringify(update));
  for (const name of await view.getByRole("tab").allInnerTexts()) await tab(view, name);
});

test("a program that does nothing", async () => {
  const recording = project.record("nothing.rec", ["--heap", "--events"], "/bin/true");
  const view = await show(project.view("nothing.html", recording));
  for (const name of await view.getByRole("tab").allInnerTexts()) await tab(view, name);
});
