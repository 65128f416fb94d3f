/* The run, as the views read it: typed columns of all tables, and derived data, which is computed on first
 * use and cached.
 *
 *   model.tables.polls.start[row]        a column (tables.ts lists all); rows = model.tables.polls.rows
 *   model.text(string)                   a string of the run: hostile, so show it through format.ts only
 *   model.functionOf(node)               name of a stack's innermost function, safe to show
 *   model.children()                     children of every node of the stack trie
 *   model.samplesIn(t0, t1, thread)      rows of samples in a time range
 *
 * A column is decoded and checked (row numbers in range, order, parents before children) at its first use.
 * A broken one throws a PageError, which the shell shows. verify() checks all of them. */
import { Texts } from "./decode";
import { PageError } from "./error";
import { safe } from "./format";
import type { Meta } from "./page";
import { Source } from "./source";
import { NONE, SAMPLE_CPU } from "./schema";
import type { TableName, Tables } from "./schema";
import type { Bounds, Selection } from "./state";

/** Rows [from, to) of a table. */
export interface Rows {
  readonly from: number;
  readonly to: number;
}

/** Lists of rows by key, in one array: the rows of key K are list[start[K]] ... list[start[K + 1] - 1]. */
export interface Groups {
  readonly start: Uint32Array;
  readonly list: Uint32Array;
}

/** A time range, of one thread or of all. */
export interface TimeRange {
  readonly t0: number;
  readonly t1: number;
  readonly thread?: number;
}

export class Model implements Bounds {
  readonly tables: Tables;
  private readonly kept = new Map<string, unknown>();
  private readonly strings: Texts;

  constructor(readonly meta: Meta, private readonly source: Source) {
    this.tables = source.tables;
    this.strings = source.texts("strings");
  }

  /** End of the run, ns since its start. No interval is drawn beyond it. */
  get end(): number {
    return Math.max(this.meta.duration_ns, 1);
  }

  /** Decodes and checks every column. Yields after each one so that the page stays responsive. */
  verify(): Iterable<string> {
    return this.source.verify();
  }

  /* Names ---------------------------------------------------------------------------------------- */

  /** The raw text of a row of strings; "" for NONE. Hostile: show it through format.ts only. */
  text(row: number): string {
    return row === NONE ? "" : this.strings.get(row);
  }

  /** A string's text made safe to show, not shortened. */
  label(row: number): string {
    return safe(this.text(row));
  }

  /** "worker 3" or "name", with the tid if the name is empty or not unique. */
  threadName(thread: number): string {
    const { name, worker, tid } = this.tables.threads;
    const own = this.label(at(name, thread)), role = at(worker, thread);
    if (role !== NONE) return this.label(role);
    if (own === "") return `thread ${at(tid, thread)}`;
    const unique = (this.threadNames().get(at(name, thread)) ?? 0) < 2;
    return unique || at(tid, thread) === 0 ? own : `${own} (${at(tid, thread)})`;
  }

  /** The name of a lane: of several processes, with that of the process. */
  laneName(thread: number): string {
    const { process, pid, is_main } = this.tables.threads;
    if (at(pid, thread) === 0) return this.threadName(thread);
    const of = this.processName(at(process, thread), at(pid, thread));
    return at(is_main, thread) ? of : `${this.threadName(thread)} · ${of}`;
  }

  /** The processes with threads on the page, the busiest first; empty if there is only one. */
  processes(): readonly { readonly pid: number; readonly name: string }[] {
    return this.keep("processes", () => {
      const { process, pid, place, rows } = this.tables.threads;
      const found = new Map<number, { pid: number; name: string; place: number }>();
      for (let row = 0; row < rows; row++) {
        const number = at(pid, row);
        if (number === 0) continue;
        found.set(number, { pid: number, name: this.processName(at(process, row), number), place: at(place, row) });
      }
      return found.size < 2 ? [] : [...found.values()].sort((a, b) => a.place - b.place);
    });
  }

  private processName(name: number, pid: number): string {
    return name === NONE ? `process ${pid}` : `${this.label(name)} (${pid})`;
  }

  /** The number of threads with each name, by row of strings. */
  private threadNames(): ReadonlyMap<number, number> {
    return this.keep("names of threads", () => {
      const found = new Map<number, number>();
      for (const name of this.tables.threads.name) found.set(name, (found.get(name) ?? 0) + 1);
      return found;
    });
  }

  /** Name of the function of a row of code. */
  codeName(code: number): string {
    return this.label(at(this.tables.code.function, code)) || "(unknown)";
  }

  /** Name of the innermost function of a stack. */
  functionOf(node: number): string {
    return node === NONE ? "(no stack)" : this.codeName(at(this.tables.nodes.code, node));
  }

  /** The innermost node of a stack that is not library plumbing; NODE itself if all of them are. */
  ownNode(node: number): number {
    const { nodes, code } = this.tables;
    let own = node;
    while (own !== NONE && at(code.plumbing, at(nodes.code, own)) !== 0) own = at(nodes.parent, own);
    return own === NONE ? node : own;
  }

  /** "file:line", "file" or "" for a row of code. */
  placeOf(code: number): string {
    const { file, line } = this.tables.code;
    const name = at(file, code) === NONE ? "" : this.label(at(file, code));
    return name !== "" && at(line, code) > 0 ? `${name}:${at(line, code)}` : name;
  }

  taskName(task: number): string {
    return task === NONE ? "(unnamed)" : this.label(at(this.tables.tasks.name, task)) || "(unnamed)";
  }

  /* Stacks --------------------------------------------------------------------------------------- */

  /** The nodes of a stack, outermost first, ending with NODE itself. */
  stack(node: number): number[] {
    const { parent } = this.tables.nodes;
    const found: number[] = [];
    for (let n = node; n !== NONE; n = at(parent, n)) found.push(n); // terminates: parents come before children
    return found.reverse();
  }

  /** Children of every node. Key N is node N; key nodes.rows has the roots. */
  children(): Groups {
    return this.keep("children", () => {
      const { parent, rows } = this.tables.nodes;
      return group(rows + 1, rows, (row) => Math.min(parent[row] as number, rows));
    });
  }

  /* Time ----------------------------------------------------------------------------------------- */

  /** Rows of polls and of parks of a thread: consecutive, sorted by start. */
  pollsOf(thread: number): Rows {
    return this.rowsOf("polls", this.tables.polls.thread, thread);
  }

  parksOf(thread: number): Rows {
    return this.rowsOf("parks", this.tables.parks.thread, thread);
  }

  /** Rows of frames by thread (each in order of start), and of samples (in order of time). */
  framesByThread(): Groups {
    return this.byThread("frames", this.tables.frames.thread);
  }

  samplesByThread(): Groups {
    return this.byThread("samples", this.tables.samples.thread);
  }

  marksByThread(): Groups {
    const { thread } = this.tables.marks;
    const count = this.tables.threads.rows;
    return this.keep("marks by thread", () =>
      group(count + 1, thread.length, (row) => Math.min(thread[row] as number, count)));
  }

  /** Rows of queues by queue name, and rows of values by string. */
  queuesByName(): Groups {
    const { queue, rows } = this.tables.queues;
    return this.keep("queues by name", () =>
      group(this.tables.queue_names.rows, rows, (row) => queue[row] as number));
  }

  valuesByName(): ReadonlyMap<number, Uint32Array> {
    return this.keep("values by name", () => {
      const found = new Map<number, number[]>();
      const { name, rows } = this.tables.values;
      for (let row = 0; row < rows; row++) {
        const list = found.get(name[row] as number);
        if (list) list.push(row);
        else found.set(name[row] as number, [row]);
      }
      return new Map([...found].map(([key, list]) => [key, Uint32Array.from(list)]));
    });
  }

  /** Rows of frame_functions of a frame. */
  functionsOf(frame: number): Rows {
    const { frame: column, rows } = this.tables.frame_functions;
    return { from: lowerBound(column, frame, 0, rows), to: lowerBound(column, frame + 1, 0, rows) };
  }

  /** Rows of samples in [t0, t1), of one thread or all, of one kind (default: on the CPU) or all (null). */
  samplesIn(t0: number, t1: number, thread?: number, kind: number | null = SAMPLE_CPU): number[] {
    const { at: time, kind: kinds, rows } = this.tables.samples;
    const found: number[] = [];
    if (thread === undefined) {
      const to = lowerBound(time, t1, 0, rows);
      for (let row = lowerBound(time, t0, 0, rows); row < to; row++) {
        if (kind === null || kinds[row] === kind) found.push(row);
      }
      return found;
    }
    const { start, list } = this.samplesByThread();
    const last = at(start, thread + 1);
    for (let i = lowerBoundBy(list, time, t0, at(start, thread), last); i < last; i++) {
      const row = list[i] as number;
      if ((time[row] as number) >= t1) break;
      if (kind === null || kinds[row] === kind) found.push(row);
    }
    return found;
  }

  /** The time range (and thread) of a selection; null if it has none (a function, a site, a node). */
  rangeOf(selection: Selection | null): TimeRange | null {
    const t = this.tables;
    const span = (start: number, length: number, thread: number): TimeRange =>
      ({ t0: start, t1: start + Math.max(length, 1), thread });
    switch (selection?.kind) {
      case "range": return selection;
      case "frame": {
        const row = selection.frame;
        return span(at(t.frames.start, row), at(t.frames.took, row), at(t.frames.thread, row));
      }
      case "poll": {
        const row = selection.poll;
        return span(at(t.polls.start, row), at(t.polls.length, row), at(t.polls.thread, row));
      }
      case "park": {
        const row = selection.park;
        return span(at(t.parks.start, row), at(t.parks.length, row), at(t.parks.thread, row));
      }
      case "sample": {
        const row = selection.sample;
        const away = at(t.samples.kind, row) === SAMPLE_CPU ? 0 : at(t.samples.value, row);
        return span(at(t.samples.at, row), away, at(t.samples.thread, row));
      }
      case "thread": return { t0: 0, t1: this.end, thread: selection.thread };
      default: return null;
    }
  }

  /** Does the page contain what SELECTION refers to? */
  has(selection: Selection): boolean {
    const t = this.tables;
    switch (selection.kind) {
      case "range":
        return selection.t0 < selection.t1 && selection.t0 <= this.end &&
          (selection.thread === undefined || selection.thread < t.threads.rows);
      case "frame": return selection.frame < t.frames.rows;
      case "poll": return selection.poll < t.polls.rows;
      case "park": return selection.park < t.parks.rows;
      case "sample": return selection.sample < t.samples.rows;
      case "thread": return selection.thread < t.threads.rows;
      case "task": return selection.task < t.tasks.rows;
      case "function": return selection.function < t.functions.rows;
      case "node": return selection.node < t.nodes.rows;
      case "site": return selection.site < t.sites.rows;
    }
  }

  /* The report ----------------------------------------------------------------------------------- */

  /** The output of `piano report --json` when the page was made: {"functions", "heap", "leaks", "polls",
   * "cpu", "overview"}, as far as they exist. It is JSON from a file: check every value. */
  report(): Readonly<Record<string, unknown>> {
    return this.keep("report", () => {
      const found = this.source.json("report");
      return typeof found === "object" && found !== null ? found as Record<string, unknown> : {};
    });
  }

  /* Cache ---------------------------------------------------------------------------------------- */

  /** The value of MAKE, computed once. Views store their derived data here under "<view id>: ...". */
  keep<T>(name: string, make: () => T): T {
    if (!this.kept.has(name)) this.kept.set(name, make());
    return this.kept.get(name) as T;
  }

  private byThread(table: TableName, thread: Uint32Array): Groups {
    return this.keep(`${table} by thread`, () =>
      group(this.tables.threads.rows, thread.length, (row) => thread[row] as number));
  }

  private rowsOf(table: TableName, column: Uint32Array, thread: number): Rows {
    const starts = this.keep(`${table} of threads`, () => {
      const found = new Uint32Array(this.tables.threads.rows + 1);
      for (let t = 0, row = 0; t < found.length; t++) {
        row = lowerBound(column, t, row, column.length);
        found[t] = row;
      }
      return found;
    });
    return { from: at(starts, thread), to: at(starts, thread + 1) };
  }
}

/* Arrays ----------------------------------------------------------------------------------------- */

type Numbers = Uint8Array | Uint32Array | Float64Array;

/** values[row]. A missing row means a broken page and must not become `undefined` in a sum. */
export function at(values: Numbers, row: number): number {
  const found = values[row];
  if (found === undefined) throw new PageError(`Row ${row} is not on this page (of ${values.length}).`);
  return found;
}

/** First index in [from, to) of ascending VALUES with a value >= KEY; TO if none. */
export function lowerBound(values: Numbers, key: number, from: number, to: number): number {
  while (from < to) {
    const middle = (from + to) >>> 1;
    if ((values[middle] as number) < key) from = middle + 1;
    else to = middle;
  }
  return from;
}

/** The same for values[list[i]]. */
export function lowerBoundBy(list: Uint32Array, values: Numbers, key: number, from: number,
  to: number): number {
  while (from < to) {
    const middle = (from + to) >>> 1;
    if ((values[list[middle] as number] as number) < key) from = middle + 1;
    else to = middle;
  }
  return from;
}

/** Groups rows by key (0 ... KEYS - 1) with a counting sort; each list is in row order. */
export function group(keys: number, rows: number, keyOf: (row: number) => number): Groups {
  const start = new Uint32Array(keys + 1);
  for (let row = 0; row < rows; row++) start[keyOf(row) + 1]++;
  for (let key = 0; key < keys; key++) start[key + 1] += start[key] as number;
  const next = start.slice(0, keys);
  const list = new Uint32Array(rows);
  for (let row = 0; row < rows; row++) {
    const key = keyOf(row);
    list[next[key]++] = row;
  }
  return { start, list };
}
