/* The contents of a flame graph, without a canvas. Question, scope and form determine a tree and its
 * layout; the focus is the box that the graph is zoomed to. Everything is derived from the options in the
 * URL, so setting options is the only way to change it. */
import { invert } from "./invert";
import { findPath, layOut, type Layout } from "./layout";
import { isScope, scopeOf, WHOLE, type Scope } from "../model/scope";
import { pathOf, topDown } from "../model/trie";
import { ask, QUESTIONS, questionsOf, type Answer, type Question, type Widths } from "../model/weight";
import type { Form } from "./words";
import { keysOf, rowsOfTrie, trieOf, type Keys } from "../model/keys";
import type { Model } from "../model/model";
import { NONE } from "../model/schema";
import { readSelection, writeSelection, type Selection, type Store } from "../model/state";

/** Boxes of an inverted graph are divided further if they are at least this share of the visible part. */
const FINE = 1e-4;
/** If the focus weighs less than this share of the graph, its callers are computed again in more detail. */
const REFINE = 0.05;
/** Options are limited to 200 characters. */
const LONGEST = 190;

export class Graph {
  readonly questions: Question[];
  readonly keys: Keys;
  scope: Scope = WHOLE;
  form: Form = "top";
  answer!: Answer;
  layout!: Layout;
  focus = 0;
  private made = "";
  private asked = "";
  private refined = "";

  constructor(private readonly model: Model, private readonly store: Store) {
    this.questions = questionsOf(model.tables);
    this.keys = keysOf(model);
  }

  /** Updates from the options. Returns what changed: everything, the zoom, or nothing. */
  follow(): "graph" | "zoom" | "nothing" {
    const { store } = this;
    const of = readSelection(store.option("flame.of", ""));
    const scope = of && isScope(of) && this.model.has(of) ? writeSelection(of) : "";
    const question = this.question();
    this.form = asForm(store.option("flame.form", "left"));
    const widths = store.option("flame.widths", "after") as Widths;
    const ask = `${question.id} ${scope} ${widths}`;
    const wanted = `${ask} ${this.form}`;
    const zoom = store.option("flame.zoom", "");
    if (wanted === this.made && zoom === this.zoomed) return "nothing";
    const all = wanted !== this.made;
    if (all) {
      if (ask !== this.asked) this.put(question, of, widths);
      this.asked = ask;
      this.made = wanted;
      this.refined = "";
      this.build([]);
    }
    this.zoomed = zoom;
    this.setFocus(readPath(zoom));
    return all ? "graph" : "zoom";
  }

  private zoomed = "";

  question(): Question {
    const id = this.store.option("flame.weight", "");
    return this.questions.find((q) => q.id === id) ?? this.questions[0] ?? QUESTIONS[0]!;
  }

  private put(question: Question, of: Selection | null, widths: Widths): void {
    this.scope = scopeOf(this.model.tables, of && isScope(of) && this.model.has(of) ? of : null);
    this.answer = ask(question, this.model.tables, trieOf(this.model), this.scope, widths);
  }

  private build(within: number[], least = 0): void {
    const { channels, first } = this.answer;
    const trie = trieOf(this.model);
    let whole = 0;
    for (const value of channels[0]!) whole += value;
    const tree = this.form === "inverted" ? invert(trie, channels, first, least || whole * FINE, within)
      : topDown(trie, channels, first);
    this.layout = layOut(tree, this.form === "top" ? "first" : "weight");
  }

  private setFocus(path: number[]): void {
    this.focus = findPath(this.layout, path);
    if (this.form !== "inverted") return;
    const total = this.layout.tree.total[0]!;
    const own = pathOf(this.layout.tree, this.focus);
    const small = this.focus !== 0 && total[this.focus]! < total[0]! * REFINE;
    const refined = small ? own.join(".") : "";
    if (refined === this.refined) return;
    this.refined = refined;
    this.build(small ? own : [], small ? total[this.focus]! * FINE : 0);
    this.focus = findPath(this.layout, path);
  }

  /** Zooms to a box; 0 is the whole graph. */
  zoomTo(node: number): void {
    const path = writePath(pathOf(this.layout.tree, node));
    this.store.setOption("flame.zoom", path === "" ? null : path);
  }

  /** A row of `nodes` for a box: the stack itself or, in an inverted graph, one of its stacks. */
  rowOf(node: number): number {
    if (node === 0) return NONE;
    const at = this.layout.tree.leaf?.[node] ?? node;
    return rowsOfTrie(this.model)[at] ?? NONE;
  }

  /** The box of a row of `nodes`, or -1: in an inverted graph there can be many. */
  boxOf(row: number): number {
    if (this.form === "inverted") return -1;
    const node = trieOf(this.model).ofRow[row];
    return node !== undefined && this.layout.x1[node]! > this.layout.x0[node]! ? node : -1;
  }
}

function asForm(text: string): Form {
  return text === "top" || text === "inverted" ? text : "left";
}

/** A path of keys as an option. A path that is too long is cut at its end. */
export function writePath(keys: readonly number[]): string {
  const path = keys.map((key) => key.toString(36)).join(".");
  return path.length <= LONGEST ? path : path.slice(0, path.lastIndexOf(".", LONGEST));
}

function readPath(text: string): number[] {
  return text === "" ? [] : text.split(".").map((part) => parseInt(part, 36)).filter(Number.isFinite);
}
