/* usage: node make-page.mjs VIEWER.js VIEWER.css OUT.html [frames=N] [polls=N] [samples=N] [threads=N]
 * [sites=N]
 *
 * Writes a page with a synthetic run of these sizes, to inspect and measure the viewer. */
import { readFileSync, writeFileSync } from "node:fs";
import { synthetic } from "./synthetic";
import type { Sizes } from "./synthetic";
import { html } from "./writer";

const [js, css, out, ...settings] = process.argv.slice(2);
if (js === undefined || css === undefined || out === undefined) {
  console.error("usage: make-page VIEWER.js VIEWER.css OUT.html [frames=N] [polls=N] [samples=N] [threads=N] [sites=N]");
  process.exitCode = 2;
} else {
  const sizes: Sizes = { frames: 2000, polls: 40000, samples: 5000, threads: 6, sites: 60 };
  for (const setting of settings) {
    const [name, value] = setting.split("=");
    if (name !== undefined && name in sizes) sizes[name as keyof Sizes] = Number(value);
  }
  writeFileSync(out, html(synthetic(sizes), readFileSync(js, "utf8"), readFileSync(css, "utf8")));
}
