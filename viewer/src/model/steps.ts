/* A value that changes in steps (the depth of a queue, a named value): minimum and maximum per pixel
 * column, from a pyramid like that of intervals.ts. Times ascend. */
import { lowerBound } from "./model";

const BITS = 3;
const FAN = 1 << BITS;

export class Steps {
  private readonly low: Float64Array[];
  private readonly high: Float64Array[];
  readonly least: number;
  readonly most: number;

  constructor(readonly at: Float64Array, readonly value: Float64Array) {
    this.low = [value];
    this.high = [value];
    for (let size = value.length; size >= FAN; size = Math.floor(size / FAN)) this.raise(Math.floor(size / FAN));
    const all = this.range(0, value.length);
    this.least = all[0];
    this.most = all[1];
  }

  /** Minimum and maximum of rows [from, to); [Infinity, -Infinity] if there are none. */
  range(from: number, to: number): [number, number] {
    let least = Infinity, most = -Infinity;
    for (let level = 0; from < to; level++) {
      const low = this.low[level] as Float64Array, high = this.high[level] as Float64Array;
      const take = (i: number): void => {
        if ((low[i] as number) < least) least = low[i] as number;
        if ((high[i] as number) > most) most = high[i] as number;
      };
      while (from < to && (from & (FAN - 1)) !== 0) take(from++);
      while (from < to && (to & (FAN - 1)) !== 0) take(--to);
      from >>>= BITS;
      to >>>= BITS;
    }
    return [least, most];
  }

  /** The value at TIME; NaN before the first one. */
  valueAt(time: number): number {
    const next = lowerBound(this.at, time + 1, 0, this.at.length);
    return next > 0 ? this.value[next - 1] as number : NaN;
  }

  /** Calls VISIT with the minimum and maximum of each pixel column. */
  columns(t0: number, step: number, columns: number, visit: (x: number, low: number, high: number) => void):
    void {
    let i = lowerBound(this.at, t0, 0, this.at.length);
    for (let x = 0; x < columns; x++) {
      const right = t0 + (x + 1) * step;
      let j = i;
      if (j < this.at.length && (this.at[j] as number) < right) j = lowerBound(this.at, right, i, this.at.length);
      let [least, most] = this.range(i, j);
      if (i > 0) {
        const before = this.value[i - 1] as number; // the value at the start of the column
        least = Math.min(least, before);
        most = Math.max(most, before);
      }
      if (least <= most) visit(x, least, most);
      i = j;
    }
  }

  private raise(size: number): void {
    const low = new Float64Array(size), high = new Float64Array(size);
    const below = this.low.length - 1;
    const lows = this.low[below] as Float64Array, highs = this.high[below] as Float64Array;
    for (let k = 0; k < size; k++) {
      let least = Infinity, most = -Infinity;
      for (let c = k * FAN; c < (k + 1) * FAN; c++) {
        least = Math.min(least, lows[c] as number);
        most = Math.max(most, highs[c] as number);
      }
      low[k] = least;
      high[k] = most;
    }
    this.low.push(low);
    this.high.push(high);
  }
}
