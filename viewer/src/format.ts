/* Numbers and names as text. Everything a run says is hostile: names hold HTML, control characters,
 * right-to-left marks, or 100 kB of template arguments. The rules:
 *   - text enters the document as textContent or on a canvas, never as HTML;
 *   - it passes through safe() first, which makes what cannot be seen visible;
 *   - where space is short it is cut() in the middle, and the details panel has all of it.
 */

/* Names ------------------------------------------------------------------------------------------ */

// Controls, format characters (bidi marks, zero width, soft hyphen), line separators, lone surrogates,
// private use and unassigned: all that would hide, reorder or break text.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}\p{Cn}]/gu;

/** TEXT with invisible characters written out: "‹U+202E›". */
export function safe(text: string): string {
  return text.replace(UNSEEN, (character) =>
    `‹U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}›`);
}

/** TEXT in at most MOST characters, cut in the middle: both ends of a symbol tell something. */
export function cut(text: string, most: number): string {
  if (text.length <= most) return text;
  if (most <= 1) return "…";
  const tail = most < 10 ? 0 : Math.floor((most - 1) / 3); // two letters of an end tell nothing
  return whole(text.slice(0, most - 1 - tail), -1) + "…" + (tail > 0 ? whole(text.slice(-tail), 1) : "");
}

/** Without half a surrogate pair at the cut. */
function whole(text: string, side: 1 | -1): string {
  if (side < 0) return /[\ud800-\udbff]$/.test(text) ? text.slice(0, -1) : text;
  return /^[\udc00-\udfff]/.test(text) ? text.slice(1) : text;
}

/** A C++ or C function name without its argument list: for tight labels. */
export function shortName(name: string): string {
  const open = name.indexOf("(", 1);
  return open > 0 && name.endsWith(")") && !name.startsWith("(") ? name.slice(0, open) : name;
}

/** Last part of a path. */
export function baseName(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1) || path;
}

/* Numbers ---------------------------------------------------------------------------------------- */

/** Three significant digits, without trailing zeros after the point only if whole. */
function three(value: number): string {
  const size = Math.abs(value);
  return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

/** A length of time: "840 ns", "12.3 µs", "1.20 ms", "3.4 s", "2 m 05 s". Negative (not known): "-". */
export function ns(value: number): string {
  if (!(value >= 0)) return "-";
  if (value < 999.5) return `${Math.round(value)} ns`;
  if (value < 999.5e3) return `${three(value / 1e3)} µs`;
  if (value < 999.5e6) return `${three(value / 1e6)} ms`;
  if (value < 120e9) return `${three(value / 1e9)} s`;
  const seconds = Math.round(value / 1e9);
  const pad = (n: number): string => String(n).padStart(2, "0");
  if (seconds < 7200) return `${Math.floor(seconds / 60)} m ${pad(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${pad(Math.floor((seconds % 3600) / 60))} m`;
}

/** A moment: exact enough to tell two places apart that are STEP ns apart on the axis. */
export function moment(value: number, step: number): string {
  const seconds = value / 1e9;
  const digits = Math.min(9, Math.max(0, Math.ceil(-Math.log10(Math.max(step, 1) / 1e9) - 1e-9)));
  return `${seconds.toFixed(digits)} s`;
}

/** "512 B", "1.50 KiB", "23.4 MiB". Negative: with its sign. NaN: "-". */
export function bytes(value: number): string {
  if (!Number.isFinite(value)) return "-";
  const size = Math.abs(value);
  if (size < 1023.5) return `${Math.round(value)} B`;
  const units = ["KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0, scaled = value / 1024;
  while (Math.abs(scaled) >= 1023.5 && unit < units.length - 1) {
    scaled /= 1024;
    unit++;
  }
  return `${three(scaled)} ${units[unit] ?? ""}`;
}

/** "1 234 567" with thin spaces: exact. NaN or not known (negative): "-". */
export function count(value: number): string {
  if (!Number.isFinite(value) || value < 0) return "-";
  return Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/** "12.3k", "4.5M": short. */
export function brief(value: number): string {
  if (!Number.isFinite(value)) return "-";
  const size = Math.abs(value);
  if (size < 1000) return Number.isInteger(value) ? String(value) : three(value);
  if (size < 999.5e3) return `${three(value / 1e3)}k`;
  if (size < 999.5e6) return `${three(value / 1e6)}M`;
  return `${three(value / 1e9)}G`;
}

/** PART of WHOLE: "12.3 %"; "-" of nothing. */
export function percent(part: number, all: number): string {
  if (!(all > 0) || !Number.isFinite(part)) return "-";
  const value = (100 * part) / all;
  return `${Math.abs(value) >= 99.95 ? value.toFixed(0) : value.toFixed(1)} %`;
}

/** "2.1×" */
export function times(value: number): string {
  return Number.isFinite(value) ? `${three(value)}×` : "-";
}
