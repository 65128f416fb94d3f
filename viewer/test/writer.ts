/* Writes pages as the tool does, for tests: encodes columns, builds blocks, metadata and HTML. */
import { createHash } from "node:crypto";
import { deflateSync } from "node:zlib";
import { SCHEMA } from "../src/model/tables";
import type { TableName } from "../src/model/schema";

export type Values = ArrayLike<number>;
export type Code = "plain" | "delta" | "planes" | "delta-planes";
export type Type = "u8" | "u16" | "u32" | "i64" | "f64";

export interface PackedPage {
  meta: Record<string, any>;
  data: Uint8Array;
}

const WIDTHS: Record<Type, number> = { u8: 1, u16: 2, u32: 4, i64: 8, f64: 8 };

/** The bytes of a column. */
export function encode(values: Values, type: Type, code: Code): Uint8Array {
  const width = WIDTHS[type], rows = values.length;
  const bytes = new Uint8Array(rows * width);
  const view = new DataView(bytes.buffer);
  const delta = code === "delta" || code === "delta-planes";
  let before = 0;
  for (let i = 0; i < rows; i++) {
    const value = values[i] as number;
    const put = delta ? value - before : value;
    before = value;
    if (type === "f64") view.setFloat64(i * 8, value, true);
    else if (type === "i64") {
      view.setUint32(i * 8, put >>> 0, true);
      view.setUint32(i * 8 + 4, Math.floor(put / 4294967296) >>> 0, true);
    } else if (type === "u32") view.setUint32(i * 4, put >>> 0, true);
    else if (type === "u16") view.setUint16(i * 2, put & 0xffff, true);
    else view.setUint8(i, put & 0xff);
  }
  if (code !== "planes" && code !== "delta-planes") return bytes;
  const planes = new Uint8Array(bytes.length);
  for (let p = 0; p < width; p++) for (let i = 0; i < rows; i++) planes[p * rows + i] = bytes[i * width + p] as number;
  return planes;
}

function encodeTexts(texts: readonly string[]): Uint8Array {
  const coded = texts.map((text) => new TextEncoder().encode(text));
  const bytes = new Uint8Array(coded.reduce((sum, one) => sum + 4 + one.length, 0));
  const view = new DataView(bytes.buffer);
  let at = 0;
  for (const one of coded) {
    view.setUint32(at, one.length, true);
    bytes.set(one, at + 4);
    at += 4 + one.length;
  }
  return bytes;
}

/** Type and code of a column of SCHEMA, as the tool chooses them. */
function packing(kind: string, column: string): [Type, Code] {
  if (kind === "ns" || kind === "length") return ["i64", "delta-planes"];
  if (kind === "u8") return ["u8", "plain"];
  if (kind !== "num") return ["u32", "delta-planes"];
  return /depth|count|calls|size/.test(column) ? ["i64", "planes"] : ["f64", "planes"];
}

export class PageWriter {
  private readonly parts: { name: string; bytes: Uint8Array }[] = [];
  private readonly tables: Record<string, any> = {};
  private readonly strings: string[] = [];
  private readonly known = new Map<string, number>();

  /** Row of a string. */
  string(text: string): number {
    let row = this.known.get(text);
    if (row === undefined) {
      row = this.strings.length;
      this.strings.push(text);
      this.known.set(text, row);
    }
    return row;
  }

  table<T extends TableName>(name: T, rows: number, columns: { [C in keyof typeof SCHEMA[T]]: Values }): void {
    const infos: object[] = [];
    const coded: Uint8Array[] = [];
    let at = 0;
    for (const [column, values] of Object.entries(columns) as [string, Values][]) {
      const [type, code] = packing((SCHEMA[name] as Record<string, string>)[column] ?? "", column);
      const bytes = encode(values, type, code);
      infos.push({ name: column, type, code, block: this.parts.length, at, bytes: bytes.length });
      coded.push(bytes);
      at += bytes.length;
    }
    const all = new Uint8Array(at);
    let to = 0;
    for (const bytes of coded) {
      all.set(bytes, to);
      to += bytes.length;
    }
    this.parts.push({ name, bytes: all });
    this.tables[name] = { rows, columns: infos };
  }

  json(name: string, value: unknown): void {
    const bytes = new TextEncoder().encode(JSON.stringify(value));
    this.tables[name] = { json: true, block: this.parts.length, at: 0, bytes: bytes.length };
    this.parts.push({ name, bytes });
  }

  pack(meta: Record<string, unknown>, codec: "deflate" | "none" = "deflate"): PackedPage {
    const text = encodeTexts(this.strings);
    this.tables["strings"] = { rows: this.strings.length,
      columns: [{ name: "text", type: "text", block: this.parts.length, at: 0, bytes: text.length }] };
    const blocks: object[] = [];
    const packed: Uint8Array[] = [];
    let at = 0;
    for (const part of [...this.parts, { name: "strings", bytes: text }]) {
      const bytes = codec === "deflate" ? deflateSync(part.bytes, { level: 6 }) : part.bytes;
      blocks.push({ name: part.name, at, bytes: bytes.length, raw_bytes: part.bytes.length, codec });
      packed.push(bytes);
      at += bytes.length;
    }
    const data = new Uint8Array(at);
    let to = 0;
    for (const bytes of packed) {
      data.set(bytes, to);
      to += bytes.length;
    }
    return { data, meta: { format: 1, piano: "0.1.0", name: "test", kinds: [], program: "", command: "", pid: 1,
      started_ms: 0, duration_ns: 1, notices: [], dropped: {}, b: null, ...meta, tables: this.tables, blocks } };
  }
}

/** Base64 texts of at most 16 MB, each encoded separately. */
export function toBase64(data: Uint8Array, most = 12e6): string[] {
  const texts: string[] = [];
  for (let at = 0; at < data.length || at === 0; at += most) {
    texts.push(Buffer.from(data.subarray(at, at + most)).toString("base64"));
  }
  return texts;
}

export function html(page: PackedPage, js: string, css: string): string {
  const sha = (text: string): string => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
  const meta = JSON.stringify(page.meta).replace(/[<>&\u2028\u2029]/g, (c) =>
    `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
  const policy = `default-src 'none'; script-src ${sha(js)}; style-src ${sha(css)}; img-src data: blob:; ` +
    "base-uri 'none'; form-action 'none'";
  const data = toBase64(page.data).map((text, i) =>
    `<script type="application/octet-stream" id="piano-data${i > 0 ? `-${i}` : ""}">${text}</script>`).join("\n");
  return `<!doctype html><html lang=en><head><meta charset=utf-8>
<meta http-equiv="Content-Security-Policy" content="${policy}">
<title>piano: test</title><style>${css}</style></head><body><div id=app></div>
<noscript>This page needs JavaScript.</noscript>
<script type="application/json" id="piano-meta">${meta}</script>
${data}
<script>${js}</script></body></html>
`;
}
