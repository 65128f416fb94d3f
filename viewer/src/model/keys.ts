/* Functions, as flame graphs and tables of samples know them: the lines of code of one name in one module
 * are one function, a key. Names are read when they are needed, and kept short: a symbol may have 100 kB.
 */
import { mergeStacks, type Trie } from "./trie";
import { baseName, cut, safe } from "./format";
import type { Model } from "./model";
import { NONE } from "./schema";

/** No box and no row shows more of a name; the details do. */
const LONGEST = 300;

export class Keys {
  readonly count: number;
  /** Row of code -> key, and a row of code for each key: the one seen first. */
  readonly ofCode: Uint32Array;
  readonly code: Uint32Array;
  private readonly names: (string | undefined)[];
  private lower: string[] | null = null;

  constructor(private readonly model: Model) {
    const { function: fn, module, rows } = model.tables.code;
    const found = new Map<number, Map<number, number>>();
    const codes: number[] = [];
    this.ofCode = new Uint32Array(rows);
    for (let row = 0; row < rows; row++) {
      let modules = found.get(fn[row]!);
      if (!modules) found.set(fn[row]!, (modules = new Map()));
      let key = modules.get(module[row]!);
      if (key === undefined) {
        key = codes.length;
        modules.set(module[row]!, key);
        codes.push(row);
      }
      this.ofCode[row] = key;
    }
    this.count = codes.length;
    this.code = Uint32Array.from(codes);
    this.names = new Array<string | undefined>(this.count);
  }

  /** Ready to show, cut to a length that can be shown. */
  name(key: number): string {
    if (key === NONE) return "all";
    const known = this.names[key];
    if (known !== undefined) return known;
    const whole = this.model.codeName(this.code[key]!);
    return (this.names[key] = cut(whole, LONGEST));
  }

  /** Row of strings, or NONE. */
  module(key: number): number {
    return key === NONE ? NONE : this.model.tables.code.module[this.code[key]!]!;
  }

  moduleName(key: number): string {
    return this.moduleText(this.module(key));
  }

  /** Of a row of strings. Of two builds of a program, which count as one module, both names. */
  moduleText(module: number): string {
    const { program, b } = this.model.meta;
    const own = baseName(this.model.label(module)), other = b ? baseName(safe(b.program)) : "";
    return other !== "" && other !== own && own === baseName(safe(program)) ? `${own} → ${other}` : own;
  }

  place(key: number): string {
    return key === NONE ? "" : this.model.placeOf(this.code[key]!);
  }

  /** 1 for every key whose name has TEXT (lower case) in it. */
  matching(text: string): Uint8Array {
    if (!this.lower) {
      this.lower = [];
      for (let key = 0; key < this.count; key++) this.lower.push(this.name(key).toLowerCase());
    }
    const found = new Uint8Array(this.count);
    for (let key = 0; text !== "" && key < this.count; key++) {
      if (this.lower[key]!.includes(text)) found[key] = 1;
    }
    return found;
  }

  /** The key of a function by its name, the first one of that name; NONE when no stack has it. */
  byName(name: string): number {
    for (let key = 0; key < this.count; key++) if (this.name(key) === name) return key;
    return NONE;
  }
}

export function keysOf(model: Model): Keys {
  return model.keep("flame: keys", () => new Keys(model));
}

export function trieOf(model: Model): Trie {
  return model.keep("flame: trie", () => {
    const { parent, code } = model.tables.nodes;
    return mergeStacks(parent, code, keysOf(model).ofCode);
  });
}

/** Node of the trie -> the first row of nodes it was made of. */
export function rowsOfTrie(model: Model): Uint32Array {
  return model.keep("flame: rows", () => {
    const { ofRow, count } = trieOf(model);
    const rows = new Uint32Array(count).fill(NONE);
    for (let row = ofRow.length - 1; row >= 0; row--) rows[ofRow[row]!] = row;
    return rows;
  });
}
