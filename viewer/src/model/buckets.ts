/* A lane at low zoom. The run is divided into 2^14 equal parts; each part has the time that is covered and
 * its longest interval. Further levels have 2^13 parts and so on. Drawing the whole run reads two or three
 * parts per pixel column, however many intervals there are. If parts are wider than pixels, intervals.ts is
 * used instead. Built in one pass over the intervals. */
import type { ColumnRun, Intervals } from "./intervals";

const FINEST = 14, COARSEST = 8;
const NOTHING = 0xffffffff;

interface Level {
  /** ns per part. */
  readonly step: number;
  readonly best: Uint32Array;
  /** ns covered. */
  readonly sum: Float64Array;
}

export class Buckets {
  /** Finest level first. */
  private readonly levels: Level[] = [];

  constructor(private readonly intervals: Intervals, end: number) {
    const count = 1 << FINEST;
    let level: Level = { step: end / count, best: new Uint32Array(count).fill(NOTHING), sum: new Float64Array(count) };
    this.fill(level);
    this.levels.push(level);
    for (let bits = FINEST - 1; bits >= COARSEST; bits--) this.levels.push(level = this.coarser(level));
  }

  /** ns per part of the finest level. Pixels must be at least this wide. */
  get finest(): number {
    return this.levels[0]?.step ?? Infinity;
  }

  /** Like Intervals.columns(), for a STEP of at least `finest`. A part that spans two pixels counts for
   * both in proportion. */
  columns(t0: number, step: number, columns: number, visit: (run: ColumnRun) => void): void {
    let level = this.levels[0] as Level;
    for (const coarser of this.levels) if (coarser.step <= step) level = coarser;
    const { best, sum, step: width } = level;
    const { length } = this.intervals;
    const run: ColumnRun = { x0: 0, x1: 0, from: 0, to: 0, best: 0, cover: 0 };
    for (let x = 0; x < columns; x++) {
      const left = (t0 + x * step) / width, right = left + step / width;
      const first = Math.max(0, Math.floor(left)), last = Math.min(best.length, Math.ceil(right));
      let longest = NOTHING, most = -1, covered = 0;
      for (let i = first; i < last; i++) {
        const own = best[i] as number;
        if (own === NOTHING) continue;
        covered += (sum[i] as number) * (Math.min(right, i + 1) - Math.max(left, i));
        if ((length[own] as number) > most) most = length[longest = own] as number;
      }
      if (longest === NOTHING) continue;
      run.x0 = x;
      run.x1 = x + 1;
      run.best = run.from = longest;
      run.to = longest + 1;
      run.cover = Math.min(1, covered / step);
      visit(run);
    }
  }

  private fill({ step, best, sum }: Level): void {
    const { start, length, count } = this.intervals;
    const most = best.length - 1;
    for (let i = 0; i < count; i++) {
      const from = start[i] as number, own = length[i] as number, to = from + own;
      const first = Math.min(most, Math.max(0, Math.floor(from / step)));
      const last = Math.min(most, Math.max(0, Math.floor(to / step)));
      // Intervals do not overlap, so the number of visits is at most the number of parts plus the number of
      // intervals.
      for (let b = first; b <= last; b++) {
        const before = best[b] as number;
        if (before === NOTHING || (length[before] as number) < own) best[b] = i;
        sum[b] += Math.max(0, Math.min(to, (b + 1) * step) - Math.max(from, b * step));
      }
    }
  }

  private coarser(fine: Level): Level {
    const { length } = this.intervals;
    const count = fine.best.length >> 1;
    const level: Level = { step: fine.step * 2, best: new Uint32Array(count), sum: new Float64Array(count) };
    for (let i = 0; i < count; i++) {
      const a = fine.best[2 * i] as number, b = fine.best[2 * i + 1] as number;
      level.sum[i] = (fine.sum[2 * i] as number) + (fine.sum[2 * i + 1] as number);
      level.best[i] = a === NOTHING ? b : b === NOTHING || (length[a] as number) >= (length[b] as number) ? a : b;
    }
    return level;
  }
}
