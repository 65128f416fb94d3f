/* The tool for the browser tests: a temporary project, recordings of the bundled programs, and their `piano report
 * --json`. Each test file makes its recordings once. */
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

export const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
export const PIANO = process.env.PIANO ?? join(ROOT, "build", "piano");
export const LIB = join(dirname(PIANO), "lib");
const LIMIT_MS = 120_000;
const FOREIGN = ["PIANO_RUNS_DIR", "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "CFLAGS", "LDFLAGS", "CC", "LD_PRELOAD", "DISPLAY",
  "WAYLAND_DISPLAY", "NODE_OPTIONS"];
/** The functions of the bundled game that the demo instruments. */
const GAME = ["run_frame", "update", "physics_step", "grid_", "ai_think", "path_find", "render", "draw_", "asset_"];

/** Temporary directories of this process, removed when it exits. */
const made = [];
process.on("exit", () => {
  for (const folder of made) rmSync(folder, { recursive: true, force: true });
});

export class Project {
  /** Creates the project in ROOT, which is emptied, or in a temporary directory. */
  constructor(root = null) {
    if (root) rmSync(root, { recursive: true, force: true });
    this.root = root ?? mkdtempSync(join(tmpdir(), "piano-browser-"));
    made.push(this.root);
    mkdirSync(join(this.root, ".piano"), { recursive: true }); // makes it a separate project
    this.env = { ...process.env, LC_ALL: "C.UTF-8", HOME: this.root };
    for (const name of FOREIGN) delete this.env[name];
  }

  path(name) {
    return join(this.root, name);
  }

  write(name, content) {
    mkdirSync(dirname(this.path(name)), { recursive: true });
    writeFileSync(this.path(name), content);
    return this.path(name);
  }

  /** Runs a program, which must succeed; returns its stdout. */
  run(program, ...words) {
    return execFileSync(program, words.map(String), { cwd: this.root, env: this.env, timeout: LIMIT_MS,
      encoding: "utf8", stdio: ["ignore", "pipe", "pipe"], maxBuffer: 1 << 30 });
  }

  piano(...words) {
    return this.run(PIANO, ...words);
  }

  /** Like piano(), for commands that may fail: {status, out, err}. */
  tried(...words) {
    const done = spawnSync(PIANO, words.map(String), { cwd: this.root, env: this.env, timeout: LIMIT_MS, encoding: "utf8" });
    return { status: done.status, out: done.stdout, err: done.stderr };
  }

  json(...words) {
    return JSON.parse(this.piano(...words, "--json"));
  }

  /** Writes a page of runs; returns its path. */
  view(name, ...words) {
    this.piano("view", ...words, "-o", this.path(name), "--force");
    return this.path(name);
  }

  /** Compiles C source to a program of that name. */
  compile(name, source, ...flags) {
    const file = this.write(`${name}.c`, source);
    this.run("cc", "-O1", "-g", "-fno-builtin", "-Wall", "-Werror", "-o", this.path(name), file, ...flags);
    return this.path(name);
  }

  /** Records PROGRAM to the file NAME; returns its path. */
  record(name, flags, program, ...words) {
    this.piano("record", ...flags, "-o", this.path(name), "--", program, ...words);
    return this.path(name);
  }

  /** The newest run file with that suffix. */
  last(kind) {
    const runs = readdirSync(this.path(".piano/runs")).filter((name) => name.endsWith(kind)).sort();
    return this.path(`.piano/runs/${runs[runs.length - 1]}`);
  }

  /** Instruments the bundled game and records it with all instruments. piano finds the recording by its run. */
  game(flags = ["--heap=64K", "--cpu=999", "--events"]) {
    cpSync(join(ROOT, "examples/game"), this.root, { recursive: true, filter: (path) => !path.endsWith("/game/game") });
    const program = this.piano("build", ...GAME.flatMap((name) => ["--fn", name])).trim().split("\n").pop();
    this.piano("record", ...flags, "--", program);
    return { program, recording: this.last(".rec"), run: this.last(".ndjson") };
  }

  /** Builds one of the examples without changes. */
  example(name) {
    cpSync(join(ROOT, "examples", name), this.path(name), { recursive: true });
    this.run("make", "-s", "-B", "-C", this.path(name), name, `CPPFLAGS=-I${join(ROOT, "include")}`);
    return join(this.path(name), name);
  }

  /** Starts `piano view` without -o: {url, process, ended}; ended is a promise of {code, err}. */
  async serve(words, env = {}) {
    const process = spawn(PIANO, ["view", ...words.map(String)], { cwd: this.root, env: { ...this.env, ...env } });
    let err = "";
    process.stderr.on("data", (text) => (err += text));
    const ended = new Promise((resolve) => process.on("close", (code, signal) => resolve({ code, signal, err })));
    const url = await new Promise((resolve, reject) => {
      process.stdout.once("data", (text) => resolve(String(text).trim()));
      ended.then(() => reject(new Error(`piano view ended: ${err}`)));
    });
    return { url, process, ended };
  }
}

/** The reason why the kernel does not allow perf events, for a skipped test; false: it allows them. */
export function perfRefused() {
  const said = spawnSync(PIANO, ["doctor"], { encoding: "utf8" }).stdout;
  const found = /^\S+\s+perf events: (.*)/m.exec(said);
  return found && /cpu-clock|cycles/.test(found[1]) ? false : `perf events are refused here: ${found ? found[1] : "unknown"}`;
}
