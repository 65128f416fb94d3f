/* Ways into the flame graph from elsewhere: a function, by who called it; a stack, by where it is. */
import { writePath } from "./graph";
import { pathOf } from "../model/trie";
import { keysOf, trieOf } from "../model/keys";
import type { Model } from "../model/model";
import { NONE } from "../model/schema";
import type { State, Store } from "../model/state";

/** What is to be set: "" takes an option away. */
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

/** True when some stack of the page goes through a function of that name. */
export function inFlame(model: Model, name: string): boolean {
  return keysOf(model).byName(name) !== NONE;
}

/** The function NAME: what was called in it and by whom, found by its name in the whole graph; or, as
 * the innermost frame, its callers. */
export function flameOfFunction(store: Store, model: Model, name: string, weight: string, leaf: boolean): void {
  const key = keysOf(model).byName(name);
  if (key === NONE) return;
  const zoom = leaf ? writePath([key]) : "";
  store.set({
    ...options(store, { "flame.weight": weight, "flame.form": leaf ? "inverted" : "", "flame.zoom": zoom }),
    search: leaf ? "" : name,
  });
}

/** The stack of a row of nodes, in the whole. */
export function flameOfNode(store: Store, model: Model, node: number, weight: string): void {
  const trie = trieOf(model);
  const at = trie.ofRow[node];
  if (at === undefined) return;
  store.set({
    ...options(store, { "flame.weight": weight, "flame.form": "", "flame.zoom": writePath(pathOf(trie, at)) }),
    selection: { kind: "node", node }, search: "",
  });
}

/** The graph of a selection (a frame, a poll, a range...): its samples. */
export function flameOf(store: Store, of: State["selection"], weight = ""): void {
  store.set({ ...options(store, { "flame.weight": weight }), selection: of });
}
