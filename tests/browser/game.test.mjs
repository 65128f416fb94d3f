/* The bundled game, instrumented and recorded: all three instruments on one page. Compares the figures with `piano
 * report --json`. Frames are numbered from 1 on the page, as in text reports, and from 0 in JSON. */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { address, drawn, facts, rows, show, settled, tab } from "./browser.mjs";
import { figure, says } from "./figures.mjs";
import { perfRefused, Project } from "./piano.mjs";

const project = new Project();
const NO_PERF = perfRefused();
let page, functions, frames, heap, cpu, run, recording;

before(() => {
  const game = project.game(NO_PERF ? ["--heap=64K"] : ["--heap=64K", "--cpu=999"]);
  ({ run, recording } = game);
  page = project.view("game.html", run, recording);
  functions = project.json("report", game.run, "--all");
  frames = project.json("report", game.run, "--frames", "--all").frames;
  heap = project.json("report", game.recording, "--heap");
  cpu = NO_PERF ? null : project.json("report", game.recording, "--cpu");
});

const slowest = () => [...frames].sort((a, b) => b.wall_ns - a.wall_ns);

test("every view opens and is not empty", async () => {
  const view = await show(page);
  const names = await view.getByRole("tab").allInnerTexts();
  assert.deepEqual(names, ["Overview", "Frames", "Timeline", "Flame graph", "Heap", "Functions"]);
  for (const name of names) {
    await tab(view, name);
    const panel = view.getByRole("tabpanel", { name });
    assert.ok(await panel.isVisible(), name);
    assert.equal(await view.locator("section.view:not([hidden])").count(), 1, name);
    const blank = await panel.locator("canvas[tabindex]").evaluateAll((all) => all.map((canvas) => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      return new Set(new Uint32Array(data.buffer)).size < 5; // a chart has more colours than a background and a line
    }));
    assert.ok(!blank.includes(true), `${name} is blank`);
  }
});

test("the overview agrees with the report", async () => {
  const view = await show(page);
  const lead = await view.locator(".question-frames > p").innerText();
  const said = [...lead.matchAll(/[\d\u202f.]+(?:ms|us|s)\b/g)].map(([text]) => text);
  says(lead, functions.frames.count, "frames");
  says(said[0], functions.frames.p50_ns, "median");
  says(said[1], functions.frames.p99_ns, "p99");
  assert.match(lead, new RegExp(`; ${functions.frames.spikes} took more`));
  const answers = await view.locator(".question-frames .answer").allInnerTexts();
  assert.equal(answers.length, 5);
  for (const [place, frame] of slowest().slice(0, 5).entries()) {
    says(answers[place], frame.wall_ns, "slow frame");
    assert.match(answers[place], new RegExp(`in frame ${frame.frame + 1}\\b`));
    const mostly = frame.functions.reduce((a, b) => b.self_ns > a.self_ns ? b : a);
    assert.ok(answers[place].endsWith(mostly.name), answers[place]);
    says(/: ([\d.]+%)/.exec(answers[place])[1], mostly.self_ns / frame.wall_ns, "its share");
  }
  const spans = await view.locator(".question-spans .answer").allInnerTexts();
  // Sorted by self time: the report excludes the time that threads waited for a CPU from its order.
  const ranked = [...functions.functions].sort((a, b) => b.self_ns - a.self_ns);
  for (const [place, row] of ranked.slice(0, 5).entries()) {
    assert.ok(spans[place].startsWith(row.name), spans[place]);
    says(spans[place].slice(row.name.length), row.self_ns, row.name);
  }
  const flags = await view.locator(".question-flags, .question").first().innerText();
  assert.match(flags, new RegExp(`${functions.frames.spikes} of ${functions.frames.count} frames`));
});

test("one click on a spike shows its functions, stacks and allocations", { skip: NO_PERF }, async () => {
  const view = await show(page);
  const worst = slowest()[0];
  await view.locator(".headlines button", { hasText: "Worst frame" }).click();
  await drawn(view);
  assert.match(await view.locator(".details h2").innerText(), new RegExp(`^Frame ${worst.frame + 1}\\b`));
  const about = await facts(view, ".details dl");
  says(about.took, worst.wall_ns, "took");
  says(about.allocated, worst.alloc_bytes, "allocated");
  says(about.allocated.split(" in ")[1], worst.alloc_count, "allocations");
  const own = await rows(view, "[aria-label='Functions of the frame']");
  const wanted = [...worst.functions].sort((a, b) => b.self_ns - a.self_ns);
  assert.equal(own.length, wanted.length);
  for (const [place, row] of wanted.entries()) {
    const [name, self, calls, allocated] = own[place];
    assert.equal(name, row.name);
    says(self, row.self_ns, `${name}: self`);
    says(calls, row.calls, `${name}: calls`);
    says(allocated, row.alloc_bytes, `${name}: allocated`);
    if (row.alloc_count) says(allocated.split(" in ")[1], row.alloc_count, `${name}: allocations`);
  }
  const stacks = await rows(view, "[aria-label='CPU stacks']");
  const counted = stacks.reduce((sum, [, samples]) => sum + figure(samples).value, 0);
  const most = Math.max(...worst.inside.stacks.map((stack) => stack.samples));
  assert.ok(stacks.length > 0 && counted <= worst.inside.cpu_samples, `${counted} of ${worst.inside.cpu_samples}`);
  assert.ok(counted === worst.inside.cpu_samples || stacks.length === 12, "all of them, or as many rows as are shown");
  says(stacks[0][1], most, "samples of the heaviest stack");
  assert.ok(worst.inside.stacks.some(({ samples, stack }) => samples === most && stacks[0][0].startsWith(stack[0].function)));
});

test("the figures of the frames view agree with the report", async () => {
  const view = await show(page, { hash: "#v=frames" });
  const figures = await facts(view, ".view-frames dl.figures");
  says(figures.frames, functions.frames.count);
  says(figures.median, functions.frames.p50_ns);
  says(figures.p99, functions.frames.p99_ns);
  says(figures.longest, functions.frames.max_ns);
  says(figures.spikes, functions.frames.spikes);
  await view.getByRole("button", { name: "Next spike" }).click();
  await drawn(view);
  const first = frames.find((frame) => frame.spike);
  assert.equal(await view.locator(".details h2").innerText(), `Frame ${first.frame + 1}: a spike`);
  await view.keyboard.press(".");
  const next = frames[frames.indexOf(first) + 1];
  await view.locator(".details h2", { hasText: new RegExp(`^Frame ${next.frame + 1}\\b`) }).waitFor();
  says((await facts(view, ".details dl")).took, next.wall_ns);
  await view.getByRole("button", { name: "Whole run" }).click(); // a long frame may fill the visible range
  await drawn(view);
  const chart = await view.locator(".frames-chart canvas").first().boundingBox();
  await view.mouse.click(chart.x + chart.width * 0.7, chart.y + chart.height - 40);
  await view.locator(".details h2", { hasNotText: new RegExp(`^Frame ${next.frame + 1}\\b`) }).waitFor();
  const number = figure(await view.locator(".details h2").innerText()).value;
  says((await facts(view, ".details dl")).took, frames.find((frame) => frame.frame + 1 === number).wall_ns, `frame ${number}`);
});

test("the table of functions agrees with the report and can be sorted by any column", async () => {
  const view = await show(page, { hash: "#v=table" });
  const grid = view.getByRole("grid", { name: "Functions" });
  const heads = await grid.getByRole("columnheader").allInnerTexts();
  const at = (name) => heads.findIndex((head) => head.startsWith(name));
  const shown = async () => grid.locator(".grid-body [role=row]").evaluateAll((all) => all
    .sort((a, b) => a.getAttribute("aria-rowindex") - b.getAttribute("aria-rowindex"))
    .map((row) => [...row.children].map((cell) => cell.textContent)));
  const called = functions.functions;
  assert.equal(await grid.getAttribute("aria-rowcount"), String(called.length + 1));
  for (const cells of await shown()) {
    const row = called.find(({ name }) => name === cells[0]);
    for (const [head, value] of [["Self", row.self_ns], ["Total", row.total_ns], ["Calls", row.calls], ["p50", row.p50_ns],
      ["p99", row.p99_ns], ["Allocs", row.alloc_count], ["Alloc bytes", row.alloc_bytes]]) {
      says(cells[at(head)], value, `${row.name}: ${head}`);
    }
    assert.equal(cells[at("Place")], `${row.file}:${row.line}`);
  }
  for (const [head, key] of [["Calls", "calls"], ["Alloc bytes", "alloc_bytes"]]) {
    await grid.getByRole("columnheader", { name: head, exact: true }).getByRole("button").click();
    await grid.locator("[aria-sort=descending]", { hasText: head }).waitFor();
    const order = (await shown()).map(([name]) => called.find((row) => row.name === name)[key]);
    assert.deepEqual(order, [...order].sort((a, b) => b - a), head);
  }
  await view.keyboard.press("/");
  await view.keyboard.type("grid_");
  await address(view, "q=grid_");
  assert.deepEqual((await shown()).map(([name]) => name).sort(),
    called.map(({ name }) => name).filter((name) => name.includes("grid_")).sort());
});

test("the sums and places of the heap view agree with the report", async () => {
  const view = await show(page, { hash: "#v=heap" });
  const sums = await facts(view, ".view-heap dl.figures");
  says(sums.Peak, heap.peak_bytes, "peak");
  says(sums.Allocated, heap.allocated_bytes, "allocated");
  says(sums["Live at the end"], heap.live_bytes, "live");
  says(sums["Max resident"], heap.resident_bytes_max, "resident");
  for (const [button, key] of [["At the peak", "peak_bytes"], ["Who churns memory", "churn_bytes"]]) {
    await view.getByRole("group", { name: "Table" }).getByRole("button", { name: button }).click();
    await view.getByRole("table", { name: button }).waitFor();
    const shown = await rows(view, `table[aria-label='${button}']`);
    const wanted = heap.places.filter((place) => place[key] > 0).sort((a, b) => b[key] - a[key]);
    assert.equal(shown.length, wanted.length, button);
    for (const [row, place] of wanted.entries()) {
      assert.ok(shown[row][0].startsWith(place.function), `${button}: ${shown[row][0]}, not ${place.function}`);
      says(shown[row][1], place[key], place.function);
    }
  }
});

test("the figures have the same digits as on the terminal", async () => {
  const view = await show(page, { hash: "#v=heap" });
  const printed = project.piano("report", recording, "--heap");
  const sums = await facts(view, ".view-heap dl.figures");
  for (const [name, own] of [["Peak", "Peak"], ["Allocated", "Allocated"], ["Live at exit", "Live at the end"]]) {
    const [, size] = new RegExp(`^${name} +([\\d.]+[KMGT]?B) in`, "m").exec(printed);
    assert.ok(sums[own].startsWith(`${size} `), `${own}: ${sums[own]}, not ${size}`);
  }
  await tab(view, "Functions");
  const shown = await view.locator(".grid-body [role=row]").evaluateAll((all) => all.map((row) => [...row.children].map((c) => c.textContent)));
  const lines = project.piano("report", run).split("\n");
  for (const [name, , self] of shown.slice(0, 5)) {
    const line = lines.find((text) => text.startsWith(`${name} `));
    assert.ok(line.split(/\s+/).includes(self), `${name}: ${self}; ${line}`);
  }
});

test("the weights of the flame graph agree with the report", { skip: NO_PERF }, async () => {
  const view = await show(page, { hash: "#v=flame" });
  const sum = async () => view.locator(".flame-foot b").innerText();
  const changesFrom = (text) => view.waitForFunction((old) => document.querySelector(".flame-foot b").textContent !== old, text);
  await changesFrom("");
  let shown = "cpu";
  const weigh = async (id, value) => {
    const before = await sum();
    await view.getByRole("combobox", { name: "Weight of the boxes" }).selectOption(id);
    if (id !== shown) await changesFrom(before);
    shown = id;
    says(await sum(), value, id);
  };
  await weigh("cpu", cpu.cpu.cpu_ns);
  await weigh("allocated", heap.allocated_bytes);
  await weigh("cpu", cpu.cpu.cpu_ns);
  for (const form of ["Inverted", "Top-down", "Left-heavy"]) {
    await view.getByRole("button", { name: form }).click();
    await view.getByRole("button", { name: form, pressed: true }).waitFor();
    says(await sum(), cpu.cpu.cpu_ns, form);
  }
  // One frame: the samples that the report has inside it.
  const worst = slowest()[0];
  await view.evaluate((row) => (location.hash = `#v=flame&s=frame:${row}`), frames.indexOf(worst));
  await view.locator(".flame-scope b", { hasText: `frame ${worst.frame + 1}` }).waitFor();
  says(await sum(), worst.inside.cpu_ns, "of the worst frame");
});

test("the timeline shows the selected frame, and a copied link shows the same state", async () => {
  const view = await show(page);
  const worst = slowest()[0];
  await view.locator(".headlines button", { hasText: "Worst frame" }).click();
  await view.getByRole("button", { name: "Show in the timeline" }).click();
  const link = await address(view, "&t=");
  assert.match(link, /#v=timeline.*&s=frame:\d+/);
  await view.keyboard.press("p");
  const pinned = await address(view, "&p=frame:");
  const told = await view.locator(".details").innerText();
  const range = await view.locator(".range-shown").innerText();
  for (const other of [await show(page, { hash: new URL(pinned).hash }), view]) {
    if (other === view) {
      await view.reload();
      await settled(view);
    }
    assert.equal(await other.getByRole("tab", { selected: true }).innerText(), "Timeline");
    assert.equal(await other.locator(".details").innerText(), told);
    assert.equal(await other.locator(".range-shown").innerText(), range);
    assert.match(await other.locator(".details").innerText(), new RegExp(`Frame ${worst.frame + 1}\\b`));
  }
});

test("the back button returns to the previous view", async () => {
  const view = await show(page);
  await tab(view, "Frames");
  await tab(view, "Heap");
  await view.goBack();
  await view.locator("#tab-frames[aria-selected=true]").waitFor();
  await view.goBack();
  await view.locator("#tab-overview[aria-selected=true]").waitFor();
});
