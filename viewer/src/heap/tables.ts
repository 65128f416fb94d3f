/* The tables of the heap view: live memory, memory at the peak, churn, possible leaks. A row can be opened
 * to show its stacks. */
import { button, h } from "../util/element";
import { flameOfNode } from "../flame/link";
import { bytes, count, cut, ns, percent } from "../model/format";
import { leadersOf, placesOf, valuesOfSites, type Place } from "../model/heap_places";
import { trendsOf, valuesByPlace } from "../model/heap_series";
import type { Model } from "../model/model";
import type { Store } from "../model/state";

export interface HeapColumn {
  readonly title: string;
  readonly about: string;
  text(place: Place): string;
  /** 0 to 1: length of the bar behind the figure. */
  part?(place: Place): number;
  /** A chart beside the text. */
  picture?(place: Place): Float64Array | null;
}

export interface HeapTable {
  readonly id: string;
  readonly title: string;
  readonly about: string;
  /** The question of its flame graph. */
  readonly weight: string;
  readonly columns: readonly HeapColumn[];
  rows(): Place[];
}

const half = (value: number | null): string => value === null ? "-" : value === 0 ? "exact" : `±${bytes(value)}`;
const sumOf = (places: readonly Place[], of: (place: Place) => number): number =>
  places.reduce((sum, place) => sum + Math.max(of(place), 0), 0);

export function tablesOf(model: Model): HeapTable[] {
  const all = placesOf(model);
  const by = (of: (place: Place) => number) => (): Place[] =>
    all.filter((place) => of(place) > 0).sort((a, b) => of(b) - of(a));
  const amount = (title: string, about: string, of: (place: Place) => number): HeapColumn => {
    const whole = sumOf(all, of);
    return { title, about, text: (place) => bytes(of(place)), part: (place) => whole > 0 ? of(place) / whole : 0 };
  };
  const share = (of: (place: Place) => number): HeapColumn => {
    const whole = sumOf(all, of);
    return { title: "%", about: "of the whole program", text: (place) => percent(of(place), whole) };
  };
  const allocated: HeapColumn = { title: "Allocated", about: "since the start", text: (p) => bytes(p.allocated) };
  const samples: HeapColumn = { title: "Samples", about: "number of sampled blocks",
    text: (p) => count(p.samples) };
  const tables: HeapTable[] = [
    { id: "live", title: "Who holds memory", weight: "live", rows: by((p) => p.live),
      about: "Not freed when the recording ended.",
      columns: [amount("Live", "not freed", (p) => p.live), share((p) => p.live),
        { title: "±", about: "half of the 95 % interval", text: (p) => half(p.liveHalf) },
        { title: "Objects", about: "estimated", text: (p) => count(p.objects) }, allocated, samples] },
    { id: "peak", title: "At the peak", weight: "peak", rows: by((p) => p.peak),
      about: "Live at the time of the peak.",
      columns: [amount("At the peak", "", (p) => p.peak), share((p) => p.peak),
        { title: "±", about: "half of the 95 % interval (upper bound)", text: (p) => half(p.peakHalf) },
        { title: "Live", about: "not freed", text: (p) => bytes(p.live) }, allocated] },
    { id: "churn", title: "Who churns memory", weight: "churn", rows: by((p) => p.churn),
      about: "Freed again within about a millisecond. Such allocations cost time and are often avoidable.",
      columns: [amount("Churn", "freed within 1024us", (p) => p.churn), share((p) => p.churn),
        { title: "Churn %", about: "share of what it allocated", text: (p) => percent(p.churn, p.allocated) },
        allocated, { title: "Typical lifetime", about: "of what was freed", text: (p) => p.life < 0 ? "-" : ns(p.life) },
        samples] },
    leaks(model, all),
  ];
  return tables.filter((table) => table.rows().length > 0);
}

/** Growing, or old and still live: the two signs of a leak. Neither is a proof. */
function leaks(model: Model, all: readonly Place[]): HeapTable {
  const values = valuesByPlace(model);
  const trends = trendsOf(model);
  const age = (place: Place): number => model.end - place.oldest;
  const grows = (place: Place): boolean => trends.get(place)?.word === "grows";
  const suspect = (place: Place): boolean =>
    place.live > 0 && (grows(place) || (place.oldest < Infinity && age(place) > model.end / 2 &&
      place.freed < place.allocated / 2));
  return {
    id: "leaks", title: "What may leak", weight: "live",
    about: "Grows during the run, or is old and rarely freed. Memory that is used until the end is not a leak. " +
      "Suspicious are many objects of the same size whose number grows.",
    rows: () => all.filter(suspect).sort((a, b) => Number(grows(b)) - Number(grows(a)) || b.live - a.live),
    columns: [
      { title: "Live", about: "not freed", text: (p) => bytes(p.live) },
      { title: "±", about: "half of the 95 % interval", text: (p) => half(p.liveHalf) },
      { title: "Objects", about: "estimated", text: (p) => count(p.objects) },
      { title: "Oldest", about: "age of its oldest sampled block",
        text: (p) => p.oldest < Infinity ? ns(age(p)) : "-" },
      { title: "Freed", about: "of what it allocated", text: (p) => percent(p.freed, p.allocated) },
      { title: "Trend", about: "live bytes at the snapshots", text: (p) => trends.get(p)?.word ?? "-",
        picture: (p) => values.get(p) ?? null },
      { title: "Per second", about: "slope of a straight line through the snapshots",
        text: (p) => grows(p) ? `+${bytes(trends.get(p)!.rate)}` : "-" },
    ],
  };
}

const MOST_STACKS = 3;
const MOST_FRAMES = 12;

/** The contents of an opened row: its largest stacks, innermost frame first. */
export function stacksOf(model: Model, store: Store, place: Place, weight: string): HTMLElement {
  const { sites, nodes, code } = model.tables;
  const value = valuesOfSites(model, weight);
  const rows = leadersOf(model, place, weight);
  const out = h("div", { class: "heap-stacks" });
  for (const site of rows.slice(0, MOST_STACKS)) {
    const node = sites.node[site]!;
    const stack = model.stack(node).reverse();
    const list = h("ol", { class: "stack" }, ...stack.slice(0, MOST_FRAMES).map((n) => {
      const c = nodes.code[n]!;
      return h("li", { class: code.inlined[c] ? "inlined" : "" }, h("span", {}, cut(model.codeName(c), 160)),
        h("span", { class: "place" }, cut(model.placeOf(c), 80)));
    }));
    if (stack.length > MOST_FRAMES) list.append(h("li", { class: "dim" }, `${stack.length - MOST_FRAMES} more`));
    out.append(h("div", { class: "heap-stack" },
      h("div", { class: "heap-stack-head" }, h("b", {}, bytes(value[site]!)),
        button("Flame graph", () => flameOfNode(store, model, node, weight), { class: "chip" }),
        button("Details", () => store.select({ kind: "site", site }), { class: "chip" })), list));
  }
  if (rows.length > MOST_STACKS) out.append(h("p", { class: "dim" }, `and ${rows.length - MOST_STACKS} more stacks`));
  return out;
}
