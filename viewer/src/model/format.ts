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
  let [head, tail] = cutEnds(most);
  // Without half a surrogate pair at the cut.
  if ((text.charCodeAt(head - 1) & 0xfc00) === 0xd800) head--;
  if (tail > 0 && (text.charCodeAt(text.length - tail) & 0xfc00) === 0xdc00) tail--;
  return text.slice(0, head) + "…" + (tail > 0 ? text.slice(-tail) : "");
}

/** How many letters of the beginning and of the end a cut leaves. */
export function cutEnds(most: number): [head: number, tail: number] {
  const tail = most < 10 ? 0 : Math.floor((most - 1) / 3); // two letters of an end tell nothing
  return [most - 1 - tail, tail];
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

/** A path that leads far away, by its last two parts, as in reports; one within a project as it is. */
export function nearName(path: string): string {
  return /^\.{0,2}\//.test(path) ? path.split("/").slice(-2).join("/") : path;
}

/* Numbers ----------------------------------------------------------------------------------------
 *
 * As `piano report` writes them (src/tool/util/units.c), letter by letter, so that a figure read here is found there: times
 * and sizes with one digit behind the point, sizes in steps of 1024, the next unit where rounding would give 1000 or
 * 1024, no space before the unit. */

/** As printf's "%.1f": of two that are equally near, the even one, where toFixed() takes the greater. */
function oneDigit(value: number): string {
  return value * 4 % 4 === 1 ? `${Math.floor(value)}.2` : value.toFixed(1);
}

/** VALUE in the first of UNITS in which it is below LIMIT, or the last. */
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

/** A length of time: "840ns", "12.3us", "1.2ms", "3.4s". Negative (not known): "-". */
export function ns(value: number): string {
  if (!(value >= 0)) return "-";
  const whole = Math.round(value);
  return whole < 1000 ? `${whole}ns` : scaled(whole, TIMES, 1000);
}

/** A moment: exact enough to tell two places apart that are STEP ns apart on the axis. */
export function moment(value: number, step: number): string {
  const seconds = value / 1e9;
  const digits = Math.min(9, Math.max(0, Math.ceil(-Math.log10(Math.max(step, 1) / 1e9) - 1e-9)));
  return `${seconds.toFixed(digits)}s`;
}

/** "512B", "1.5KB", "23.4MB". Negative: with its sign. NaN: "-". */
export function bytes(value: number): string {
  if (!Number.isFinite(value)) return "-";
  const size = Math.round(Math.abs(value)), sign = value < 0 && size > 0 ? "-" : "";
  return sign + (size < 1024 ? `${size}B` : scaled(size, SIZES, 1024));
}

/** A figure beside an axis: "2MB", where it is no more exact than that. */
export function tick(text: string): string {
  return text.replace(/\.0(?=[a-zA-Z%])/, "");
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

/** PART of WHOLE: "12.3%"; "-" of nothing. */
export function percent(part: number, all: number): string {
  if (!(all > 0) || !Number.isFinite(part)) return "-";
  return `${((100 * part) / all).toFixed(1)}%`;
}

/** "2.1×" */
export function times(value: number): string {
  return Number.isFinite(value) ? `${three(value)}×` : "-";
}
