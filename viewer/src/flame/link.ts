/* Links to the flame graph from other views. */
import { writePath } from "./graph";
import { pathOf } from "../model/trie";
import { keysOf, trieOf } from "../model/keys";
import type { Model } from "../model/model";
import { NONE } from "../model/schema";
import type { State, Store } from "../model/state";

/** Merges options; "" removes one. */
function options(store: Store, more: Readonly<Record<string, string>>): Partial<State> {
  const next: Record<string, string> = { ...store.state.options };
  delete next["flame.zoom"];
  delete next["flame.of"];
  for (const [name, value] of Object.entries(more)) {
    if (value === "") delete next[name];
    else next[name] = value;
  }
  return { view: "flame", options: next };
}

/** True if a stack of the page contains a function of that name. */
export function inFlame(model: Model, name: string): boolean {
  return keysOf(model).byName(name) !== NONE;
}

/** Shows the function NAME: found by search in the whole graph; if LEAF, its callers in the inverted graph. */
export function flameOfFunction(store: Store, model: Model, name: string, weight: string, leaf: boolean): void {
  const key = keysOf(model).byName(name);
  if (key === NONE) return;
  const zoom = leaf ? writePath([key]) : "";
  store.set({
    ...options(store, { "flame.weight": weight, "flame.form": leaf ? "inverted" : "", "flame.zoom": zoom }),
    search: leaf ? "" : name,
  });
}

/** Shows the stack of a row of `nodes` in the whole graph. */
export function flameOfNode(store: Store, model: Model, node: number, weight: string): void {
  const trie = trieOf(model);
  const at = trie.ofRow[node];
  if (at === undefined) return;
  store.set({
    ...options(store, { "flame.weight": weight, "flame.form": "", "flame.zoom": writePath(pathOf(trie, at)) }),
    selection: { kind: "node", node }, search: "",
  });
}

/** Shows the graph of a selection's samples (a frame, a poll, a range etc.). */
export function flameOf(store: Store, of: State["selection"], weight = ""): void {
  store.set({ ...options(store, { "flame.weight": weight }), selection: of });
}
