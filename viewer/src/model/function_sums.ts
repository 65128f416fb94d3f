/* Sums over functions from sums over stacks: self, and total including callees. A recursive function counts
 * once in its total. */
import type { Tree } from "./trie";
import { NONE } from "./schema";

export interface FunctionSums {
  /** By key; channels as in the tree. */
  readonly self: Float64Array[];
  readonly total: Float64Array[];
}

/** Nodes whose function does not occur in the stack above them. */
function outermost(tree: Tree): Uint8Array {
  const out = new Uint8Array(tree.count);
  for (let n = 1; n < tree.count; n++) {
    const key = tree.key[n]!;
    let up = tree.parent[n]!;
    while (up !== 0 && tree.key[up] !== key) up = tree.parent[up]!;
    out[n] = up === 0 ? 1 : 0;
  }
  return out;
}

export function sumFunctions(tree: Tree, keyCount: number): FunctionSums {
  const outer = outermost(tree);
  const self = tree.self.map(() => new Float64Array(keyCount));
  const total = tree.self.map(() => new Float64Array(keyCount));
  for (let c = 0; c < tree.self.length; c++) {
    for (let n = 1; n < tree.count; n++) {
      const key = tree.key[n]!;
      if (key === NONE || key >= keyCount) continue;
      self[c]![key] = self[c]![key]! + tree.self[c]![n]!;
      if (outer[n]) total[c]![key] = total[c]![key]! + tree.total[c]![n]!;
    }
  }
  return { self, total };
}
