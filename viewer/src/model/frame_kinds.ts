/* Frames by kind (the function whose calls they are), with their figures. A frame is a spike relative to
 * the median of its own kind, so the lines of the chart are those of one kind. The figures come from the
 * report, which also counts merged frames that have no row. Without a report they are computed here, with
 * the same rule for ranks. */
import { dig, list, number, text } from "./figures";
import type { Json } from "./figures";
import { Intervals } from "./intervals";
import type { Model } from "./model";
import { NONE } from "./schema";

export interface FrameFigures {
  readonly count: number;
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
  readonly spikes: number;
  /** Merged frames, which have no row. */
  readonly merged: number;
}

/** What the height of a bar means. */
export type Measure = "wall" | "bytes" | "count";

export class FrameKind {
  readonly rows: Uint32Array;
  private readonly kept = new Map<Measure, Intervals>();
  private counted: FrameFigures | null = null;

  constructor(private readonly model: Model, readonly root: number, readonly title: string, rows: Uint32Array,
    private readonly report: Json) {
    this.rows = rows;
  }

  /** The frames in order of start. The length of each is the measured value. */
  values(measure: Measure): Intervals {
    let found = this.kept.get(measure);
    if (!found) {
      const { start, wall, alloc_bytes, alloc_count } = this.model.tables.frames;
      const values = measure === "wall" ? wall : measure === "bytes" ? alloc_bytes : alloc_count;
      found = new Intervals(pick(start, this.rows), pick(values, this.rows), this.rows);
      this.kept.set(measure, found);
    }
    return found;
  }

  figures(): FrameFigures {
    return (this.counted ??= this.count());
  }

  private count(): FrameFigures {
    const { report } = this;
    const p50 = number(report, "p50_ns"), p99 = number(report, "p99_ns"), max = number(report, "max_ns");
    const counted = number(report, "count"), spikes = number(report, "spikes");
    if (p50 !== null && p99 !== null && max !== null && counted !== null && spikes !== null) {
      return { count: counted, p50, p99, max, spikes, merged: number(report, "merged") ?? 0 };
    }
    const sorted = this.values("wall").length.slice().sort();
    const rank = (part: number): number => sorted[Math.floor(part * (sorted.length - 1) + 0.5)] ?? -1;
    const { spike } = this.model.tables.frames;
    let high = 0;
    for (const row of this.rows) high += spike[row] as number;
    return { count: sorted.length, p50: rank(0.5), p99: rank(0.99), max: rank(1), spikes: high, merged: 0 };
  }
}

/** First all frames as one kind (root NONE), then each kind if there are several. */
export function frameKinds(model: Model): FrameKind[] {
  return model.keep("frames: kinds", () => {
    const { root, rows } = model.tables.frames;
    const lists = new Map<number, number>();
    for (let row = 0; row < rows; row++) lists.set(root[row] as number, (lists.get(root[row] as number) ?? 0) + 1);
    const summary = dig(model.report() as Json, "functions", "frames");
    const all = Uint32Array.from({ length: rows }, (_, row) => row);
    const kinds = [...lists].sort((a, b) => b[1] - a[1]).map(([own, length]) => {
      const name = own === NONE ? "" : model.text(model.tables.functions.name[own] as number);
      const told = list(summary, "by_root").find((group) => (text(group, "root") ?? "") === name);
      const label = own === NONE ? "(no function)" : model.label(model.tables.functions.name[own] as number);
      return new FrameKind(model, own, told && text(told, "kind") === "turn" ? `turns from ${label}` : label,
        length === rows ? all : all.filter((row) => root[row] === own), told ?? null);
    });
    if (kinds.length === 1) return kinds;
    return [new FrameKind(model, NONE, "all frames", all, summary), ...kinds];
  });
}

/** The kind of a frame, whose median the frame is compared with. */
export function kindOfFrame(model: Model, frame: number): FrameKind | undefined {
  const kinds = frameKinds(model);
  const root = model.tables.frames.root[frame];
  return kinds.length === 1 ? kinds[0] : kinds.slice(1).find((kind) => kind.root === root);
}

function pick(values: Float64Array | Uint32Array, rows: Uint32Array): Float64Array {
  const found = new Float64Array(rows.length);
  for (let i = 0; i < rows.length; i++) found[i] = values[rows[i] as number] as number;
  return found;
}
