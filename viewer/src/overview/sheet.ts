/* The contents of the table of functions. A sheet is a set of rows with columns of numbers; NaN is unknown.
 *   spans        functions that were built with probes: exact calls, time per frame
 *   cpu          functions of CPU samples: self time, and total with callees
 *   heap         functions by allocated bytes, with callees */
import { list, member, text, type Json } from "../model/figures";
import { ask, QUESTIONS } from "../model/weight";
import { addUp, topDown } from "../model/trie";
import { WHOLE } from "../model/scope";
import { sumFunctions } from "../model/function_sums";
import { cut } from "../model/format";
import { keysOf, rowsOfTrie, trieOf } from "../model/keys";
import type { Model } from "../model/model";
import { NONE } from "../model/schema";
import type { Selection } from "../model/state";

/** Maximum length of names in rows; the details panel shows complete names. */
const LONGEST = 300;

export type Kind = "ns" | "bytes" | "count" | "share";

export interface Column {
  readonly id: string;
  readonly title: string;
  readonly about: string;
  readonly kind: Kind;
  readonly values: Float64Array;
  /** The question that the stacks of a row answer. */
  readonly weight?: string;
}

export interface Sheet {
  readonly id: string;
  readonly title: string;
  readonly rows: number;
  /** Safe to show. */
  name(row: number): string;
  place(row: number): string;
  readonly columns: readonly Column[];
  /** The column that rows are sorted by at first. */
  readonly by: string;
  /** What a click on the row selects. */
  selection(row: number): Selection | null;
  /** The text below the table. */
  readonly about: string;
  /** True if the times of a row are estimates, which are shown with "~". */
  estimated?(row: number): boolean;
}

function unknownBelowZero(values: Float64Array): Float64Array {
  return values.map((value) => value < 0 ? NaN : value);
}

function shares(values: Float64Array, whole: number): Float64Array {
  return values.map((value) => whole > 0 ? Math.max(value, 0) / whole : NaN);
}

function sum(values: Float64Array): number {
  let all = 0;
  for (const value of values) if (value > 0) all += value;
  return all;
}

function spans(model: Model): Sheet | null {
  const f = model.tables.functions;
  if (f.rows === 0) return null;
  const column = (id: string, title: string, kind: Kind, about: string, values: Float64Array): Column =>
    ({ id, title, kind, about, values });
  const names: (string | undefined)[] = new Array(f.rows);
  const estimatedNames = new Set(list((model.report()["functions"] ?? null) as Json, "functions")
    .filter((row) => member(row, "estimated") === true).map((row) => text(row, "name")));
  return {
    id: "spans", title: "Timed functions", rows: f.rows, by: "self",
    selection: (row) => ({ kind: "function", function: row }),
    name: (row) => (names[row] ??= cut(model.label(f.name[row]!), LONGEST) || "(unknown)"),
    place: (row) => place(model, f.file[row]!, f.line[row]!),
    estimated: (row) => estimatedNames.has(model.text(f.name[row]!)),
    about: "Times are measured. ~: estimated, because not every call of the function or its callees was timed.",
    columns: [
      column("self", "Self", "ns", "without callees", unknownBelowZero(f.self)),
      column("share", "Self %", "share", "of the self time of all functions", shares(f.self, sum(f.self))),
      column("total", "Total", "ns", "with callees", unknownBelowZero(f.total)),
      column("calls", "Calls", "count", "", f.calls),
      column("p50", "p50 / frame", "ns", "median of its self time per frame", unknownBelowZero(f.p50)),
      column("p99", "p99 / frame", "ns", "99th percentile of its self time per frame", unknownBelowZero(f.p99)),
      column("allocs", "Allocs", "count", "allocations, without callees", f.alloc_count),
      column("bytes", "Alloc bytes", "bytes", "bytes allocated, without callees", f.alloc_bytes),
    ],
  };
}

function place(model: Model, file: number, line: number): string {
  const name = model.label(file);
  return name !== "" && line > 0 ? `${name}:${line}` : name;
}

/** Sums of a question by function: [self, total] of a channel. */
function sumsOf(model: Model, id: string, channel: number): [Float64Array, Float64Array] | null {
  const question = QUESTIONS.find((q) => q.id === id)!;
  if (!question.has(model.tables)) return null;
  const { channels } = model.keep(`table: ${id}`, () => ask(question, model.tables, trieOf(model), WHOLE));
  const sums = model.keep(`table: sums of ${id}`, () =>
    sumFunctions(topDown(trieOf(model), channels, null), keysOf(model).count));
  return [sums.self[channel]!, sums.total[channel]!];
}

/** For every key the heaviest stack that ends in it, with callees: a row of `nodes`. */
function heaviest(model: Model, weight: string): Uint32Array {
  return model.keep(`table: heaviest of ${weight}`, () => {
    const trie = trieOf(model);
    const question = QUESTIONS.find((q) => q.id === weight)!;
    const { channels } = model.keep(`table: ${weight}`, () => ask(question, model.tables, trie, WHOLE));
    const total = addUp(trie.count, trie.parent, channels[0]!);
    const best = new Uint32Array(keysOf(model).count);
    for (let n = 1; n < trie.count; n++) {
      const key = trie.key[n]!;
      if (best[key] === 0 || total[n]! > total[best[key]!]!) best[key] = n;
    }
    const rows = rowsOfTrie(model);
    return best.map((n) => n === 0 ? NONE : rows[n]!);
  });
}

function selectKey(model: Model, key: number, weight: string): Selection | null {
  const node = heaviest(model, weight)[key]!;
  return node === NONE ? null : { kind: "node", node };
}

/** Keeps only rows with a value, so that CPU tables do not list functions of the heap. */
function keySheet(model: Model, id: string, title: string, by: string, about: string, columns: Column[]): Sheet {
  const keys = keysOf(model);
  const rows: number[] = [];
  for (let key = 0; key < keys.count; key++) if (columns.some((c) => c.values[key]! > 0)) rows.push(key);
  return {
    id, title, by, about, rows: rows.length,
    selection: (row) => selectKey(model, rows[row]!, columns.find((c) => c.id === by)!.weight!),
    name: (row) => keys.name(rows[row]!),
    place: (row) => keys.place(rows[row]!) || keys.moduleName(rows[row]!),
    columns: columns.map((c) => ({ ...c, values: Float64Array.from(rows, (key) => c.values[key]!) })),
  };
}

function cpu(model: Model): Sheet | null {
  const time = sumsOf(model, "cpu", 0), many = sumsOf(model, "cpu", 1);
  const off = sumsOf(model, "off", 0);
  if (!time && !off) return null;
  const columns: Column[] = [];
  if (time && many) {
    columns.push(
      { id: "self", title: "Self", kind: "ns", about: "CPU time in the function", values: time[0], weight: "cpu" },
      { id: "share", title: "Self %", kind: "share", about: "of all CPU time", values: shares(time[0], sum(time[0])) },
      { id: "total", title: "Total", kind: "ns", about: "CPU time with callees", values: time[1] },
      { id: "samples", title: "Samples", kind: "count", about: "samples in the function", values: many[0] },
      { id: "all", title: "Total samples", kind: "count", about: "samples with callees", values: many[1] });
  }
  if (off) {
    columns.push({ id: "off", title: "Off CPU", kind: "ns", about: "blocked, with callees", values: off[1],
      weight: "off" });
  }
  return keySheet(model, "cpu", "CPU samples", time ? "self" : "off",
    "CPU times are estimates: each sample represents the time since the previous one.", columns);
}

function heap(model: Model): Sheet | null {
  const made = sumsOf(model, "allocated", 0);
  if (!made) return null;
  const live = sumsOf(model, "live", 0), churn = sumsOf(model, "churn", 0);
  const columns: Column[] = [
    { id: "bytes", title: "Allocated", kind: "bytes", about: "with callees", values: made[1],
      weight: "allocated" }];
  if (live) {
    columns.push({ id: "live", title: "Live", kind: "bytes", about: "not freed", values: live[1] });
  }
  if (churn) {
    columns.push({ id: "churn", title: "Churn", kind: "bytes", about: "freed within a millisecond", values: churn[1] });
  }
  return keySheet(model, "heap", "Allocations", "bytes",
    "Bytes are estimated from sampled allocations of each function and its callees.", columns);
}

export function sheetsOf(model: Model): Sheet[] {
  return model.keep("table: sheets", () =>
    [spans(model), cpu(model), heap(model)].filter((sheet): sheet is Sheet => sheet !== null));
}

/** Rows sorted by a column (or by name), unknown values last; only those whose name contains TEXT. */
export function ordered(sheet: Sheet, by: string, down: boolean, text: string): Uint32Array {
  const rows: number[] = [];
  for (let row = 0; row < sheet.rows; row++) {
    if (text === "" || sheet.name(row).toLowerCase().includes(text)) rows.push(row);
  }
  const sign = down ? -1 : 1;
  const column = sheet.columns.find((c) => c.id === by);
  if (column) {
    const { values } = column;
    rows.sort((a, b) => {
      const x = values[a]!, y = values[b]!;
      if (x !== x || y !== y) return (x !== x ? 1 : 0) - (y !== y ? 1 : 0) || a - b;
      return (x - y) * sign || a - b;
    });
  } else {
    const names = new Map(rows.map((row) => [row, sheet.name(row).toLowerCase()]));
    rows.sort((a, b) => (names.get(a)! < names.get(b)! ? -1 : names.get(a)! > names.get(b)! ? 1 : a - b) * sign);
  }
  return Uint32Array.from(rows);
}
