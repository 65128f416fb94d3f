/* A function's self time per frame as a small chart for a table row: each column shows the maximum of its
 * frames, so that a spike stays visible however many frames there are.
 *
 * The table frame_functions is sorted by frame. It is grouped by function once, with a counting sort. The
 * columns of a function are computed when its row is first shown, and cached. */
import type { Model } from "./model";
import type { Tables } from "./schema";

export const SPARK_COLUMNS = 96;

export class Sparks {
  private start: Uint32Array | null = null;
  private rows = new Uint32Array(0);
  private readonly kept = new Map<number, Float32Array>();

  constructor(private readonly tables: Tables) {}

  get available(): boolean {
    return this.tables.frame_functions.rows > 0 && this.tables.frames.rows > 1;
  }

  /** Rows of frame_functions for one function, in order of frames. */
  rowsOf(fn: number): Uint32Array {
    if (!this.start) this.index();
    return this.rows.subarray(this.start![fn] ?? 0, this.start![fn + 1] ?? 0);
  }

  /** SPARK_COLUMNS maxima of self time; -1: not called in those frames. */
  columns(fn: number): Float32Array {
    const known = this.kept.get(fn);
    if (known) return known;
    const { frame, self } = this.tables.frame_functions;
    const columns = new Float32Array(SPARK_COLUMNS).fill(-1);
    const scale = SPARK_COLUMNS / Math.max(this.tables.frames.rows, 1);
    for (const row of this.rowsOf(fn)) {
      const at = Math.min(Math.floor(frame[row]! * scale), SPARK_COLUMNS - 1);
      const value = Math.max(self[row]!, 0);
      if (value > columns[at]!) columns[at] = value;
    }
    this.kept.set(fn, columns);
    return columns;
  }

  /** The frames in which the function took longest, slowest first. */
  worstFrames(fn: number, most: number): { frame: number; self: number }[] {
    const { frame, self } = this.tables.frame_functions;
    const found: { frame: number; self: number }[] = [];
    for (const row of this.rowsOf(fn)) {
      const value = self[row]!;
      if (found.length === most && value <= found[most - 1]!.self) continue;
      let at = found.length;
      while (at > 0 && found[at - 1]!.self < value) at--;
      found.splice(at, 0, { frame: frame[row]!, self: value });
      if (found.length > most) found.pop();
    }
    return found;
  }

  private index(): void {
    const { function: fns, rows } = this.tables.frame_functions;
    const start = new Uint32Array(this.tables.functions.rows + 2);
    for (let row = 0; row < rows; row++) {
      const slot = fns[row]! + 2;
      start[slot] = start[slot]! + 1;
    }
    for (let i = 2; i < start.length; i++) start[i] = start[i]! + start[i - 1]!;
    this.rows = new Uint32Array(rows);
    for (let row = 0; row < rows; row++) {
      const slot = fns[row]! + 1;
      const at = start[slot]!;
      this.rows[at] = row;
      start[slot] = at + 1;
    }
    this.start = start;
  }
}

export function sparksOf(model: Model): Sparks {
  return model.keep("table: sparks", () => new Sparks(model.tables));
}
