/* The bundled libuv server, recorded with all instruments. Compares the polls on the timeline with `piano report
 * --polls --json`. */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { address, drawn, facts, rows, show, tab } from "./browser.mjs";
import { figure, says } from "./figures.mjs";
import { perfRefused, Project } from "./piano.mjs";

const project = new Project();
const NO_PERF = perfRefused();
let page, polls;

before(() => {
  const recording = project.record("uv.rec", NO_PERF ? ["--heap=64K", "--events"] : ["--heap=64K", "--cpu=999", "--events"],
    project.example("uvserver"), "20");
  page = project.view("uv.html", recording);
  polls = project.json("report", recording, "--polls");
});

test("the overview names the longest polls of the report", async () => {
  const view = await show(page);
  const lead = await view.locator(".question-polls > p").innerText();
  says(lead, polls.polls, "polls");
  const answers = await view.locator(".question-polls .answer").allInnerTexts();
  for (const [place, poll] of polls.longest.slice(0, 5).entries()) {
    says(answers[place], poll.duration_ns, poll.task);
    assert.ok(answers[place].includes(poll.task), answers[place]);
  }
  assert.equal(answers.length, Math.min(5, polls.longest.length));
});

test("a click on a long poll shows the poll in the timeline with its stacks", { skip: NO_PERF }, async () => {
  const view = await show(page);
  const [longest] = polls.longest;
  await view.locator(".question-polls .answer").first().click();
  await drawn(view);
  assert.equal(await view.getByRole("tab", { selected: true }).innerText(), "Timeline");
  assert.equal(await view.locator(".details h2").innerText(), "Poll");
  assert.equal(await view.locator(".details .full-name").innerText(), longest.task);
  const about = await facts(view, ".details dl");
  says(about.took, longest.duration_ns, "took");
  says(about["started at"], longest.start_ns, "began");
  assert.ok(longest.thread.startsWith(about.thread), about.thread);
  const stacks = await rows(view, "[aria-label='CPU stacks']");
  const inside = stacks.reduce((sum, [, samples]) => sum + figure(samples).value, 0);
  assert.equal(inside, longest.samples);
});

test("the details of a poll list all times off the CPU by stack", { skip: NO_PERF }, async () => {
  const view = await show(page, { hash: "#v=timeline" });
  let seen = 0;
  for (let row = 0; row < 40; row++) {
    await view.evaluate((poll) => (location.hash = `#v=timeline&s=poll:${poll}`), row);
    await drawn(view);
    const lead = view.locator(".details p", { hasText: /intervals?\.$/ });
    if (await lead.count() === 0) continue;
    seen++;
    const [, away, intervals] = /^(\S+) \(\S+\), in (\d+) interval/.exec(await lead.innerText());
    const table = await rows(view, "[aria-label='Where it was off the CPU']");
    assert.equal(table.reduce((sum, [, many]) => sum + figure(many).value, 0), Number(intervals));
    if (table.length === 1) assert.equal(table[0][2], away, "one stack has all of the time");
  }
  assert.ok(seen > 0, "a poll that sleeps is off the CPU");
});

test("the details of tasks agree with the report", async () => {
  const view = await show(page, { hash: "#v=timeline" });
  for (const [row, task] of polls.tasks.entries()) {
    await view.evaluate((number) => (location.hash = `#v=timeline&s=task:${number}`), row);
    await view.locator(".details h2", { hasText: "Task" }).waitFor();
    await drawn(view);
    const name = await view.locator(".details .full-name").innerText();
    const wanted = polls.tasks.find((one) => one.name === name);
    assert.ok(wanted, `no task ${name} in the report; ${task.name} is`);
    const about = await facts(view, ".details dl");
    const [p50, p99] = about["p50, p99"].split(",");
    for (const [text, value] of [[about.polls, wanted.polls], [about["time in polls"], wanted.total_ns], [p50, wanted.p50_ns],
      [p99, wanted.p99_ns], [about.longest, wanted.max_ns], [about["on the CPU"], wanted.on_cpu]]) says(text, value, name);
  }
});

test("a search highlights its matches, and Enter moves to the next one", async () => {
  const view = await show(page, { hash: "#v=timeline" });
  await view.keyboard.press("/");
  await view.keyboard.type("on_compute");
  const found = view.locator(".search output");
  await address(view, "q=on_compute");
  const wanted = polls.tasks.filter(({ name }) => name.includes("on_compute")).reduce((sum, { polls: many }) => sum + many, 0);
  says(await found.innerText(), wanted, "matches");
  await view.keyboard.press("Enter");
  const first = await address(view, "&s=poll:");
  assert.match(await view.locator(".details .full-name").innerText(), /on_compute/);
  await view.keyboard.press("Enter");
  await view.waitForFunction((hash) => location.hash !== hash, new URL(first).hash);
  assert.match(await view.locator(".details .full-name").innerText(), /on_compute/);
});

test("the wheel zooms at the cursor, dragging pans, Shift and dragging selects", async () => {
  const view = await show(page, { hash: "#v=timeline" });
  const lanes = await view.locator(".timeline-fixed canvas").first().boundingBox();
  const x = lanes.x + lanes.width * 0.6, y = lanes.y + 60;
  const range = async () => /[#&]t=(\d+)-(\d+)/.exec(view.url()).slice(1).map(Number);
  await view.mouse.move(x, y);
  for (let turn = 0; turn < 4; turn++) await view.mouse.wheel(0, -300);
  await address(view, "t=");
  const [a0, a1] = await range();
  const meta = await view.evaluate(() => JSON.parse(document.getElementById("piano-meta").textContent).duration_ns);
  assert.ok(a1 - a0 < meta / 4, `${a1 - a0} of ${meta}`);
  await view.mouse.down();
  await view.mouse.move(x - 100, y, { steps: 4 });
  await view.mouse.up();
  await view.waitForFunction((old) => !location.hash.includes(`t=${old}-`), a0);
  const [b0, b1] = await range();
  assert.ok(b0 > a0 && Math.abs((b1 - b0) - (a1 - a0)) <= 2, "moved, and as wide as before");
  await view.keyboard.down("Shift");
  await view.mouse.move(x - 150, y);
  await view.mouse.down();
  await view.mouse.move(x + 50, y, { steps: 4 });
  await view.mouse.up();
  await view.keyboard.up("Shift");
  await address(view, "s=range:");
  assert.match(await view.locator(".details h2").innerText(), /^A range of /);
});

test("hovering shows a tooltip, and a click selects", async () => {
  const view = await show(page);
  await view.locator(".question-polls .answer").first().click();
  await address(view, "s=poll:");
  await view.keyboard.press("Escape");
  await view.waitForFunction(() => !location.hash.includes("s=poll"));
  const lanes = await view.locator(".timeline-fixed canvas").first().boundingBox();
  // The position of the poll: the timeline shows the range in the address, to the right of 168 pixels of names.
  const [, t0, t1] = /[#&]t=(\d+)-(\d+)/.exec(view.url()).map(Number);
  const middle = polls.longest[0].start_ns + polls.longest[0].duration_ns / 2;
  const x = lanes.x + 168 + (lanes.width - 168) * (middle - t0) / (t1 - t0);
  const tip = view.locator(".tooltip");
  let found = 0;
  for (let y = lanes.y + 26; y < lanes.y + lanes.height && !found; y += 5) {
    await view.mouse.move(x, y);
    await drawn(view);
    if (await tip.isVisible() && (await tip.innerText()).includes(polls.longest[0].task)) found = y;
  }
  assert.ok(found, "no tooltip names the poll");
  await view.mouse.click(x, found);
  await address(view, "s=poll:");
  says((await facts(view, ".details dl")).took, polls.longest[0].duration_ns);
});

test("every view opens", async () => {
  const view = await show(page);
  for (const name of await view.getByRole("tab").allInnerTexts()) await tab(view, name);
});
