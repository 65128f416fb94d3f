/* Debian's Chromium, controlled by the playwright-core that tests/browser/setup installs in build/. Its headless shell
 * has the same engine without a user interface and starts in half the time. */
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const BUILD = join(dirname(dirname(dirname(fileURLToPath(import.meta.url)))), "build/browser");
const { chromium } = await import(pathToFileURL(join(BUILD, "node_modules/playwright-core/index.mjs")).href);
const PROGRAM = process.env.CHROMIUM ?? ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium"].find((path) => existsSync(path));

export function launch() {
  return chromium.launch({ executablePath: PROGRAM, args: ["--no-first-run", "--disable-background-networking"] });
}

/** Waits until changes are drawn. */
export function drawn(page) {
  return page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done()))));
}
