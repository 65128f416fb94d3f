/* A synthetic run of any size: threads with polls, parks, samples, frames, allocations. The numbers are the
 * same every time, so that pages can be compared. */
import { NONE } from "../src/model/schema";
import { PageWriter } from "./writer";
import type { PackedPage } from "./writer";

export interface Sizes {
  frames: number;
  polls: number;
  samples: number;
  threads: number;
  sites: number;
}

/** A pseudo-random generator of numbers in [0, 1): xorshift32. */
export function random(seed: number): () => number {
  let state = seed | 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 4294967296;
  };
}

const HOSTILE = "<img src=x onerror=alert(1)>\u202egpj.exe\u0000<script>";

export function synthetic(sizes: Sizes): PackedPage {
  const w = new PageWriter();
  const next = random(7);
  const duration = Math.max(1e9, sizes.frames * 8e5, (sizes.polls / Math.max(1, Math.min(sizes.threads, 8))) * 2.4e3);
  const names = ["accept_loop", "http::Connection::serve(Request const&)", "db::Pool::query", "flush_metrics",
    "tls_handshake", "cache_sweeper", "log_writer", "heartbeat", "replicate", HOSTILE];
  const functions = ["main", "update", "physics_step", "collide(Body const&, Body const&)", "render", "draw_mesh",
    "sort_queue", "parse_json", "hash_lookup", "memcpy", "malloc", HOSTILE,
    `std::map<${"std::pair<int, ".repeat(400)}int${">".repeat(400)}>::insert`];

  threads(w, sizes);
  tasks(w, names, sizes, duration);
  if (sizes.polls > 0) polls(w, sizes, duration, names.length, next);
  stacks(w, functions, next);
  if (sizes.samples > 0) samples(w, sizes, duration, next);
  if (sizes.frames > 0) frames(w, sizes, duration, functions, next);
  if (sizes.sites > 0) heap(w, sizes, duration, next);
  if (sizes.polls > 0) charts(w, duration, next);
  w.json("report", { overview: ["3 polls took longer than 10 ms", "1 site holds 62 % of the live memory"] });
  return w.pack({ name: "game demo", program: "game", command: "./game --level 3", duration_ns: duration,
    started_ms: 1.74e12, kinds: ["spans", "cpu", "events", "heap"], notices: ["This run is made up."],
    dropped: sizes.polls > 1e6 ? { "ring full": 12 } : {} });
}

function threads(w: PageWriter, sizes: Sizes): void {
  const rows = Array.from({ length: sizes.threads }, (_, i) => i);
  w.table("threads", sizes.threads, {
    tid: rows.map((i) => 4000 + i), name: rows.map((i) => w.string(i === 0 ? "game" : `worker-${i}`)),
    worker: rows.map((i) => (i === 0 ? NONE : w.string(`worker ${i}`))), is_main: rows.map((i) => (i === 0 ? 1 : 0)),
    pid: rows.map(() => 0), process: rows.map(() => NONE), place: rows.map(() => 0),
  });
}

function tasks(w: PageWriter, names: string[], sizes: Sizes, duration: number): void {
  const n = sizes.polls > 0 ? names.length : 0;
  const each = <T>(make: (i: number) => T): T[] => Array.from({ length: n }, (_, i) => make(i));
  w.table("tasks", n, { name: each((i) => w.string(names[i] as string)), place: each((i) => w.string(`src/server.cc:${40 + i}`)),
    kind: each(() => 0), polls: each(() => Math.floor(sizes.polls / n)), total: each((i) => duration / (i + 3)),
    p50: each(() => 1100), p99: each(() => 90000), max: each(() => 4e6), on_cpu: each((i) => (i === 3 ? -1 : 0.8)) });
}

function polls(w: PageWriter, sizes: Sizes, duration: number, tasks: number, next: () => number): void {
  const n = sizes.polls;
  const c = { start: new Float64Array(n), length: new Float64Array(n), thread: new Uint32Array(n), task: new Uint32Array(n),
    flags: new Uint8Array(n), wake_at: new Float64Array(n), waker_thread: new Uint32Array(n), waker_task: new Uint32Array(n) };
  const p = { start: new Float64Array(n), length: new Float64Array(n), thread: new Uint32Array(n), kind: new Uint8Array(n) };
  const workers = Math.max(1, Math.min(sizes.threads - 1, sizes.threads));
  let row = 0, park = 0;
  for (let t = 0; t < workers; t++) {
    const thread = Math.min(t + 1, sizes.threads - 1);
    const last = Math.floor((n * (t + 1)) / workers);
    const mean = duration / Math.max(1, last - row);
    let time = 0;
    for (; row < last; row++) {
      const wait = mean * (0.1 + 0.6 * next());
      const busy = next() < 0.0005 ? mean * 200 * next() : mean * 0.5 * next();
      if (time + wait < duration && next() < 0.4) {
        p.start[park] = Math.round(time);
        p.length[park] = Math.round(wait * 0.9);
        p.thread[park++] = thread;
      }
      time = Math.min(time + wait, duration - 100);
      c.start[row] = Math.round(time);
      c.length[row] = Math.round(Math.min(busy, duration - time));
      c.thread[row] = thread;
      c.task[row] = Math.floor(next() * next() * tasks);
      c.wake_at[row] = next() < 0.5 ? Math.max(0, Math.round(time - wait * 0.5)) + 1 : 0;
      c.waker_thread[row] = c.wake_at[row] ? 1 + Math.floor(next() * workers) % Math.max(1, sizes.threads) : NONE;
      if ((c.waker_thread[row] as number) >= sizes.threads && c.waker_thread[row] !== NONE) c.waker_thread[row] = 0;
      c.waker_task[row] = c.wake_at[row] ? Math.floor(next() * tasks) : NONE;
      time += busy;
    }
  }
  w.table("polls", n, c);
  w.table("parks", park, { start: p.start.subarray(0, park), length: p.length.subarray(0, park),
    thread: p.thread.subarray(0, park), kind: p.kind.subarray(0, park) });
}

const NODES = 600;

function stacks(w: PageWriter, functions: string[], next: () => number): void {
  const each = <T>(n: number, make: (i: number) => T): T[] => Array.from({ length: n }, (_, i) => make(i));
  w.table("code", functions.length, { function: each(functions.length, (i) => w.string(functions[i] as string)),
    file: each(functions.length, (i) => (i % 4 === 3 ? NONE : w.string(`src/${functions[i]?.slice(0, 6) ?? ""}.cc`))),
    line: each(functions.length, (i) => 10 * i), module: each(functions.length, () => w.string("game")),
    inlined: each(functions.length, (i) => (i === 8 ? 1 : 0)),
    plumbing: functions.map((name) => (name === "malloc" || name === "memcpy" ? 1 : 0)) });
  w.table("nodes", NODES, { parent: each(NODES, (i) => (i === 0 ? NONE : Math.floor(i * (0.3 + 0.7 * next()) * 0.9))),
    code: each(NODES, (i) => (i === 0 ? 0 : 1 + Math.floor(next() * (functions.length - 1)))) });
}

function samples(w: PageWriter, sizes: Sizes, duration: number, next: () => number): void {
  const n = sizes.samples;
  const kind = Uint8Array.from({ length: n }, () => (next() < 0.9 ? 0 : next() < 0.7 ? 1 : 2));
  w.table("samples", n, { at: Float64Array.from({ length: n }, (_, i) => Math.round((i * duration) / n)),
    thread: Uint32Array.from({ length: n }, () => Math.floor(next() * Math.min(sizes.threads, 12))),
    node: Uint32Array.from({ length: n }, () => Math.floor(next() * next() * NODES)), kind,
    value: Float64Array.from(kind, (k) => (k === 0 ? 1e6 : Math.round(4e5 * next()))) });
}

function frames(w: PageWriter, sizes: Sizes, duration: number, functions: string[], next: () => number): void {
  const n = sizes.frames, mean = duration / n;
  const start = Float64Array.from({ length: n }, (_, i) => Math.round(i * mean));
  const spike = Uint8Array.from({ length: n }, (_, i) => (next() < 0.002 || i === Math.floor(n / 3) ? 1 : 0));
  const wall = Float64Array.from(spike, (s, i) => Math.round(mean * (s ? 1.2 + 2.4 * next() : 0.4 + 0.1 * Math.sin(i / (n / 40)) + 0.06 * next())));
  const zeros = (): Float64Array => new Float64Array(functions.length);
  w.table("functions", functions.length, { name: functions.map((name) => w.string(name)), file: functions.map(() => NONE),
    line: zeros(), calls: zeros().fill(n), self: zeros().map((_, i) => (duration / 20) * (i + 1)), total: zeros().fill(-1), p50: zeros().fill(-1),
    p99: zeros().fill(-1), alloc_count: zeros().fill(9), alloc_bytes: zeros().fill(4096), free_count: zeros(), free_bytes: zeros() });
  w.table("frames", n, { start, wall, thread: new Uint32Array(n), root: new Uint32Array(n).fill(1), spike,
    alloc_count: Uint32Array.from({ length: n }, () => Math.floor(40 * next())),
    alloc_bytes: Float64Array.from({ length: n }, () => Math.floor(65536 * next())), number: Uint32Array.from({ length: n }, (_, i) => i),
    took: wall.map((length) => length + 100) });
  const each = 4, m = n * each;
  w.table("frame_functions", m, { frame: Uint32Array.from({ length: m }, (_, i) => Math.floor(i / each)),
    function: Uint32Array.from({ length: m }, (_, i) => 1 + (i % each)), calls: Uint32Array.from({ length: m }, () => 1 + Math.floor(9 * next())),
    self: Float64Array.from({ length: m }, (_, i) => Math.round((wall[Math.floor(i / each)] as number) / (each + (i % each)))),
    alloc_count: new Uint32Array(m).fill(2), alloc_bytes: new Float64Array(m).fill(512) });
}

function heap(w: PageWriter, sizes: Sizes, duration: number, next: () => number): void {
  const n = Math.min(sizes.sites, NODES), shots = 120;
  const each = (make: (i: number) => number, rows = n): Float64Array => Float64Array.from({ length: rows }, (_, i) => make(i));
  const live = each((i) => 4e7 / (i + 1));
  w.table("sites", n, { node: Uint32Array.from({ length: n }, (_, i) => NODES - 1 - i), live_bytes: live, live_objects: each((i) => 900 / (i + 1)),
    allocated_bytes: each((i) => (live[i] as number) * 3), allocated_objects: each((i) => 2700 / (i + 1)), freed_bytes: each((i) => (live[i] as number) * 2),
    peak_bytes: each((i) => (live[i] as number) * 1.3), churn_bytes: each((i) => (live[i] as number) * 2), median_life: each((i) => (i % 5 ? 3e6 * i : -1)),
    live_samples: Uint32Array.from({ length: n }, () => 12), samples: Uint32Array.from({ length: n }, () => 40), oldest: each((i) => (i * duration) / n),
    site_node: Uint32Array.from({ length: n }, (_, i) => NODES - 1 - i), caller_node: new Uint32Array(n).fill(NONE), flags: new Uint8Array(n),
    freed_samples: Uint32Array.from({ length: n }, () => 28) });
  w.table("blocks_live", n, { at: each((i) => Math.round((i * duration) / n)), size: each(() => 4096), weight: each(() => 5e5),
    thread: new Uint32Array(n), node: Uint32Array.from({ length: n }, (_, i) => NODES - 1 - i) });
  const total = live.reduce((a, b) => a + b, 0);
  w.table("snapshots", shots, { at: each((i) => Math.round((i * duration) / shots), shots), live_bytes: each((i) => (total * (i + 1)) / shots, shots),
    allocated_bytes: each((i) => (3 * total * (i + 1)) / shots, shots), resident: each((i) => total * (0.5 + i / shots), shots) });
  const m = shots * Math.min(n, 20);
  w.table("snapshot_sites", m, { snapshot: Uint32Array.from({ length: m }, (_, i) => Math.floor(i / (m / shots))),
    site: Uint32Array.from({ length: m }, (_, i) => i % (m / shots)),
    live_bytes: each((i) => ((live[i % (m / shots)] as number) * (Math.floor(i / (m / shots)) + 1) * (0.7 + 0.3 * next())) / shots, m) });
}

function charts(w: PageWriter, duration: number, next: () => number): void {
  const n = 20000;
  let depth = 4;
  w.table("queue_names", 1, { name: [w.string("injection queue")] });
  w.table("queues", n, { at: Float64Array.from({ length: n }, (_, i) => Math.round((i * duration) / n)), queue: new Uint32Array(n),
    depth: Float64Array.from({ length: n }, () => (depth = Math.max(0, depth + Math.round(next() * 6 - 3)))) });
  w.table("values", 400, { at: Float64Array.from({ length: 400 }, (_, i) => Math.round((i * duration) / 400)),
    name: new Uint32Array(400).fill(w.string("connections open")), value: Float64Array.from({ length: 400 }, (_, i) => 50 + 30 * Math.sin(i / 20)) });
  w.table("marks", 3, { at: [duration * 0.2, duration * 0.5, duration * 0.8].map(Math.round), thread: [NONE, 0, NONE],
    name: [w.string("level loaded"), w.string("boss"), w.string(HOSTILE)] });
}
