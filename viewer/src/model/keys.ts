/* Functions, as used by flame graphs and tables of samples: all lines of code with the same name and module
 * are one function, identified by a key. Names are read on demand and shortened, because a symbol can have
 * 100 kB. */
import { mergeStacks, type Trie } from "./trie";
import { baseName, cut, safe } from "./format";
import type { Model } from "./model";
import { NONE } from "./schema";

/** Maximum length of names in boxes and rows; the details panel shows complete names. */
const LONGEST = 300;

export class Keys {
  readonly count: number;
  /** Row of code -> key, and for each key the first row of code with it. */
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

  /** Safe to show, and shortened. */
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

  /** The name for a row of strings. If two builds of a program are compared, which count as one module,
   * both names. */
  moduleText(module: number): string {
    const { program, b } = this.model.meta;
    const own = baseName(this.model.label(module)), other = b ? baseName(safe(b.program)) : "";
    return other !== "" && other !== own && own === baseName(safe(program)) ? `${own} → ${other}` : own;
  }

  place(key: number): string {
    return key === NONE ? "" : this.model.placeOf(this.code[key]!);
  }

  /** 1 for every key whose name contains TEXT (lower case). */
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

  /** The first key with this function name; NONE: no stack contains it. */
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

/** Node of the trie -> the first of the rows of `nodes` that were merged into it. */
export function rowsOfTrie(model: Model): Uint32Array {
  return model.keep("flame: rows", () => {
    const { ofRow, count } = trieOf(model);
    const rows = new Uint32Array(count).fill(NONE);
    for (let row = ofRow.length - 1; row >= 0; row--) rows[ofRow[row]!] = row;
    return rows;
  });
}
