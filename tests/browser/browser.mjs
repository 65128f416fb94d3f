/* Chromium, and pages in it that must not do what a page of piano never does: ask anything of any host, run or load what
 * its policy refuses, write an error to the console, open a dialog. Whatever does is a fault, and fails the test. */
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

/** What PAGE does that it must not; a list that grows. TARGET is the one address it may load. */
export function watch(page, target) {
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
    if (request.url().split("#")[0] !== target) faults.push(`request: ${request.url()}`);
  });
  return faults;
}

/** FILE (or an address) opened in a window of its own, its first view shown. OPTIONS as of newContext(), and `hash`; with
 * `broken`, no view is waited for. */
export async function show(file, { hash = "", broken = false, ...options } = {}) {
  browser ??= await launch();
  const context = await browser.newContext({ viewport: { width: 1200, height: 750 }, ...options });
  context.setDefaultTimeout(LIMIT_MS);
  const page = await context.newPage();
  const target = file.startsWith("http") ? file : pathToFileURL(file).href;
  const faults = watch(page, target);
  open.push({ context, faults });
  await page.addInitScript(() => document.addEventListener("securitypolicyviolation", (event) =>
    console.error(`refused by the policy: ${event.violatedDirective} ${event.blockedURI}`)));
  await page.goto(target + hash);
  if (!broken) await settled(page);
  return Object.assign(page, { faults, target });
}

/** The page has been read and checked whole, and says of no error. */
export async function settled(page) {
  await page.waitForFunction(() => performance.getEntriesByName("piano-verified").length > 0);
  await drawn(page);
  assert.equal(await page.locator(".errors").innerText(), "");
}

/** Opens a view by its tab. */
export async function tab(page, name) {
  await page.getByRole("tab", { name, exact: true }).click();
  await page.locator(`#tab-${await idOf(page, name)}[aria-selected=true]`).waitFor();
  await drawn(page);
}

async function idOf(page, name) {
  return page.getByRole("tab", { name, exact: true }).evaluate((element) => element.id.slice(4));
}

/** The address once it says PART: it follows the state after a moment. */
export async function address(page, part) {
  await page.waitForFunction((text) => location.hash.includes(text), part);
  return page.url();
}

/** {name: value} of a list of facts. */
export async function facts(page, selector) {
  return page.locator(selector).evaluate((list) => Object.fromEntries([...list.querySelectorAll("dt")].map((name) =>
    [name.textContent, name.nextElementSibling.textContent])));
}

/** The rows of a table as lists of texts. */
export async function rows(page, selector) {
  return page.locator(`${selector} tbody tr:not(.heap-more)`).evaluateAll((all) =>
    all.map((row) => [...row.cells].map((cell) => cell.textContent.trim())));
}
