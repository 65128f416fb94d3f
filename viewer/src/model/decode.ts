/* Converts the bytes of the page to typed arrays: base64, inflate, columns. page.ts has checked every size
 * against the page's description; this file checks the description against the bytes. Sizes in a broken
 * page never cause an allocation: base64 determines its own size, and a deflate stream cannot grow by more
 * than 1032:1. */
import { PageError } from "./error";
import { width } from "./page";
import type { Block, ColumnInfo } from "./page";

/** Maximum ratio of deflate (RFC 1951: 258 bytes for two bits), and the bytes around the stream. */
const MOST_RATIO = 1032;
const ZLIB_FRAME = 64;

/* base64 --------------------------------------------------------------------------------------- */

interface NativeBase64 {
  fromBase64?(text: string): Uint8Array;
}

const BAD = 255;
let table: Uint8Array | null = null;

function valuesOfLetters(): Uint8Array {
  if (table) return table;
  const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  table = new Uint8Array(256).fill(BAD);
  for (let i = 0; i < 64; i++) table[letters.charCodeAt(i)] = i;
  return table;
}

/** Decodes base64 TEXT; ignores white space around it. */
export function fromBase64(text: string, native = true): Uint8Array {
  const trimmed = text.trim();
  const decode = (Uint8Array as unknown as NativeBase64).fromBase64;
  if (native && decode) {
    try {
      return decode.call(Uint8Array, trimmed);
    } catch {
      throw new PageError("The page's data is damaged: it is not base64.");
    }
  }
  return tableBase64(trimmed);
}

function tableBase64(text: string): Uint8Array {
  const letters = new TextEncoder().encode(text); // 1 byte per letter, or it is not base64
  const values = valuesOfLetters();
  let end = letters.length;
  while (end > 0 && letters[end - 1] === 61 /* = */ && letters.length - end < 2) end--;
  if (letters.length % 4 !== 0 || end % 4 === 1) {
    throw new PageError("The page's data is truncated: its base64 text is incomplete.");
  }
  const out = new Uint8Array(Math.floor((end * 3) / 4));
  let bad = 0, to = 0, from = 0;
  const value = (at: number): number => {
    const found = values[letters[at] as number] as number;
    bad |= found & 128;
    return found;
  };
  for (; from + 4 <= end; from += 4) {
    const bits = (value(from) << 18) | (value(from + 1) << 12) | (value(from + 2) << 6) | value(from + 3);
    out[to++] = bits >> 16;
    out[to++] = bits >> 8;
    out[to++] = bits;
  }
  if (end - from >= 2) {
    out[to++] = (value(from) << 2) | (value(from + 1) >> 4);
    if (end - from === 3) out[to++] = (value(from + 1) << 4) | (value(from + 2) >> 2);
  }
  if (bad) throw new PageError("The page's data is damaged: it is not base64.");
  return out;
}

/** Decodes each base64 text and concatenates the results. Empties TEXTS as it goes, to free memory. */
export function joinData(texts: string[]): Uint8Array {
  if (texts.length === 0) {
    throw new PageError("This page has no data: its piano-data element is missing.");
  }
  const parts: Uint8Array[] = [];
  for (let i = 0; i < texts.length; i++) {
    parts.push(fromBase64(texts[i] as string));
    texts[i] = "";
  }
  if (parts.length === 1) return parts[0] as Uint8Array;
  const joined = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}

/* Blocks --------------------------------------------------------------------------------------- */

/** The decompressed bytes of BLOCK in DATA. */
export async function inflateBlock(data: Uint8Array, block: Block): Promise<Uint8Array> {
  if (block.at + block.bytes > data.length) {
    throw new PageError(`The page's data is truncated: block ${block.name} ends at byte ` +
      `${block.at + block.bytes} of ${data.length}.`);
  }
  const packed = data.subarray(block.at, block.at + block.bytes);
  if (block.codec === "none") return packed;
  if (block.raw_bytes > block.bytes * MOST_RATIO + ZLIB_FRAME) {
    throw new PageError(`Block ${block.name} claims ${block.raw_bytes} bytes, more than ` +
      `${block.bytes} compressed ones can hold.`);
  }
  const out = new Uint8Array(block.raw_bytes);
  let filled = 0;
  const reader = stream(packed).pipeThrough(new DecompressionStream("deflate")).getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      if (filled + value.length > out.length) {
        throw new PageError(`Block ${block.name} holds more than the ${block.raw_bytes} bytes it claims.`);
      }
      out.set(value, filled);
      filled += value.length;
    }
  } catch (error) {
    void reader.cancel().catch(() => undefined);
    if (error instanceof PageError) throw error;
    throw new PageError(`Block ${block.name} of the page's data is damaged: it cannot be inflated.`);
  }
  if (filled !== out.length) {
    throw new PageError(`Block ${block.name} holds ${filled} bytes; it claims ${block.raw_bytes}.`);
  }
  return out;
}

function stream(bytes: Uint8Array): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(bytes);
      controller.close();
    },
  });
}

/* Columns -------------------------------------------------------------------------------------- */

export type Column = Uint8Array | Uint16Array | Uint32Array | Float64Array;

/** Decodes a column; RAW is its decompressed block. i64 and f64 become a Float64Array. */
export function decodeColumn(raw: Uint8Array, info: ColumnInfo, rows: number): Column {
  const bytes = raw.subarray(info.at, info.at + info.bytes);
  if (bytes.length !== rows * width(info.type)) {
    throw new PageError(`Column ${info.name} has ${bytes.length} bytes for ${rows} rows.`);
  }
  const planes = info.code === "planes" || info.code === "delta-planes";
  const delta = info.code === "delta" || info.code === "delta-planes";
  switch (info.type) {
    case "u8": return undelta(bytes.slice(), delta);
    case "u16": return undelta(new Uint16Array(laid(bytes, rows, 2, planes)), delta);
    case "u32": return undelta(new Uint32Array(laid(bytes, rows, 4, planes)), delta);
    case "i64": return wide(bytes, rows, planes, delta);
    case "f64":
      if (delta) throw new PageError(`Column ${info.name} is f64 and cannot be coded by differences.`);
      return new Float64Array(laid(bytes, rows, 8, planes));
    case "text": throw new PageError(`Column ${info.name} is text.`);
  }
}

/** Copies the little-endian bytes of ROWS values of SIZE bytes to a new buffer. */
function laid(bytes: Uint8Array, rows: number, size: number, planes: boolean): ArrayBuffer {
  const out = new Uint8Array(rows * size);
  if (!planes) out.set(bytes);
  else {
    for (let plane = 0; plane < size; plane++) {
      const base = plane * rows;
      for (let row = 0, to = plane; row < rows; row++, to += size) out[to] = bytes[base + row] as number;
    }
  }
  return out.buffer;
}

function undelta<T extends Uint8Array | Uint16Array | Uint32Array>(values: T, delta: boolean): T {
  if (delta) {
    // Typed arrays wrap on overflow, as the packer's differences do.
    for (let i = 1; i < values.length; i++) {
      values[i] = (values[i] as number) + (values[i - 1] as number);
    }
  }
  return values;
}

/** Converts 64-bit integers to Numbers: exact below 2^53, which is 104 days in nanoseconds. */
function wide(bytes: Uint8Array, rows: number, planes: boolean, delta: boolean): Float64Array {
  const out = new Float64Array(rows);
  const words = planes ? null : new Uint32Array(laid(bytes, rows, 8, false));
  const p1 = rows, p2 = 2 * rows, p3 = 3 * rows, p4 = 4 * rows, p5 = 5 * rows, p6 = 6 * rows, p7 = 7 * rows;
  let low = 0, high = 0;
  for (let i = 0; i < rows; i++) {
    let lo: number, hi: number;
    if (words) {
      lo = words[2 * i] as number;
      hi = words[2 * i + 1] as number;
    } else {
      lo = ((bytes[i] as number) | ((bytes[p1 + i] as number) << 8) | ((bytes[p2 + i] as number) << 16) |
        ((bytes[p3 + i] as number) << 24)) >>> 0;
      hi = ((bytes[p4 + i] as number) | ((bytes[p5 + i] as number) << 8) |
        ((bytes[p6 + i] as number) << 16) | ((bytes[p7 + i] as number) << 24)) >>> 0;
    }
    if (delta) {
      lo += low;
      hi = (hi + high + (lo > 0xffffffff ? 1 : 0)) >>> 0;
      lo >>>= 0;
      low = lo;
      high = hi;
    }
    out[i] = (hi | 0) * 4294967296 + lo;
  }
  return out;
}

/** The strings of a text column: each is a u32 length and that many bytes of UTF-8. */
export class Texts {
  private readonly starts: Uint32Array;
  private readonly kept: (string | undefined)[];
  private readonly bytes: Uint8Array;

  constructor(raw: Uint8Array, info: ColumnInfo, readonly rows: number) {
    this.bytes = raw.subarray(info.at, info.at + info.bytes);
    if (rows * 4 > this.bytes.length) {
      throw new PageError(`The ${rows} texts of column ${info.name} do not fit in their bytes.`);
    }
    this.starts = new Uint32Array(rows + 1);
    this.kept = new Array<string | undefined>(rows);
    const view = new DataView(this.bytes.buffer, this.bytes.byteOffset, this.bytes.length);
    let at = 0;
    for (let row = 0; row < rows; row++) {
      if (at + 4 > this.bytes.length) throw new PageError(`Text ${row} of ${info.name} is truncated.`);
      const length = view.getUint32(at, true);
      this.starts[row] = at;
      at += 4 + length;
      if (at > this.bytes.length) throw new PageError(`Text ${row} of ${info.name} is truncated.`);
    }
    this.starts[rows] = at;
  }

  /** The text of ROW, unchanged. Pass it through format.ts before you show it. */
  get(row: number): string {
    const kept = this.kept[row];
    if (kept !== undefined) return kept;
    if (!(row >= 0 && row < this.rows)) throw new PageError(`There is no text ${row} on this page.`);
    const from = (this.starts[row] as number) + 4, to = this.starts[row + 1] as number;
    const text = new TextDecoder().decode(this.bytes.subarray(from, to));
    this.kept[row] = text;
    return text;
  }
}
