/* The tables a page may hold, and what each column means: the one list from which the types of
 * model.tables, the checks of the decoder and the tests are made. The tool (src/tool/view/)
 * writes them; page.ts and decode.ts read the bytes.
 *
 * Column kinds:
 *   ns      a time (ns since the start of the run) or a figure in ns; Float64Array, exact below 2^53
 *   length  how long something took in ns, never negative; Float64Array
 *   num     a count, a size or a measure; Float64Array
 *   u8 u32  a small number or flags
 *   a table name: a row number of that table (Uint32Array); with "?" at the end NONE is allowed too
 * `order` says how the rows are sorted; a page that is not is refused, for every search relies on it.
 */

/** "No such row" in a column of row numbers. */
export const NONE = 0xffffffff;

/** samples.kind */
export const SAMPLE_CPU = 0;
export const SAMPLE_OFF = 1;
export const SAMPLE_PREEMPTED = 2;

/** sites.flags */
export const SITE_MMAP = 1;

/** polls.flags */
export const POLL_OPEN = 1;
export const POLL_NESTED = 2;
/** Kind of a task that is a callback: its name is what it is called for, and its function. */
export const TASK_CALLBACK = 2;

export const SCHEMA = {
  threads: { tid: "u32", name: "strings", worker: "strings?", is_main: "u8" },
  code: {
    function: "strings", file: "strings?", line: "u32", module: "strings?", inlined: "u8",
    /** 1: of the C library and its like, where there is something of the program's own to name instead. */
    plumbing: "u8",
  },
  /** A node is a stack: its own frame and its parent's. Parents come before children. */
  nodes: { parent: "nodes?", code: "code" },
  samples: { at: "ns", thread: "threads", node: "nodes?", kind: "u8", value: "length" },
  polls: {
    start: "ns", length: "length", thread: "threads", task: "tasks?", flags: "u8",
    /** When it was woken, plus 1; 0: not known. */
    wake_at: "ns", waker_thread: "threads?", waker_task: "tasks?",
  },
  tasks: {
    name: "strings", place: "strings?", kind: "u8", polls: "u32", total: "ns", p50: "ns", p99: "ns",
    max: "ns",
    /** Part of the time it was on a CPU, 0 to 1; -1: not known. */
    on_cpu: "num",
  },
  parks: { start: "ns", length: "length", thread: "threads", kind: "u8" },
  queue_names: { name: "strings" },
  queues: { at: "ns", queue: "queue_names", depth: "num" },
  values: { at: "ns", name: "strings", value: "num" },
  marks: { at: "ns", thread: "threads?", name: "strings" },
  functions: {
    name: "strings", file: "strings?", line: "u32", calls: "num", self: "ns",
    /** total, p50, p99: -1 when not known. */
    total: "ns", p50: "ns", p99: "ns",
    alloc_count: "num", alloc_bytes: "num", free_count: "num", free_bytes: "num",
  },
  frames: {
    start: "ns", wall: "length", thread: "threads", root: "functions?", spike: "u8", alloc_count: "u32",
    alloc_bytes: "num",
    /** Its number, from 0; in words it is one more, as in the reports of the command line. */
    number: "u32",
    /** From its begin to its end by the clock: with what the measuring took besides. Samples are joined by it. */
    took: "length",
  },
  frame_functions: {
    frame: "frames", function: "functions", calls: "u32", self: "ns", alloc_count: "u32",
    alloc_bytes: "num",
  },
  sites: {
    node: "nodes", live_bytes: "num", live_objects: "num", allocated_bytes: "num",
    allocated_objects: "num", freed_bytes: "num", peak_bytes: "num", churn_bytes: "num",
    median_life: "ns", live_samples: "u32", samples: "u32", oldest: "ns",
    /** Where in the stack the site is, and who called it. */
    site_node: "nodes", caller_node: "nodes?",
    flags: "u8",
  },
  blocks_live: { at: "ns", size: "num", weight: "num", thread: "threads?", node: "nodes" },
  snapshots: { at: "ns", live_bytes: "num", allocated_bytes: "num", resident: "num" },
  snapshot_sites: { snapshot: "snapshots", site: "sites", live_bytes: "num" },
  diff: {
    node: "nodes", a_cpu: "num", b_cpu: "num", a_alloc: "num", b_alloc: "num", a_live: "num",
    b_live: "num",
    /** Of stacks with allocations as in sites. */
    site_node: "nodes",
  },
} as const;

/** Sorted by these columns, the first one first. */
export const ORDER: { readonly [T in TableName]?: readonly string[] } = {
  samples: ["at"],
  polls: ["thread", "start"],
  parks: ["thread", "start"],
  queues: ["at"],
  values: ["at"],
  marks: ["at"],
  frames: ["start"],
  frame_functions: ["frame"],
  snapshots: ["at"],
  snapshot_sites: ["snapshot"],
};

export type TableName = keyof typeof SCHEMA;

type ColumnOf<Kind> = Kind extends "ns" | "length" | "num" ? Float64Array
  : Kind extends "u8" ? Uint8Array
  : Uint32Array;

/** A table: a typed array per column, decoded and checked when first touched. */
export type TableOf<T extends TableName> = { readonly rows: number } & {
  readonly [C in keyof typeof SCHEMA[T]]: ColumnOf<typeof SCHEMA[T][C]>;
};

/** All tables; one that the page does not have has 0 rows and empty columns. */
export type Tables = { readonly [T in TableName]: TableOf<T> };
