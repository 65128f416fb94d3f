/* The colours of boxes. By module: the categories of the palette, pale so that text is readable on them, in
 * three shades by function so that neighbours differ. By lifetime and by change: scales from blue over grey
 * to orange, which people with any kind of colour blindness can distinguish; figures always accompany them. */
import { changeOf, typicalLife, type Answer } from "../model/weight";
import type { Tree, Trie } from "../model/trie";
import type { Keys } from "../model/keys";
import { category, mix, palette } from "../util/palette";
import { NONE } from "../model/schema";

export interface Colours {
  /** Fill colour of a box. NARROW: too narrow to be distinguished from its neighbours, so all functions of
   * a module get one shade. */
  of(node: number, narrow: boolean): string;
  /** The legend: pairs of a colour and a label, in order. */
  readonly legend: readonly (readonly [colour: string, word: string])[];
}

/** Number of modules with their own colour. */
const MODULES = 7;
/** Number of shades on each side of the middle. */
const STEPS = 4;

const LESS = { light: "#3b7fb5", dark: "#3d8fd1" };
const MORE = { light: "#d9772b", dark: "#d9772b" };

function scale(): string[] {
  const { dark, surface } = palette();
  const grey = mix(surface, dark ? "#ffffff" : "#000000", dark ? 0.16 : 0.09);
  const ends = [dark ? LESS.dark : LESS.light, dark ? MORE.dark : MORE.light];
  const shades: string[] = [];
  for (let i = -STEPS; i <= STEPS; i++) {
    shades.push(mix(grey, ends[i < 0 ? 0 : 1]!, Math.abs(i) / STEPS * (dark ? 0.85 : 0.8)));
  }
  return shades;
}

/** VALUE from -1 to 1. */
function onScale(shades: readonly string[], value: number): string {
  return shades[Math.round((Math.max(-1, Math.min(1, value)) + 1) * STEPS)]!;
}

/** The weights in TRIE and ANSWER rank the modules, because boxes of an inverted tree have no self weight. */
export function coloursOf(answer: Answer, tree: Tree, trie: Trie, keys: Keys, run: number): Colours {
  const { colour } = answer.question;
  if (colour === "change") return byChange(tree);
  if (colour === "life") return byLife(tree, run);
  return byModule(tree, trie, answer.channels[0]!, keys);
}

function byChange(tree: Tree): Colours {
  const shades = scale();
  const [, before, after] = tree.total;
  return {
    of: (node) => onScale(shades, changeOf(before![node]!, after![node]!)),
    legend: [[shades[0]!, "a quarter or less"], [shades[STEPS / 2]!, "half"], [shades[STEPS]!, "the same"],
      [shades[STEPS + STEPS / 2]!, "twice"], [shades[2 * STEPS]!, "four times or more"]],
  };
}

/* Short lifetimes are expensive, so they are orange. Logarithmic from 10us to 10s. */
const SHORT = Math.log(1e4);
const LONG = Math.log(1e10);

function byLife(tree: Tree, run: number): Colours {
  const shades = scale();
  const { idle } = palette();
  const most = Math.min(LONG, Math.max(Math.log(Math.max(run, 1)), SHORT + 1));
  const place = (ns: number): number => 1 - 2 * (Math.log(Math.max(ns, 1)) - SHORT) / (most - SHORT);
  return {
    of: (node) => {
      const life = typicalLife(tree.total, node);
      return life < 0 ? idle : onScale(shades, place(life));
    },
    legend: [[onScale(shades, 1), "lifetime 10us or less"], [onScale(shades, place(1e6)), "1ms"],
      [onScale(shades, place(1e9)), "1s or more"], [idle, "unknown"]],
  };
}

/** The colour of each module in the previous graphs of the run. */
const given = new WeakMap<Keys, Map<number, number>>();

/** Assigns a category to each of MODULES: the one it had before, unless another module has it now. */
function placesOf(modules: readonly number[], keys: Keys): Map<number, number> {
  const before = given.get(keys) ?? new Map<number, number>();
  given.set(keys, before);
  const places = new Map<number, number>(), taken = new Set<number>();
  const give = (module: number, place: number): void => {
    places.set(module, place);
    taken.add(place);
  };
  for (const module of modules) {
    const place = before.get(module);
    if (place !== undefined && !taken.has(place)) give(module, place);
  }
  for (const module of modules) {
    if (places.has(module)) continue;
    let place = 0;
    while (taken.has(place)) place++;
    give(module, place);
    if (!before.has(module)) before.set(module, place);
  }
  return places;
}

function byModule(tree: Tree, trie: Trie, own: Float64Array, keys: Keys): Colours {
  const { surface, idle, dark } = palette();
  const weight = new Map<number, number>();
  for (let n = 1; n < trie.count; n++) {
    if (!(own[n]! > 0)) continue;
    const module = keys.module(trie.key[n]!);
    weight.set(module, (weight.get(module) ?? 0) + own[n]!);
  }
  // Modules that only call others come last. Modules that are not in the graph have no colour.
  for (let n = 1; n < tree.count; n++) {
    const module = keys.module(tree.key[n]!);
    if (tree.total[0]![n]! > 0 && !weight.has(module)) weight.set(module, 0);
  }
  const ranked = [...weight.keys()].filter((module) => module !== NONE)
    .sort((a, b) => weight.get(b)! - weight.get(a)!);
  const wash = dark ? 0.58 : 0.6;
  const shade = (colour: string, step: number): string => mix(colour, surface, wash + (step - 1) * 0.05);
  const shades = new Map<number, string[]>();
  for (const [module, place] of placesOf(ranked.slice(0, MODULES), keys)) {
    shades.set(module, [0, 1, 2].map((step) => shade(category(place), step)));
  }
  const other = [0, 1, 2].map((step) => mix(idle, dark ? "#ffffff" : "#000000", step * 0.03));
  const ofKey: string[] = [], ofNarrow: string[] = [];
  for (let key = 0; key < keys.count; key++) {
    const three = shades.get(keys.module(key)) ?? other;
    ofKey.push(three[(Math.imul(key, 0x9e3779b1) >>> 16) % 3]!);
    ofNarrow.push(three[1]!);
  }
  const legend = ranked.slice(0, MODULES).map((module): [string, string] =>
    [shades.get(module)![1]!, keys.moduleText(module)]);
  if (ranked.length > MODULES || weight.has(NONE)) legend.push([other[1]!, "other code"]);
  return {
    of: (node, narrow) => node === 0 ? idle : (narrow ? ofNarrow : ofKey)[tree.key[node]!] ?? other[0]!,
    legend,
  };
}
