/* Finds the packer's output in the document: the JSON description and the base64 texts. A page can be
 * truncated, edited, or made by another version. So everything that is used later is checked once, here,
 * including all sizes. */
import { PageError } from "./error";

export interface Block {
  readonly name: string;
  /** Position in the joined data; size there, and size when decompressed. */
  readonly at: number;
  readonly bytes: number;
  readonly raw_bytes: number;
  readonly codec: "deflate" | "none";
}

export type ColumnType = "u8" | "u16" | "u32" | "f64" | "i64" | "text";
export type ColumnCode = "plain" | "delta" | "planes" | "delta-planes";

export interface ColumnInfo {
  readonly name: string;
  readonly type: ColumnType;
  readonly code: ColumnCode;
  /** Index in meta.blocks, and position of the column in that block when decompressed. */
  readonly block: number;
  readonly at: number;
  readonly bytes: number;
}

export interface TableInfo {
  readonly rows: number;
  readonly columns: readonly ColumnInfo[];
}

/** A block of JSON text (the report). */
export interface JsonInfo {
  readonly block: number;
  readonly at: number;
  readonly bytes: number;
}

export interface Meta {
  readonly piano: string;
  readonly name: string;
  /** What the run contains: "spans", "heap", "cpu", "events". */
  readonly kinds: readonly string[];
  readonly program: string;
  readonly command: string;
  readonly pid: number;
  /** Wall clock, ms since 1970; 0: unknown. */
  readonly started_ms: number;
  readonly duration_ns: number;
  /** Newer data can be had from the server of the page. */
  readonly live: boolean;
  readonly notices: readonly string[];
  readonly dropped: Readonly<Record<string, number>>;
  /** The second run of a comparison. */
  readonly b: { readonly name: string; readonly program: string; readonly duration_ns: number } | null;
  readonly tables: ReadonlyMap<string, TableInfo>;
  readonly json: ReadonlyMap<string, JsonInfo>;
  readonly blocks: readonly Block[];
}

/** The parts of the page that were found in the document. */
export interface Page {
  readonly meta: Meta;
  /** The texts of the piano-data elements, in order. Can be called once; the elements are emptied. */
  takeData(): string[];
}

const TYPES: readonly string[] = ["u8", "u16", "u32", "f64", "i64", "text"];
const CODES: readonly string[] = ["plain", "delta", "planes", "delta-planes"];
const MOST_ROWS = 0xfffffffe;

export function findPage(document: Document): Page {
  const element = document.getElementById("piano-meta");
  if (!element) throw new PageError("This page has no data: its piano-meta element is missing.");
  return {
    meta: readMeta(element.textContent ?? ""),
    takeData() {
      const texts: string[] = [];
      for (let number = 0; ; number++) {
        const data = document.getElementById(number === 0 ? "piano-data" : `piano-data-${number}`);
        if (!data) return texts;
        texts.push(data.textContent ?? "");
        data.textContent = ""; // frees up to 16 MB of text
      }
    },
  };
}

/** Checks the description and gives it types. Throws a PageError that names the problem. */
export function readMeta(text: string): Meta {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    throw new PageError(`The page's description (piano-meta) is not JSON: ${(error as Error).message}`);
  }
  const meta = record(json, "piano-meta");
  if (meta["format"] !== 1) {
    throw new PageError(`The page has data format ${String(meta["format"])}; this viewer reads format 1.`);
  }
  const blocks = list(meta["blocks"], "blocks").map(readBlock);
  const tables = new Map<string, TableInfo>();
  const jsons = new Map<string, JsonInfo>();
  for (const [name, value] of Object.entries(record(meta["tables"], "tables"))) {
    const table = record(value, `tables.${name}`);
    if (table["json"] === true) jsons.set(name, place(table, `tables.${name}`, blocks));
    else tables.set(name, readTable(name, table, blocks));
  }
  const b = meta["b"] === null || meta["b"] === undefined ? null : record(meta["b"], "b");
  return {
    piano: string(meta["piano"]), name: string(meta["name"]), program: string(meta["program"]),
    command: string(meta["command"]), kinds: strings(meta["kinds"]), notices: strings(meta["notices"]),
    pid: number(meta["pid"]), started_ms: number(meta["started_ms"]),
    duration_ns: whole(meta["duration_ns"], "duration_ns", Number.MAX_SAFE_INTEGER),
    live: meta["live"] === true, dropped: counts(meta["dropped"]), tables, json: jsons, blocks,
    b: b && { name: string(b["name"]), program: string(b["program"]), duration_ns: number(b["duration_ns"]) },
  };
}

function readBlock(value: unknown, row: number): Block {
  const where = `blocks[${row}]`;
  const block = record(value, where);
  const codec = block["codec"];
  if (codec !== "deflate" && codec !== "none") {
    throw new PageError(`${where} has the codec ${String(codec)}, which this viewer does not know.`);
  }
  const bytes = whole(block["bytes"], `${where}.bytes`, Number.MAX_SAFE_INTEGER);
  const raw = whole(block["raw_bytes"], `${where}.raw_bytes`, Number.MAX_SAFE_INTEGER);
  if (codec === "none" && raw !== bytes) {
    throw new PageError(`${where} is not compressed, yet its two sizes differ (${bytes}, ${raw}).`);
  }
  return { name: string(block["name"]), at: whole(block["at"], `${where}.at`, Number.MAX_SAFE_INTEGER),
    bytes, raw_bytes: raw, codec };
}

function readTable(name: string, table: Record<string, unknown>, blocks: readonly Block[]): TableInfo {
  const where = `tables.${name}`;
  const rows = whole(table["rows"], `${where}.rows`, MOST_ROWS);
  const columns = list(table["columns"], `${where}.columns`).map((value, index): ColumnInfo => {
    const column = record(value, `${where}.columns[${index}]`);
    const label = `${where}.${string(column["name"])}`;
    const type = String(column["type"]), code = String(column["code"] ?? "plain");
    if (!TYPES.includes(type)) throw new PageError(`${label} has the type ${type}, which is unknown.`);
    if (!CODES.includes(code)) throw new PageError(`${label} has the code ${code}, which is unknown.`);
    const found = { name: string(column["name"]), type: type as ColumnType, code: code as ColumnCode,
      ...place(column, label, blocks) };
    const need = type === "text" ? rows * 4 : rows * width(found.type);
    if (type === "text" ? found.bytes < need : found.bytes !== need) {
      throw new PageError(`${label} has ${found.bytes} bytes; its ${rows} rows need ${need}.`);
    }
    return found;
  });
  return { rows, columns };
}

/** Bytes per value. */
export function width(type: ColumnType): number {
  return type === "u8" ? 1 : type === "u16" ? 2 : type === "u32" ? 4 : 8;
}

/** {block, at, bytes}, checked to be inside the block. The block is given by index or by name. */
function place(value: Record<string, unknown>, where: string, blocks: readonly Block[]): JsonInfo {
  const named = value["block"];
  const index = typeof named === "string" ? blocks.findIndex((block) => block.name === named)
    : whole(named, `${where}.block`, MOST_ROWS);
  const block = blocks[index];
  if (!block) throw new PageError(`${where} is in block ${String(named)}, which does not exist.`);
  const at = whole(value["at"], `${where}.at`, Number.MAX_SAFE_INTEGER);
  const bytes = whole(value["bytes"], `${where}.bytes`, Number.MAX_SAFE_INTEGER);
  if (at + bytes > block.raw_bytes) {
    throw new PageError(`${where} ends at byte ${at + bytes} of a block of ${block.raw_bytes}.`);
  }
  return { block: index, at, bytes };
}

/* Small checked readers ------------------------------------------------------------------------ */

function record(value: unknown, where: string): Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new PageError(`The page's description is broken: ${where} is not an object.`);
  }
  return value as Record<string, unknown>;
}

function list(value: unknown, where: string): unknown[] {
  if (!Array.isArray(value)) {
    throw new PageError(`The page's description is broken: ${where} is not a list.`);
  }
  return value;
}

function whole(value: unknown, where: string, most: number): number {
  if (typeof value !== "number" || !Number.isInteger(value) || value < 0 || value > most) {
    throw new PageError(`The page's description is broken: ${where} is ${JSON.stringify(value)}, ` +
      `not a whole number from 0 to ${most}.`);
  }
  return value;
}

function number(value: unknown): number {
  return typeof value === "number" && Number.isFinite(value) ? value : 0;
}

function string(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function strings(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((text): text is string => typeof text === "string") : [];
}

function counts(value: unknown): Record<string, number> {
  const found: Record<string, number> = {};
  if (typeof value === "object" && value !== null) {
    for (const [cause, count] of Object.entries(value)) {
      if (typeof count === "number" && count > 0) found[cause] = count;
    }
  }
  return found;
}
