/* Accessibility: keyboard only, screen readers, text twice as large, light and dark. */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { address, drawn, show, tab } from "./browser.mjs";
import { perfRefused, Project } from "./piano.mjs";

const project = new Project();
const NO_PERF = perfRefused();
const pages = {};

before(() => {
  const game = project.game(NO_PERF ? ["--heap=64K"] : ["--heap=64K", "--cpu=999"]);
  pages.game = project.view("game.html", game.run, game.recording);
  const flags = NO_PERF ? ["--heap=64K", "--events"] : ["--heap=64K", "--cpu=999", "--events"];
  pages.server = project.view("uv.html", project.record("uv.rec", flags, project.example("uvserver"), "10"));
});

const focused = (view) => view.evaluate(() => {
  const at = document.activeElement;
  const name = at.getAttribute("aria-label") ?? at.textContent.slice(0, 60);
  return at === document.body ? "" : `${at.tagName.toLowerCase()} ${name}`;
});

test("keyboard only: tabs, a chart and its selection, search, help", async () => {
  const view = await show(pages.game);
  for (let presses = 0; !(await focused(view)).startsWith("button Overview"); presses++) {
    assert.ok(presses < 20, "the tabs cannot be reached");
    await view.keyboard.press("Tab");
  }
  await view.keyboard.press("ArrowRight");
  await view.locator("#tab-frames[aria-selected=true]").waitFor();
  await view.keyboard.press("ArrowRight");
  await view.keyboard.press("ArrowLeft");
  await view.locator("#tab-frames[aria-selected=true]").waitFor();
  for (let presses = 0; !(await focused(view)).startsWith("canvas Frames"); presses++) {
    assert.ok(presses < 30, "the picture cannot be reached");
    await view.keyboard.press("Tab");
  }
  const range = async (change) => {
    const before = view.url();
    await view.keyboard.press(change);
    await view.waitForFunction((old) => location.href !== old, before);
    const found = /[#&]t=(\d+)-(\d+)/.exec(view.url());
    return found ? [Number(found[1]), Number(found[2])] : [0, Infinity];
  };
  const [w0, w1] = await range("w"), [d0, d1] = await range("d"), [a0] = await range("a"), [s0, s1] = await range("s");
  assert.ok(d0 > w0 && d1 - d0 === w1 - w0, "D moves on");
  assert.ok(Math.abs(a0 - w0) <= 2, "A moves back");
  assert.ok(s1 - s0 > w1 - w0, "S zooms out");
  await range("w");
  const [left0] = await range("ArrowLeft"), [right0] = await range("ArrowRight");
  assert.ok(left0 < right0, "so do the arrows");
  await view.keyboard.press("0");
  await view.waitForFunction(() => !location.hash.includes("t="));
  await view.keyboard.press("n");
  await address(view, "s=frame:");
  assert.match(await view.locator(".details h2").innerText(), /a spike/);
  await view.keyboard.press("p");
  await address(view, "p=frame:");
  await view.keyboard.press("Escape");
  await view.waitForFunction(() => !location.hash.includes("s=frame:"));
  await view.keyboard.press("/");
  assert.equal(await focused(view), "input Search");
  await view.keyboard.type("run_frame");
  await address(view, "q=run_frame");
  assert.match(await view.locator(".search output").innerText(), /match/);
  await view.keyboard.press("Escape");
  await view.waitForFunction(() => !location.hash.includes("q="));
  await view.keyboard.press("Escape");
  await view.keyboard.press("?");
  await view.getByRole("dialog", { name: "Help" }).waitFor();
  assert.match(await view.getByRole("dialog").innerText(), /W, S[^]*zoom/);
  await view.keyboard.press("Escape");
  await view.getByRole("dialog", { name: "Help" }).waitFor({ state: "hidden" });
  for (const [key, name] of [["1", "Overview"], ["3", "Timeline"], ["4", "Flame graph"], ["5", "Heap"], ["6", "Functions"]]) {
    await view.keyboard.press(key);
    await view.getByRole("tab", { name, selected: true }).waitFor();
  }
});

test("keyboard only: boxes of the flame graph, rows of the table", { skip: NO_PERF }, async () => {
  const view = await show(pages.game, { hash: "#v=flame" });
  await view.locator(".flame-area canvas").focus();
  await view.keyboard.press("ArrowDown");
  await view.keyboard.press("ArrowDown");
  const tip = view.locator(".tooltip");
  await tip.waitFor();
  const told = await tip.innerText();
  await view.keyboard.press("ArrowDown");
  await view.waitForFunction((old) => document.querySelector(".tooltip").innerText !== old, told);
  await view.keyboard.press("Enter");
  await address(view, "s=node:");
  assert.equal(await view.locator(".details h2").innerText(), "Function in a stack");
  await view.keyboard.press("i");
  await address(view, "flame.form=inverted");
  await view.keyboard.press("6");
  await view.getByRole("grid").focus();
  await view.keyboard.press("ArrowDown");
  await view.keyboard.press("Enter");
  await address(view, "s=function:");
});

test("keyboard only: polls of the timeline", async () => {
  const view = await show(pages.server, { hash: "#v=timeline" });
  await view.locator(".timeline-fixed canvas").first().focus();
  await view.keyboard.press(".");
  const first = await address(view, "s=");
  await view.keyboard.press(".");
  await view.waitForFunction((old) => location.href !== old, first);
  await view.keyboard.press("z");
  await address(view, "t=");
});

test("the focus is visible and never trapped", async () => {
  const view = await show(pages.game);
  for (const name of await view.getByRole("tab").allInnerTexts()) {
    await tab(view, name);
    const seen = new Set();
    for (let presses = 0; presses < 150; presses++) {
      await view.keyboard.press("Tab");
      const at = await focused(view);
      if (at === "" || (seen.has(at) && at.startsWith("button Overview"))) break;
      seen.add(at);
      const outline = await view.evaluate(() => {
        const style = getComputedStyle(document.activeElement);
        return style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0 || style.boxShadow !== "none";
      });
      assert.ok(outline, `${name}: no mark of the focus on ${at}`);
    }
    assert.ok(seen.size >= 5, `${name}: ${[...seen].join("; ")}`);
  }
});

const ROLES = ["button", "link", "textbox", "searchbox", "combobox", "checkbox", "tab", "tabpanel", "tablist", "grid", "table",
  "dialog", "img", "image", "Canvas", "canvas", "application", "option", "group", "region", "navigation", "complementary"];

/** The controls in the browser's accessibility tree: [role, name]. */
async function controls(view) {
  const session = await view.context().newCDPSession(view);
  const { nodes } = await session.send("Accessibility.getFullAXTree");
  await session.detach();
  return nodes.filter((node) => !node.ignored && ROLES.includes(node.role?.value))
    .map((node) => [node.role.value, node.name?.value ?? ""]);
}

test("every control has a name for screen readers", async () => {
  for (const page of Object.values(pages)) {
    const view = await show(page);
    for (const name of await view.getByRole("tab").allInnerTexts()) {
      await tab(view, name);
      const found = await controls(view);
      const nameless = found.filter(([, said]) => said.trim() === "" || /^[^\p{L}\p{N}]+$/u.test(said));
      assert.deepEqual(nameless, [], name);
      assert.ok(found.length > 10, `${name}: only ${found.length} controls`);
    }
    await view.keyboard.press("?");
    await view.getByRole("dialog").waitFor();
    assert.ok((await controls(view)).some(([role, said]) => role === "dialog" && said === "Help"));
  }
});

test("light and dark: the system's theme or the user's choice; text is readable in both", async () => {
  const light = await show(pages.game, { colorScheme: "light" }), dark = await show(pages.game, { colorScheme: "dark" });
  const paper = (view) => view.evaluate(() =>
    getComputedStyle(document.body).backgroundColor.match(/\d+/g).slice(0, 3).map(Number));
  assert.ok(Math.min(...await paper(light)) > 200, String(await paper(light)));
  assert.ok(Math.max(...await paper(dark)) < 60, String(await paper(dark)));
  for (const view of [light, dark]) {
    for (const name of await view.getByRole("tab").allInnerTexts()) {
      await tab(view, name);
      const faint = await view.evaluate(contrasts);
      assert.deepEqual(faint, [], name);
    }
  }
  const toggle = light.getByRole("button", { name: /^Colours/ });
  for (let turn = 0; turn < 3 && await toggle.getAttribute("aria-label") !== "Colours: dark"; turn++) await toggle.click();
  await light.waitForFunction(() => document.documentElement.dataset.theme === "dark");
  assert.ok(Math.max(...await paper(light)) < 60);
  await tab(light, "Frames");
  const corner = await light.locator(".frames-chart canvas").first().evaluate((canvas) =>
    [...canvas.getContext("2d").getImageData(canvas.width - 3, 3, 1, 1).data].slice(0, 3));
  assert.ok(Math.max(...corner) < 80, `the picture too: ${corner}`);
});

/** Runs in the page: texts whose contrast with their background is below 4.5 (large text: 3). */
function contrasts() {
  const parse = (text) => (text.match(/[\d.]+/g) ?? []).map(Number);
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (text) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      layers.push(rgb(getComputedStyle(at).backgroundColor));
      if (layers.at(-1)[3] === 1) break;
    }
    return layers.reverse().reduce((under, [r, g, b, a]) => [r, g, b].map((v, i) => v * a + under[i] * (1 - a)), [255, 255, 255]);
  };
  const found = [];
  for (const element of document.querySelectorAll("#app *")) {
    const text = [...element.childNodes].filter((node) => node.nodeType === 3).map((node) => node.textContent.trim()).join("");
    const unseen = "option, .sr-only, .sr-only *, [aria-hidden=true], [aria-hidden=true] *";
    if (text === "" || !element.checkVisibility() || element.matches(unseen)) continue;
    const style = getComputedStyle(element);
    const a = light(rgb(style.color)), b = light(behind(element));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const large = parse(style.fontSize)[0] >= 24 || (parse(style.fontSize)[0] >= 18.6 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) found.push(`${text.slice(0, 40)}: ${ratio.toFixed(2)}`);
  }
  return [...new Set(found)];
}

/** Runs in the page: controls that overlap, are cut off, or cannot be reached. */
function crowded() {
  const found = [];
  const all = [...document.querySelectorAll("#app button, #app input, #app select")]
    .filter((element) => element.checkVisibility());
  const scrolls = (element) => {
    for (let at = element.parentElement; at; at = at.parentElement) {
      const style = getComputedStyle(at);
      const larger = at.scrollWidth > at.clientWidth || at.scrollHeight > at.clientHeight;
      if (larger && /auto|scroll/.test(style.overflowX + style.overflowY)) return at;
    }
    return null;
  };
  const boxes = all.map((element) => [element, element.getBoundingClientRect(), scrolls(element)]);
  const name = (element) => (element.getAttribute("aria-label") ?? element.textContent).slice(0, 40);
  for (const [element, box, scroller] of boxes) {
    if (box.width < 8 || box.height < 8) found.push(`${name(element)} is ${box.width} by ${box.height}`);
    if (!scroller && (box.left < -1 || box.right > innerWidth + 1 || box.top < -1 || box.bottom > innerHeight + 1)) {
      found.push(`${name(element)} is out of the window`);
    }
    if (element.tagName === "BUTTON" && getComputedStyle(element).textOverflow !== "ellipsis" &&
        (element.scrollWidth > element.clientWidth + 2 || element.scrollHeight > element.clientHeight + 3)) {
      found.push(`the text of ${name(element)} is cut`);
    }
  }
  for (const [one, a, s] of boxes) {
    for (const [other, b, t] of boxes) {
      if (one === other || one.contains(other) || other.contains(one) || s !== t) continue;
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (wide > 2 && high > 2 && one.compareDocumentPosition(other) & 4) found.push(`${name(one)} over ${name(other)}`);
    }
  }
  return [...new Set(found)];
}

test("text twice as large: no control is cut off, covered or unreachable", async () => {
  for (const page of Object.values(pages)) {
    const view = await show(page);
    for (const size of ["100%", "200%"]) {
      await view.evaluate((text) => document.documentElement.style.setProperty("font-size", text), size);
      for (const name of await view.getByRole("tab").allInnerTexts()) {
        await tab(view, name);
        await view.evaluate(() => window.dispatchEvent(new Event("resize")));
        await drawn(view);
        assert.deepEqual(await view.evaluate(crowded), [], `${name} at ${size}`);
        if (/Frames|Timeline|Flame/.test(name)) {
          const picture = await view.locator("section.view:not([hidden]) canvas[tabindex]").last().boundingBox();
          assert.ok(picture.height > 120, `${name} at ${size}: its picture is ${picture.height} high`);
        }
      }
    }
  }
});

test("the page works at 200 % zoom and in a small window", async () => {
  for (const viewport of [{ width: 600, height: 375 }, { width: 800, height: 600 }]) {
    const view = await show(pages.game, { viewport, deviceScaleFactor: 2 });
    for (const name of await view.getByRole("tab").allInnerTexts()) {
      await tab(view, name);
      const fits = await view.evaluate(() => document.documentElement.scrollWidth <= innerWidth + 1);
      assert.ok(fits, `${name}: wider than its window`);
      assert.deepEqual(await view.evaluate(crowded), [], `${name} at ${viewport.width} by ${viewport.height}`);
    }
  }
});

/** Runs in the page: whether each column of the table is visible, and whether rows are aligned with their heads. */
function columns() {
  const grid = document.querySelector(".grid");
  const box = grid.getBoundingClientRect(), right = box.left + grid.clientWidth;
  const heads = [...grid.querySelectorAll(".grid-th")], row = grid.querySelector(".grid-row");
  const first = heads[0].getBoundingClientRect();
  return heads.map((head, i) => {
    const own = head.getBoundingClientRect(), cell = row.children[i].getBoundingClientRect();
    return { name: head.textContent, seen: own.left >= box.left - 1 && own.right <= right + 1 && (i === 0 || own.left >= first.right - 1),
      inLine: Math.abs(own.left - cell.left) < 1 && Math.abs(own.right - cell.right) < 1,
      // At the pointer position, not covered and not beyond an edge.
      drawn: row.children[i].contains(document.elementFromPoint((cell.left + cell.right) / 2, (cell.top + cell.bottom) / 2)) };
  });
}

test("the table of functions fits into 1200 pixels; in less space it shows how many columns are hidden, and scrolls to them", async () => {
  for (const [width, height, size, fits] of [[1200, 750, "100%", true], [800, 600, "100%", false], [1200, 750, "200%", false]]) {
    const view = await show(pages.game, { hash: "#v=table", viewport: { width, height } });
    await view.evaluate((text) => document.documentElement.style.setProperty("font-size", text), size);
    await view.setViewportSize({ width: width - 1, height }); // as a window that is drawn larger or smaller
    await drawn(view);
    const more = view.locator(".grid-more");
    const what = `${width} pixels, text of ${size}`;
    const seen = new Set();
    for (let turn = 0; ; turn++) {
      const found = await view.evaluate(columns);
      for (const { name, seen: here, inLine, drawn: there } of found) {
        assert.ok(inLine, `${what}: ${name} is not above its figures`);
        if (here) assert.ok(there, `${what}: the figures of ${name} are hidden`);
        if (here) seen.add(name);
      }
      assert.ok(found[0].seen, `${what}: the names of functions stay`);
      const hidden = found.filter((column) => !column.seen).length;
      if (turn === 0) {
        assert.equal(hidden === 0, fits, `${what}: ${hidden} columns out of sight`);
        assert.equal(await more.isVisible(), !fits, what);
        assert.equal(await view.locator(".grid-edge").isVisible(), !fits, what);
      }
      if (hidden === 0 || !/more/.test(await more.innerText())) break;
      assert.ok(turn < 10, `${what}: the last column is not reached`);
      assert.match(await more.innerText(), /^\d+ more columns? →$/);
      await more.click();
      await drawn(view);
    }
    assert.equal(seen.size, await view.locator(".grid-th").count(), `${what}: seen in turn: ${[...seen].join(", ")}`);
    if (fits) continue;
    await view.getByRole("grid").focus();
    for (let presses = 0; presses < 40; presses++) await view.keyboard.press("ArrowLeft");
    await view.waitForFunction(() => document.querySelector(".grid").scrollLeft === 0);
  }
});
