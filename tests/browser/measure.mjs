/* usage: node measure.mjs PAGE [REPETITIONS]
 *
 * Measures a page in headless Chromium and prints JSON: the time to open the page, and the time per animation frame
 * while each view is panned or zoomed by one step per frame. Waits until the background checks of the page have
 * finished. */
import { pathToFileURL } from "node:url";
import { drawn, launch } from "./chromium.mjs";

const [path, repetitions = "3"] = process.argv.slice(2);
const FRAMES = 240;
const SIZE = { width: 1600, height: 900 };
const MARKS = { parsed_ms: "piano-started", inflated_ms: "piano-inflated", open_ms: "bench-drawn",
  verified_ms: "piano-verified" };
const VIEWS = [["frames", ".frames-chart canvas"], ["timeline", ".timeline-fixed canvas"], ["flame", ".flame-area canvas"]];
/** The visible share of the run. The whole run cannot be panned, so it is zoomed instead. */
const PARTS = [2, 50, 5000];

async function opened(browser) {
  const page = await browser.newPage({ viewport: SIZE });
  await page.addInitScript(() => {
    const seen = new PerformanceObserver(() => {
      if (performance.getEntriesByName("piano-shown").length === 0) return;
      seen.disconnect();
      requestAnimationFrame(() => setTimeout(() => performance.mark("bench-drawn")));
    });
    seen.observe({ entryTypes: ["mark"] });
  });
  await page.goto(pathToFileURL(path).href, { waitUntil: "commit" });
  await page.waitForFunction(() => ["piano-verified", "bench-drawn"].every((mark) =>
    performance.getEntriesByName(mark).length > 0), undefined, { timeout: 120_000 });
  return page;
}

/** Pans or zooms in every animation frame with pointer and wheel events; returns [ms between frames, ms of the page's
 * own work in each]. The page draws in the event handler, or in an animation frame that it requests there. Frames
 * requested right before and right after the event measure how long this takes. */
async function move(page, selector, how) {
  const { times, work } = await page.locator(selector).first().evaluate((canvas, [count, wheel]) => new Promise((done) => {
    const box = canvas.getBoundingClientRect();
    const from = box.left + box.width * 0.6;
    const send = (kind, type, x, more) => canvas.dispatchEvent(new kind(type, { bubbles: true, cancelable: true, button: 0,
      pointerId: 1, clientX: x, clientY: box.top + box.height / 2, ...more }));
    const times = [], work = [];
    let number = 0, last = 0, began = 0, handled = 0;
    if (!wheel) send(PointerEvent, "pointerdown", from);
    const step = (now) => {
      if (number > 1) {
        times.push(now - last);
        work.push(performance.now() - began + handled);
      }
      last = now;
      if (number++ > count) {
        send(PointerEvent, "pointerup", from);
        done({ times, work });
        return;
      }
      requestAnimationFrame(() => (began = performance.now()));
      const sent = performance.now();
      if (wheel) send(WheelEvent, "wheel", from, { deltaY: number % 60 < 30 ? -60 : 60 });
      else send(PointerEvent, "pointermove", from + box.width * 0.25 * Math.sin(number / 20));
      handled = performance.now() - sent;
      requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }), [FRAMES, how === "zoom"]);
  return [times, work];
}

function quantile(values, part) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))];
}

async function views(page) {
  const found = [];
  const end = await page.evaluate(() => JSON.parse(document.getElementById("piano-meta").textContent).duration_ns);
  for (const [view, selector] of VIEWS) {
    for (const part of [1, ...(view === "flame" ? [] : PARTS)]) {
      const from = Math.floor(end / 2 - end / part / 2), to = Math.floor(end / 2 + end / part / 2);
      const began = Date.now();
      await page.evaluate((hash) => (location.hash = hash), `#v=${view}${part > 1 ? `&t=${from}-${to}` : ""}`);
      await page.locator(`#tab-${view}[aria-selected=true]`).waitFor();
      await drawn(page);
      const shown = Date.now() - began;
      const [times, work] = await move(page, selector, part === 1 ? "zoom" : "pan");
      found.push({ view, what: part === 1 ? "zoom" : `pan at 1/${part}`, frames: times.length, shown_ms: shown,
        a_second: 1000 * times.length / times.reduce((sum, time) => sum + time, 0),
        p50: quantile(times, 0.5), p99: quantile(times, 0.99), max: Math.max(...times),
        work_p50: quantile(work, 0.5), work_p99: quantile(work, 0.99) });
    }
  }
  return found;
}

const browser = await launch();
const result = Object.fromEntries(Object.keys(MARKS).map((key) => [key, []]));
for (let turn = 0; turn < Number(repetitions); turn++) {
  const page = await opened(browser);
  for (const [key, mark] of Object.entries(MARKS)) {
    result[key].push(await page.evaluate((name) => performance.getEntriesByName(name)[0].startTime, mark));
  }
  if (turn === Number(repetitions) - 1) result.moves = await views(page);
  await page.close();
}
await browser.close();
console.log(JSON.stringify(result));
