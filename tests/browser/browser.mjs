/* Opens pages in Chromium and records faults, which fail the test: a request to any host, anything that the content
 * policy blocks, an error on the console, a dialog. */
import assert from "node:assert/strict";
import { pathToFileURL } from "node:url";
import { after, afterEach } from "node:test";
import { drawn, launch } from "./chromium.mjs";

export { drawn };
export const LIMIT_MS = 60_000;

let browser = null;
const open = [];

afterEach(async () => {
  const faults = open.flatMap(({ faults }) => faults);
  for (const { context } of open.splice(0)) await context.close();
  assert.deepEqual(faults, []);
});
after(async () => browser?.close());

/** The list of faults of PAGE; it grows while the page runs. TARGET is the only address that the page may load; with
 * LIVE, its newer data too. */
export function watch(page, target, live = false) {
  const faults = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") faults.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => faults.push(`thrown: ${error.stack ?? error}`));
  page.on("crash", () => faults.push("the page crashed"));
  page.on("popup", () => faults.push("a window was opened"));
  page.on("download", () => faults.push("a download was started"));
  page.on("dialog", (dialog) => {
    faults.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("request", (request) => {
    const url = request.url().split("#")[0];
    if (url !== target && !(live && /^live\/\d+$/.test(url.slice(target.length)))) faults.push(`request: ${request.url()}`);
  });
  return faults;
}

/** Opens FILE (or an address) in a new window and waits for the first view. OPTIONS are those of newContext(), and
 * `hash`; with `broken` it does not wait for a view; with `live` the page may ask for newer data. */
export async function show(file, { hash = "", broken = false, live = false, ...options } = {}) {
  browser ??= await launch();
  const context = await browser.newContext({ viewport: { width: 1200, height: 750 }, ...options });
  context.setDefaultTimeout(LIMIT_MS);
  const page = await context.newPage();
  const target = file.startsWith("http") ? file : pathToFileURL(file).href;
  const faults = watch(page, target, live);
  open.push({ context, faults });
  await page.addInitScript(() => document.addEventListener("securitypolicyviolation", (event) =>
    console.error(`refused by the policy: ${event.violatedDirective} ${event.blockedURI}`)));
  await page.goto(target + hash);
  if (!broken) await settled(page);
  return Object.assign(page, { faults, target });
}

/** Waits until the page has checked all its data; fails if it shows an error. */
export async function settled(page) {
  await page.waitForFunction(() => performance.getEntriesByName("piano-verified").length > 0);
  await drawn(page);
  assert.equal(await page.locator(".errors").innerText(), "");
}

/** Opens a view with its tab. */
export async function tab(page, name) {
  await page.getByRole("tab", { name, exact: true }).click();
  await page.locator(`#tab-${await idOf(page, name)}[aria-selected=true]`).waitFor();
  await drawn(page);
}

async function idOf(page, name) {
  return page.getByRole("tab", { name, exact: true }).evaluate((element) => element.id.slice(4));
}

/** Waits until the address contains PART, and returns it. The address follows the state after a delay. */
export async function address(page, part) {
  await page.waitForFunction((text) => location.hash.includes(text), part);
  return page.url();
}

/** A list of facts as {name: value}. */
export async function facts(page, selector) {
  return page.locator(selector).evaluate((list) => Object.fromEntries([...list.querySelectorAll("dt")].map((name) =>
    [name.textContent, name.nextElementSibling.textContent])));
}

/** The rows of a table as lists of texts. */
export async function rows(page, selector) {
  return page.locator(`${selector} tbody tr:not(.heap-more)`).evaluateAll((all) =>
    all.map((row) => [...row.cells].map((cell) => cell.textContent.trim())));
}
