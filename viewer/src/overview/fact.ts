/* The answers of the overview: text with a link to a view. Words are plain text, names from the program (in
 * a different font) or figures (bold). */
import { cut, shortName } from "../model/format";
import type { Store } from "../model/state";

export type Word = string | { readonly name: string } | { readonly figure: string };

export interface Fact {
  readonly words: readonly Word[];
  /** A second line, in smaller type. */
  readonly more?: string;
  /** Length of the bar, 0 to 1, relative to the others in the list. */
  readonly part?: number;
  /** Title as a headline, if it differs from the default of the question. */
  readonly headline?: string;
  /** A likely problem. */
  readonly bad?: boolean;
  go?(store: Store): void;
}

export interface Question {
  readonly id: string;
  readonly title: string;
  /** A sentence about all answers, before the list. */
  readonly lead: string;
  readonly facts: readonly Fact[];
  /** Shown if there are no answers; without it the question is left out. */
  readonly none?: string;
}

export function name(text: string): Word {
  return { name: cut(shortName(text), 80) };
}

export function figure(text: string): Word {
  return { figure: text };
}

/** The words as plain text, for the name of the button. */
export function plain(words: readonly Word[]): string {
  return words.map((word) => typeof word === "string" ? word : "name" in word ? word.name : word.figure).join("");
}

/** The rows with the MOST largest values, largest first. */
export function greatest(rows: number, most: number, value: (row: number) => number): number[] {
  const found: number[] = [];
  let least = -Infinity;
  for (let row = 0; row < rows; row++) {
    const own = value(row);
    if (!(own > 0) || (found.length === most && own <= least)) continue;
    let at = found.length;
    while (at > 0 && value(found[at - 1]!) < own) at--;
    found.splice(at, 0, row);
    if (found.length > most) found.pop();
    least = value(found[found.length - 1]!);
  }
  return found;
}
