/* `piano view` without -o: it opens the browser, the page works as it does from disk, foreign requests are refused,
 * Ctrl-C ends the server. */
import assert from "node:assert/strict";
import { chmodSync, readFileSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { before, test } from "node:test";
import { drawn, settled, show, tab } from "./browser.mjs";
import { says } from "./figures.mjs";
import { Project } from "./piano.mjs";

const project = new Project();
let run;

before(() => {
  const lines = [{ format_version: 2, run_id: "1_1", timestamp_ms: 1740000000123, functions: ["update", "draw"] },
    { thread: 1, tid: 1, name: "main", start_ns: 0 }];
  for (let i = 0; i < 60; i++) {
    lines.push({ frame: i, thread: 1, depth: 0, root: 0, start_ns: i * 2e7, wall_ns: i === 30 ? 9e7 : 1e7,
      fns: [{ id: 0, calls: 1, self_ns: 1e6, ac: 0, ab: 0 },
        { id: 1, calls: 2, self_ns: i === 30 ? 8e7 : 5e6, ac: 3, ab: 300 }] });
  }
  run = project.write("run.ndjson", lines.map((line) => JSON.stringify(line)).join("\n") + "\n");
});

/** The status of a GET request with these headers. */
function ask(url, headers) {
  return new Promise((resolve, reject) => {
    request(url, { headers }, (answer) => {
      answer.resume();
      resolve(answer.statusCode);
    }).on("error", reject).end();
  });
}

test("the served page works, and Ctrl-C ends the server", async () => {
  const server = await project.serve([run, "--no-open"]);
  try {
    const view = await show(server.url);
    const report = project.json("report", run);
    says(await view.locator(".headlines").innerText(), report.frames.max_ns);
    for (const name of await view.getByRole("tab").allInnerTexts()) await tab(view, name);
    await view.evaluate(() => (location.hash = "#v=frames&s=frame:30"));
    await view.locator(".details h2", { hasText: "Frame 31: a spike" }).waitFor();
    await view.reload();
    await settled(view);
    assert.equal(await view.locator(".details h2").innerText(), "Frame 31: a spike");
  } finally {
    server.process.kill("SIGINT");
    assert.equal((await server.ended).code, 0);
  }
});

test("requests with a foreign Host or Origin, and from pages of other sites, are refused", async () => {
  const server = await project.serve([run, "--no-open"]);
  const { port, host } = new URL(server.url);
  try {
    assert.equal(await ask(server.url, {}), 200);
    assert.equal(await ask(server.url, { Host: `evil.example:${port}` }), 403);
    assert.equal(await ask(server.url, { Origin: "http://evil.example" }), 403);
    assert.equal(await ask(server.url, { Origin: "null" }), 403);
    assert.equal(await ask(`http://${host}/`, {}), 404);
    // A page of another origin cannot read the page, whatever method it uses.
    const view = await show(project.write("other.html", "<!doctype html><title>other</title><p>another page"), { broken: true });
    const got = await view.evaluate(async (url) => {
      const found = {};
      found.fetch = await fetch(url).then(() => "read", () => "refused");
      found.blind = await fetch(url, { mode: "no-cors" }).then((answer) => answer.type === "opaque" ? "blind" : "read",
        () => "refused");
      const frame = document.body.appendChild(document.createElement("iframe"));
      await new Promise((done) => {
        frame.onload = frame.onerror = done;
        frame.src = url;
      });
      found.frame = (() => {
        try {
          return frame.contentDocument ? "read" : "refused";
        } catch {
          return "refused";
        }
      })();
      return found;
    }, server.url);
    assert.equal(got.fetch, "refused");
    assert.notEqual(got.blind, "read");
    assert.equal(got.frame, "refused");
    view.faults.length = 0; // the refusals above are expected
  } finally {
    server.process.kill("SIGTERM");
    assert.equal((await server.ended).code, 0);
  }
});

test("with a display, piano opens the browser with the address", async () => {
  const opener = project.write("bin/xdg-open", '#!/bin/sh\ncd "$HOME" && printf %s "$1" >part && mv part opened\n');
  chmodSync(opener, 0o755);
  const server = await project.serve([run], { DISPLAY: ":77", PATH: `${join(project.root, "bin")}:${process.env.PATH}` });
  try {
    const until = Date.now() + 30_000;
    let opened = "";
    while (opened === "" && Date.now() < until) {
      try {
        opened = readFileSync(project.path("opened"), "utf8");
      } catch {
        await new Promise((done) => setTimeout(done, 20));
      }
    }
    assert.equal(opened, server.url);
    const view = await show(opened);
    await drawn(view);
  } finally {
    server.process.kill("SIGINT");
    assert.equal((await server.ended).code, 0);
  }
});
