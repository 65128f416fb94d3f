/* The tables of the page. Finds each column in its decompressed block, decodes it on first use, and checks
 * what the views rely on: row numbers exist, rows are sorted, parents come before children. */
import { decodeColumn, Texts } from "./decode";
import type { Column } from "./decode";
import { PageError } from "./error";
import type { ColumnInfo, Meta, TableInfo } from "./page";
import { NONE, ORDER } from "./schema";
import type { TableName, Tables } from "./schema";
import { SCHEMA } from "./tables";

/** Kinds of columns that are Float64Arrays. */
const WIDE: readonly string[] = ["ns", "length", "num"];

type Values = Uint8Array | Uint32Array | Float64Array;

export class Source {
  readonly tables: Tables;

  /** BLOCKS are the decompressed blocks of META.blocks, in the same order. */
  constructor(private readonly meta: Meta, private readonly blocks: readonly Uint8Array[]) {
    const tables: Record<string, unknown> = {};
    for (const name of Object.keys(SCHEMA) as TableName[]) tables[name] = this.table(name);
    this.tables = tables as unknown as Tables;
  }

  /** The strings of a text table; empty if the page has none. */
  texts(name: string): Texts {
    const table = this.meta.tables.get(name);
    const column = table?.columns.find((info) => info.type === "text");
    if (!table || !column) {
      return new Texts(new Uint8Array(0), { name, type: "text", code: "plain", block: 0, at: 0, bytes: 0 }, 0);
    }
    return new Texts(this.block(column.block), column, table.rows);
  }

  /** A JSON table; null if the page has none. */
  json(name: string): unknown {
    const info = this.meta.json.get(name);
    if (!info) return null;
    const bytes = this.block(info.block).subarray(info.at, info.at + info.bytes);
    try {
      return JSON.parse(new TextDecoder().decode(bytes));
    } catch {
      throw new PageError(`The page's ${name} is damaged: it is not JSON.`);
    }
  }

  /** Decodes every column, one per step, so that damage is found even if no view uses the column. */
  *verify(): Iterable<string> {
    for (const name of this.meta.json.keys()) {
      this.json(name);
      yield name;
    }
    for (const name of Object.keys(SCHEMA) as TableName[]) {
      if (!this.meta.tables.has(name)) continue;
      for (const column of Object.keys(SCHEMA[name])) {
        void (this.tables[name] as unknown as Record<string, unknown>)[column];
        yield `${name}.${column}`;
      }
    }
  }

  private block(index: number): Uint8Array {
    const found = this.blocks[index];
    if (!found) throw new PageError(`The page has no block ${index}.`);
    return found;
  }

  private rowsOf(name: string): number {
    return this.meta.tables.get(name)?.rows ?? 0;
  }

  private table(name: TableName): object {
    const info = this.meta.tables.get(name);
    const table = { rows: info?.rows ?? 0 };
    for (const [column, kind] of Object.entries(SCHEMA[name])) {
      Object.defineProperty(table, column, {
        configurable: true,
        enumerable: true,
        get: () => {
          const value = this.column(name, info, column, kind);
          Object.defineProperty(table, column, { value, enumerable: true }); // a plain field from now on
          return value;
        },
      });
    }
    return table;
  }

  private column(name: TableName, table: TableInfo | undefined, column: string, kind: string): Values {
    if (!table) return WIDE.includes(kind) ? new Float64Array(0)
      : kind === "u8" ? new Uint8Array(0) : new Uint32Array(0);
    const info = table.columns.find((found) => found.name === column);
    const label = `${name}.${column}`;
    if (!info) throw new PageError(`The page's table ${name} has no column ${column}.`);
    const values = asKind(decodeColumn(this.block(info.block), info, table.rows), kind, label, info);
    if (kind !== "u8" && kind !== "u32") this.check(name, column, kind, values);
    return values;
  }

  private check(name: TableName, column: string, kind: string, values: Values): void {
    if (WIDE.includes(kind)) {
      const least = kind === "length" ? 0 : -Infinity;
      for (let row = 0; row < values.length; row++) {
        const value = values[row] as number;
        if (!Number.isFinite(value)) bad(name, column, row, "is not a number");
        if (value < least) bad(name, column, row, "is negative");
      }
    } else if (name === "nodes" && column === "parent") {
      for (let row = 0; row < values.length; row++) {
        const parent = values[row] as number;
        if (parent !== NONE && parent >= row) bad(name, column, row, "does not come before its child");
      }
    } else {
      const optional = kind.endsWith("?");
      const limit = this.rowsOf(optional ? kind.slice(0, -1) : kind);
      for (let row = 0; row < values.length; row++) {
        const value = values[row] as number;
        if (value >= limit && !(optional && value === NONE)) {
          bad(name, column, row, `is ${value}, and there are ${limit}`);
        }
      }
    }
    const order = ORDER[name];
    if (order && order[order.length - 1] === column) this.checkOrder(name, order, values);
  }

  /** VALUES is the last of the columns that the table is sorted by. */
  private checkOrder(name: TableName, order: readonly string[], values: Values): void {
    const columns = this.tables[name] as unknown as Record<string, Values>;
    const major = order.length > 1 ? columns[order[0] as string] : undefined;
    for (let row = 1; row < values.length; row++) {
      if (major) {
        const before = major[row - 1] as number, here = major[row] as number;
        if (here < before) bad(name, order[0] as string, row, "is out of order");
        if (here !== before) continue;
      }
      if ((values[row] as number) < (values[row - 1] as number)) {
        bad(name, order[order.length - 1] as string, row, "is out of order");
      }
    }
  }
}

/** Converts the column to the array type of its kind; the packer may use narrower or wider numbers. */
function asKind(values: Column, kind: string, label: string, info: ColumnInfo): Values {
  if (WIDE.includes(kind)) {
    return values instanceof Float64Array ? values : Float64Array.from(values);
  }
  if (kind === "u8" && values instanceof Uint8Array) return values;
  if (kind !== "u8" && values instanceof Uint32Array) return values;
  if (kind !== "u8" && !(values instanceof Float64Array)) return Uint32Array.from(values);
  throw new PageError(`The page's column ${label} has the type ${info.type}.`);
}

function bad(table: string, column: string, row: number, what: string): never {
  throw new PageError(`The page's data is broken: ${table}.${column} of row ${row} ${what}.`);
}
