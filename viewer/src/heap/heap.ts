/* The heap view: memory over time, and tables of the places that hold it. The rows of the tables and the
 * layers of the chart are the same places and have the same colours. */
import "../flame/about_function";
import { Surface } from "../util/canvas";
import { button, choice, h } from "../util/element";
import { dig, halfWidth, number, type Json } from "../model/figures";
import { baseName, bytes, count, cut, moment, ns, shortName } from "../model/format";
import { HeapChart, layerColour, type Peak } from "./chart";
import { leadersOf, type Place } from "../model/heap_places";
import { seriesOf, type Series } from "../model/heap_series";
import { stacksOf, tablesOf, type HeapColumn, type HeapTable } from "./tables";
import type { Model } from "../model/model";
import { palette } from "../util/palette";
import type { Changed, Store } from "../model/state";
import { TimeInput, TIME_HELP } from "../util/time_input";
import { tooltip } from "../util/tooltip";
import type { View } from "../util/view";
import { firstOnly } from "../util/which";

export function heapView(): View {
  return new Heap();
}

/** Rows shown before "more". */
const FIRST = 50;

class Heap implements View {
  readonly id = "heap";
  readonly title = "Heap";
  readonly help = [["Tab, Enter", "open a row of the table to show its stacks"] as const, ...TIME_HELP];

  private model!: Model;
  private store!: Store;
  private chart: HeapChart | null = null;
  private series!: Series;
  private tables: HeapTable[] = [];
  private chosen!: ReturnType<typeof choice>;
  private linesChosen: HTMLButtonElement[] = [];
  private input: TimeInput | null = null;
  private hot = -1;
  private hover = -1;
  private shown = FIRST;
  private made = "";
  private readonly open = new Set<Place>();
  private readonly body = h("div", { class: "heap-table-box" });
  private readonly legend = h("ul", { class: "heap-legend", "aria-label": "Places" });
  private readonly legendHead = h("p", { class: "heap-legend-head dim" });
  private readonly held: HTMLElement[] = [];

  available(model: Model): boolean {
    return model.tables.sites.rows > 0 || model.tables.snapshots.rows > 0;
  }

  mount(el: HTMLElement, model: Model, store: Store): void {
    this.model = model;
    this.store = store;
    this.series = seriesOf(model);
    this.tables = tablesOf(model);
    el.append(...firstOnly(model.meta), this.figures());
    if (this.series.at.length > 1) el.append(this.buildChart());
    else el.append(h("p", { class: "heap-note dim" }, "There are too few snapshots for a chart over time. " +
      "piano record takes them on a timer; --snapshot-every sets the interval."));
    this.chosen = choice("Table", this.tables.map((t) => [t.id, t.title] as const), () => this.table()?.id ?? "",
      (id) => this.store.setOption("heap.table", id));
    el.append(h("div", { class: "toolbar heap-tabs" }, this.chosen.element), this.body);
  }

  update(changed: Changed): void {
    if (this.chart) {
      this.chart.surface.fit();
      this.drawChart();
      if (changed.has("theme") || this.legend.childElementCount === 0) this.buildLegend();
      this.fillLegend();
    }
    this.chosen.update();
    const table = this.table();
    const search = this.store.state.search.trim().toLowerCase();
    const made = `${table?.id} ${search}`;
    if (made !== this.made) this.shown = FIRST;
    if (made === this.made && !changed.has("theme")) return;
    this.made = made;
    this.buildTable(table, search);
  }

  key(event: KeyboardEvent): boolean {
    return this.input?.key(event) ?? false;
  }

  find(text: string): number {
    return this.table()?.rows().filter((place) => matches(place, text)).length ?? 0;
  }

  private table(): HeapTable | undefined {
    const id = this.store.option("heap.table", "");
    return this.tables.find((table) => table.id === id) ?? this.tables[0];
  }

  /* ---- the sums ---- */

  private figures(): HTMLElement {
    const report = (this.model.report()["heap"] ?? null) as Json;
    const list = h("dl", { class: "figures toolbar" });
    const add = (name: string, value: number | null, half: number | null, more = ""): void => {
      const text = value === null ? "-" : bytes(value) + (half ? ` ±${bytes(half)}` : "") + more;
      list.append(h("div", {}, h("dt", {}, name), h("dd", {}, text)));
    };
    const ended = dig(report, "run", "end") === "running" ? "Live now" : "Live at the end";
    add(ended, number(report, "live_bytes"), halfWidth(report, "live_bytes_ci95"));
    const peakAt = number(report, "peak_at_ns");
    add("Peak", number(report, "peak_bytes"), halfWidth(report, "peak_bytes_ci95"),
      peakAt === null ? "" : ` after ${ns(peakAt)}`);
    add("Allocated", number(report, "allocated_bytes"), halfWidth(report, "allocated_bytes_ci95"));
    add("Max resident", number(report, "resident_bytes_max"), null);
    const samples = number(report, "samples"), rate = number(dig(report, "run"), "rate");
    const basis = rate === 1 ? "every allocation recorded"
      : `estimated from ${count(samples ?? NaN)} samples${rate ? `, one every ${bytes(rate)}` : ""}; ± is 95 %`;
    list.append(h("div", { class: "dim" }, basis));
    return list;
  }

  private peak(): Peak | null {
    const report = (this.model.report()["heap"] ?? null) as Json;
    const at = number(report, "peak_at_ns"), value = number(report, "peak_bytes");
    if (at !== null && value !== null) return { at, bytes: value };
    const { peak, live } = this.series;
    return peak < 0 ? null : { at: this.series.at[peak]!, bytes: live[peak]! };
  }

  /* ---- the chart ---- */

  private buildChart(): HTMLElement {
    const area = h("div", { class: "heap-area" });
    const surface = new Surface(area, "Memory over time, by place. The table below has the figures.");
    this.chart = new HeapChart(surface, this.series, this.peak());
    const toggle = (id: string, text: string): HTMLButtonElement => {
      const made = button(text, () => this.store.setOption(`heap.${id}`, this.line(id) ? null : "on"),
        { class: "chip", "data-line": id });
      this.linesChosen.push(made);
      return made;
    };
    const known = this.series.resident.some((value) => value > 0);
    const lines = h("div", { class: "heap-lines", role: "group", "aria-label": "Lines" },
      known && toggle("resident", "– – resident"), toggle("allocated", "· · allocated so far"));
    this.input = this.listen(surface);
    return h("div", { class: "heap-chart" }, area, h("div", { class: "heap-side" }, this.legendHead, this.legend, lines));
  }

  private line(id: string): boolean {
    return this.store.option(`heap.${id}`, "") === "on";
  }

  private drawChart(): void {
    for (const item of this.linesChosen) item.setAttribute("aria-pressed", String(this.line(item.dataset["line"]!)));
    this.chart?.draw(this.store.state, { resident: this.line("resident"), allocated: this.line("allocated") },
      this.hot, this.hover);
  }

  private buildLegend(): void {
    const names = this.series.layers.map((layer) => layer.place?.name);
    this.held.length = 0;
    this.legend.replaceChildren(...this.series.layers.map((layer, index) => {
      const mark = h("i"), held = h("span", { class: "number" });
      mark.style.background = layerColour(index, layer.place === null);
      this.held.push(held);
      const shared = layer.place && layer.place.caller !== "" &&
        names.indexOf(layer.place.name) !== names.lastIndexOf(layer.place.name);
      const name = layer.place ? cut(shortName(layer.place.name) + (shared ? ` < ${shortName(layer.place.caller)}` : ""), 60)
        : "other places";
      const item = layer.place ? button(name, () => this.choose(layer.place!), { class: "link" }) : h("span", {}, name);
      const row = h("li", {}, mark, item, held);
      row.hidden = layer.place === null && !layer.values.some((value) => value >= 0.5);
      row.addEventListener("pointerenter", () => this.heat(index));
      row.addEventListener("pointerleave", () => this.heat(-1));
      return row;
    }));
  }

  /** The legend shows what each place held at the snapshot under the pointer, otherwise its maximum in the
   * visible range. (The values at the end say little about a program that frees its memory.) */
  private fillLegend(): void {
    const { at, layers } = this.series;
    const { t0, t1 } = this.store.state;
    const rows = this.hover >= 0 ? [this.hover] : [...at.keys()].filter((row) => at[row]! >= t0 && at[row]! <= t1);
    const none = this.series.live.every((value) => value < 0.5);
    this.legendHead.textContent = none ? "Nothing was live at any snapshot."
      : this.hover >= 0 ? `Held at ${moment(at[this.hover]!, 1e6)}` : "Maximum held";
    for (const [index, cell] of this.held.entries()) {
      const values = layers[index]!.values;
      cell.textContent = rows.length === 0 ? "-" : bytes(rows.reduce((most, row) => Math.max(most, values[row]!), 0));
    }
  }

  private heat(index: number): void {
    this.hot = index;
    this.drawChart();
  }

  private choose(place: Place): void {
    const site = leadersOf(this.model, place, "live")[0];
    if (site !== undefined) this.store.select({ kind: "site", site });
  }

  private listen(surface: Surface): TimeInput {
    const chart = this.chart!;
    return new TimeInput(surface, this.store, {
      scale: () => chart.scale,
      hover: (x, y, event) => {
        this.hover = chart.rowAt(x);
        this.hot = chart.layerAt(this.hover, y);
        if (this.hover >= 0) tooltip.show(event.clientX, event.clientY, chart.lines(this.hover, this.hot));
        this.drawChart();
        this.fillLegend();
      },
      leave: () => {
        this.hover = this.hot = -1;
        tooltip.hide();
        this.drawChart();
        this.fillLegend();
      },
      click: () => {
        const place = this.hot >= 0 ? this.series.layers[this.hot]?.place : null;
        if (place) this.choose(place);
      },
    });
  }

  /* ---- the table ---- */

  private buildTable(table: HeapTable | undefined, search: string): void {
    if (!table) {
      this.body.replaceChildren(h("p", { class: "heap-note dim" }, "No allocation was sampled."));
      return;
    }
    const rows = table.rows().filter((place) => search === "" || matches(place, search));
    const body = h("tbody");
    for (const place of rows.slice(0, this.shown)) body.append(...this.row(table, place));
    const heads = ["Place", ...table.columns.map((c) => c.title)];
    const about = ["", ...table.columns.map((c) => c.about)];
    const element = h("table", { class: "heap-table", "aria-label": table.title },
      h("thead", {}, h("tr", {}, ...heads.map((head, i) =>
        h("th", { class: i > 0 ? "number" : "", title: about[i] || undefined }, head)))), body);
    const left = rows.length - this.shown;
    this.body.replaceChildren(h("p", { class: "heap-note dim" }, table.about), element);
    if (left > 0) {
      this.body.append(button(`${count(left)} more`, () => {
        this.shown *= 4;
        this.buildTable(table, search);
      }));
    }
  }

  private row(table: HeapTable, place: Place): HTMLElement[] {
    const index = this.series.layers.findIndex((layer) => layer.place === place);
    const mark = h("i", { class: "heap-mark" });
    if (index >= 0) mark.style.background = layerColour(index, false);
    const isOpen = this.open.has(place);
    const opener = h("button", { type: "button", class: "heap-open", "aria-expanded": String(isOpen) },
      mark, h("span", { class: "heap-name" }, cut(shortName(place.name), 120)),
      place.mmap && h("span", { class: "dim" }, " (mmap)"),
      place.caller !== "" && h("span", { class: "dim" }, ` < ${cut(shortName(place.caller), 60)}`),
      place.where !== "" && h("span", { class: "place dim", title: cut(place.where, 1000) },
        ` ${cut(baseName(place.where), 80)}`));
    const line = h("tr", {}, h("td", {}, opener), ...table.columns.map((column) => cell(column, place)));
    const more = h("tr", { class: "heap-more" });
    more.hidden = !isOpen;
    const fill = (): void => {
      const inside = h("td", {}, stacksOf(this.model, this.store, place, table.weight));
      inside.colSpan = table.columns.length + 1;
      more.replaceChildren(inside);
    };
    if (isOpen) fill();
    opener.addEventListener("click", () => {
      more.hidden = !more.hidden;
      opener.setAttribute("aria-expanded", String(!more.hidden));
      if (more.hidden) this.open.delete(place);
      else {
        this.open.add(place);
        fill();
      }
    });
    return [line, more];
  }
}

function matches(place: Place, text: string): boolean {
  return place.name.toLowerCase().includes(text) || place.caller.toLowerCase().includes(text);
}

function cell(column: HeapColumn, place: Place): HTMLElement {
  const made = h("td", { class: "number" });
  const values = column.picture?.(place);
  if (values && values.length > 1) made.append(trace(values));
  made.append(column.text(place));
  const part = column.part?.(place) ?? 0;
  if (part > 0) {
    made.classList.add("part");
    made.style.setProperty("--part", `${Math.min(100, 100 * part).toFixed(1)}%`);
  }
  return made;
}

/** Live bytes at the snapshots, as a small line chart. */
function trace(values: Float64Array): HTMLCanvasElement {
  const canvas = h("canvas", { class: "heap-trace", "aria-hidden": "true" });
  canvas.width = 128;
  canvas.height = 32;
  const ctx = canvas.getContext("2d");
  const most = values.reduce((a, b) => Math.max(a, b), 1);
  if (!ctx) return canvas;
  ctx.strokeStyle = palette().accent;
  ctx.lineWidth = 2.5;
  ctx.beginPath();
  values.forEach((value, i) => ctx.lineTo(2 + i / (values.length - 1) * 124, 29 - value / most * 26));
  ctx.stroke();
  return canvas;
}
