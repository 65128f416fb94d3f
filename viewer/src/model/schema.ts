/* What the viewer relies on in the tables of a page. tables.ts lists the tables and the kind of each
 * column (src/tool/view/tables.def explains the kinds); the types of model.tables, the checks of the
 * decoder and the tests follow from it. Kinds as arrays:
 *   ns, length, num   Float64Array, exact below 2^53
 *   u8                Uint8Array
 *   u32, row numbers  Uint32Array
 */
import type { SCHEMA } from "./tables";

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
/** tasks.kind of a callback. Its name is the reason for the call and the function. */
export const TASK_CALLBACK = 2;

/** The columns that the rows are sorted by, most significant first. Searches rely on the order, so a page
 * with unsorted rows is refused. */
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
