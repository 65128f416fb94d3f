/* Reduces a screenshot to 256 colours, which takes a third of the bytes and looks the same. Keeps the most frequent
 * colours and replaces each other colour with the nearest one. Reads what Chromium writes: 8 bits per channel, not
 * interlaced. */
import { deflateSync, inflateSync } from "node:zlib";

const MAGIC = Buffer.from([0x89, 0x50, 0x4e, 0x47, 13, 10, 26, 10]);
const COLOURS = 256;

function* chunks(png) {
  for (let at = MAGIC.length; at < png.length;) {
    const length = png.readUInt32BE(at);
    yield [png.toString("latin1", at + 4, at + 8), png.subarray(at + 8, at + 8 + length)];
    at += 12 + length;
  }
}

/** Reverses the filter of each line: {width, height, channels, pixels}. */
function read(png) {
  const parts = [...chunks(png)];
  const head = parts[0][1];
  const width = head.readUInt32BE(0), height = head.readUInt32BE(4), channels = head[9] === 6 ? 4 : 3;
  const raw = inflateSync(Buffer.concat(parts.filter(([type]) => type === "IDAT").map(([, data]) => data)));
  const line = width * channels;
  const pixels = Buffer.alloc(line * height);
  for (let y = 0; y < height; y++) {
    const filter = raw[y * (line + 1)];
    for (let x = 0; x < line; x++) {
      const at = y * line + x;
      const a = x >= channels ? pixels[at - channels] : 0, b = y > 0 ? pixels[at - line] : 0;
      const c = x >= channels && y > 0 ? pixels[at - line - channels] : 0;
      pixels[at] = raw[y * (line + 1) + 1 + x] + [0, a, b, (a + b) >> 1, nearest(a, b, c)][filter];
    }
  }
  return { width, height, channels, pixels };
}

function nearest(a, b, c) {
  const [pa, pb, pc] = [Math.abs(b - c), Math.abs(a - c), Math.abs(a + b - 2 * c)];
  return pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
}

const CRC = Uint32Array.from({ length: 256 }, (_, n) => {
  for (let k = 0; k < 8; k++) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1;
  return n;
});

function chunk(type, data) {
  const body = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const ends = [Buffer.alloc(4), Buffer.alloc(4)];
  ends[0].writeUInt32BE(data.length);
  ends[1].writeUInt32BE((body.reduce((crc, byte) => CRC[(crc ^ byte) & 255] ^ (crc >>> 8), 0xffffffff) ^ 0xffffffff) >>> 0);
  return Buffer.concat([ends[0], body, ends[1]]);
}

export function reduced(png) {
  const { width, height, channels, pixels } = read(png);
  const seen = new Map();
  const colourAt = (at) => pixels[at] << 16 | pixels[at + 1] << 8 | pixels[at + 2];
  for (let at = 0; at < pixels.length; at += channels) seen.set(colourAt(at), (seen.get(colourAt(at)) ?? 0) + 1);
  const palette = [...seen].sort((a, b) => b[1] - a[1]).slice(0, COLOURS).map(([colour]) => colour);
  const far = (a, b) => [16, 8, 0].reduce((sum, shift) => sum + ((a >> shift & 255) - (b >> shift & 255)) ** 2, 0);
  const numbers = new Map([...seen.keys()].map((colour) =>
    [colour, palette.reduce((best, own, i) => far(own, colour) < far(palette[best], colour) ? i : best, 0)]));
  const lines = Buffer.alloc((width + 1) * height);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) lines[y * (width + 1) + 1 + x] = numbers.get(colourAt((y * width + x) * channels));
  }
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width);
  head.writeUInt32BE(height, 4);
  head.set([8, 3, 0, 0, 0], 8);
  const colours = Buffer.from(palette.flatMap((colour) => [colour >> 16, colour >> 8 & 255, colour & 255]));
  return Buffer.concat([MAGIC, chunk("IHDR", head), chunk("PLTE", colours),
    chunk("IDAT", deflateSync(lines, { level: 9 })), chunk("IEND", Buffer.alloc(0))]);
}
