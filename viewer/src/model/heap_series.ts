/* Memory over time: live bytes at every snapshot, by place. The page has the largest sites of each
 * snapshot. The rest of a snapshot's sum is "other places", so the layers always add up exactly. */
import { list, number, text, type Json } from "./figures";
import { nameOfPlace, nameOfRow, placesOf, type Place } from "./heap_places";
import type { Model } from "./model";

export interface Layer {
  /** null: all other places. */
  readonly place: Place | null;
  readonly values: Float64Array;
}

export interface Series {
  readonly at: Float64Array;
  /** From the bottom up: the largest first, "other" last. */
  readonly layers: Layer[];
  readonly live: Float64Array;
  readonly allocated: Float64Array;
  readonly resident: Float64Array;
  /** Row with the most live bytes; -1: no snapshots. */
  readonly peak: number;
}

export type Trend = "grows" | "grew, then flat" | "shrinks" | "varies" | "flat" | "-";

/** As many as there are distinguishable colours. */
export const LAYERS = 7;

export function seriesOf(model: Model): Series {
  return model.keep("heap: series", () => {
    const { snapshots } = model.tables;
    const byPlace = valuesByPlace(model);
    const most = (values: Float64Array): number => values.reduce((a, b) => Math.max(a, b), 0);
    const ranked = [...byPlace].map(([place, values]) => ({ place, values, most: most(values) }))
      .filter((entry) => entry.most > 0).sort((a, b) => b.most - a.most);
    const layers: Layer[] = ranked.slice(0, LAYERS).map(({ place, values }) => ({ place, values }));
    const rest = snapshots.live_bytes.slice();
    for (const { values } of layers) for (let i = 0; i < rest.length; i++) rest[i] = rest[i]! - values[i]!;
    for (let i = 0; i < rest.length; i++) rest[i] = Math.max(rest[i]!, 0);
    layers.push({ place: null, values: rest });
    let peak = -1;
    for (let i = 0; i < snapshots.rows; i++) {
      if (peak < 0 || snapshots.live_bytes[i]! > snapshots.live_bytes[peak]!) peak = i;
    }
    return { at: snapshots.at, layers, live: snapshots.live_bytes, allocated: snapshots.allocated_bytes,
      resident: snapshots.resident, peak };
  });
}

/** Live bytes at each snapshot, of places that the page has snapshots of. */
export function valuesByPlace(model: Model): Map<Place, Float64Array> {
  return model.keep("heap: snapshots by place", () => {
    const { snapshots, snapshot_sites: rows, sites } = model.tables;
    const placeOfSite: (Place | undefined)[] = new Array(sites.rows);
    for (const place of placesOf(model)) for (const site of place.sites) placeOfSite[site] = place;
    const found = new Map<Place, Float64Array>();
    for (let row = 0; row < rows.rows; row++) {
      const place = placeOfSite[rows.site[row]!];
      if (!place) continue;
      let values = found.get(place);
      if (!values) found.set(place, (values = new Float64Array(snapshots.rows)));
      const at = rows.snapshot[row]!;
      values[at] = values[at]! + Math.max(rows.live_bytes[row]!, 0);
    }
    return found;
  });
}

/* ---- trends ---- */

/** The trends of places. The report's growth section comes first, because it knows the uncertainty. Other
 * places are judged by their snapshots. */
export function trendsOf(model: Model): Map<Place, { word: string; rate: number }> {
  return model.keep("heap: trends", () => {
    const { at } = model.tables.snapshots;
    const told = new Map<string, Json>();
    for (const row of list((model.report()["growth"] ?? null) as Json, "sites")) told.set(nameOfRow(row), row);
    const found = new Map<Place, { word: string; rate: number }>();
    for (const [place, values] of valuesByPlace(model)) {
      const row = told.get(nameOfPlace(place));
      found.set(place, row === undefined ? trendOf(at, values)
        : { word: text(row, "trend") ?? "-", rate: number(row, "bytes_per_second") ?? 0 });
    }
    return found;
  });
}

function line(at: Float64Array, values: Float64Array, from: number): { slope: number; correlation: number } {
  const n = at.length - from;
  let st = 0, sv = 0;
  for (let i = from; i < at.length; i++) {
    st += at[i]!;
    sv += values[i]!;
  }
  const mt = st / n, mv = sv / n;
  let tt = 0, vv = 0, tv = 0;
  for (let i = from; i < at.length; i++) {
    const t = at[i]! - mt, v = values[i]! - mv;
    tt += t * t;
    vv += v * v;
    tv += t * v;
  }
  return { slope: tt > 0 ? tv / tt : 0, correlation: tt > 0 && vv > 0 ? tv / Math.sqrt(tt * vv) : 0 };
}

/** Classifies live bytes over time, with a rate in bytes per second where it is meaningful: at least four
 * snapshots, close to a straight line (correlation 0.8), and the same direction in the second half. */
export function trendOf(at: Float64Array, values: Float64Array): { word: Trend; rate: number } {
  const n = at.length;
  if (n < 4) return { word: "-", rate: 0 };
  const whole = line(at, values, 0);
  const change = values[n - 1]! - values[0]!;
  if (whole.slope === 0 && change === 0) return { word: "flat", rate: 0 };
  const middle = at[0]! + (at[n - 1]! - at[0]!) / 2;
  let late = 0;
  while (late < n && at[late]! < middle) late++;
  late = Math.min(late, n - 3);
  const later = line(at, values, late);
  const rate = whole.slope * 1e9;
  const settled = Math.abs(later.slope) < Math.abs(whole.slope) / 4;
  if (change > 0 && settled) return { word: "grew, then flat", rate };
  if (Math.abs(whole.correlation) < 0.8 || later.slope * whole.slope <= 0) return { word: "varies", rate };
  return { word: whole.slope > 0 ? "grows" : "shrinks", rate };
}
