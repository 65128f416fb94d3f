/* The questions that a flame graph can answer: a weight for every stack, and how boxes are coloured.
 * Channel 0 is the width of the boxes; the meaning of the others depends on the question.
 *
 *   cpu, off, preempted   [ns, samples]
 *   live                  [bytes, objects]
 *   allocated, churn      [bytes, objects or samples]
 *   life                  [freed bytes, bytes x log(median life), bytes whose life is known]
 *   diff-...              [width, before, after]
 *
 * Heap sums cover the whole run: the page does not have the allocations of a single poll. Only blocks that
 * are still live have a time and a thread. If a question cannot be limited to the scope, the answer covers
 * the whole run, and `whole` is true. */
import type { Scope } from "./scope";
import { WHOLE, eachWithin } from "./scope";
import type { Trie } from "./trie";
import { SAMPLE_CPU, SAMPLE_OFF, SAMPLE_PREEMPTED, type Tables } from "./schema";

export type Unit = "ns" | "bytes";

export interface Question {
  readonly id: string;
  readonly title: string;
  readonly unit: Unit;
  /** What channel 1 counts, or "". */
  readonly counts: string;
  /** How boxes are coloured. */
  readonly colour: "module" | "life" | "change";
  /** Description of the figures for the user. */
  readonly about: string;
  /** False: measured exactly. */
  readonly estimated: boolean;
  has(tables: Tables): boolean;
}

export interface Answer {
  readonly question: Question;
  readonly channels: Float64Array[];
  /** Time of each node's first sample; null: in the order of the table. */
  readonly first: Float64Array | null;
  /** True: a scope was given, but the figures cover the whole run. */
  readonly whole: boolean;
  /** Number of samples or blocks; -1: not counted. */
  readonly rests: number;
}

const some = (column: Float64Array): boolean => column.some((value) => value > 0);
const hasKind = (tables: Tables, kind: number): boolean => tables.samples.kind.includes(kind);

export const QUESTIONS: readonly Question[] = [
  { id: "cpu", title: "CPU time", unit: "ns", counts: "samples", colour: "module",
    about: "CPU time", estimated: true, has: (t) => hasKind(t, SAMPLE_CPU) },
  { id: "off", title: "Off-CPU time", unit: "ns", counts: "times", colour: "module",
    about: "Time blocked, off the CPU", estimated: false, has: (t) => hasKind(t, SAMPLE_OFF) },
  { id: "preempted", title: "Waiting for a CPU", unit: "ns", counts: "times", colour: "module",
    about: "Time ready to run, without a CPU", estimated: false, has: (t) => hasKind(t, SAMPLE_PREEMPTED) },
  { id: "allocated", title: "Allocated bytes", unit: "bytes", counts: "objects", colour: "module",
    about: "Bytes allocated", estimated: true, has: (t) => some(t.sites.allocated_bytes) },
  { id: "live", title: "Live bytes", unit: "bytes", counts: "objects", colour: "module",
    about: "Bytes not freed", estimated: true, has: (t) => some(t.sites.live_bytes) },
  { id: "peak", title: "Bytes at the peak", unit: "bytes", counts: "", colour: "module",
    about: "Bytes live at the peak", estimated: true, has: (t) => some(t.sites.peak_bytes) },
  { id: "churn", title: "Churn", unit: "bytes", counts: "", colour: "life",
    about: "Bytes freed within about a millisecond", estimated: true,
    has: (t) => some(t.sites.churn_bytes) },
  { id: "life", title: "Lifetimes", unit: "bytes", counts: "", colour: "life",
    about: "Bytes freed, coloured by how long they lived", estimated: true,
    has: (t) => some(t.sites.freed_bytes) },
];

export const DIFFS: readonly Question[] = [
  { id: "diffcpu", title: "CPU time, change", unit: "ns", counts: "", colour: "change",
    about: "CPU time of two runs", estimated: true,
    has: (t) => some(t.diff.a_cpu) || some(t.diff.b_cpu) },
  { id: "diffalloc", title: "Allocated bytes, change", unit: "bytes", counts: "", colour: "change",
    about: "Bytes allocated in two runs", estimated: true,
    has: (t) => some(t.diff.a_alloc) || some(t.diff.b_alloc) },
  { id: "difflive", title: "Live bytes, change", unit: "bytes", counts: "", colour: "change",
    about: "Bytes not freed in two runs", estimated: true,
    has: (t) => some(t.diff.a_live) || some(t.diff.b_live) },
];

export function questionsOf(tables: Tables): Question[] {
  return [...DIFFS, ...QUESTIONS].filter((q) => q.has(tables));
}

/** Which of the two runs determines the widths of a comparison. */
export type Widths = "after" | "before" | "both";

export function ask(question: Question, tables: Tables, trie: Trie, scope: Scope,
  widths: Widths = "after"): Answer {
  if (question.id.startsWith("diff")) return askDiff(question, tables, trie, scope, widths);
  if (question.id === "cpu") return askSamples(question, tables, trie, scope, SAMPLE_CPU);
  if (question.id === "off") return askSamples(question, tables, trie, scope, SAMPLE_OFF);
  if (question.id === "preempted") return askSamples(question, tables, trie, scope, SAMPLE_PREEMPTED);
  if (question.id === "live" && scope !== WHOLE && tables.blocks_live.rows > 0) {
    return askBlocks(question, tables, trie, scope);
  }
  return askSites(question, tables, trie, scope);
}

function channels(trie: Trie, count: number): Float64Array[] {
  return Array.from({ length: count }, () => new Float64Array(trie.count));
}

/** Adds VALUE unless it is not finite or not positive; the difference of two estimates can be negative. */
function add(channel: Float64Array, node: number, value: number): void {
  if (value > 0 && value < Infinity) channel[node] = channel[node]! + value;
}

/* An unknown stack (NONE) counts at the root: in the total, and in no box. */
function nodeOf(trie: Trie, row: number): number {
  return trie.ofRow[row] ?? 0;
}

function askSamples(question: Question, tables: Tables, trie: Trie, scope: Scope, kind: number): Answer {
  const out = channels(trie, 2);
  const first = new Float64Array(trie.count).fill(Infinity);
  const { at, thread, node, kind: kinds, value } = tables.samples;
  let rests = 0;
  const take = (row: number, time: number): void => {
    if (kinds[row] !== kind || !(time > 0)) return;
    const n = nodeOf(trie, node[row]!);
    add(out[0]!, n, time);
    add(out[1]!, n, 1);
    rests++;
    if (first[n] === Infinity) first[n] = at[row]!;
  };
  if (kind === SAMPLE_CPU) eachWithin(scope, at, thread, true, (row) => take(row, value[row]!));
  else {
    // Time off the CPU is an interval: only its part inside the scope counts, also if it started earlier.
    const open: Scope = { ...scope, t0: -Infinity };
    eachWithin(open, at, thread, true, (row) =>
      take(row, Math.min(at[row]! + value[row]!, scope.t1) - Math.max(at[row]!, scope.t0)));
  }
  return { question, channels: out, first, whole: false, rests };
}

function askBlocks(question: Question, tables: Tables, trie: Trie, scope: Scope): Answer {
  const out = channels(trie, 2);
  const { at, thread, node, size, weight } = tables.blocks_live;
  let rests = 0;
  eachWithin(scope, at, thread, false, (row) => {
    const n = nodeOf(trie, node[row]!);
    add(out[0]!, n, weight[row]!);
    add(out[1]!, n, size[row]! > 0 ? weight[row]! / size[row]! : 0);
    rests++;
  });
  return { question, channels: out, first: null, whole: false, rests };
}

function askSites(question: Question, tables: Tables, trie: Trie, scope: Scope): Answer {
  const { sites } = tables;
  const coloured = question.colour === "life";
  const out = channels(trie, coloured ? 3 : 2);
  const width = question.id === "live" ? sites.live_bytes
    : question.id === "peak" ? sites.peak_bytes
    : question.id === "churn" ? sites.churn_bytes
    : question.id === "life" ? sites.freed_bytes
    : sites.allocated_bytes;
  const objects = question.id === "live" ? sites.live_objects
    : question.id === "allocated" ? sites.allocated_objects : null;
  let rests = 0;
  for (let row = 0; row < sites.rows; row++) {
    const n = nodeOf(trie, sites.node[row]!);
    const bytes = width[row]!;
    add(out[0]!, n, bytes);
    rests += question.id === "live" ? sites.live_samples[row]! : sites.samples[row]!;
    if (!coloured) {
      if (objects) add(out[1]!, n, objects[row]!);
    } else if (sites.median_life[row]! >= 0) {
      add(out[1]!, n, bytes * Math.log(Math.max(sites.median_life[row]!, 1)));
      add(out[2]!, n, bytes);
    }
  }
  return { question, channels: out, first: null, whole: scope !== WHOLE, rests };
}

/** The columns of `diff` that a question compares: before and after. */
export function sidesOf(question: Question, diff: Tables["diff"]): [Float64Array, Float64Array] {
  return question.id === "diffcpu" ? [diff.a_cpu, diff.b_cpu]
    : question.id === "diffalloc" ? [diff.a_alloc, diff.b_alloc] : [diff.a_live, diff.b_live];
}

function askDiff(question: Question, tables: Tables, trie: Trie, scope: Scope, widths: Widths): Answer {
  const { diff } = tables;
  const [a, b] = sidesOf(question, diff);
  const out = channels(trie, 3);
  for (let row = 0; row < diff.rows; row++) {
    const n = nodeOf(trie, diff.node[row]!);
    add(out[1]!, n, a[row]!);
    add(out[2]!, n, b[row]!);
    if (widths !== "after") add(out[0]!, n, a[row]!);
    if (widths !== "before") add(out[0]!, n, b[row]!);
  }
  return { question, channels: out, first: null, whole: scope !== WHOLE, rests: -1 };
}

/** For a box of a graph coloured by lifetime: ns, or -1 if unknown. The geometric mean, weighted by bytes,
 * of the medians of its stacks: a typical lifetime, not a median. */
export function typicalLife(total: Float64Array[], node: number): number {
  const known = total[2]?.[node] ?? 0;
  return known > 0 ? Math.exp(total[1]![node]! / known) : -1;
}

/** The change of a value, from -1 (a quarter or less, or gone) to 1 (four times or more, or new); 0: no
 * change. */
export function changeOf(before: number, after: number): number {
  if (before <= 0 && after <= 0) return 0;
  if (before <= 0) return 1;
  if (after <= 0) return -1;
  return Math.max(-1, Math.min(1, Math.log2(after / before) / 2));
}
