/* The details panel for a poll, a task, a park and a sample. */
import { insideOf, timeLinks } from "../frames/about_frame";
import { describe } from "../util/details";
import { count, moment, ns, percent } from "../model/format";
import { lowerBound } from "../model/model";
import type { Model } from "../model/model";
import { NONE, POLL_NESTED, POLL_OPEN, SAMPLE_CPU, SAMPLE_PREEMPTED } from "../model/schema";
import type { Store } from "../model/state";

const LONGEST = 20;
/** The poll that contains a moment is searched among this many polls before it. */
const MOST_NESTED = 1000;

describe("poll", (panel, selection, model, store) => {
  const { polls, tasks } = model.tables;
  const row = selection.poll;
  const task = polls.task[row] as number, flags = polls.flags[row] as number;
  const start = polls.start[row] as number, wake = (polls.wake_at[row] as number) - 1;
  const waker = polls.waker_task[row] as number, from = polls.waker_thread[row] as number;
  panel.title("Poll", model.taskName(task));
  const facts: [string, string][] = [
    ["took", ns(polls.length[row] as number) + (flags & POLL_OPEN ? ", not finished" : "")],
    ["started at", moment(start, 1000)], ["thread", model.threadName(polls.thread[row] as number)],
  ];
  if (task !== NONE) {
    facts.push(["task's p50, p99", `${ns(tasks.p50[task] as number)}, ${ns(tasks.p99[task] as number)}`]);
  }
  if (flags & POLL_NESTED) facts.push(["nested", "inside another poll"]);
  facts.push(["woken", wake < 0 ? "unknown" : `${ns(Math.max(0, start - wake))} before it started`]);
  if (waker !== NONE) facts.push(["woken by", model.taskName(waker)]);
  if (from !== NONE) facts.push(["woken on", model.threadName(from)]);
  panel.facts(facts);
  const links: [string, () => void][] = [["Next poll of this task", () => nextPoll(model, store, row)]];
  const source = wake < 0 || from === NONE ? -1 : pollAt(model, from, wake);
  if (source >= 0) links.push(["Go to its waker", () => goTo(model, store, source)]);
  if (task !== NONE) links.push(["Show the task", () => store.select({ kind: "task", task })]);
  panel.links(links);
  timeLinks(panel, selection, model, store);
  const range = model.rangeOf(selection);
  if (range) insideOf(panel, model, range, store);
}, (selection, model) => `${model.taskName(model.tables.polls.task[selection.poll] as number)}, ` +
  ns(model.tables.polls.length[selection.poll] as number));

/** Selects the next poll of the same task, by time, on any thread. */
function nextPoll(model: Model, store: Store, row: number): void {
  const { start, task, rows } = model.tables.polls;
  const here = start[row] as number;
  let best = -1, nearest = Infinity;
  for (let other = 0; other < rows; other++) {
    const distance = (start[other] as number) - here;
    if (task[other] !== task[row] || distance >= nearest || distance < 0) continue;
    if (distance === 0 && other <= row) continue;
    nearest = distance;
    best = other;
  }
  if (best >= 0) goTo(model, store, best);
}

/** Selects a poll, and scrolls to it if it is not visible. */
function goTo(model: Model, store: Store, poll: number): void {
  const { start, length } = model.tables.polls;
  store.select({ kind: "poll", poll });
  const { t0, t1 } = store.state;
  const from = start[poll] as number, to = from + (length[poll] as number);
  if (from >= t0 && to <= t1) return;
  const width = Math.max(t1 - t0, (to - from) * 1.5);
  store.zoom((from + to - width) / 2, (from + to + width) / 2);
}

/** The innermost poll that ran on THREAD at TIME; -1: none. */
function pollAt(model: Model, thread: number, time: number): number {
  const { start, length } = model.tables.polls;
  const { from, to } = model.pollsOf(thread);
  const last = lowerBound(start, time + 1, from, to) - 1;
  for (let row = last; row >= from && row > last - MOST_NESTED; row--) {
    if ((start[row] as number) + (length[row] as number) > time) return row;
  }
  return -1;
}

describe("task", (panel, selection, model, store) => {
  const { tasks, polls } = model.tables;
  const row = selection.task;
  const place = tasks.place[row] as number, cpu = tasks.on_cpu[row] as number;
  panel.title("Task", model.taskName(row));
  const facts: [string, string][] = [
    ["polls", count(tasks.polls[row] as number)], ["time in polls", ns(tasks.total[row] as number)],
    ["p50, p99", `${ns(tasks.p50[row] as number)}, ${ns(tasks.p99[row] as number)}`],
    ["longest", ns(tasks.max[row] as number)], ["on the CPU", cpu < 0 ? "-" : percent(cpu, 1)],
  ];
  if (place !== NONE) facts.push(["spawned at", model.label(place)]);
  panel.facts(facts);
  panel.heading("Longest polls");
  const longest: number[] = [];
  let least = -1;
  for (let poll = 0; poll < polls.rows; poll++) {
    if (polls.task[poll] !== row || (polls.length[poll] as number) <= least) continue;
    longest.push(poll);
    if (longest.length < LONGEST * 8) continue;
    longest.sort((a, b) => (polls.length[b] as number) - (polls.length[a] as number)).length = LONGEST;
    least = polls.length[longest[LONGEST - 1] as number] as number;
  }
  longest.sort((a, b) => (polls.length[b] as number) - (polls.length[a] as number));
  panel.table("Longest polls", ["at", "took"], longest.slice(0, LONGEST).map((poll) => ({
    cells: [moment(polls.start[poll] as number, 1e4), ns(polls.length[poll] as number)],
    go: () => store.set({ view: store.offers("timeline") ? "timeline" : store.state.view, selection: { kind: "poll", poll },
      ...around(polls.start[poll] as number, polls.length[poll] as number) }),
  })));
}, (selection, model) => model.taskName(selection.task));

/** A time range that shows something and its surroundings. */
function around(start: number, length: number): { t0: number; t1: number } {
  return { t0: start - length, t1: start + Math.max(100, length) * 2 };
}

describe("park", (panel, selection, model, store) => {
  const { parks } = model.tables;
  const row = selection.park;
  panel.title("Parked");
  panel.facts([["for", ns(parks.length[row] as number)], ["from", moment(parks.start[row] as number, 1000)],
    ["thread", model.threadName(parks.thread[row] as number)]]);
  timeLinks(panel, selection, model, store);
}, (selection, model) => `parked for ${ns(model.tables.parks.length[selection.park] as number)}`);

describe("sample", (panel, selection, model, store) => {
  const { samples } = model.tables;
  const row = selection.sample;
  const kind = samples.kind[row] as number, value = samples.value[row] as number, node = samples.node[row] as number;
  panel.title(kind === SAMPLE_CPU ? "CPU sample" : kind === SAMPLE_PREEMPTED ? "Preempted" : "Off the CPU",
    model.functionOf(node));
  panel.facts([["at", moment(samples.at[row] as number, 1000)], ["thread", model.threadName(samples.thread[row] as number)],
    kind === SAMPLE_CPU ? ["represents", ns(value)] : ["off the CPU for", value > 0 ? ns(value) : "the rest of the run"]]);
  if (kind !== SAMPLE_CPU) timeLinks(panel, selection, model, store);
  if (node === NONE) panel.text("No stack.");
  else panel.stack(model, node);
}, (selection, model) => `sample in ${model.functionOf(model.tables.samples.node[selection.sample] as number)}`);
