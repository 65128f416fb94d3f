/* usage: node screenshots.mjs FOLDER
 *
 * Makes the screenshots of `piano view` for the documentation: records the bundled game and the bundled server, and
 * opens the views by clicks from the overview, as a user does. */
import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { drawn, launch } from "./chromium.mjs";
import { Project } from "./piano.mjs";
import { reduced } from "./png.mjs";

const folder = process.argv[2];
if (!folder) {
  console.error("usage: node screenshots.mjs FOLDER");
  process.exit(2);
}
mkdirSync(folder, { recursive: true });
const project = new Project(join(tmpdir(), "piano-demo"));
const { run, recording } = project.game(["--heap=64K", "--cpu=2000"]);
copyFileSync(run, project.path("game.ndjson"));
copyFileSync(recording, project.path("game.rec"));
const game = project.view("game.html", "game.ndjson", "game.rec");
project.example("uvserver");
project.piano("record", "--heap=64K", "--cpu=999", "--events", "-o", "server.rec", "--", "uvserver/uvserver", "30");
const server = project.view("server.html", "server.rec");

/** By name of the screenshot: [page, hash, action]. */
const PICTURES = {
  overview: [game, ""],
  frames: [game, "", (page) => page.locator(".question-frames .answer", { hasText: "asset_load" }).first().click()],
  timeline: [server, "", async (page) => {
    await page.locator(".question-polls .answer").first().click();
    for (let turn = 0; turn < 4; turn++) await page.keyboard.press("s");
  }],
  flame: [game, "#v=flame"],
  heap: [game, "#v=heap"],
  functions: [game, "#v=table", (page) => page.getByRole("gridcell", { name: "asset_load", exact: true }).click()],
};

const browser = await launch();
for (const [name, [path, hash, act]] of Object.entries(PICTURES)) {
  const page = await browser.newPage({ viewport: { width: 1200, height: 750 }, colorScheme: "light" });
  await page.goto(pathToFileURL(path).href + hash);
  await page.waitForFunction(() => performance.getEntriesByName("piano-verified").length > 0);
  await act?.(page);
  await page.mouse.move(1, 1);
  await drawn(page);
  writeFileSync(join(folder, `${name}.png`), reduced(await page.screenshot()));
  await page.close();
}
await browser.close();
