/* The details panel for a function, a stack and an allocation site. */
import { describe, type Panel } from "../util/details";
import { flameOfFunction, flameOfNode, inFlame } from "./link";
import { WHOLE } from "../model/scope";
import { topDown } from "../model/trie";
import { ask, QUESTIONS, type Question } from "../model/weight";
import { bytes, count, cut, ns, percent } from "../model/format";
import { frameNumber } from "../model/frame";
import { sumFunctions, type FunctionSums } from "../model/function_sums";
import { placesOf, type Place } from "../model/heap_places";
import { keysOf, trieOf } from "../model/keys";
import type { Model } from "../model/model";
import { NONE } from "../model/schema";
import { sparksOf } from "../model/sparks";
import type { Store } from "../model/state";


const WORST = 8;

/* ---- a timed function ---- */

describe("function", (panel, { function: row }, model, store) => {
  const f = model.tables.functions;
  const name = model.label(f.name[row]!);
  panel.title("Function", name);
  const file = model.label(f.file[row]!);
  panel.facts([
    ["place", file === "" ? "-" : f.line[row]! > 0 ? `${file}:${f.line[row]}` : file],
    ["calls", count(f.calls[row]!)],
    ["self", ns(f.self[row]!)],
    ["total", ns(f.total[row]!)],
    ["per call", f.calls[row]! > 0 && f.self[row]! >= 0 ? ns(f.self[row]! / f.calls[row]!) : "-"],
    ["self per frame", `${ns(f.p50[row]!)} median, ${ns(f.p99[row]!)} p99`],
    ["allocated", `${bytes(f.alloc_bytes[row]!)} in ${count(f.alloc_count[row]!)}`],
    ["freed", `${bytes(f.free_bytes[row]!)} in ${count(f.free_count[row]!)}`],
  ]);
  flameLinks(panel, model, store, name);
  worstFrames(panel, model, store, row);
}, ({ function: row }, model) => cut(model.label(model.tables.functions.name[row]!), 80));

function worstFrames(panel: Panel, model: Model, store: Store, fn: number): void {
  const sparks = sparksOf(model);
  if (!sparks.available) return;
  const { frames } = model.tables;
  const worst = sparks.worstFrames(fn, WORST).filter(({ self }) => self > 0);
  if (worst.length === 0) return;
  panel.heading("Where it was slowest");
  panel.table("Frames where it was slowest", ["Frame", "Self", "Share of the frame"], worst.map(({ frame, self }) => ({
    cells: [`Frame ${count(frameNumber(model.tables, frame))}`, ns(self), percent(self, frames.wall[frame]!)],
    part: self / worst[0]!.self,
    go: () => store.open("frames", { kind: "frame", frame }),
  })));
}

/** Links to the flame graphs that contain a function of that name. */
function flameLinks(panel: Panel, model: Model, store: Store, name: string): void {
  if (!inFlame(model, name)) return;
  const links: [string, () => void][] = [];
  for (const question of QUESTIONS) {
    if (!question.has(model.tables) || question.id === "peak" || question.id === "life") continue;
    links.push([question.title, () => flameOfFunction(store, model, name, question.id, false)]);
  }
  panel.heading("In the flame graph");
  panel.links(links);
}

/* ---- a stack ---- */

function sumsOf(model: Model, question: Question): FunctionSums {
  return model.keep(`details: sums of ${question.id}`, () => {
    const { channels } = ask(question, model.tables, trieOf(model), WHOLE);
    return sumFunctions(topDown(trieOf(model), channels, null), keysOf(model).count);
  });
}

/** The sums of a function over the whole run, from its stacks. */
function figuresOf(model: Model, key: number): [string, string][] {
  const found: [string, string][] = [];
  for (const question of QUESTIONS) {
    if (!question.has(model.tables) || question.colour === "life" || question.id === "peak") continue;
    const { self, total } = sumsOf(model, question);
    const show = question.unit === "ns" ? ns : bytes;
    if (!(total[0]![key]! > 0)) continue;
    const own = question.unit === "ns" && self[0]![key]! > 0 ? `, ${show(self[0]![key]!)} self` : "";
    found.push([question.title.toLowerCase(), show(total[0]![key]!) + own]);
  }
  return found;
}

describe("node", (panel, { node }, model, store) => {
  const code = model.tables.nodes.code[node]!;
  const keys = keysOf(model);
  const key = keys.ofCode[code]!;
  const name = model.codeName(code);
  panel.title("Function in a stack", name);
  const timed = functionByName(model, name);
  panel.facts([["place", model.placeOf(code) || "-"], ["module", keys.moduleName(key) || "-"],
    ...figuresOf(model, key)]);
  flameLinks(panel, model, store, name);
  if (timed !== NONE) {
    panel.links([["Calls and frames of this function", () => store.open("table", { kind: "function", function: timed })]]);
    worstFrames(panel, model, store, timed);
  }
  panel.heading("A stack that ends in this function");
  panel.stack(model, node);
}, ({ node }, model) => cut(model.functionOf(node), 80));

/** The timed function of that name, or NONE. */
function functionByName(model: Model, name: string): number {
  const rows = model.keep("details: functions by name", () => {
    const found = new Map<string, number>();
    const { name: names, rows: all } = model.tables.functions;
    for (let row = all - 1; row >= 0; row--) found.set(model.label(names[row]!), row);
    return found;
  });
  return rows.get(name) ?? NONE;
}

/* ---- an allocation site ---- */

describe("site", (panel, { site }, model, store) => {
  const s = model.tables.sites;
  const node = s.node[site]!;
  const place = placeOfSite(model, site);
  panel.title("Allocation site", place?.name ?? model.functionOf(node));
  const life = s.median_life[site]!;
  panel.facts([
    ["live", `${bytes(s.live_bytes[site]!)} in ${count(s.live_objects[site]!)}`],
    ["at the peak", bytes(s.peak_bytes[site]!)],
    ["allocated", `${bytes(s.allocated_bytes[site]!)} in ${count(s.allocated_objects[site]!)}`],
    ["freed", bytes(s.freed_bytes[site]!)],
    ["freed within 1 ms", bytes(s.churn_bytes[site]!)],
    ["median lifetime", life < 0 ? "-" : ns(life)],
    ["oldest", s.live_samples[site]! > 0 ? `${ns(model.end - s.oldest[site]!)} old` : "-"],
    ["based on", `${count(s.samples[site]!)} samples, ${count(s.live_samples[site]!)} of them live`],
  ]);
  const links: [string, () => void][] = [];
  if (s.live_bytes[site]! > 0) links.push(["Live bytes", () => flameOfNode(store, model, node, "live")]);
  links.push(["Allocated bytes", () => flameOfNode(store, model, node, "allocated")]);
  if (s.churn_bytes[site]! > 0) links.push(["Churn", () => flameOfNode(store, model, node, "churn")]);
  panel.heading("In the flame graph");
  panel.links(links);
  panel.heading("Stack");
  panel.stack(model, node);
}, ({ site }, model) => `site ${cut(placeOfSite(model, site)?.name ?? "", 70)}`);

/** The place of a site. The innermost frame of its stack is malloc, so the stack alone does not show it. */
function placeOfSite(model: Model, site: number): Place | undefined {
  return model.keep("details: places of sites", () => {
    const found = new Map<number, Place>();
    for (const place of placesOf(model)) for (const row of place.sites) found.set(row, place);
    return found;
  }).get(site);
}
