/* Other runs than the game: a leak, CPU samples only, comparisons, and runs with almost no data. */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { drawn, rows, show, tab } from "./browser.mjs";
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
/** A program that frees everything, so that nothing is live at the end. */
const FREED = `
  #include <stdlib.h>
  #include <string.h>
  #include <time.h>
  static void pause_ms(long ms) { struct timespec t = {0, ms * 1000000}; nanosleep(&t, NULL); }
  __attribute__((noinline)) static char *big(void) { char *p = malloc(3 << 20); memset(p, 1, 3 << 20); return p; }
  __attribute__((noinline)) static char *small(void) { char *p = malloc(100000); memset(p, 1, 100000); return p; }
  int main(void) {
    char *a = big(), *b = small();
    pause_ms(300);
    free(a);
    free(b);
    pause_ms(100);
    return 0;
  }`;
/** A program that spends its time in the functions hot and cold in this proportion. */
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

test("the overview names a leak, and a click shows the place that holds it", async () => {
  const view = await show(leak);
  const card = view.locator(".headlines button").first();
  const words = await card.innerText();
  const place = heap.places.find(({ function: name }) => name === "leak");
  assert.match(words, /Grows/); // for half a second: too early to call it a leak
  assert.match(words, /\bleak\b/);
  says(words, place.live_bytes, "held by leak()");
  await card.click();
  await drawn(view);
  assert.equal(await view.getByRole("tab", { selected: true }).innerText(), "Heap");
  const shown = await rows(view, "table[aria-label='What may leak']");
  const [row] = shown.filter(([name]) => name.startsWith("leak"));
  assert.ok(row.join(" ").includes("grows"), row.join(" | "));
  assert.match(await view.locator(".details .full-name").innerText(), /^leak$/);
});

test("live memory of a leaking program agrees with the report", async () => {
  const view = await show(leak, { hash: "#v=heap&heap.table=live" });
  const shown = await rows(view, "table[aria-label='Who holds memory']");
  const wanted = heap.places.filter((place) => place.live_bytes > 0).sort((a, b) => b.live_bytes - a.live_bytes);
  assert.equal(shown.length, wanted.length);
  for (const [at, place] of wanted.entries()) {
    const [name, live, , half, objects, allocated, samples] = shown[at];
    assert.ok(name.startsWith(place.function), `${name}, not ${place.function}`);
    says(live, place.live_bytes, `${name}: live`);
    const width = place.live_bytes_ci95[1] - place.live_bytes_ci95[0];
    if (width === 0) assert.equal(half, "exact", name);
    else says(half, width / 2, `${name}: interval`);
    says(objects, place.live_objects, `${name}: objects`);
    says(allocated, place.allocated_bytes, `${name}: allocated`);
    says(samples, place.samples, `${name}: samples`);
  }
  await view.locator("table.heap-table .heap-open").first().click();
  await drawn(view);
  assert.match(await view.locator(".heap-stacks").innerText(), /leak[^]*main/);
  await view.locator(".heap-stacks").getByRole("button", { name: "Flame graph" }).click();
  await view.locator("#tab-flame[aria-selected=true]").waitFor();
});

test("the legend of the heap chart shows what places held, even if nothing is live at the end", async () => {
  const recording = project.record("freed.rec", ["--heap=1", "--snapshot-every", "0.02"], project.compile("freed", FREED));
  const { places } = project.json("report", recording, "--heap");
  const view = await show(project.view("freed.html", recording), { hash: "#v=heap" });
  const legend = async () => Object.fromEntries(await view.locator(".heap-legend li").evaluateAll((all) =>
    all.map((item) => [item.children[1].textContent, item.children[2].textContent])));
  const most = await legend();
  for (const name of ["big", "small"]) {
    const place = places.find(({ function: own }) => own === name);
    assert.equal(place.live_bytes, 0);
    says(most[name], place.peak_bytes, `${name}: at most`);
  }
  assert.equal(await view.locator(".heap-legend-head").innerText(), "Maximum held");
  const box = await view.locator(".heap-area canvas").boundingBox();
  await view.mouse.move(box.x + box.width - 12, box.y + box.height / 2);
  await view.locator(".heap-legend-head", { hasText: /^Held at \d/ }).waitFor();
  assert.equal((await legend()).big, "0B", "under the pointer, at the end");
  await view.mouse.move(1, 1);
  await view.locator(".heap-legend-head", { hasText: "Maximum held" }).waitFor();
  assert.deepEqual(await legend(), most);
});

test("CPU samples only: times of hot and cold agree with the report", { skip: NO_PERF }, async () => {
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

test("comparison of two recordings: overview and flame graph show what grew", { skip: NO_PERF }, async () => {
  const flags = ["--cpu=999", "--heap=64K"];
  const one = project.record("one.rec", flags, project.compile("before/burn", BURN(20, 60)));
  const two = project.record("two.rec", flags, project.compile("after/burn", BURN(120, 60)));
  const view = await show(project.view("diff.html", one, two));
  const [before_, after_] = [one, two].map((path) => project.json("report", path, "--cpu"));
  const [was, is] = [before_, after_].map(({ functions }) => functions.find(({ name }) => name === "hot").self_ns);
  const [, grew] = /Largest change on the CPU\s+\+([^]*?)\s+hot\b/.exec(await view.locator(".headlines").innerText());
  says(grew, is - was, "hot");
  await tab(view, "Flame graph");
  const weights = await view.getByRole("combobox", { name: "Weight of the boxes" }).locator("option").allInnerTexts();
  assert.ok(weights.some((text) => /before|change|differ|compar/i.test(text)), weights.join(", "));
  const sum = figure(await view.locator(".flame-foot b").innerText());
  assert.ok(Math.abs(sum.value - after_.cpu.cpu_ns) <= sum.slack * 1.01, `${sum.value}, not ${after_.cpu.cpu_ns}`);
  for (const name of await view.getByRole("tab").allInnerTexts()) await tab(view, name);
});

/** A program that uses time and memory in different functions. */
const BUILD = (hot, kept) => `
  #include <stdlib.h>
  ${BURN(hot, 30).replace("int main(void) { hot(); cold(); return 0; }", "")}
  static char *all[1000];
  __attribute__((noinline)) void keep(int i) { all[i] = malloc(${kept}); all[i][0] = 1; }
  int main(void) { hot(); cold(); for (int i = 0; i < 1000; i++) keep(i); return 0; }`;

test("two builds with different program names are compared by function", { skip: NO_PERF }, async () => {
  const flags = ["--cpu=999", "--heap=1"];
  const old = project.record("old.rec", flags, project.compile("app-old", BUILD(30, 1000)));
  const now = project.record("now.rec", flags, project.compile("app-new", BUILD(90, 3000)));
  // One row is enough: CPU samples in both runs depend on chance, allocations do not.
  const compared = project.json("diff", old, now).functions.filter(({ name }) => name === "keep");
  assert.deepEqual(compared.map(({ alloc_count }) => alloc_count), [[1000, 1000]]);
  const view = await show(project.view("builds.html", old, now));
  for (const [question, name] of [["diffcpu", "hot"], ["diffalloc", "keep"], ["difflive", "keep"]]) {
    const rows = await view.locator(`.question-${question} .answer`).allInnerTexts();
    const own = rows.filter((text) => text.startsWith(name));
    assert.equal(own.length, 1, `${question}: ${rows.join("; ")}`);
    assert.match(own[0], /\d×/, "compared, and not new or gone");
    assert.ok(!rows.some((text) => /^(main|cold|hot|keep)\b.*(new|gone)/.test(text)), rows.join("; "));
  }
  for (const name of ["Timeline", "Heap", "Functions"]) {
    await tab(view, name);
    assert.equal(await view.locator(".view:not([hidden]) .first-only").innerText(), "Shows only old.rec, the first of the two runs.");
  }
  await tab(view, "Flame graph");
  await view.getByRole("combobox", { name: "Weight of the boxes" }).selectOption("diffalloc");
  await view.locator(".flame-area canvas").focus();
  for (let depth = 0; depth < 20; depth++) {
    await view.keyboard.press("ArrowDown");
    const told = await view.locator(".tooltip").innerText();
    if (told.startsWith("main")) {
      assert.match(told, /before\s+976\.6KB\s+after\s+2\.9MB/);
      return;
    }
  }
  assert.fail("main() is not in the graph");
});

test("comparison of two runs of functions", async () => {
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
  says(/\+([\d.]+[a-z]+)/.exec(said)[1], update.self_ns[1] - update.self_ns[0], JSON.stringify(update));
  for (const name of await view.getByRole("tab").allInnerTexts()) await tab(view, name);
});

test("the page of a program that does nothing", async () => {
  const recording = project.record("nothing.rec", ["--heap", "--events"], "/bin/true");
  const view = await show(project.view("nothing.html", recording));
  assert.match(await view.locator(".overview").innerText(), /There is nothing to show[^]*No allocation was sampled/);
  for (const name of await view.getByRole("tab").allInnerTexts()) await tab(view, name);
});
