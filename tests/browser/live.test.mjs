/* `piano view --live`: the page follows a recording while it is written, keeps what the user has chosen, and has the
 * figures of the reports at the end. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { request } from "node:http";
import { before, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { drawn, facts, rows, show, tab } from "./browser.mjs";
import { figure, says } from "./figures.mjs";
import { PIANO, Project } from "./piano.mjs";

const project = new Project();
let program;

/* One long turn at the start, then short ones; each turn keeps 64 KB. */
before(() => {
  program = project.compile("turns", `
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
static volatile unsigned long sink;
static volatile sig_atomic_t over;
static void end(int sig) { (void)sig; over = 1; }
static double cpu(void) { struct timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); return t.tv_sec + t.tv_nsec / 1e9; }
__attribute__((noinline)) void burn_hot(double s) { double e = cpu() + s; while (cpu() < e) for (int i = 0; i < 20000; i++) sink += i; }
__attribute__((noinline)) void *keep_block(void) { char *p = malloc(65536); memset(p, 1, 65536); return p; }
static void *kept[100000];
int main(void)
{
    signal(SIGTERM, end);
    for (int turn = 0; !over && turn < 60000; turn++) {
        struct pollfd none = {0};
        poll(&none, 0, 10);
        burn_hot(turn == 3 ? 0.2 : 0.005);
        kept[turn] = keep_block();
    }
    return 0;
}
`);
});

/** Starts `piano record` and `piano view --live`, which end with the test. */
async function following(name, work) {
  const file = project.path(name);
  const recorder = spawn(PIANO, ["record", "--heap=1", "--cpu=500", "--events", "-o", file, "--", program],
    { cwd: project.root, env: project.env, stdio: "ignore" });
  const ended = new Promise((resolve) => recorder.on("close", resolve));
  while (!existsSync(file) || readFileSync(file).readUInt32LE(24) === 0) await pause(20);
  const pid = readFileSync(file).readUInt32LE(24);
  const server = await project.serve(["--live", pid, "--no-open"]);
  try {
    await work({ file, server, pid, recorder, ended });
  } finally {
    recorder.kill("SIGTERM");
    await ended;
    server.process.kill("SIGINT");
    const { code, signal, err } = await server.ended;
    assert.equal(code, 0, `signal ${signal}: ${err}`);
  }
}

const number = (view) => view.locator(".live").evaluate((element) => Number(element.dataset.number));

/** Waits until the page shows data that is COUNT newer. */
async function newer(view, count = 1) {
  const now = await number(view);
  await view.waitForFunction((wanted) => Number(document.querySelector(".live").dataset.number) >= wanted, now + count);
  await drawn(view);
}

test("figures advance while the program runs, and equal the reports at the end", async () => {
  await following("grows.rec", async ({ file, server, recorder, ended }) => {
    const view = await show(server.url, { live: true });
    assert.equal(await view.locator(".live-state").innerText(), "live");
    const duration = async () => figure(await view.locator(".duration").innerText()).value;
    const held = async () => figure((await rows(view, ".heap-table"))[0][1]).value;
    await newer(view);
    const began = await duration();
    await tab(view, "Heap");
    const least = await held();
    await view.locator(".heap-open", { hasText: "keep_block" }).click();
    await newer(view, 2);
    assert.equal(await view.locator(".heap-open", { hasText: "keep_block" }).getAttribute("aria-expanded"), "true");
    assert.ok((await view.locator(".heap-more:not([hidden])").innerText()).includes("main"), "the opened row stays open");
    assert.ok(await duration() > began);
    assert.ok(await held() > least, "the heap grows");
    assert.equal(await view.locator(".live").getAttribute("data-state"), "live");
    await tab(view, "Overview");
    await view.locator(".question-flags .answer", { hasText: "more than 10ms" }).waitFor(); // a red flag
    recorder.kill("SIGTERM");
    await ended;
    await view.locator(".live[data-state=ended]").waitFor();
    await drawn(view);
    const heap = project.json("report", file, "--heap"), cpu = project.json("report", file, "--cpu"), polls = project.json("report", file, "--polls");
    says(await view.locator(".question-polls .answer").first().innerText(), polls.longest[0].duration_ns, "the longest poll");
    assert.ok((await view.locator(".question-cpu .answer").first().innerText()).includes(cpu.functions[0].name));
    await tab(view, "Heap");
    const [place] = await rows(view, ".heap-table");
    assert.ok(place[0].startsWith("keep_block"), place[0]);
    says(place[1], heap.places[0].live_bytes, "what keep_block holds");
    assert.ok(await view.locator(".live button").isHidden());
  });
});

test("zoom, selection, search and scroll positions stay while data arrives", async () => {
  await following("stays.rec", async ({ server }) => {
    const view = await show(server.url, { live: true });
    await newer(view);
    await view.locator(".question-polls .answer").first().click();
    await view.locator(".details h2", { hasText: "Poll" }).waitFor();
    const before = await facts(view, ".details dl");
    await view.waitForFunction(() => location.hash.includes("s=poll:"));
    const selected = /s=poll:\d+/.exec(await view.evaluate(() => location.hash))[0];
    await view.evaluate((poll) => (location.hash = `#v=timeline&t=5000000-250000000&${poll}&q=burn`), selected);
    await drawn(view);
    await newer(view, 2);
    const after = await facts(view, ".details dl"); // times of events move by less than a digit
    assert.equal(after.thread, before.thread);
    says(before.took, figure(after.took).value, "took");
    says(before["started at"], figure(after["started at"]).value, "started at");
    assert.equal(await view.getByRole("tab", { selected: true }).innerText(), "Timeline");
    assert.equal(await view.locator("input[type=search]").inputValue(), "burn");
    await view.evaluate(() => document.activeElement.blur());
    await view.keyboard.press("Escape"); // a change, after which the address is written again: the search goes
    await view.waitForFunction(() => location.hash.includes("t=5000000-250000000") && !location.hash.includes("q="));
  });
});

test("a paused page stays as it is, and goes on", async () => {
  await following("paused.rec", async ({ server }) => {
    const view = await show(server.url, { live: true });
    await newer(view);
    await view.getByRole("button", { name: "Pause" }).click();
    const asked = [];
    view.on("request", (one) => asked.push(one.url()));
    const shown = await view.locator(".duration").innerText(), at = await number(view);
    await pause(2500); // more than two times as long as the page waits
    assert.equal(await view.locator(".live-state").innerText(), "paused");
    assert.equal(await number(view), at);
    assert.equal(await view.locator(".duration").innerText(), shown);
    assert.ok(asked.length <= 1, "nothing is asked for");
    await view.getByRole("button", { name: "Follow" }).click();
    await newer(view);
    assert.notEqual(await view.locator(".duration").innerText(), shown);
  });
});

/** An answer to a GET request: {status, body, headers}. */
function ask(url, headers = {}) {
  return new Promise((resolve, reject) => {
    request(url, { headers }, (answer) => {
      const parts = [];
      answer.on("data", (part) => parts.push(part));
      answer.on("end", () => resolve({ status: answer.statusCode, headers: answer.headers, body: Buffer.concat(parts) }));
    }).on("error", reject).end();
  });
}

test("newer data is for this page alone", async () => {
  await following("refused.rec", async ({ server }) => {
    const { port } = new URL(server.url), live = `${server.url}live/0`;
    for (const headers of [{ Host: `evil.example:${port}` }, { Origin: "http://evil.example" }, { Origin: "null" }]) {
      assert.equal((await ask(live, headers)).status, 403, JSON.stringify(headers));
    }
    for (const part of ["live", "live/", "live/x", "live/-1", "live/1/", "live/1?x", "live/9999999999999999", "other/1"]) {
      assert.equal((await ask(server.url + part)).status, 404, part);
    }
    assert.equal((await ask(new URL("/live/0", server.url).href)).status, 404);
    const page = await ask(server.url);
    assert.ok(page.headers["content-security-policy"].includes("connect-src 'self'"));
    assert.ok(page.headers["content-security-policy"].startsWith("default-src 'none'"));
    const answer = await ask(live);
    assert.equal(answer.status, 200);
    assert.equal(answer.headers["cache-control"], "no-store");
    assert.equal(answer.headers["access-control-allow-origin"], undefined);
    assert.equal(JSON.parse(answer.body.subarray(0, answer.body.indexOf(10))).state, "running");
  });
  const plain = await project.serve([project.path("refused.rec"), "--no-open"]);
  try {
    assert.equal((await ask(`${plain.url}live/0`)).status, 404, "a page that does not follow has no newer data");
    assert.ok(!(await ask(plain.url)).headers["content-security-policy"].includes("connect-src"));
  } finally {
    plain.process.kill("SIGINT");
    await plain.ended;
  }
});
