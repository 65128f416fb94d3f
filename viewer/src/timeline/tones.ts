/* Colours of items on a time axis, as pixels for a canvas: a tone for each kind of item, mixed with the
 * background according to how much of its pixel column the item covers. */
import { category, mix, palette, pixel } from "../util/palette";

/** Tones 0 ... TASKS - 1 are those of tasks. */
export const TASKS = 21;
export const TONE_FRAME = TASKS;
export const TONE_SPIKE = TASKS + 1;
export const TONE_PARK = TASKS + 2;
export const TONE_OFF = TASKS + 3;
export const TONE_PREEMPTED = TASKS + 4;
export const TONE_CPU = TASKS + 5;
export const TONE_DIM = TASKS + 6;
export const TONE_NONE = TASKS + 7;
export const TONE_WAIT = TASKS + 8;
const COUNT = TASKS + 9;
const SHADES = 16;
/** Minimum intensity of a column that is not empty, so that a single short poll is visible. */
const LEAST = 0.35;

/** Frames have a pale colour, so that spikes stand out. */
export function frameColour(): string {
  const { series, surface } = palette();
  return mix(series[0] ?? "", surface, 0.45);
}

/** Off the CPU while idle: an inconspicuous colour. */
export function waitColour(): string {
  const { lineStrong, surface } = palette();
  return mix(lineStrong, surface, 0.25);
}

export class Tones {
  readonly css: readonly string[];
  private readonly pixels = new Uint32Array(COUNT * SHADES);

  constructor() {
    const colours = palette();
    const css: string[] = [];
    for (let i = 0; i < TASKS; i++) css.push(category(i));
    css.push(frameColour(), colours.bad, colours.idle,
      colours.series[5] ?? "", colours.series[1] ?? "", mix(colours.textFaint, colours.surface, 0.25),
      mix(colours.textFaint, colours.surface, 0.72), mix(colours.textFaint, colours.surface, 0.3),
      waitColour());
    this.css = css;
    for (let tone = 0; tone < COUNT; tone++) {
      for (let shade = 0; shade < SHADES; shade++) {
        const part = LEAST + ((1 - LEAST) * shade) / (SHADES - 1);
        this.pixels[tone * SHADES + shade] = pixel(mix(colours.surface, css[tone] ?? "#888888", part));
      }
    }
  }

  /** The pixel of TONE in a column of which the share COVER (0 to 1) is covered. */
  pixel(tone: number, cover: number): number {
    return this.pixels[tone * SHADES + Math.min(SHADES - 1, Math.max(0, Math.round(cover * (SHADES - 1))))] ?? 0;
  }
}
