/* An answer in words, with a place to go: what the overview is made of. Words are text, names of the
 * program, or figures; names are shown in another font, figures stronger.
 */
import { cut, shortName } from "../model/format";
import type { Store } from "../model/state";

export type Word = string | { readonly name: string } | { readonly figure: string };

export interface Fact {
  readonly words: readonly Word[];
  /** Beneath, smaller. */
  readonly more?: string;
  /** Length of the bar, 0 to 1, beside others of the list. */
  readonly part?: number;
  /** What it is called on top, where the question's own word says too much. */
  readonly headline?: string;
  /** Something to look at first. */
  readonly bad?: boolean;
  go?(store: Store): void;
}

export interface Question {
  readonly id: string;
  readonly title: string;
  /** What holds of all of it, before the list. */
  readonly lead: string;
  readonly facts: readonly Fact[];
  /** Said when there is no fact; without it, the question is left out then. */
  readonly none?: string;
}

export function name(text: string): Word {
  return { name: cut(shortName(text), 80) };
}

export function figure(text: string): Word {
  return { figure: text };
}

/** The words as one text: the name of the button. */
export function plain(words: readonly Word[]): string {
  return words.map((word) => typeof word === "string" ? word : "name" in word ? word.name : word.figure).join("");
}

/** The N rows with the greatest values, the greatest first. */
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
