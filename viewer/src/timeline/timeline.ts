/* The timeline: one lane per thread over a common time axis. It has two canvases on top of each other. One
 * shows the lanes and is drawn when the range, the scroll position or the size changes. The other is an
 * overlay for what follows the pointer: the hovered item, the selection, wake arrows. Both have the size of
 * the visible area, so only visible lanes are drawn. */
import "../frames/about_frame";
import "./about_poll";
import { drawAxis, TimeScale } from "../util/axis";
import { Surface } from "../util/canvas";
import { button, h } from "../util/element";
import { brief, count, moment, ns } from "../model/format";
import { Lanes } from "./lanes";
import { LanePainter } from "./lane_paint";
import { Legend } from "./legend";
import { Minimap } from "../util/minimap";
import type { Model } from "../model/model";
import { palette } from "../util/palette";
import { PollFinder } from "./poll_finder";
import type { Changed, Selection, Store } from "../model/state";
import { hitAt } from "./hit";
import type { Hit } from "./hit";
import { TIME_HELP, TimeInput } from "../util/time_input";
import { drawMarks, drawOverlay } from "./marks";
import { tooltip } from "../util/tooltip";
import { stepOf, walk, WALK_HELP } from "./walk";
import type { View } from "../util/view";
import { firstOnly } from "../util/which";

const AXIS = 22, GUTTER = 168;
const MOST_STRETCH = 1.6;

class Timeline implements View {
  readonly id = "timeline";
  readonly title = "Timeline";
  readonly help = [...TIME_HELP, ...WALK_HELP, ["↑ ↓, Page Up, Page Down, wheel over the names", "scroll through the threads"],
    ["Shift + drag in a lane", "select a range of that thread only"]] as const;

  private model!: Model;
  private store!: Store;
  private lanes!: Lanes;
  private painter!: LanePainter;
  private finder!: PollFinder;
  private legend!: Legend;
  private surface!: Surface;
  private overlay!: Surface;
  private minimap!: Minimap;
  private input!: TimeInput;
  private readonly scroller = h("div", { class: "timeline-scroll" });
  private readonly spacer = h("div");
  private readonly shown = h("span");
  private hit: Hit | null = null;
  private dragged: { t0: number; t1: number } | null = null;

  /** Of several processes: a choice of one. */
  private chooser(): HTMLElement[] {
    const processes = this.model.processes();
    if (processes.length === 0) return [];
    const select = h("select", { "aria-label": "Process", title: "Show the lanes of one process" },
      h("option", { value: "0" }, `${count(processes.length)} processes`));
    for (const { pid, name } of processes) select.append(h("option", { value: String(pid) }, name));
    select.addEventListener("change", () => {
      this.lanes = new Lanes(this.model, Number(select.value));
      this.painter = new LanePainter(this.model, this.lanes);
      this.scroller.scrollTop = 0;
      this.draw();
    });
    return [select];
  }

  available(model: Model): boolean {
    const { polls, parks, frames, samples, queues, values } = model.tables;
    return polls.rows + parks.rows + frames.rows + samples.rows + queues.rows + values.rows > 0;
  }

  mount(el: HTMLElement, model: Model, store: Store): void {
    this.model = model;
    this.store = store;
    this.lanes = new Lanes(model);
    this.painter = new LanePainter(model, this.lanes);
    this.finder = new PollFinder(model);
    this.legend = new Legend(model, store);
    const chooser = this.chooser();
    const map = h("div", { class: "timeline-map" });
    const fixed = h("div", { class: "timeline-fixed" });
    this.scroller.append(fixed, this.spacer);
    map.append(h("div", { class: "range-shown" }, this.shown,
      button("All", () => store.zoom(0, model.end), { class: "chip", title: "Show the whole run ( 0 )" })));
    el.append(...firstOnly(model.meta), h("div", { class: "toolbar" }, ...chooser, this.legend.element), map, this.scroller);
    this.surface = new Surface(fixed, `Timeline: ${count(this.lanes.lanes.length)} lanes over time`);
    this.overlay = new Surface(fixed, null);
    this.minimap = new Minimap(map, model, store, "activity", () => GUTTER * palette().unit);
    this.input = new TimeInput(this.surface, store, {
      scale: () => this.scale(),
      hover: (x, y, event) => this.hover(x, y, event),
      leave: () => this.hover(-1, -1, null),
      click: (x, y) => this.click(x, y),
      scroll: (dy) => (this.scroller.scrollTop -= dy),
      dragging: (range) => {
        this.dragged = range;
        this.drawOver();
      },
      threadAt: (y) => {
        const lane = this.lanes.lanes[this.lanes.laneAt(this.laneY(y))];
        return lane?.kind === "thread" ? lane.thread : undefined;
      },
    });
    this.surface.canvas.addEventListener("dblclick", () => this.zoomTo(store.state.selection));
    this.scroller.addEventListener("scroll", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.scroller); // the lanes shrink when a toolbar wraps
    if (store.state.selection) this.reveal(store.state.selection);
  }

  update(changed: Changed): void {
    if (changed.has("theme")) this.painter.retone();
    let lanes = [...changed].some((what) => what !== "selection" && what !== "pins");
    if (changed.has("search") || changed.has("selection") || changed.has("theme")) {
      const { search, selection } = this.store.state;
      const lit = this.finder.tasks(search.toLowerCase(), selection);
      if (this.painter.light(lit)) lanes = true;
      this.legend.update(lit);
    }
    if (changed.has("selection") && !changed.has("view")) this.reveal(this.store.state.selection);
    if (lanes) this.draw();
    else this.drawOver();
  }

  key(event: KeyboardEvent): boolean {
    const step = stepOf(event.key);
    if (step) {
      const next = walk(this.model, this.lanes, this.store.state, this.inSight(this.laneUnit())[0], step);
      const range = this.model.rangeOf(next);
      if (next) this.store.select(next);
      if (range) this.show(range.t0, range.t1 - range.t0);
      return true;
    }
    const page = this.scroller.clientHeight * 0.8;
    switch (event.key) {
      case "ArrowUp": this.scroller.scrollTop -= 40; return true;
      case "ArrowDown": this.scroller.scrollTop += 40; return true;
      case "PageUp": this.scroller.scrollTop -= page; return true;
      case "PageDown": this.scroller.scrollTop += page; return true;
      case "z": case "Z": this.zoomTo(this.store.state.selection); return true;
      default: return this.input.key(event);
    }
  }

  find(text: string): number {
    return this.finder.count(text);
  }

  step(direction: 1 | -1): void {
    const poll = this.finder.next(this.store.state, direction);
    if (poll === null) return;
    this.store.select({ kind: "poll", poll });
    const { start, length } = this.model.tables.polls;
    this.show(start[poll] as number, length[poll] as number);
  }

  /* Geometry ------------------------------------------------------------------------------------- */

  private scale(): TimeScale {
    const { t0, t1 } = this.store.state;
    const x = GUTTER * palette().unit;
    return new TimeScale(t0, t1, x, Math.max(1, this.surface.width - x));
  }

  /** CSS pixels per pixel of the lanes' layout. With few threads each one gets more room. */
  private laneUnit(): number {
    const unit = palette().unit;
    const room = this.scroller.clientHeight - AXIS * unit;
    return unit * Math.min(MOST_STRETCH, Math.max(1, room / Math.max(1, this.lanes.height * unit)));
  }

  /** Converts a y of the canvas to one of the lanes. */
  private laneY(y: number): number {
    const axis = AXIS * palette().unit;
    return y < axis ? -1 : (y - axis + this.scroller.scrollTop) / this.laneUnit();
  }

  /** Moves [t0, t1) so that an item at START is visible, and changes the zoom only if needed. */
  private show(start: number, length: number): void {
    const { t0, t1 } = this.store.state;
    if (start >= t0 && start + length <= t1) return;
    const width = Math.max(t1 - t0, length * 1.5);
    this.store.zoom(start + length / 2 - width / 2, start + length / 2 + width / 2);
  }

  private zoomTo(selection: Selection | null): void {
    const range = this.model.rangeOf(selection);
    if (!range) return;
    const pad = (range.t1 - range.t0) * 0.1;
    this.store.zoom(range.t0 - pad, range.t1 + pad);
  }

  /** Scrolls so that the thread of SELECTION is visible. */
  private reveal(selection: Selection | null): void {
    const range = this.model.rangeOf(selection);
    if (range?.thread === undefined) return;
    const lane = this.lanes.laneOfThread(range.thread);
    if (lane < 0) return;
    const unit = this.laneUnit();
    const top = (this.lanes.tops[lane] as number) * unit, bottom = (this.lanes.tops[lane + 1] as number) * unit;
    const { scrollTop, clientHeight } = this.scroller;
    if (top < scrollTop || bottom > scrollTop + clientHeight - AXIS * palette().unit) {
      this.scroller.scrollTop = top - clientHeight / 3;
    }
  }

  /* Drawing -------------------------------------------------------------------------------------- */

  private draw(): void {
    const { surface } = this;
    const unit = palette().unit, tall = this.laneUnit();
    const { clientWidth, clientHeight } = this.scroller;
    if (clientWidth === 0) return;
    surface.fit(clientWidth, clientHeight);
    this.spacer.style.height = `${Math.max(0, Math.floor(this.lanes.height * tall + AXIS * unit - clientHeight))}px`;
    const colours = palette();
    const scale = this.scale();
    const { ctx } = surface;
    surface.reset(colours.font);
    ctx.fillStyle = colours.surface;
    ctx.fillRect(0, 0, surface.width, surface.height);
    drawAxis(surface, scale, 0, AXIS * unit, surface.height);
    const offset = AXIS * unit - this.scroller.scrollTop;
    const [from, to] = this.inSight(tall);
    this.painter.paint(surface, scale, from, to, tall, offset);
    drawMarks(surface, scale, this.model, AXIS * unit);
    this.gutter(from, to, unit, tall, offset);
    this.header(scale, unit);
    this.minimap.draw();
    this.drawOver();
    const { t0, t1 } = this.store.state;
    this.shown.textContent = `${ns(t1 - t0)}\nfrom ${moment(t0, (t1 - t0) / 100)}`;
  }

  private inSight(unit: number): [number, number] {
    const top = Math.max(0, this.scroller.scrollTop / unit);
    const from = Math.max(0, this.lanes.laneAt(Math.min(top, this.lanes.height - 1)));
    const last = this.lanes.laneAt(Math.min(top + this.scroller.clientHeight / unit, this.lanes.height - 1));
    return [from, Math.min(this.lanes.lanes.length, last + 1)];
  }

  private gutter(from: number, to: number, unit: number, tall: number, offset: number): void {
    const { surface } = this;
    const colours = palette();
    const width = GUTTER * unit;
    surface.setFont(colours.font);
    surface.ctx.fillStyle = colours.surface;
    surface.ctx.fillRect(0, 0, width - 1, surface.height);
    for (let index = from; index < to; index++) {
      const lane = this.lanes.lanes[index];
      const top = (this.lanes.tops[index] as number) * tall + offset;
      const bottom = (this.lanes.tops[index + 1] as number) * tall + offset;
      surface.ctx.fillStyle = colours.line;
      surface.ctx.fillRect(0, Math.round(bottom) - 1, width, 1);
      if (!lane) continue;
      surface.setFont(colours.font);
      surface.text(lane.title, 10 * unit, top + 12 * unit, width - 18 * unit, colours.text);
      if (lane.kind === "thread") continue;
      surface.setFont(colours.fontSmall);
      surface.text(`${lane.kind === "queue" ? "queue, " : ""}max ${brief(this.lanes.chartOf(lane).most)}`,
        10 * unit, top + 27 * unit, width - 18 * unit, colours.textDim);
    }
    surface.ctx.fillStyle = colours.lineStrong;
    surface.ctx.fillRect(Math.round(width) - 1, 0, 1, surface.height);
  }

  /** Draws the axis over the scrolled lanes, and the number of lanes. */
  private header(scale: TimeScale, unit: number): void {
    const { surface } = this;
    const colours = palette();
    surface.ctx.fillStyle = colours.raised;
    surface.ctx.fillRect(0, 0, surface.width, AXIS * unit);
    drawAxis(surface, scale, 0, AXIS * unit, AXIS * unit);
    surface.setFont(colours.fontSmall);
    const lanes = this.lanes.lanes.length;
    const hidden = this.lanes.empty > 0 ? `, ${count(this.lanes.empty)} without events` : "";
    surface.text(`${count(lanes)} ${lanes === 1 ? "lane" : "lanes"}${hidden}`, 10 * unit, (AXIS * unit) / 2,
      GUTTER * unit - 14 * unit, colours.textDim);
  }

  private drawOver(): void {
    this.overlay.fit(this.surface.width, this.surface.height);
    const axis = AXIS * palette().unit;
    drawOverlay({
      surface: this.overlay, scale: this.scale(), model: this.model, lanes: this.lanes, unit: this.laneUnit(),
      top: axis, offset: axis - this.scroller.scrollTop,
      selection: this.store.state.selection, hovered: this.hit?.selection ?? null, dragged: this.dragged,
    });
  }

  /* Pointer -------------------------------------------------------------------------------------- */

  private hover(x: number, y: number, event: MouseEvent | null): void {
    this.hit = event ? hitAt(this.model, this.lanes, this.scale(), x, this.laneY(y)) : null;
    if (event && this.hit && this.hit.tip.length > 0) tooltip.show(event.clientX, event.clientY, this.hit.tip);
    else tooltip.hide();
    this.surface.canvas.style.cursor = this.hit?.selection ? "pointer" : "";
    this.drawOver();
  }

  private click(x: number, y: number): void {
    const hit = hitAt(this.model, this.lanes, this.scale(), x, this.laneY(y));
    this.store.select(hit?.selection ?? null);
  }
}

export function timelineView(): View {
  return new Timeline();
}
