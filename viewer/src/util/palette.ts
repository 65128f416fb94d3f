/* Colours for canvases: the variables of shell/style.css, read once per theme. Categories use the eight
 * colours of Okabe and Ito, which people with any kind of colour blindness can distinguish. From the ninth
 * category on, lighter or darker variants follow. Colour is never the only information: shape, position or
 * text repeats it. */
export interface Palette {
  readonly dark: boolean;
  /** Text size of the user divided by 16 px. Layout on canvases scales with it. */
  readonly unit: number;
  readonly background: string;
  readonly surface: string;
  readonly raised: string;
  readonly line: string;
  readonly lineStrong: string;
  readonly text: string;
  readonly textDim: string;
  readonly textFaint: string;
  readonly accent: string;
  readonly accentSoft: string;
  readonly bad: string;
  readonly warn: string;
  readonly good: string;
  readonly idle: string;
  /** Okabe-Ito, in the order of use. */
  readonly series: readonly string[];
  readonly font: string;
  readonly fontSmall: string;
  readonly mono: string;
}

let current: Palette | null = null;

/** The colours of the current theme. */
export function palette(): Palette {
  return (current ??= read());
}

/** Call when the theme or the text size has changed. */
export function forgetPalette(): void {
  current = null;
}

function read(): Palette {
  const style = getComputedStyle(document.documentElement);
  const get = (name: string): string => style.getPropertyValue(`--${name}`).trim();
  const size = parseFloat(style.fontSize) || 16; // the text size of the user
  const family = get("font") || "sans-serif";
  return {
    dark: get("dark") === "1", unit: size / 16,
    background: get("bg"), surface: get("surface"), raised: get("raised"), line: get("line"),
    lineStrong: get("line-strong"), text: get("text"), textDim: get("text-dim"),
    textFaint: get("text-faint"), accent: get("accent"), accentSoft: get("accent-soft"),
    bad: get("bad"), warn: get("warn"), good: get("good"), idle: get("idle"),
    series: [0, 1, 2, 3, 4, 5, 6, 7].map((i) => get(`series-${i}`)),
    font: `${(size * 0.75).toFixed(1)}px ${family}`,
    fontSmall: `${(size * 0.6875).toFixed(1)}px ${family}`,
    mono: `${(size * 0.75).toFixed(1)}px ${get("mono") || "monospace"}`,
  };
}

/** Number of categories before colours repeat as variants: all but vermilion, which is reserved for
 * problems (a spike, off the CPU). */
const HANDED_OUT = [0, 1, 2, 3, 4, 6, 7];

/** Colour of category INDEX. The same index has the same colour in every view. */
export function category(index: number): string {
  const { series, dark } = palette();
  const base = series[HANDED_OUT[index % HANDED_OUT.length] ?? 0] ?? "#888888";
  const ring = Math.floor(index / HANDED_OUT.length) % 3;
  return ring === 0 ? base : mix(base, (ring === 1) !== dark ? "#ffffff" : "#000000", 0.35);
}

/** #rrggbb as 0xAABBGGRR (the byte order of canvas pixels on little-endian machines). */
export function pixel(colour: string, alpha = 255): number {
  const [r, g, b] = rgb(colour);
  return ((alpha << 24) | (b << 16) | (g << 8) | r) >>> 0;
}

/** The mix of colours A and B (#rrggbb); PART 0 is A. */
export function mix(a: string, b: string, part: number): string {
  const x = rgb(a), y = rgb(b);
  const channel = (i: 0 | 1 | 2): string =>
    Math.round(x[i] + (y[i] - x[i]) * part).toString(16).padStart(2, "0");
  return `#${channel(0)}${channel(1)}${channel(2)}`;
}

/** Black or white, whichever is readable on COLOUR. */
export function inkOn(colour: string): string {
  const [r, g, b] = rgb(colour);
  return 0.2126 * lin(r) + 0.7152 * lin(g) + 0.0722 * lin(b) > 0.22 ? "#15171a" : "#ffffff";
}

function lin(channel: number): number {
  const c = channel / 255;
  return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
}

function rgb(colour: string): [number, number, number] {
  const value = parseInt(colour.slice(1, 7), 16) || 0;
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}
