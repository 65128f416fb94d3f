/* The overview's answers about time: the slowest frames, the longest polls, the hottest functions. */
import { figure, greatest, name, type Fact, type Question, type Word } from "./fact";
import { dig, list, number, text, type Json } from "../model/figures";
import { flameOf, flameOfFunction } from "../flame/link";
import { count, moment, ns, percent, safe, times } from "../model/format";
import { frameNumber } from "../model/frame";
import type { Model } from "../model/model";
import { NONE } from "../model/schema";
import { sheetsOf, type Sheet } from "./sheet";

const MOST = 5;

function reportOf(model: Model, part: string): Json {
  return (model.report()[part] ?? null) as Json;
}

/* ---- frames ---- */

/** Median of the frames of one root, from the report; null: unknown. */
function medianOf(model: Model, root: number): number | null {
  const summary = dig(reportOf(model, "functions"), "frames");
  if (root !== NONE) {
    const wanted = model.text(model.tables.functions.name[root]!);
    for (const row of list(summary, "by_root")) if (text(row, "root") === wanted) return number(row, "p50_ns");
  }
  return number(summary, "p50_ns");
}

/** The function with the largest self time in a frame. */
function mostlyIn(model: Model, frame: number): { fn: number; self: number } | null {
  const { from, to } = model.functionsOf(frame);
  const { function: fns, self } = model.tables.frame_functions;
  let best = -1;
  for (let row = from; row < to; row++) if (best < 0 || self[row]! > self[best]!) best = row;
  return best < 0 ? null : { fn: fns[best]!, self: self[best]! };
}

export function frameFact(model: Model, frame: number, worst: number): Fact {
  const { frames, functions } = model.tables;
  const wall = frames.wall[frame]!;
  const median = medianOf(model, frames.root[frame]!);
  const mostly = mostlyIn(model, frame);
  const words: Word[] = [figure(ns(wall)), ` in frame ${count(frameNumber(model.tables, frame))}`];
  if (median) words.push(`, ${times(wall / median)} the median`);
  if (mostly && mostly.self > 0) {
    words.push(`: ${percent(mostly.self, wall)} in `, name(model.label(functions.name[mostly.fn]!)));
  }
  return { words, part: worst > 0 ? wall / worst : 0, bad: frames.spike[frame] === 1,
    go: (store) => store.open("frames", { kind: "frame", frame }) };
}

export function framesQuestion(model: Model): Question | null {
  const { frames } = model.tables;
  if (frames.rows === 0) return null;
  const summary = dig(reportOf(model, "functions"), "frames");
  const value = (key: string): string => ns(number(summary, key) ?? -1);
  const spikes = number(summary, "spikes");
  const rows = greatest(frames.rows, MOST, (row) => frames.wall[row]!);
  const worst = rows.length > 0 ? frames.wall[rows[0]!]! : 0;
  return {
    id: "frames", title: "Which frames were slow?",
    lead: `${count(number(summary, "count") ?? frames.rows)} frames; median ${value("p50_ns")}, 99 % under ` +
      `${value("p99_ns")}; ${count(spikes ?? NaN)} took more than twice the median.`,
    facts: rows.map((frame) => frameFact(model, frame, worst)),
  };
}

/* ---- polls ---- */

/** The innermost named function that is in more than half of a poll's CPU samples. */
function busyIn(model: Model, row: number): string | null {
  const { polls, samples } = model.tables;
  const start = polls.start[row]!;
  const rows = model.samplesIn(start, start + polls.length[row]!, polls.thread[row]!);
  let stacks = rows.map((sample) => model.stack(samples.node[sample]!));
  let found: string | null = null;
  for (let depth = 0; ; depth++) {
    const callees = new Map<string, number[][]>();
    for (const stack of stacks) {
      if (depth >= stack.length) continue;
      const callee = model.functionOf(stack[depth]!);
      const own = callees.get(callee);
      if (own) own.push(stack);
      else callees.set(callee, [stack]);
    }
    const [callee, own] = [...callees].reduce((a, b) => b[1].length > a[1].length ? b : a, ["", [] as number[][]]);
    if (2 * own.length <= rows.length) return found;
    if (!/\+0x[0-9a-f]+$/.test(callee)) found = callee;
    stacks = own;
  }
}

function pollFact(model: Model, row: number, longest: number): Fact {
  const { polls } = model.tables;
  const length = polls.length[row]!;
  const known = list(reportOf(model, "polls"), "longest").find((poll) =>
    number(poll, "start_ns") === polls.start[row]! && number(poll, "duration_ns") === length);
  const onCpu = number(known, "on_cpu");
  const away = list(list(known, "blocked")[0], "stack")[0];
  const words: Word[] = [figure(ns(length)), " in ", name(model.taskName(polls.task[row]!)),
    ` at ${moment(polls.start[row]!, 1e6)}`];
  const inside = onCpu !== null && onCpu < 0.5 && away ? null : busyIn(model, row), left = text(away, "function");
  if (inside !== null) words.push(", mostly in ", name(inside));
  else if (left !== null && left !== "(no stack)") words.push(", off the CPU in ", name(safe(left)));
  return { words, part: longest > 0 ? length / longest : 0, bad: length > 10e6,
    more: `${model.threadName(polls.thread[row]!)}, on the CPU: ${onCpu === null ? "-" : percent(onCpu, 1)}`,
    go: (store) => {
      const margin = Math.max(length, 1000);
      store.set({ view: "timeline", selection: { kind: "poll", poll: row },
        t0: polls.start[row]! - margin, t1: polls.start[row]! + length + margin });
    } };
}

export function pollsQuestion(model: Model): Question | null {
  const { polls, tasks } = model.tables;
  if (polls.rows === 0) return null;
  const rows = greatest(polls.rows, MOST, (row) => polls.length[row]!);
  const longest = rows.length > 0 ? polls.length[rows[0]!]! : 0;
  const report = reportOf(model, "polls");
  const wakes = number(dig(report, "wakes"), "p99_ns");
  return {
    id: "polls", title: "Which polls were long?",
    lead: `${count(number(report, "polls") ?? polls.rows)} polls of ${count(tasks.rows)} tasks` +
      (wakes === null ? "." : `; 99 % of woken tasks were polled within ${ns(wakes)}.`),
    facts: rows.map((row) => pollFact(model, row, longest)),
  };
}

/* ---- functions ---- */

function hottest(model: Model, sheet: Sheet, weight: string): Fact[] {
  const column = sheet.columns.find((c) => c.id === sheet.by)!;
  const share = sheet.columns.find((c) => c.id === "share");
  const rows = greatest(sheet.rows, MOST, (row) => column.values[row]!);
  const most = rows.length > 0 ? column.values[rows[0]!]! : 0;
  return rows.map((row) => {
    const rough = sheet.estimated?.(row) ? "~" : "";
    const words: Word[] = [name(sheet.name(row)), " ", figure(rough + ns(column.values[row]!))];
    if (share) words.push(`, ${percent(share.values[row]!, 1)}`);
    return { words, part: most > 0 ? column.values[row]! / most : 0, go: (store) => {
      const selection = sheet.selection(row);
      if (weight === "") store.open("table", selection);
      else {
        flameOfFunction(store, model, sheet.name(row), weight, true);
        store.select(selection);
      }
    } };
  });
}

export function functionQuestions(model: Model): Question[] {
  const found: Question[] = [];
  for (const sheet of sheetsOf(model)) {
    if (sheet.id === "spans") {
      found.push({ id: "spans", title: "Which functions took the time?",
        lead: `${count(sheet.rows)} timed functions, by self time including waits; ~: estimated.`,
        facts: hottest(model, sheet, "") });
    } else if (sheet.id === "cpu" && sheet.by === "self") {
      const cpu = dig(reportOf(model, "cpu"), "cpu");
      const samples = number(cpu, "samples"), time = number(cpu, "cpu_ns");
      found.push({ id: "cpu", title: "What was the CPU doing?",
        lead: `${ns(time ?? -1)} of CPU time, estimated from ${count(samples ?? NaN)} samples.`,
        facts: hottest(model, sheet, "cpu") });
    }
  }
  return found;
}

/* ---- blocked ---- */

export function blockedQuestion(model: Model): Question | null {
  const sheet = sheetsOf(model).find((s) => s.id === "cpu");
  const off = sheet?.columns.find((c) => c.id === "off");
  if (!sheet || !off) return null;
  const tasks = list(reportOf(model, "polls"), "tasks")
    .filter((task) => (number(task, "off_cpu_ns") ?? 0) > 0)
    .sort((a, b) => number(b, "off_cpu_ns")! - number(a, "off_cpu_ns")!).slice(0, 3);
  const rows = model.tables.tasks.rows;
  const byName = new Map(Array.from({ length: rows }, (_, row) => [model.text(model.tables.tasks.name[row]!), row]));
  const most = number(tasks[0], "off_cpu_ns") ?? 0;
  const facts = tasks.map((task): Fact => {
    const row = byName.get(text(task, "name") ?? "");
    const away = number(task, "off_cpu_ns")!;
    const fact = { words: [name(text(task, "name") ?? "-"), " was off the CPU for ", figure(ns(away))],
      part: most > 0 ? away / most : 0 };
    return row === undefined ? fact
      : { ...fact, go: (store) => flameOf(store, { kind: "task", task: row }, "off") };
  });
  return { id: "off", title: "What was blocked?", lead: "Time off the CPU within polls, by task.", facts };
}
