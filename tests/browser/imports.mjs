/* Loads an export of piano into another tool's own importer, and prints what the tool makes of it as JSON:
 *
 *   node imports.mjs speedscope DIRECTORY FILE    DIRECTORY: dist/release of the npm package
 *   node imports.mjs catapult DIRECTORY FILE      DIRECTORY: the static files of `go tool trace`
 *
 * tests/e2e/test_export_tools.py compares it with `piano report`. */
import { cpSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { launch } from "./chromium.mjs";

const [tool, directory, file] = process.argv.slice(2);
const place = mkdtempSync(join(tmpdir(), "piano-import-"));

/* The page reads a file by itself when its address names one; here it keeps what its importer returns. */
const LOADS = /(loadFileFromBase64:\((\w+),(\w+)\)=>\{)this\.loadProfile\(\(\)=>(\w+)\(\2,\3\)\)\}/;

async function speedscope(page) {
  cpSync(directory, place, { recursive: true });
  const script = join(place, readdirSync(place).find((name) => /^speedscope-.*\.js$/.test(name)));
  const text = readFileSync(script, "utf8");
  if (!LOADS.test(text)) throw new Error("this speedscope loads files in another way");
  writeFileSync(script, text.replace(LOADS, "$1window.imported=$4($2,$3)}"));
  const profile = join(place, "profile.js");
  writeFileSync(profile, `speedscope.loadFileFromBase64("export.json", "${readFileSync(file).toString("base64")}")`);
  await page.goto(`${pathToFileURL(join(place, "index.html")).href}#localProfilePath=${encodeURIComponent(profile.slice(1))}`);
  await page.waitForFunction(() => window.imported !== undefined);
  return page.evaluate(async () => {
    const group = await window.imported;
    return {
      shown: group.indexToView,
      profiles: group.profiles.map((profile) => {
        const functions = [];
        profile.forEachFrame((frame) => functions.push([frame.name, frame.getSelfWeight(), frame.getTotalWeight()]));
        return { name: profile.getName(), unit: profile.getWeightUnit(), total: profile.getTotalNonIdleWeight(), functions };
      }),
    };
  });
}

async function catapult(page) {
  const main = join(place, "index.html");
  cpSync(directory, place, { recursive: true });
  writeFileSync(main, "<!doctype html><title>import</title>" +
    `<script>${readFileSync(join(place, "webcomponents.min.js"), "utf8")}</script>` +
    readFileSync(join(place, "trace_viewer_full.html"), "utf8"));
  await page.goto(pathToFileURL(main).href);
  await page.waitForFunction(() => window.tr?.importer?.Import !== undefined);
  return page.evaluate((text) => {
    const options = new tr.importer.ImportOptions();
    options.shiftWorldToZero = false;
    const model = new tr.Model();
    new tr.importer.Import(model, options).importTraces([text]);
    const stack = (node) => (node === undefined ? [] : [node.title, ...stack(node.parentNode)]);
    const frames = (frame) => (frame === undefined ? [] : [frame.title, ...frames(frame.parentFrame)]);
    const threads = model.getAllThreads();
    return {
      warnings: model.importWarnings.map((warning) => warning.message),
      samples: model.samples.map((sample) => ({ pid: sample.thread.parent.pid, tid: sample.thread.tid, ms: sample.start, stack: stack(sample.leafNode) })),
      threads: threads.map((thread) => ({ pid: thread.parent.pid, tid: thread.tid, name: thread.name, process: thread.parent.name })),
      slices: threads.flatMap((thread) => [...thread.sliceGroup.slices].map((slice) => ({
        pid: thread.parent.pid, tid: thread.tid, name: slice.title, category: slice.category, ms: slice.start, length: slice.duration,
        stack: frames(slice.startStackFrame) }))),
      counters: model.getAllProcesses().flatMap((process) => Object.values(process.counters).map((counter) => ({
        name: counter.name, values: counter.series.map((series) => series.samples.map((sample) => sample.value)) }))),
      flows: model.flowEvents.length,
    };
  }, readFileSync(file, "utf8"));
}

const browser = await launch();
try {
  const page = await browser.newPage();
  console.log(JSON.stringify(await { speedscope, catapult }[tool](page)));
} finally {
  await browser.close();
  rmSync(place, { recursive: true });
}
