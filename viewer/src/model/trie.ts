/* The stacks of a run as a tree of functions, for flame graphs.
 *
 * In the page a stack is a row of the table `nodes`: its parent and its line of code. Two lines of one
 * function are two rows there, and one box here. So rows are merged by the key of their code
 * (`keyOfCode`), from the outermost frame inwards. Parents come before their children in the table and in
 * the tree. Node 0 is the root. The rows are merged once per page; each question adds its own weights. */

import { NONE } from "./schema";

export interface Trie {
  count: number;
  parent: Uint32Array; /* of the root: 0 */
  key: Uint32Array; /* of the root: NONE */
  ofRow: Uint32Array; /* row of `nodes` -> node */
}

/* A tree with weights. Channel 0 is the width of a box; the meaning of the others depends on the question. */
export interface Tree {
  count: number;
  parent: Uint32Array;
  key: Uint32Array;
  self: Float64Array[];
  total: Float64Array[];
  first: Float64Array | null; /* time of each node's first sample; null: in the order of nodes */
  cut: Uint8Array | null; /* 1: its callers were left out because they are too narrow to see */
  leaf: Uint32Array | null; /* of an inverted tree: the trie node of one of the stacks in the box */
}

function tableSize(count: number): number {
  let size = 16;
  while (size < count * 2) size *= 2;
  return size;
}

/* Broken input: a row whose parent does not come before it becomes a child of the root; a row without code
 * gets key 0. */
export function mergeStacks(parents: Uint32Array, codes: Uint32Array, keyOfCode: Uint32Array): Trie {
  const rows = parents.length;
  const parent = new Uint32Array(rows + 1);
  const key = new Uint32Array(rows + 1);
  const ofRow = new Uint32Array(rows);
  const size = tableSize(rows + 1);
  const table = new Uint32Array(size);
  const mask = size - 1;
  let count = 1;
  key[0] = NONE;
  for (let row = 0; row < rows; row++) {
    const up = parents[row]!;
    const p = up < row ? ofRow[up]! : 0;
    const k = keyOfCode[codes[row]!] ?? 0;
    let at = (Math.imul(p, 0x9e3779b1) ^ Math.imul(k + 1, 0x85ebca6b)) >>> 0;
    at = (at ^ (at >>> 15)) & mask;
    for (;;) {
      const n = table[at]!;
      if (n === 0) {
        parent[count] = p;
        key[count] = k;
        table[at] = count;
        ofRow[row] = count++;
        break;
      }
      if (parent[n] === p && key[n] === k) {
        ofRow[row] = n;
        break;
      }
      at = (at + 1) & mask;
    }
  }
  return { count, parent: parent.subarray(0, count), key: key.subarray(0, count), ofRow };
}

/* Totals from self values. Children come after their parents, so one backward pass is enough. */
export function addUp(count: number, parent: Uint32Array, self: Float64Array): Float64Array {
  const total = self.slice(0, count);
  for (let n = count - 1; n > 0; n--) {
    const p = parent[n]!;
    total[p] = total[p]! + total[n]!;
  }
  return total;
}

/* `channels`: self weights by node of the trie. */
export function topDown(trie: Trie, channels: Float64Array[], first: Float64Array | null): Tree {
  return {
    count: trie.count,
    parent: trie.parent,
    key: trie.key,
    self: channels,
    total: channels.map((c) => addUp(trie.count, trie.parent, c)),
    first: first && earliest(trie, first),
    cut: null,
    leaf: null,
  };
}

function earliest(trie: Trie, first: Float64Array): Float64Array {
  const out = first.slice();
  for (let n = trie.count - 1; n > 0; n--) {
    const p = trie.parent[n]!;
    if (out[n]! < out[p]!) out[p] = out[n]!;
  }
  return out;
}

/* The keys from the root's child down to a node. Identifies a node across trees. */
export function pathOf(tree: { parent: Uint32Array; key: Uint32Array }, node: number): number[] {
  const path: number[] = [];
  for (let n = node; n !== 0; n = tree.parent[n]!) path.push(tree.key[n]!);
  return path.reverse();
}
