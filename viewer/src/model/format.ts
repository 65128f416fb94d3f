/* Formats numbers and names as text. Text from a run is hostile: names can contain HTML, control
 * characters, right-to-left marks, or 100 kB of template arguments. Rules:
 *   - text enters the document as textContent or on a canvas, never as HTML;
 *   - it passes through safe() first, which makes invisible characters visible;
 *   - where there is little space, cut() shortens it in the middle; the details panel shows all of it. */

/* Names ------------------------------------------------------------------------------------------ */

// Control characters, format characters (bidi marks, zero width, soft hyphen), line separators, lone
// surrogates, private use and unassigned: everything that could hide, reorder or break text.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}\p{Cn}]/gu;

/** TEXT with invisible characters as code points: "‹U+202E›". */
export function safe(text: string): string {
  return text.replace(UNSEEN, (character) =>
    `‹U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}›`);
}

/** TEXT shortened to at most MOST characters by a cut in the middle, because both ends of a symbol are
 * informative. */
export function cut(text: string, most: number): string {
  if (text.length <= most) return text;
  if (most <= 1) return "…";
  let [head, tail] = cutEnds(most);
  // Does not split a surrogate pair.
  if ((text.charCodeAt(head - 1) & 0xfc00) === 0xd800) head--;
  if (tail > 0 && (text.charCodeAt(text.length - tail) & 0xfc00) === 0xdc00) tail--;
  return text.slice(0, head) + "…" + (tail > 0 ? text.slice(-tail) : "");
}

/** How many characters of the beginning and of the end remain after a cut. */
export function cutEnds(most: number): [head: number, tail: number] {
  const tail = most < 10 ? 0 : Math.floor((most - 1) / 3); // an end of two letters is not informative
  return [most - 1 - tail, tail];
}

/** A C++ or C function name without its argument list, for short labels. */
export function shortName(name: string): string {
  const open = name.indexOf("(", 1);
  return open > 0 && name.endsWith(")") && !name.startsWith("(") ? name.slice(0, open) : name;
}

/** The last part of a path. */
export function baseName(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1) || path;
}

/** As in reports: an absolute path, or one that begins with a dot, becomes its last two parts. Other paths
 * stay as they are. */
export function nearName(path: string): string {
  return /^\.{0,2}\//.test(path) ? path.split("/").slice(-2).join("/") : path;
}

/* Numbers ----------------------------------------------------------------------------------------
 *
 * Exactly as `piano report` prints them (src/tool/util/units.c), so that you can find a figure of the page
 * in a report: times and sizes with one decimal, sizes in steps of 1024, the next unit if rounding would
 * give 1000 or 1024, no space before the unit. */

/** Like printf's "%.1f": rounds half to even, while toFixed() rounds half up. */
function oneDigit(value: number): string {
  return value * 4 % 4 === 1 ? `${Math.floor(value)}.2` : value.toFixed(1);
}

/** VALUE in the first of UNITS in which it is below LIMIT, otherwise in the last one. */
function scaled(value: number, units: readonly (readonly [name: string, size: number])[], limit: number): string {
  const [name, size] = units.find((unit) => value / unit[1] < limit - 0.05) ?? units[units.length - 1]!;
  return oneDigit(value / size) + name;
}

/** Three significant digits. */
function three(value: number): string {
  const size = Math.abs(value);
  return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

const TIMES = [["us", 1e3], ["ms", 1e6], ["s", 1e9]] as const;
const SIZES = [["KB", 2 ** 10], ["MB", 2 ** 20], ["GB", 2 ** 30], ["TB", 2 ** 40]] as const;

/** A duration: "840ns", "12.3us", "1.2ms", "3.4s". Negative (unknown): "-". */
export function ns(value: number): string {
  if (!(value >= 0)) return "-";
  const whole = Math.round(value);
  return whole < 1000 ? `${whole}ns` : scaled(whole, TIMES, 1000);
}

/** A moment, with enough digits to distinguish two ticks that are STEP ns apart. */
export function moment(value: number, step: number): string {
  const seconds = value / 1e9;
  const digits = Math.min(9, Math.max(0, Math.ceil(-Math.log10(Math.max(step, 1) / 1e9) - 1e-9)));
  return `${seconds.toFixed(digits)}s`;
}

/** "512B", "1.5KB", "23.4MB". Negative values keep their sign. NaN: "-". */
export function bytes(value: number): string {
  if (!Number.isFinite(value)) return "-";
  const size = Math.round(Math.abs(value)), sign = value < 0 && size > 0 ? "-" : "";
  return sign + (size < 1024 ? `${size}B` : scaled(size, SIZES, 1024));
}

/** A label of an axis: "2MB" instead of "2.0MB". */
export function tick(text: string): string {
  return text.replace(/\.0(?=[a-zA-Z%])/, "");
}

/** "1 234 567" with thin spaces, exact. NaN or negative (unknown): "-". */
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

/** PART of WHOLE: "12.3%"; "-" if WHOLE is 0. */
export function percent(part: number, all: number): string {
  if (!(all > 0) || !Number.isFinite(part)) return "-";
  return `${((100 * part) / all).toFixed(1)}%`;
}

/** "2.1×" */
export function times(value: number): string {
  return Number.isFinite(value) ? `${three(value)}×` : "-";
}
