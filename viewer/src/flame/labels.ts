/* Names in boxes: as much of one as fits. A zoom asks for another length of every name in sight, in every frame, and to have
 * each measured by the browser takes longer than to draw it. So letters are measured, once, and names by adding them up:
 * off by what a font does to neighbours, which is less than the margin of a box.
 */
import { cut, cutEnds } from "../model/format";

interface Label {
  readonly text: string;
  /** ends[i]: how wide its first i letters are. */
  readonly ends: Float32Array;
  /** What was given out last, and how many letters that had. */
  shown: string;
  letters: number;
}

export class Labels {
  private readonly labels = new Map<number, Label>();
  private readonly widths = new Map<string, number>();
  private font = "";

  /** MEASURE: the width of a text in the font of the canvas; NAME: of a key. */
  constructor(private readonly measure: (text: string) => number, private readonly name: (key: number) => string) {}

  /** To be called before a picture: what is known is of one font. */
  setFont(font: string): void {
    if (font === this.font) return;
    this.font = font;
    this.labels.clear();
    this.widths.clear();
  }

  /** How wide the whole name is. */
  width(key: number): number {
    const { ends } = this.of(key);
    return ends[ends.length - 1]!;
  }

  /** The name of KEY, cut in the middle so that it is at most ROOM wide; "" when not even three letters are. */
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
      for (const end = at + letter.length; at < end;) ends[++at] = wide; // both halves of a pair
    }
    return { text, ends, shown: "", letters: 0 };
  }

  private letter(letter: string): number {
    let width = this.widths.get(letter);
    if (width === undefined) this.widths.set(letter, (width = this.measure(letter)));
    return width;
  }
}
