/* Hostile names, recordings and pages: the viewer shows them as text or reports an error. It never shows markup or a
 * blank page. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { before, test } from "node:test";
import { address, drawn, show, tab } from "./browser.mjs";
import { LIB, perfRefused, Project, ROOT } from "./piano.mjs";

const NO_PERF = perfRefused();
const HTML = "<img src=x onerror=alert(1)><b>bold</b>";
const SCRIPT = "</script><script>alert(document.domain)</script>";
const BIDI = "\u202egnp.exe\u2066\u200b";
const LONG = `long<${"x".repeat(100_000)}>`;
const NAMES = [HTML, SCRIPT, BIDI, LONG, "<!--<script>", "a&amp;b\"c'd", "\u2028\u2029", "javascript:alert(1)", "]]>",
  "\u001b[31mred", "${alert(1)}", "\u0000nul", "__proto__", "constructor"];

const project = new Project();
let page;

before(() => {
  const lines = [{ format_version: 2, run_id: "1_1", timestamp_ms: 1740000000123, functions: NAMES, program: `/tmp/${HTML}`,
    places: NAMES.map((name, i) => `${name.slice(0, 200)}:${i + 1}`) }, { thread: 1, tid: 1, name: HTML, start_ns: 0 }];
  for (let i = 0; i < 60; i++) {
    lines.push({ frame: i, thread: 1, depth: 0, root: i % NAMES.length, start_ns: i * 2e7, wall_ns: i === 30 ? 9e7 : 1e7,
      fns: NAMES.map((_, id) => ({ id, calls: 1, self_ns: 1e5 * (id + 1), ac: 1, ab: 100 })) });
  }
  page = project.view("hostile.html", project.write("run.ndjson", lines.map((line) => JSON.stringify(line)).join("\n") + "\n"));
});

/** Asserts that no name became an element, an active attribute or a change of text direction. */
async function onlyText(view) {
  const found = await view.evaluate(() => ({
    made: document.querySelectorAll("#app :is(img, script, iframe, object, link, svg, [onerror])").length,
    links: [...document.querySelectorAll("#app a[href]")].map((a) => a.getAttribute("href")),
    bidi: /[\u202a-\u202e\u2066-\u2069\u200b]/.test(document.getElementById("app").innerText),
    wide: document.documentElement.scrollWidth > window.innerWidth,
  }));
  assert.deepEqual(found, { made: 0, links: [], bidi: false, wide: false });
}

test("hostile names are shown as text in every view, and in full in the details", async () => {
  const view = await show(page);
  await onlyText(view);
  for (const name of await view.getByRole("tab").allInnerTexts()) {
    await tab(view, name);
    await onlyText(view);
  }
  for (const [row, name] of NAMES.entries()) {
    await view.evaluate((number) => (location.hash = `#v=table&s=function:${number}`), row);
    await address(view, `s=function:${row}`);
    await drawn(view);
    const shown = await view.locator(".details .full-name").textContent();
    if (/^[ -~]*$/.test(name)) assert.equal(shown, name);
    else assert.ok(/‹U\+|\ufffd/.test(shown) && !/[\u0000-\u001f\u2028-\u202e]/.test(shown), JSON.stringify(shown));
    await onlyText(view);
  }
  await view.keyboard.press("/");
  await view.keyboard.type(HTML);
  await address(view, "q=");
  await onlyText(view);
});

/** TEXT as a C string literal, byte by byte. */
function inC(text) {
  return `"${[...Buffer.from(text)].map((byte) => `\\${byte.toString(8).padStart(3, "0")}`).join("")}"`;
}

test("hostile names of threads, marks and values in a recording are shown as text", async () => {
  const program = project.compile("marks", `
    #include <piano.h>
    #include <pthread.h>
    #include <stdlib.h>
    int main(void) {
      const char *names[] = {${[HTML, SCRIPT, BIDI].map(inC).join(", ")}};
      pthread_setname_np(pthread_self(), "<i onclick=x>");
      for (int i = 0; i < 30; i++) {
        piano_mark(names[i % 3]);
        piano_value(names[i % 3], i);
        piano_task_spawn((uint64_t)i, names[i % 3], names[(i + 1) % 3]);
        piano_poll_begin((uint64_t)i);
        free(malloc(100000));
        piano_poll_end();
      }
      return 0;
    }`, "-D_GNU_SOURCE", `-I${join(ROOT, "include")}`, "-pthread", `-L${LIB}`, "-lpiano", `-Wl,-rpath,${LIB}`);
  const view = await show(project.view("marks.html", project.record("marks.rec", ["--events", "--heap=1K"], program)));
  for (const name of await view.getByRole("tab").allInnerTexts()) {
    await tab(view, name);
    await onlyText(view);
  }
});

test("an invalid link still opens the page", async () => {
  for (const hash of ["#v=none&t=9-1&s=frame:4294967295", "#v=__proto__&s=poll:99999999999&p=frame:1,range:1-2@77,x:y",
    `#v=frames&q=${encodeURIComponent(HTML)}&frames.kind=77&frames.measure=<b>`, `#${"a".repeat(5000)}`,
    "#v=table&table.sort=__proto__-down", "#v=flame&flame.of=frame:999999&flame.weight=nope&flame.zoom=1e99",
    "#t=0-99999999999999999", "#%E0%A4%A"]) {
    const view = await show(page, { hash });
    assert.equal(await view.getByRole("tab", { selected: true }).count(), 1, hash);
    await onlyText(view);
  }
});

/** Damages of a valid page. The viewer must report each one. */
const BREAKS = {
  "truncated in the middle": (html) => html.slice(0, html.length / 2),
  "no description": (html) => html.replace('id="piano-meta"', 'id="other"'),
  "a description that is not JSON": (html) => html.replace(/(id="piano-meta">)\{/, "$1["),
  "a later format": (html) => html.replace('"format":1,', '"format":2,'),
  "no data": (html) => html.replace('id="piano-data"', 'id="other"'),
  "truncated data": (html) => html.replace(/(id="piano-data">)([^<]*)/, (_, head, data) =>
    head + data.slice(0, Math.floor(data.length / 8) * 4)),
  "data that is not base64": (html) => html.replace(/(id="piano-data">)..../, "$1!?*<"),
  "data of zeros": (html) => html.replace(/(id="piano-data">)([^<]*)/, (_, head, data) => head + "A".repeat(data.length)),
  "more rows than bytes": (html) => html.replace(/("frames":\{"rows":)\d+/, "$199999999"),
  "a column outside of its block": (html) => html.replace(/("columns":\[\{[^}]*"at":)\d+/, "$1800000000"),
  "a block outside of the data": (html) => html.replace(/("blocks":\[\s*\{[^}]*"at":)\d+/, "$1800000000"),
  "an unknown type": (html) => html.replaceAll('"type":"u32"', '"type":"u31"'),
};

for (const [name, change] of Object.entries(BREAKS)) {
  test(`a damaged page reports an error: ${name}`, async () => {
    const whole = readFileSync(page, "utf8"), broken = change(whole);
    assert.ok(broken !== whole, "nothing was broken");
    const view = await show(project.write("broken.html", broken), { broken: true });
    // Truncated before its script, the page shows only its static text.
    if (name === "truncated in the middle") return assert.match(await view.locator("#app").innerText(), /cut short: make it again/);
    const alert = view.locator(".errors .error");
    await alert.first().waitFor();
    assert.match(await alert.first().innerText(), /cannot be shown correctly[^]*(piano view|make it again)/);
    await onlyText(view);
  });
}

test("randomly changed bytes of the data: an error or a chart, never a blank page", async () => {
  const whole = readFileSync(page, "utf8");
  const start = whole.indexOf('id="piano-data">') + 16, end = whole.indexOf("<", start);
  let seed = 12345, said = 0;
  const next = (most) => (seed = (seed * 1103515245 + 12345) % 2147483648) % most;
  for (let turn = 0; turn < 12; turn++) {
    const bytes = Buffer.from(whole.slice(start, end), "base64");
    for (let i = 0; i <= turn; i++) bytes[next(bytes.length)] ^= 1 + next(255);
    const view = await show(project.write("fuzzed.html", whole.slice(0, start) + bytes.toString("base64") + whole.slice(end)),
      { broken: true });
    await view.waitForFunction(() => performance.getEntriesByName("piano-verified").length > 0 ||
      document.querySelector(".errors .error"));
    const text = await view.locator("#app").innerText();
    assert.ok(text.trim().length > 20 && !text.includes("Reading the run"), `turn ${turn}: ${text}`);
    said += (await view.locator(".errors .error").count()) > 0 ? 1 : 0;
    for (const tabs of await view.getByRole("tab").all()) await tabs.click();
    await view.context().close();
  }
  assert.ok(said > 6, `only ${said} of 12 said anything`);
});

test("a randomly changed recording: the tool refuses it, or its page opens", async () => {
  const program = project.compile("small", `
    #include <stdlib.h>
    int main(void) {
      for (int i = 0; i < 2000; i++)
        if (!malloc(1000)) return 1;
      return 0;
    }`);
  const flags = NO_PERF ? ["--heap=1K", "--events"] : ["--heap=1K", "--cpu=999", "--events"];
  const whole = readFileSync(project.record("small.rec", flags, program));
  let seed = 99, opened = 0;
  const next = (most) => (seed = (seed * 1103515245 + 12345) % 2147483648) % most;
  for (let turn = 0; turn < 10; turn++) {
    const bytes = Buffer.from(whole);
    for (let i = 0; i < 1 << turn; i++) bytes[(turn % 2 ? 4096 : 64) + next(bytes.length - 5000)] = next(256);
    const broken = project.write("broken.rec", turn === 9 ? bytes.subarray(0, bytes.length / 3) : bytes);
    const made = project.tried("view", broken, "-o", project.path("broken.html"), "--force");
    assert.ok(made.status === 0 || (made.status === 1 && made.err.trim() !== ""), `turn ${turn}: ${made.status} ${made.err}`);
    if (made.status !== 0) continue;
    opened++;
    const view = await show(project.path("broken.html"));
    for (const name of await view.getByRole("tab").allInnerTexts()) await tab(view, name);
    await view.context().close();
  }
  assert.ok(opened > 0, "none of them opened");
});
