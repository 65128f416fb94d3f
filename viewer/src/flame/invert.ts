/* The inverted tree: the first level has the functions that were running, and below each one are its
 * callers.
 *
 * Every node with a self weight is an entry that walks up its stack, level by level, together with all
 * entries that came the same way. A group of entries is a node of the new tree. On each level a group is
 * divided by the functions that its entries have reached. An entry that has reached the root ends there,
 * so the children of a node can weigh less than the node.
 *
 * With 100 000 stacks the complete tree has millions of nodes, most of them too narrow to see. A group
 * lighter than `least` is not divided, and is marked as cut. `within` is a path of keys: groups outside of
 * it are not divided, so that a part of the tree can be computed in more detail. */
import type { Tree, Trie } from "../model/trie";
import { NONE } from "../model/schema";

interface Growing {
  count: number;
  parent: Uint32Array;
  key: Uint32Array;
  cut: Uint8Array;
  leaf: Uint32Array;
  first: Float64Array;
  self: Float64Array[];
  total: Float64Array[];
}

/* The entries of one level; those of a group are adjacent. */
interface Level {
  count: number;
  at: Uint32Array; /* the trie node that the entry has reached */
  leaf: Uint32Array; /* the trie node where it started */
  groups: Uint32Array; /* triples: node, begin, end */
  groupCount: number;
}

function grown(a: Uint32Array, size: number): Uint32Array {
  const b = new Uint32Array(size);
  b.set(a);
  return b;
}

function room(g: Growing): void {
  if (g.count < g.parent.length) return;
  const size = g.parent.length * 2;
  g.parent = grown(g.parent, size);
  g.key = grown(g.key, size);
  g.leaf = grown(g.leaf, size);
  const cut = new Uint8Array(size);
  cut.set(g.cut);
  g.cut = cut;
  const wider = (a: Float64Array): Float64Array => {
    const b = new Float64Array(size);
    b.set(a);
    return b;
  };
  g.first = wider(g.first);
  g.self = g.self.map(wider);
  g.total = g.total.map(wider);
}

function newNode(g: Growing, parent: number, key: number): number {
  room(g);
  g.parent[g.count] = parent;
  g.key[g.count] = key;
  g.first[g.count] = Infinity;
  return g.count++;
}

function starting(trie: Trie, channels: Float64Array[]): Level {
  const at = new Uint32Array(trie.count);
  let count = 0;
  const any = new Uint8Array(trie.count);
  for (const weights of channels) for (let n = 1; n < trie.count; n++) if (weights[n]! > 0) any[n] = 1;
  for (let n = 1; n < trie.count; n++) if (any[n]) at[count++] = n;
  const groups = new Uint32Array(3);
  groups[2] = count;
  return { count, at, leaf: at.slice(), groups, groupCount: 1 };
}

/* Divides a group of the level above by key, into nodes of the new tree and groups of the next level. Sums
 * are collected by key and copied to the nodes at the end, because the arrays of nodes are reallocated when
 * they grow. */
class Divider {
  private readonly nodeOfKey: Uint32Array;
  private readonly fillOfKey: Uint32Array;
  private readonly sumOfKey: Float64Array[];
  private readonly keys: Uint32Array;

  constructor(
    private readonly trie: Trie,
    private readonly channels: Float64Array[],
    private readonly first: Float64Array | null,
    private readonly g: Growing,
    keyCount: number,
  ) {
    this.nodeOfKey = new Uint32Array(keyCount);
    this.fillOfKey = new Uint32Array(keyCount);
    this.keys = new Uint32Array(keyCount);
    this.sumOfKey = channels.map(() => new Float64Array(keyCount));
  }

  divide(from: Level, parent: number, begin: number, end: number, to: Level): void {
    const found = this.findKeys(from, parent, begin, end);
    for (let c = 0; c < this.channels.length; c++) this.addUp(c, from, parent, begin, end, found);
    const { fillOfKey, keys, nodeOfKey, trie } = this;
    let at = to.count;
    for (let i = 0; i < found; i++) {
      const k = keys[i]!;
      const size = fillOfKey[k]!;
      const group = to.groupCount++ * 3;
      to.groups[group] = nodeOfKey[k]!;
      to.groups[group + 1] = at;
      to.groups[group + 2] = at + size;
      fillOfKey[k] = at;
      nodeOfKey[k] = 0;
      at += size;
    }
    to.count = at;
    for (let e = begin; e < end; e++) {
      const n = from.at[e]!;
      if (n === 0) continue;
      const k = trie.key[n]!;
      const slot = fillOfKey[k]!;
      fillOfKey[k] = slot + 1;
      to.at[slot] = trie.parent[n]!;
      to.leaf[slot] = from.leaf[e]!;
    }
  }

  /* Creates a node for each key that the entries have reached, with the number of its entries and one of
   * its stacks. */
  private findKeys(from: Level, parent: number, begin: number, end: number): number {
    const { g, trie, nodeOfKey, fillOfKey, keys, first } = this;
    const width = this.channels[0]!;
    let found = 0;
    for (let e = begin; e < end; e++) {
      const n = from.at[e]!;
      if (n === 0) continue;
      const leaf = from.leaf[e]!;
      const k = trie.key[n]!;
      let node = nodeOfKey[k]!;
      if (node === 0) {
        node = newNode(g, parent, k);
        g.leaf[node] = leaf;
        nodeOfKey[k] = node;
        fillOfKey[k] = 0;
        keys[found++] = k;
      }
      fillOfKey[k] = fillOfKey[k]! + 1;
      if (width[leaf]! > width[g.leaf[node]!]!) g.leaf[node] = leaf;
      if (first && first[leaf]! < g.first[node]!) g.first[node] = first[leaf]!;
    }
    return found;
  }

  private addUp(c: number, from: Level, parent: number, begin: number, end: number, found: number): void {
    const { trie, keys, nodeOfKey } = this;
    const sums = this.sumOfKey[c]!, weights = this.channels[c]!, total = this.g.total[c]!;
    let ended = 0;
    for (let e = begin; e < end; e++) {
      const n = from.at[e]!;
      const weight = weights[from.leaf[e]!]!;
      if (n === 0) ended += weight;
      else {
        const k = trie.key[n]!;
        sums[k] = sums[k]! + weight;
      }
    }
    const self = this.g.self[c]!;
    self[parent] = self[parent]! + ended;
    for (let i = 0; i < found; i++) {
      const k = keys[i]!;
      total[nodeOfKey[k]!] = sums[k]!;
      sums[k] = 0;
    }
  }
}

function emptyLevel(entries: number): Level {
  return {
    count: 0,
    at: new Uint32Array(entries),
    leaf: new Uint32Array(entries),
    groups: new Uint32Array(entries * 3 + 3),
    groupCount: 0,
  };
}

function keyCount(trie: Trie): number {
  let most = 0;
  for (let n = 1; n < trie.count; n++) if (trie.key[n]! > most) most = trie.key[n]!;
  return most + 1;
}

export function invert(
  trie: Trie,
  channels: Float64Array[],
  first: Float64Array | null,
  least: number,
  within: number[] = [],
): Tree {
  const size = 16384;
  const g: Growing = {
    count: 1,
    parent: new Uint32Array(size),
    key: new Uint32Array(size),
    cut: new Uint8Array(size),
    leaf: new Uint32Array(size),
    first: new Float64Array(size),
    self: channels.map(() => new Float64Array(size)),
    total: channels.map(() => new Float64Array(size)),
  };
  g.key[0] = NONE;
  let from = starting(trie, channels);
  let to = emptyLevel(from.count);
  // Weight without a stack is at the root: it counts in the total, and in no box.
  for (let c = 0; c < channels.length; c++) {
    const weights = channels[c]!;
    let sum = (g.self[c]![0] = weights[0]!);
    for (let e = 0; e < from.count; e++) sum += weights[from.leaf[e]!]!;
    g.total[c]![0] = sum;
  }
  const divider = new Divider(trie, channels, first, g, keyCount(trie));
  for (let depth = 0, onPath = 0; from.groupCount > 0; depth++) {
    const wanted = depth > 0 && depth <= within.length ? within[depth - 1]! : NONE;
    let nextOnPath = 0;
    for (let i = 0; i < from.groupCount; i++) {
      const node = from.groups[i * 3]!;
      if (wanted !== NONE && (g.parent[node] !== onPath || g.key[node] !== wanted)) g.cut[node] = 1;
      else if (node !== 0 && g.total[0]![node]! < least) g.cut[node] = 1;
      if (g.cut[node]) continue;
      if (wanted !== NONE) nextOnPath = node;
      divider.divide(from, node, from.groups[i * 3 + 1]!, from.groups[i * 3 + 2]!, to);
    }
    onPath = nextOnPath;
    [from, to] = [to, from];
    to.count = to.groupCount = 0;
    if (to.groups.length < from.count * 3) to = emptyLevel(from.count);
  }
  return {
    count: g.count,
    parent: g.parent.subarray(0, g.count),
    key: g.key.subarray(0, g.count),
    self: g.self.map((a) => a.subarray(0, g.count)),
    total: g.total.map((a) => a.subarray(0, g.count)),
    first: first ? g.first.subarray(0, g.count) : null,
    cut: g.cut.subarray(0, g.count),
    leaf: g.leaf.subarray(0, g.count),
  };
}
