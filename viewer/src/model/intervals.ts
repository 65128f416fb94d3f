/* Intervals in time that do not overlap (the polls, parks or frames of a lane). Drawing needs, for each
 * pixel column, how much of it is covered and which interval is the longest. The cost must not depend on
 * the number of intervals, which can be millions.
 *
 * A pyramid over the rows answers both: each level sums 8 neighbours of the level below and keeps their
 * longest. It takes 1/7 of the memory of the rows, and a query takes about 14 steps per level.
 *
 * Invariant: starts ascend and no interval reaches into the next one (nest() ensures this). */
import { lowerBound } from "./model";

const BITS = 3;
const FAN = 1 << BITS;

interface Level {
  readonly best: Uint32Array;
  readonly sum: Float64Array;
}

/** What a pixel column (or a run of them) shows. One object is reused for all. */
export interface ColumnRun {
  /** Columns [x0, x1) are equal. */
  x0: number;
  x1: number;
  /** The intervals in the columns: indices [from, to). */
  from: number;
  to: number;
  /** Index of the longest interval. */
  best: number;
  /** Covered share of the columns, 0 to 1. */
  cover: number;
}

export class Intervals {
  readonly count: number;
  private levels: Level[] | null = null;
  private best = 0;

  /** ROWS: row of the table for each interval; null: FIRST + i. */
  constructor(readonly start: Float64Array, readonly length: Float64Array,
    private readonly rows: Uint32Array | null = null, private readonly first = 0) {
    this.count = start.length;
  }

  row(index: number): number {
    return this.rows ? this.rows[index] as number : this.first + index;
  }

  end(index: number): number {
    return (this.start[index] as number) + (this.length[index] as number);
  }

  /** The intervals that FIT accepts, by index, with their rows. */
  only(fits: (index: number) => boolean): Intervals {
    const kept: number[] = [];
    for (let i = 0; i < this.count; i++) if (fits(i)) kept.push(i);
    const indices = Uint32Array.from(kept);
    return new Intervals(Float64Array.from(indices, (i) => this.start[i] as number),
      Float64Array.from(indices, (i) => this.length[i] as number), indices.map((i) => this.row(i)));
  }

  /** The first interval that ends after TIME. */
  firstEndingAfter(time: number): number {
    const next = lowerBound(this.start, time, 0, this.count);
    return next > 0 && this.end(next - 1) > time ? next - 1 : next;
  }

  /** The interval at TIME, or the nearest one within SLACK; -1: none. */
  at(time: number, slack: number): number {
    const next = this.firstEndingAfter(time);
    if (next < this.count && (this.start[next] as number) <= time) return next;
    const after = next < this.count ? (this.start[next] as number) - time : Infinity;
    const before = next > 0 ? time - this.end(next - 1) : Infinity;
    if (Math.min(after, before) > slack) return -1;
    return after < before ? next : next - 1;
  }

  /** Index of the longest of [from, to), which must not be empty. */
  longest(from: number, to: number): number {
    this.survey(from, to);
    return this.best;
  }

  /** The intervals of [from, to) that are at least LEAST long, in no order. LEAST must be so large that few
   * qualify: names fit only into wide intervals. */
  atLeast(least: number, from: number, to: number): number[] {
    const found: number[] = [], rest: [number, number][] = [[from, to]];
    for (let part = rest.pop(); part; part = rest.pop()) {
      if (part[0] >= part[1]) continue;
      const best = this.longest(part[0], part[1]);
      if ((this.length[best] as number) < least) continue;
      found.push(best);
      rest.push([part[0], best], [best + 1, part[1]]);
    }
    return found;
  }

  /** Sum of the lengths of [from, to). */
  sum(from: number, to: number): number {
    return this.survey(from, to);
  }

  /** Both in one pass: returns the sum and stores the index of the longest in `best`. */
  private survey(from: number, to: number): number {
    const levels = this.levels ?? this.pyramid();
    const { length } = this;
    let best = from, most = -Infinity, sum = 0;
    for (let level = 0; from < to; level++) {
      const above = level === 0 ? null : levels[level - 1] as Level;
      const sums = above ? above.sum : length, bests = above?.best ?? null;
      // Visits single intervals up to a multiple of 8 and after the last multiple; the next level covers
      // the rest.
      const left = Math.min(to, (from + FAN - 1) & -FAN), right = Math.max(left, to & -FAN);
      for (let k = from; k < left; k++) {
        const i = bests ? bests[k] as number : k;
        sum += sums[k] as number;
        if ((length[i] as number) > most) most = length[best = i] as number;
      }
      for (let k = right; k < to; k++) {
        const i = bests ? bests[k] as number : k;
        sum += sums[k] as number;
        if ((length[i] as number) > most) most = length[best = i] as number;
      }
      from = left >>> BITS;
      to = right >>> BITS;
    }
    this.best = best;
    return sum;
  }

  /** Calls VISIT for each run of pixel columns that is not empty. Column x covers the time [t0 + x * step,
   * t0 + (x + 1) * step), x < columns. */
  columns(t0: number, step: number, columns: number, visit: (run: ColumnRun) => void): void {
    const { start } = this;
    const run: ColumnRun = { x0: 0, x1: 0, from: 0, to: 0, best: 0, cover: 0 };
    let i = this.firstEndingAfter(t0);
    for (let x = 0; x < columns && i < this.count;) {
      const begin = start[i] as number;
      const skipped = Math.floor((begin - t0) / step);
      if (skipped > x) {
        x = skipped;
        if (x >= columns) return;
      }
      const left = t0 + x * step, right = left + step;
      let j = i + 1;
      if (j < this.count && (start[j] as number) < right) j = this.gallop(j, right);
      const reach = this.end(j - 1);
      run.x0 = x;
      run.x1 = x + 1;
      run.from = i;
      run.to = j;
      if (j === i + 1 && reach >= right) {
        // One interval covers many columns: the fully covered ones are equal.
        if (begin <= left) run.x1 = Math.max(x + 1, Math.min(columns, Math.floor((reach - t0) / step)));
        run.best = i;
        run.cover = begin <= left ? 1 : (right - begin) / step;
      } else {
        const whole = this.survey(i, j) - Math.max(0, left - begin) - Math.max(0, reach - right);
        run.best = this.best;
        run.cover = Math.min(1, Math.max(0, whole / step));
      }
      visit(run);
      x = run.x1;
      i = reach > t0 + x * step ? j - 1 : j;
    }
  }

  /** First index >= FROM whose start is >= TIME. Usually close to FROM, so the search gallops. */
  private gallop(from: number, time: number): number {
    let width = 1;
    while (from + width < this.count && (this.start[from + width] as number) < time) width <<= 1;
    return lowerBound(this.start, time, from + (width >> 1), Math.min(from + width, this.count));
  }

  private pyramid(): Level[] {
    if (this.levels) return this.levels;
    this.levels = [];
    let below: Level | null = null;
    for (let size = this.count; size >= FAN; size = Math.floor(size / FAN)) {
      below = this.summarize(below, Math.floor(size / FAN));
      this.levels.push(below);
    }
    return this.levels;
  }

  private summarize(below: Level | null, size: number): Level {
    const best = new Uint32Array(size), sum = new Float64Array(size);
    for (let k = 0; k < size; k++) {
      let total = 0, longest = below ? below.best[k * FAN] as number : k * FAN;
      for (let c = k * FAN; c < (k + 1) * FAN; c++) {
        const i = below ? below.best[c] as number : c;
        if ((this.length[i] as number) > (this.length[longest] as number)) longest = i;
        total += (below ? below.sum[c] : this.length[c]) as number;
      }
      best[k] = longest;
      sum[k] = total;
    }
    return { best, sum };
  }
}

/** Distributes nested intervals to layers without overlap, outermost first. Rows are sorted by start.
 * Intervals beyond MOST layers go to the last layer and are cut where the next one starts. */
export function nest(start: Float64Array, length: Float64Array, first: number, most: number): Intervals[] {
  const ends: number[] = [];
  const lists: number[][] = [];
  let flat = true;
  for (let i = 0; i < start.length && flat; i++) {
    flat = i === 0 || (start[i - 1] as number) + (length[i - 1] as number) <= (start[i] as number);
  }
  if (flat) return [new Intervals(start, length, null, first)];
  for (let i = 0; i < start.length; i++) {
    const begin = start[i] as number;
    let depth = 0;
    while (depth < most - 1 && depth < ends.length && (ends[depth] as number) > begin) depth++;
    (lists[depth] ??= []).push(i);
    ends[depth] = begin + (length[i] as number);
  }
  return lists.map((list) => {
    const rows = Uint32Array.from(list);
    const starts = Float64Array.from(rows, (i) => start[i] as number);
    const lengths = Float64Array.from(rows, (i, k) =>
      Math.min(length[i] as number, k + 1 < rows.length ? (starts[k + 1] as number) - (starts[k] as number)
        : Infinity));
    return new Intervals(starts, lengths, rows.map((i) => first + i));
  });
}
