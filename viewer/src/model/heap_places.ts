/* Groups the sites of the page, which are stacks, by place: function, line and caller. The tool has chosen
 * the frame of each stack that is the site. Figures are sums. Intervals come from the report if it has the
 * place, because intervals cannot be summed. */
import { halfWidth, list, number, text, type Json } from "./figures";
import { safe } from "./format";
import type { Model } from "./model";
import { NONE, SITE_MMAP } from "./schema";

export interface Place {
  /** Row of code of the site's frame. */
  readonly code: number;
  readonly name: string;
  readonly where: string;
  readonly caller: string;
  /** Memory from mmap, not from malloc. */
  readonly mmap: boolean;
  /** Rows of sites; `leadersOf` orders them. */
  readonly sites: number[];
  live: number;
  objects: number;
  allocated: number;
  freed: number;
  peak: number;
  churn: number;
  samples: number;
  liveSamples: number;
  /** Birth of its oldest live block, ns since the start; Infinity: no block is known. */
  oldest: number;
  /** Typical lifetime of freed blocks, ns; -1: unknown. */
  life: number;
  /** Half widths of the 95 % intervals; null: not in the report. */
  liveHalf: number | null;
  allocatedHalf: number | null;
  peakHalf: number | null;
}

export function placesOf(model: Model): Place[] {
  return model.keep("heap: places", () => {
    const places = group(model);
    takeIntervals(places, model.report()["heap"] as Json | undefined);
    return places.sort((a, b) => b.live - a.live);
  });
}

function group(model: Model): Place[] {
  const { sites, nodes, code } = model.tables;
  const found = new Map<string, Place>();
  const logLife = new Map<Place, [number, number]>();
  for (let row = 0; row < sites.rows; row++) {
    const at = nodes.code[sites.site_node[row]!]!, caller = sites.caller_node[row]!;
    const by = caller === NONE ? NONE : code.function[nodes.code[caller]!]!;
    const mmap = (sites.flags[row]! & SITE_MMAP) !== 0;
    const key = `${code.function[at]},${code.file[at]},${code.line[at]},${code.module[at]},${by},${mmap}`;
    let place = found.get(key);
    if (!place) found.set(key, (place = newPlace(model, at, by, mmap)));
    addSite(place, model, row, logLife);
  }
  for (const [place, [sum, bytes]] of logLife) if (bytes > 0) place.life = Math.exp(sum / bytes);
  return [...found.values()];
}

function newPlace(model: Model, code: number, caller: number, mmap: boolean): Place {
  return {
    code, mmap, name: model.codeName(code), where: model.placeOf(code),
    caller: caller === NONE ? "" : model.label(caller), sites: [], live: 0, objects: 0, allocated: 0, freed: 0,
    peak: 0, churn: 0, samples: 0, liveSamples: 0, oldest: Infinity, life: -1, liveHalf: null,
    allocatedHalf: null, peakHalf: null,
  };
}

function addSite(place: Place, model: Model, row: number, logLife: Map<Place, [number, number]>): void {
  const { sites } = model.tables;
  place.sites.push(row);
  place.live += sites.live_bytes[row]!;
  place.objects += sites.live_objects[row]!;
  place.allocated += sites.allocated_bytes[row]!;
  place.freed += sites.freed_bytes[row]!;
  place.peak += sites.peak_bytes[row]!;
  place.churn += sites.churn_bytes[row]!;
  place.samples += sites.samples[row]!;
  place.liveSamples += sites.live_samples[row]!;
  if (sites.live_samples[row]! > 0 && sites.oldest[row]! >= 0) {
    place.oldest = Math.min(place.oldest, sites.oldest[row]!);
  }
  if (sites.median_life[row]! >= 0 && sites.freed_bytes[row]! > 0) {
    const sums = logLife.get(place) ?? [0, 0];
    sums[0] += sites.freed_bytes[row]! * Math.log(Math.max(sites.median_life[row]!, 1));
    sums[1] += sites.freed_bytes[row]!;
    logLife.set(place, sums);
  }
}

/** The figure of each site that a table or flame graph is ordered by. */
export function valuesOfSites(model: Model, weight: string): Float64Array {
  const { sites } = model.tables;
  return weight === "churn" ? sites.churn_bytes : weight === "peak" ? sites.peak_bytes
    : weight === "allocated" ? sites.allocated_bytes : sites.live_bytes;
}

/** The sites of a place, those first that lead by WEIGHT. */
export function leadersOf(model: Model, place: Place, weight: string): number[] {
  const value = valuesOfSites(model, weight);
  return [...place.sites].sort((a, b) => value[b]! - value[a]!);
}

/** The key of a place in reports: function, place, caller, and kind of memory. */
export function nameOfPlace(place: Place): string {
  return JSON.stringify([place.name, place.where, place.caller, place.mmap]);
}

/** The same key for a row of a report. */
export function nameOfRow(row: Json): string {
  const line = number(row, "line"), file = safe(text(row, "file") ?? "");
  return JSON.stringify([safe(text(row, "function") ?? ""), file !== "" && line ? `${file}:${line}` : file,
    safe(text(row, "caller") ?? ""), text(row, "kind") === "mmap"]);
}

/** Copies the intervals of the report's places to the places with the same function, line and caller. */
function takeIntervals(places: Place[], heap: Json | undefined): void {
  const known = new Map<string, Json>();
  for (const row of list(heap, "places")) known.set(nameOfRow(row), row);
  for (const place of places) {
    const row = known.get(nameOfPlace(place));
    if (row === undefined) continue;
    place.liveHalf = halfWidth(row, "live_bytes_ci95");
    place.allocatedHalf = halfWidth(row, "allocated_bytes_ci95");
    place.peakHalf = halfWidth(row, "peak_bytes_ci95");
  }
}
