/* The frames view: shows which frames were slow. */
import { TimeScale } from "../util/axis";
import { Surface } from "../util/canvas";
import "./about_frame";
import { button, choice, h } from "../util/element";
import { count, cut, moment, ns, percent, times } from "../model/format";
import { frameNumber } from "../model/frame";
import { drawFrames, framesIn, showValue } from "./chart";
import type { ToY } from "./chart";
import { frameKinds } from "../model/frame_kinds";
import type { FrameKind, Measure } from "../model/frame_kinds";
import { Minimap } from "../util/minimap";
import type { Model } from "../model/model";
import { palette } from "../util/palette";
import type { Changed, Store } from "../model/state";
import { TIME_HELP, TimeInput } from "../util/time_input";
import { tooltip } from "../util/tooltip";
import type { TipLine } from "../util/tooltip";
import type { View } from "../util/view";
import { firstOnly } from "../util/which";

const GUTTER = 76, AXIS = 22;
const MEASURES = [["wall", "Time"], ["bytes", "Bytes allocated"], ["count", "Allocations"]] as const;

class Frames implements View {
  readonly id = "frames";
  readonly title = "Frames";
  readonly help = [...TIME_HELP, [", .", "previous and next frame"],
    ["N, Shift + N", "next and previous spike"]] as const;

  private model!: Model;
  private store!: Store;
  private kinds!: FrameKind[];
  private surface!: Surface;
  private overlay!: Surface;
  private minimap!: Minimap;
  private input!: TimeInput;
  private measures!: { element: HTMLElement; update(): void };
  private scales!: { element: HTMLElement; update(): void };
  private readonly figures = h("dl", { class: "figures" });
  private readonly select = h("select", { "aria-label": "Kind of frame" });
  private toY: ToY = () => 0;
  private hovered = -1;
  private dragged: { t0: number; t1: number } | null = null;

  available(model: Model): boolean {
    return model.tables.frames.rows > 0;
  }

  mount(el: HTMLElement, model: Model, store: Store): void {
    this.model = model;
    this.store = store;
    this.kinds = frameKinds(model);
    this.measures = choice("What the bars show", MEASURES, () => this.measure(),
      (value) => store.setOption("frames.measure", value === "wall" ? null : value));
    this.scales = choice("Scale", [["linear", "Linear"], ["log", "Log"]], () => store.option("frames.scale", "linear"),
      (value) => store.setOption("frames.scale", value === "linear" ? null : value));
    for (const [index, kind] of this.kinds.entries()) {
      this.select.append(new Option(`${cut(kind.title, 60)} (${count(kind.rows.length)})`, String(index)));
    }
    this.select.addEventListener("change", () =>
      store.setOption("frames.kind", this.select.value === "0" ? null : this.select.value));
    const map = h("div", { class: "timeline-map" }), chart = h("div", { class: "frames-chart" });
    el.append(...firstOnly(model.meta), h("div", { class: "toolbar" }, this.kinds.length > 1 && this.select, this.figures),
      h("div", { class: "toolbar" }, this.measures.element, this.scales.element,
        button("Previous spike", () => this.spike(-1)), button("Next spike", () => this.spike(1)),
        button("Whole run", () => store.zoom(0, model.end))), map, chart);
    this.surface = new Surface(chart, "Frames over time");
    this.overlay = new Surface(chart, null);
    this.minimap = new Minimap(map, model, store, "frames", () => GUTTER * palette().unit);
    this.input = new TimeInput(this.surface, store, {
      scale: () => this.scale(),
      hover: (x, y, event) => this.hover(x, y, event),
      leave: () => this.hover(-1, -1, null),
      click: (x) => {
        const index = this.indexAt(x);
        store.select(index < 0 ? null : { kind: "frame", frame: this.kind().values("wall").row(index) });
      },
      dragging: (range) => {
        this.dragged = range;
        this.drawOver();
      },
    });
    this.surface.canvas.addEventListener("dblclick", () => this.zoomToSelection());
    new ResizeObserver(() => this.draw()).observe(chart); // the chart shrinks when a toolbar wraps
  }

  update(changed: Changed): void {
    if ([...changed].every((what) => what === "selection" || what === "pins")) return this.drawOver();
    if (changed.has("options")) {
      this.measures.update();
      this.scales.update();
      this.select.value = String(this.kinds.indexOf(this.kind()));
      this.showFigures();
    }
    this.draw();
  }

  key(event: KeyboardEvent): boolean {
    switch (event.key) {
      case "n": this.spike(1); return true;
      case "N": this.spike(-1); return true;
      case ",": this.stepFrame(-1); return true;
      case ".": this.stepFrame(1); return true;
      case "z": case "Z": this.zoomToSelection(); return true;
      default: return this.input.key(event);
    }
  }

  /** Counts frames whose number is TEXT, or whose function's name contains it. */
  find(text: string): number {
    return this.matching(text).length;
  }

  step(direction: 1 | -1): void {
    const rows = this.matching(this.store.state.search.toLowerCase());
    const { selection } = this.store.state;
    const here = selection?.kind === "frame" ? selection.frame : -1;
    const next = direction > 0 ? rows.find((row) => row > here) : rows.filter((row) => row < here).pop();
    if (next !== undefined) this.goTo(next);
  }

  /* State ---------------------------------------------------------------------------------------- */

  private kind(): FrameKind {
    const chosen = this.kinds[Number(this.store.option("frames.kind", "0"))] ?? this.kinds[0];
    if (!chosen) throw new Error("There are no frames.");
    return chosen;
  }

  private measure(): Measure {
    const value = this.store.option("frames.measure", "wall");
    return value === "bytes" || value === "count" ? value : "wall";
  }

  private scale(): TimeScale {
    const { t0, t1 } = this.store.state;
    const x = GUTTER * palette().unit;
    return new TimeScale(t0, t1, x, Math.max(1, this.surface.width - x));
  }

  private matching(text: string): number[] {
    const { frames, functions } = this.model.tables;
    const numbered = Number(text);
    const found: number[] = [];
    const names = new Map<number, boolean>();
    for (let row = 0; row < frames.rows; row++) {
      const root = frames.root[row] as number;
      let match = names.get(root);
      if (match === undefined) {
        match = root < functions.rows && this.model.label(functions.name[root] as number).toLowerCase().includes(text);
        names.set(root, match);
      }
      if (match || frameNumber(this.model.tables, row) === numbered) found.push(row);
    }
    return found;
  }

  private spike(direction: 1 | -1): void {
    const { spike } = this.model.tables.frames;
    this.move(direction, (row) => spike[row] === 1);
  }

  private stepFrame(direction: 1 | -1): void {
    this.move(direction, () => true);
  }

  /** Selects the next frame of this kind that FITS accepts, starting at the selection or the middle of the
   * range. */
  private move(direction: 1 | -1, fits: (row: number) => boolean): void {
    const { rows } = this.kind();
    const { selection, t0, t1 } = this.store.state;
    let index = selection?.kind === "frame" ? rows.indexOf(selection.frame) : -1;
    if (index < 0) {
      const [from, to] = framesIn(this.kind().values("wall"), t0, t1);
      index = direction > 0 ? from - 1 : to;
    }
    for (index += direction; index >= 0 && index < rows.length; index += direction) {
      if (fits(rows[index] as number)) return this.goTo(rows[index] as number);
    }
  }

  private goTo(frame: number): void {
    const { start, wall } = this.model.tables.frames;
    const { t0, t1 } = this.store.state;
    const from = start[frame] as number, to = from + (wall[frame] as number);
    this.store.select({ kind: "frame", frame });
    if (from >= t0 && to <= t1) return;
    const width = Math.max(t1 - t0, (to - from) * 1.5);
    this.store.zoom((from + to - width) / 2, (from + to + width) / 2);
  }

  private zoomToSelection(): void {
    const range = this.model.rangeOf(this.store.state.selection);
    if (!range) return;
    const pad = (range.t1 - range.t0) * 4; // shows its neighbours too, for comparison
    this.store.zoom(range.t0 - pad, range.t1 + pad);
  }

  /* Drawing -------------------------------------------------------------------------------------- */

  private showFigures(): void {
    const figures = this.kind().figures();
    const pair = (name: string, value: string, kind = ""): HTMLElement =>
      h("div", { class: kind }, h("dt", {}, name), h("dd", {}, value));
    this.figures.replaceChildren(
      pair("frames", count(figures.count)), pair("median", ns(figures.p50)), pair("p99", ns(figures.p99)),
      pair("longest", ns(figures.max)),
      pair("spikes", `${count(figures.spikes)} (${percent(figures.spikes, figures.count)})`,
        figures.spikes > 0 ? "bad" : ""));
    if (figures.merged > 0) this.figures.append(pair("merged, not shown", count(figures.merged)));
  }

  private draw(): void {
    const { surface } = this;
    surface.fit();
    if (surface.width === 0) return;
    const colours = palette();
    surface.reset(colours.fontSmall);
    surface.ctx.fillStyle = colours.surface;
    surface.ctx.fillRect(0, 0, surface.width, surface.height);
    const { spike, wall } = this.model.tables.frames;
    this.toY = drawFrames({
      surface, scale: this.scale(), frames: this.kind().values(this.measure()), measure: this.measure(),
      figures: this.kind().figures(), spike, wall, mixed: this.kinds.length > 1 && this.kind() === this.kinds[0], axis: AXIS * palette().unit,
      logarithmic: this.store.option("frames.scale", "linear") === "log",
    });
    this.minimap.draw();
    this.drawOver();
  }

  private drawOver(): void {
    const { overlay } = this;
    overlay.fit(this.surface.width, this.surface.height);
    overlay.reset(palette().fontSmall);
    overlay.ctx.clearRect(0, 0, overlay.width, overlay.height);
    const { selection } = this.store.state;
    if (this.dragged) this.band(this.dragged, palette().accent);
    const range = this.model.rangeOf(selection);
    if (range && selection?.kind !== "thread") this.band(range, palette().accent);
    if (this.hovered >= 0) this.band(this.rangeAt(this.hovered), palette().textFaint);
  }

  private rangeAt(index: number): { t0: number; t1: number } {
    const frames = this.kind().values("wall");
    return { t0: frames.start[index] as number, t1: frames.end(index) };
  }

  private band(range: { t0: number; t1: number }, colour: string): void {
    const { ctx, height } = this.overlay;
    const scale = this.scale();
    const x0 = Math.max(scale.x, scale.toX(range.t0)), x1 = Math.min(scale.right, scale.toX(range.t1));
    if (x1 < scale.x || x0 > scale.right) return;
    ctx.fillStyle = colour;
    ctx.globalAlpha = 0.2;
    ctx.fillRect(x0, 0, Math.max(2, x1 - x0), height - AXIS * palette().unit);
    ctx.globalAlpha = 1;
    ctx.fillRect(x0, height - AXIS * palette().unit - 1, Math.max(2, x1 - x0), 4);
  }

  /* Pointer -------------------------------------------------------------------------------------- */

  /** The frame drawn at X: if several share the column, the highest; -1: none. */
  private indexAt(x: number): number {
    const scale = this.scale();
    if (x < scale.x) return -1;
    const walls = this.kind().values("wall"), values = this.kind().values(this.measure());
    const time = scale.toTime(x);
    const [from, to] = framesIn(walls, time - scale.step, time + scale.step);
    if (to > from) return values.longest(from, to);
    return from > 0 && walls.end(from - 1) > time ? from - 1 : -1;
  }

  private hover(x: number, y: number, event: MouseEvent | null): void {
    this.hovered = event ? this.indexAt(x) : -1;
    if (event && this.hovered >= 0) tooltip.show(event.clientX, event.clientY, this.tip(x));
    else tooltip.hide();
    this.surface.canvas.style.cursor = this.hovered >= 0 && y >= this.toY(Infinity) ? "pointer" : "";
    this.drawOver();
  }

  private tip(x: number): TipLine[] {
    const scale = this.scale();
    const walls = this.kind().values("wall");
    const row = walls.row(this.hovered);
    const { frames } = this.model.tables;
    const time = scale.toTime(x);
    const [from, to] = framesIn(walls, time - scale.step / 2, time + scale.step / 2);
    const wall = frames.wall[row] as number;
    const tip: TipLine[] = [`frame ${frameNumber(this.model.tables, row)}${frames.spike[row] ? ", a spike" : ""}`,
      ["took", `${ns(wall)} (${times(wall / this.kind().figures().p50)} median)`],
      ["allocated", `${showValue(frames.alloc_bytes[row] as number, "bytes")} in ${count(frames.alloc_count[row] as number)}`],
      ["at", moment(frames.start[row] as number, Math.min(scale.step, 1e6))]];
    if (to - from > 1) tip.push([`highest of ${count(to - from)} here`, ""]);
    return tip;
  }
}

export function framesView(): View {
  return new Frames();
}
