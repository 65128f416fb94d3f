/* Names in boxes, cut to the available width. During a zoom the width of every visible box changes in every
 * animation frame, and measuring names with the browser takes longer than drawing them. So each letter is
 * measured once, and the width of a name is the sum of its letters. Kerning is ignored; its effect is
 * smaller than the margin of a box. */
import { cut, cutEnds } from "../model/format";

interface Label {
  readonly text: string;
  /** ends[i]: width of the first i letters. */
  readonly ends: Float32Array;
  /** The last result, and its number of letters. */
  shown: string;
  letters: number;
}

export class Labels {
  private readonly labels = new Map<number, Label>();
  private readonly widths = new Map<string, number>();
  private font = "";

  /** MEASURE: width of a text in the font of the canvas. NAME: name of a key. */
  constructor(private readonly measure: (text: string) => number, private readonly name: (key: number) => string) {}

  /** Must be called before drawing, because the cached widths are those of one font. */
  setFont(font: string): void {
    if (font === this.font) return;
    this.font = font;
    this.labels.clear();
    this.widths.clear();
  }

  /** Width of the complete name. */
  width(key: number): number {
    const { ends } = this.of(key);
    return ends[ends.length - 1]!;
  }

  /** The name of KEY, cut in the middle so that it is at most ROOM wide; "" if fewer than three letters
   * fit. */
  fit(key: number, room: number): string {
    const label = this.of(key);
    const { text, ends } = label;
    const count = text.length, whole = ends[count]!;
    if (whole <= room) return text;
    let letters = Math.min(Math.ceil(count * room / whole), count - 1);
    while (letters >= 3 && this.cutWidth(ends, count, letters) > room) letters--;
    if (letters < 3) return "";
    if (letters !== label.letters) {
      label.letters = letters;
      label.shown = cut(text, letters);
    }
    return label.shown;
  }

  private cutWidth(ends: Float32Array, count: number, letters: number): number {
    const [head, tail] = cutEnds(letters);
    return ends[head]! + this.letter("…") + ends[count]! - ends[count - tail]!;
  }

  private of(key: number): Label {
    let label = this.labels.get(key);
    if (!label) this.labels.set(key, (label = this.made(this.name(key))));
    return label;
  }

  private made(text: string): Label {
    const ends = new Float32Array(text.length + 1);
    let at = 0, wide = 0;
    for (const letter of text) {
      wide += this.letter(letter);
      for (const end = at + letter.length; at < end;) ends[++at] = wide; // both halves of a surrogate pair
    }
    return { text, ends, shown: "", letters: 0 };
  }

  private letter(letter: string): number {
    let width = this.widths.get(letter);
    if (width === undefined) this.widths.set(letter, (width = this.measure(letter)));
    return width;
  }
}
