/* The flame graph view. The toolbar sets options, the canvas draws the graph for these options (graph.ts,
 * paint.ts), and the keys move from box to box.
 *
 * The scope is a selection in an option (flame.of). So a click on a box can select the box while the graph
 * still covers the frame or poll that was selected before. */
import "./about_function";
import { Surface } from "../util/canvas";
import { nameOf } from "../util/details";
import { coloursOf, type Colours } from "./colours";
import { Graph } from "./graph";
import { Labels } from "./labels";
import { boxAt, matchedShare, step, type Layout, type Step } from "./layout";
import { isScope } from "../model/scope";
import { buildParts } from "./parts";
import { paint, rowHeight, type Picture } from "./paint";
import { aboutText, amount, boxFigure, boxLines } from "./words";
import { percent, shortName } from "../model/format";
import { trieOf } from "../model/keys";
import type { Model } from "../model/model";
import { NONE } from "../model/schema";
import { writeSelection, type Changed, type Store } from "../model/state";
import { tooltip } from "../util/tooltip";
import type { View } from "../util/view";

/** Minimum width of the window, as a share of the graph. */
const NARROWEST = 1e-8;
const GLIDE_MS = 140;
const STEPS: Readonly<Record<string, Step>> =
  { ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right" };

export function flameView(): View {
  return new Flame();
}

class Flame implements View {
  readonly id = "flame";
  readonly title = "Flame graph";
  readonly help = [
    ["Arrows", "go from box to box"], ["Enter", "zoom to the box"], ["Backspace", "zoom out by one box"],
    ["Home", "zoom out to the whole graph"], ["W S", "zoom in, out"], ["A D", "pan"], ["I", "switch the inverted form on or off"],
    ["Wheel", "zoom at the pointer"], ["Drag", "pan"], ["Click", "zoom to the box and show its details"],
  ] as const;

  private model!: Model;
  private store!: Store;
  private graph!: Graph;
  private surface!: Surface;
  private labels!: Labels;
  /** The layout that `colours` and `figures` belong to. */
  private known: Layout | null = null;
  private readonly figures = new Map<number, string>();
  private drawing = false;
  private colours: Colours | null = null;
  private matches: Uint8Array | null = null;
  private left = 0;
  private right = 1;
  private scroll = 0;
  private cursor = -1;
  private hover = -1;
  private gliding = 0;
  private parts!: ReturnType<typeof buildParts>;

  available(model: Model): boolean {
    const { nodes, samples, sites, diff } = model.tables;
    return nodes.rows > 0 && (samples.rows > 0 || sites.rows > 0 || diff.rows > 0);
  }

  mount(el: HTMLElement, model: Model, store: Store): void {
    this.model = model;
    this.store = store;
    this.graph = new Graph(model, store);
    this.parts = buildParts(this.graph, store, (node) => this.zoomTo(node));
    el.append(this.parts.toolbar, this.parts.crumbs, this.parts.area, this.parts.foot);
    this.surface = new Surface(this.parts.area, "Flame graph. Arrow keys go from box to box, Enter zooms.");
    this.surface.canvas.setAttribute("role", "application");
    const { keys } = this.graph;
    this.labels = new Labels((text) => this.surface.measure(text),
      (key) => key === NONE ? "all" : shortName(keys.name(key)));
    this.listen();
  }

  update(changed: Changed): void {
    this.takeScope();
    this.surface.fit();
    const what = this.graph.follow();
    if (what === "graph") {
      this.cursor = this.hover = -1;
      this.scroll = 0;
    }
    if (this.graph.layout !== this.known) { // zooming can refine it, with other boxes
      this.known = this.graph.layout;
      this.colours = null;
      this.figures.clear();
      if (what === "zoom") this.cursor = this.graph.focus;
    }
    if (changed.has("theme")) this.colours = null;
    if (what !== "nothing") this.toFocus(what === "zoom");
    this.findCursor(changed);
    const search = this.store.state.search.trim().toLowerCase();
    this.matches = search === "" ? null : this.graph.keys.matching(search);
    this.words(search);
    this.paint();
  }

  find(text: string): number {
    return this.graph.keys.matching(text).reduce((sum, one) => sum + one, 0);
  }

  /** Moves to the next matching box, in the order of the tree. */
  step(direction: 1 | -1): void {
    const { layout } = this.graph;
    if (!this.matches) return;
    const from = Math.max(this.cursor, 0);
    for (let i = 1; i < layout.tree.count; i++) {
      const n = (from + direction * i + layout.tree.count * 2) % layout.tree.count;
      if (n !== 0 && layout.x1[n]! > layout.x0[n]! && this.matches[layout.tree.key[n]!]) return this.go(n);
    }
  }

  key(event: KeyboardEvent): boolean {
    if (event.ctrlKey || event.metaKey || event.altKey) return false;
    const how = STEPS[event.key];
    const key = event.key.toLowerCase();
    if (how) this.go(this.cursor < 0 ? this.graph.focus : step(this.graph.layout, this.cursor, how));
    else if (event.key === "Enter" && this.cursor >= 0) this.choose(this.cursor);
    else if (event.key === "Backspace") this.zoomTo(this.graph.layout.tree.parent[this.graph.focus]!);
    else if (event.key === "Home") this.zoomTo(0);
    else if (event.key === "PageDown" || event.key === "PageUp") {
      this.scrollBy(this.surface.height * 0.8 * (event.key === "PageUp" ? -1 : 1));
    } else if (key === "w" || key === "s") this.zoomBy(key === "w" ? 0.7 : 1 / 0.7, this.middle());
    else if (key === "a" || key === "d") this.panBy((this.right - this.left) * (key === "a" ? -0.2 : 0.2));
    else if (key === "i") this.store.setOption("flame.form", this.graph.form === "inverted" ? null : "inverted");
    else return false;
    return true;
  }

  /* ---- what is shown ---- */

  /** Makes a selected frame, poll, range etc. the scope of the graph. */
  private takeScope(): void {
    const { selection, options } = this.store.state;
    if (!selection || !isScope(selection)) return;
    const text = writeSelection(selection);
    if (options["flame.of"] === text) return;
    const next: Record<string, string> = { ...options, "flame.of": text };
    delete next["flame.zoom"];
    this.store.set({ options: next });
  }

  private toFocus(glide: boolean): void {
    const { layout, focus } = this.graph;
    const empty = layout.x1[focus]! <= layout.x0[focus]!;
    this.glideTo(empty ? 0 : layout.x0[focus]!, empty ? 1 : layout.x1[focus]!, glide);
    if (this.cursor >= layout.tree.count) this.cursor = -1;
    this.hover = -1;
    this.show(focus);
  }

  /** Moves the cursor to a stack that was selected in another view. */
  private findCursor(changed: Changed): void {
    const { selection } = this.store.state;
    if (!changed.has("selection") && !changed.has("size")) return;
    if (selection?.kind === "node" && this.graph.form !== "inverted") {
      const box = this.graph.boxOf(selection.node);
      if (box >= 0 && box !== this.cursor) {
        this.cursor = box;
        this.show(box);
      }
    }
  }

  private words(search: string): void {
    const { graph, parts } = this;
    const of = graph.scope.of;
    const scope = of ? nameOf(of, this.model) : "";
    parts.update(scope, graph.answer.whole);
    const share = this.matches ? matchedShare(graph.layout.tree, this.matches) : 0;
    parts.matched.textContent = search === "" ? "" : `${percent(share, 1)} in matching functions`;
    const whole = graph.layout.tree.total[0]![0]!;
    parts.sum.textContent = whole > 0 ? amount(graph.answer, whole) : "No data";
    parts.about.textContent = aboutText(graph.answer);
    parts.empty.hidden = whole > 0;
    this.colours ??= coloursOf(graph.answer, graph.layout.tree, trieOf(this.model), graph.keys, this.model.end);
    parts.legend(this.colours.legend);
    parts.path(graph);
  }

  private picture(): Picture {
    const { layout, focus } = this.graph;
    return {
      layout, colours: this.colours!, labels: this.labels, left: this.left, right: this.right, scroll: this.scroll,
      row: rowHeight(), matches: this.matches, cursor: this.cursor, hover: this.hover, focus,
      figure: (node) => this.figure(node),
    };
  }

  private figure(node: number): string {
    let known = this.figures.get(node);
    if (known === undefined) {
      const { answer, layout } = this.graph;
      known = (node === 0 ? `${amount(answer, layout.tree.total[0]![0]!)}  ` : "") +
        (node === 0 && answer.question.colour !== "change" ? "" : boxFigure(answer, layout, node));
      this.figures.set(node, known);
    }
    return known;
  }

  /** Paints in the next animation frame, once. */
  private draw(): void {
    if (this.drawing) return;
    this.drawing = true;
    requestAnimationFrame(() => {
      this.drawing = false;
      this.paint();
    });
  }

  private paint(): void {
    if (this.surface.width > 0 && this.colours) paint(this.surface, this.picture());
  }

  /* ---- moving ---- */

  private zoomTo(node: number): void {
    if (node === this.graph.focus) this.toFocus(true);
    this.graph.zoomTo(node);
  }

  /** Selects a box and zooms to it. */
  private choose(node: number): void {
    tooltip.hide();
    this.cursor = node;
    const row = this.graph.rowOf(node);
    this.graph.zoomTo(node);
    if (row !== NONE) this.store.select({ kind: "node", node: row });
  }

  /** Moves the cursor and shows the tooltip there. */
  private go(node: number): void {
    this.cursor = node;
    this.show(node);
    this.draw();
    const { layout } = this.graph;
    const box = this.surface.canvas.getBoundingClientRect();
    const scale = this.surface.width / (this.right - this.left);
    const x = Math.max(0, (layout.x0[node]! - this.left) * scale);
    this.tell(node, box.left + x, box.top + (layout.depth[node]! + 1) * rowHeight() - this.scroll);
  }

  /** Scrolls and pans so that a box is visible. */
  private show(node: number): void {
    const { layout } = this.graph;
    const row = rowHeight();
    const y = layout.depth[node]! * row;
    const high = this.surface.height || 0;
    if (y < this.scroll) this.scroll = y;
    else if (y + 2 * row > this.scroll + high) this.scrollBy(y + 2 * row - high - this.scroll);
    const x0 = layout.x0[node]!, x1 = layout.x1[node]!;
    if (this.gliding === 0 && (x1 <= this.left || x0 >= this.right)) {
      const span = Math.max(this.right - this.left, x1 - x0);
      this.setWindow(x0 - (span - (x1 - x0)) / 2, x0 - (span - (x1 - x0)) / 2 + span);
    }
  }

  private tell(node: number, x: number, y: number): void {
    const { answer, layout, keys, form } = this.graph;
    tooltip.show(x, y, boxLines(answer, layout, keys, form, node));
  }

  private middle(): number {
    const { layout } = this.graph;
    if (this.cursor < 0) return (this.left + this.right) / 2;
    const at = (layout.x0[this.cursor]! + layout.x1[this.cursor]!) / 2;
    return Math.max(this.left, Math.min(this.right, at));
  }

  private zoomBy(factor: number, at: number): void {
    this.gliding = 0;
    this.setWindow(at - (at - this.left) * factor, at + (this.right - at) * factor);
    this.draw();
  }

  private panBy(by: number): void {
    this.gliding = 0;
    this.setWindow(this.left + by, this.right + by);
    this.draw();
  }

  private setWindow(left: number, right: number): void {
    const span = Math.min(Math.max(right - left, NARROWEST), 1);
    this.left = Math.max(0, Math.min(left, 1 - span));
    this.right = this.left + span;
  }

  private scrollBy(pixels: number): void {
    const tall = (this.graph.layout.deepest + 2) * rowHeight();
    this.scroll = Math.max(0, Math.min(this.scroll + pixels, tall - this.surface.height));
    this.draw();
  }

  private glideTo(left: number, right: number, glide: boolean): void {
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const number = this.gliding = glide && !still ? performance.now() : 0;
    if (number === 0) return this.setWindow(left, right);
    const from = [this.left, this.right];
    const move = (): void => {
      if (this.gliding !== number) return;
      const part = Math.min((performance.now() - number) / GLIDE_MS, 1);
      const eased = 1 - (1 - part) ** 3;
      this.setWindow(from[0]! + (left - from[0]!) * eased, from[1]! + (right - from[1]!) * eased);
      if (part < 1) requestAnimationFrame(move);
      else this.gliding = 0;
      this.paint();
    };
    requestAnimationFrame(move);
  }

  /* ---- pointer ---- */

  private listen(): void {
    const { canvas } = this.surface;
    let down: { x: number; y: number; left: number; scroll: number; moved: boolean } | null = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      const { x, y } = this.surface.point(event);
      down = { x, y, left: this.left, scroll: this.scroll, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      const { x, y } = this.surface.point(event);
      if (down && (down.moved || Math.hypot(x - down.x, y - down.y) > 4)) {
        down.moved = true;
        tooltip.hide();
        const span = this.right - this.left;
        const left = down.left - (x - down.x) * span / this.surface.width;
        this.gliding = 0;
        this.setWindow(left, left + span);
        this.scroll = down.scroll;
        this.scrollBy(down.y - y);
        return;
      }
      this.pointAt(x, y, event);
    });
    canvas.addEventListener("pointerup", (event) => {
      const { x, y } = this.surface.point(event);
      const node = down && !down.moved ? this.boxUnder(x, y) : -1;
      down = null;
      if (node >= 0) this.choose(node);
    });
    canvas.addEventListener("pointerleave", () => {
      this.hover = -1;
      tooltip.hide();
      this.draw();
    });
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const { x } = this.surface.point(event);
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        const by = event.shiftKey && event.deltaX === 0 ? event.deltaY : event.deltaX;
        return this.panBy(by / this.surface.width * (this.right - this.left));
      }
      const at = this.left + x / this.surface.width * (this.right - this.left);
      this.zoomBy(Math.exp(event.deltaY * (event.ctrlKey ? 0.01 : 0.002)), at);
    }, { passive: false });
  }

  private boxUnder(x: number, y: number): number {
    const at = this.left + x / this.surface.width * (this.right - this.left);
    return boxAt(this.graph.layout, at, Math.floor((y + this.scroll) / rowHeight()));
  }

  private pointAt(x: number, y: number, event: PointerEvent): void {
    const node = this.boxUnder(x, y);
    if (node >= 0) this.tell(node, event.clientX, event.clientY);
    else tooltip.hide();
    this.surface.canvas.classList.toggle("over-box", node >= 0);
    if (node === this.hover) return;
    this.hover = node;
    this.draw();
  }
}
