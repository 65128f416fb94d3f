/* Which samples a question covers: all samples of the run, or those of a selection. A frame, a poll and a
 * park are a time range on one thread. A task is all its polls. A range is a time range on all threads or
 * on one. */
import { NONE, type Tables } from "./schema";
import type { Selection } from "./state";

export interface Scope {
  /** The selection that it was made from; null: the whole run. */
  readonly of: Selection | null;
  readonly t0: number;
  readonly t1: number;
  /** NONE: all threads. */
  readonly thread: number;
  /** For a task: does one of its polls run on that thread at that time? */
  readonly polled: ((at: number, thread: number) => boolean) | null;
}

export const WHOLE: Scope = { of: null, t0: -Infinity, t1: Infinity, thread: NONE, polled: null };

/** True for selections that are a time range, a thread or a task, and so can be a scope. */
export function isScope(s: Selection): boolean {
  return s.kind === "range" || s.kind === "frame" || s.kind === "poll" || s.kind === "park" ||
    s.kind === "thread" || s.kind === "task";
}

function stretch(of: Selection, start: number, length: number, thread: number): Scope {
  // Includes the end: a sample in the last nanosecond belongs to the selection.
  return { of, t0: start, t1: start + length + 1, thread, polled: null };
}

export function scopeOf(tables: Tables, s: Selection | null): Scope {
  if (!s) return WHOLE;
  const { frames, polls, parks } = tables;
  switch (s.kind) {
    case "range": return { of: s, t0: s.t0, t1: s.t1, thread: s.thread ?? NONE, polled: null };
    // Excludes the end: the next frame may start there.
    case "frame": return stretch(s, frames.start[s.frame]!, frames.took[s.frame]! - 1, frames.thread[s.frame]!);
    case "poll": return stretch(s, polls.start[s.poll]!, polls.length[s.poll]!, polls.thread[s.poll]!);
    case "park": return stretch(s, parks.start[s.park]!, parks.length[s.park]!, parks.thread[s.park]!);
    case "thread": return { ...WHOLE, of: s, thread: s.thread };
    case "task": return { ...WHOLE, of: s, polled: pollsOf(tables, s.task) };
    default: return WHOLE;
  }
}

/* Polls are sorted by thread, then start. Polls of one task on one thread do not contain each other except
 * by recursion, for which the maximum end so far is used. */
function pollsOf(tables: Tables, task: number): (at: number, thread: number) => boolean {
  const { polls } = tables;
  const rows: number[] = [];
  for (let row = 0; row < polls.rows; row++) if (polls.task[row] === task) rows.push(row);
  const lists = new Map<number, { starts: number[]; ends: number[] }>();
  for (const row of rows) {
    const thread = polls.thread[row]!;
    let found = lists.get(thread);
    if (!found) lists.set(thread, (found = { starts: [], ends: [] }));
    const end = polls.start[row]! + polls.length[row]!;
    found.starts.push(polls.start[row]!);
    found.ends.push(Math.max(end, found.ends[found.ends.length - 1] ?? 0));
  }
  return (at, thread) => {
    const found = lists.get(thread);
    if (!found) return false;
    const i = upperBound(found.starts, at) - 1;
    return i >= 0 && at <= found.ends[i]!;
  };
}

/** The number of elements of SORTED that are not greater than VALUE. */
export function upperBound(sorted: ArrayLike<number>, value: number): number {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (sorted[middle]! <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Calls EACH with every row of a table of moments that is in the scope. */
export function eachWithin(scope: Scope, at: Float64Array, thread: Uint32Array, sorted: boolean,
  each: (row: number) => void): void {
  let row = 0, end = at.length;
  if (sorted) {
    row = upperBound(at, scope.t0 - 0.5);
    end = upperBound(at, scope.t1 - 0.5);
  }
  for (; row < end; row++) {
    if (!sorted && (at[row]! < scope.t0 || at[row]! >= scope.t1)) continue;
    if (scope.thread !== NONE && thread[row] !== scope.thread) continue;
    if (scope.polled && !scope.polled(at[row]!, thread[row]!)) continue;
    each(row);
  }
}
