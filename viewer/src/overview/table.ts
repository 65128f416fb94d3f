/* The table of functions: one row for every function of the run, sorted by any column, filtered by the
 * search, with the self time per frame as a small chart. */
import "../flame/about_function";
import { choice, h } from "../util/element";
import { bytes, count, cut, nearName, ns, percent } from "../model/format";
import { Grid, type GridColumn } from "./grid";
import type { Model } from "../model/model";
import { palette } from "../util/palette";
import { sparksOf, SPARK_COLUMNS, type Sparks } from "../model/sparks";
import { writeSelection, type Changed, type Store } from "../model/state";
import { ordered, sheetsOf, type Kind, type Sheet } from "./sheet";
import type { View } from "../util/view";
import { firstOnly } from "../util/which";

export function tableView(): View {
  return new Table();
}

const FORMATS: Readonly<Record<Kind, (value: number) => string>> = {
  ns: (value) => value !== value ? "-" : ns(value),
  bytes, count, share: (value) => percent(value, 1),
};

class Table implements View {
  readonly id = "table";
  readonly title = "Functions";
  readonly help = [
    ["Up Down PgUp PgDn", "go from row to row"], ["Left Right", "scroll the columns"], ["Enter", "show the details of the function"],
    ["Click on a head", "sort by that column; again: reverse the order"],
  ] as const;

  private model!: Model;
  private store!: Store;
  private sheet!: Sheet;
  private rows = new Uint32Array(0);
  private made = "";
  private grid!: Grid;
  private sparks!: Sparks;
  private kinds!: ReturnType<typeof choice>;
  private readonly note = h("span", { class: "dim" });
  private readonly number = h("span");

  available(model: Model): boolean {
    const { functions, samples, sites } = model.tables;
    return functions.rows > 0 || samples.rows > 0 || sites.rows > 0;
  }

  mount(el: HTMLElement, model: Model, store: Store): void {
    this.model = model;
    this.store = store;
    this.sparks = sparksOf(model);
    const sheets = sheetsOf(model);
    this.kinds = choice("Functions of", sheets.map((s) => [s.id, s.title] as const), () => this.sheet?.id ?? "",
      (id) => this.choose(id));
    this.kinds.element.hidden = sheets.length < 2;
    this.grid = new Grid({
      label: "Functions", columns: () => this.columns(), count: () => this.rows.length,
      fill: (i, cells) => this.fill(this.rows[i]!, cells),
      sortedBy: () => this.sorting(), sort: (id) => this.sort(id),
      take: (i) => this.take(i), isTaken: (i) => this.isTaken(i),
    });
    el.append(...firstOnly(model.meta), h("div", { class: "toolbar" }, this.kinds.element, this.number, this.grid.more), this.grid.box,
      h("div", { class: "table-foot" }, this.note));
  }

  update(changed: Changed): void {
    const sheets = sheetsOf(this.model);
    this.sheet = sheets.find((s) => s.id === this.store.option("table.of", "")) ?? sheets[0]!;
    const { id, down } = this.sorting();
    const search = this.store.state.search.trim().toLowerCase();
    const made = `${this.sheet.id} ${id} ${down} ${search}`;
    if (made !== this.made) {
      this.made = made;
      this.rows = ordered(this.sheet, id, down, search);
      this.grid.toTop();
    } else if (!changed.has("size") && !changed.has("theme") && !changed.has("selection")) return;
    this.kinds.update();
    const all = `${count(this.sheet.rows)} functions`;
    this.number.textContent = search === "" ? all : `${count(this.rows.length)} of ${all}`;
    this.note.textContent = this.sheet.about;
    this.grid.update();
  }

  key(event: KeyboardEvent): boolean {
    return !event.shiftKey && this.grid.key(event);
  }

  find(text: string): number {
    const { id, down } = this.sorting();
    const shown = `${this.sheet.id} ${id} ${down} ${text.trim()}` === this.made;
    return shown ? this.rows.length : ordered(this.sheet, id, down, text.trim()).length;
  }

  step(direction: 1 | -1): void {
    const next = (this.grid.at + direction + this.rows.length) % Math.max(this.rows.length, 1);
    this.grid.go(next);
    this.take(next);
  }

  private choose(id: string): void {
    const options = { ...this.store.state.options, "table.of": id };
    delete (options as Record<string, string>)["table.sort"];
    this.store.set({ options });
  }

  private sorting(): { id: string; down: boolean } {
    const [id, way] = this.store.option("table.sort", "").split("-");
    const known = id === "name" || this.sheet.columns.some((c) => c.id === id);
    return known && id !== undefined ? { id, down: way !== "up" } : { id: this.sheet.by, down: true };
  }

  private sort(id: string): void {
    const now = this.sorting();
    const down = now.id === id ? !now.down : id !== "name";
    this.store.setOption("table.sort", `${id}-${down ? "down" : "up"}`);
  }

  private take(i: number): void {
    const row = this.rows[i];
    const selection = row === undefined ? null : this.sheet.selection(row);
    if (selection) this.store.select(selection);
  }

  private isTaken(i: number): boolean {
    const { selection } = this.store.state;
    const row = this.rows[i];
    if (!selection || row === undefined) return false;
    if (selection.kind === "function") return this.sheet.id === "spans" && selection.function === row;
    if (selection.kind !== "node" || this.sheet.id === "spans") return false;
    const own = this.sheet.selection(row);
    return own !== null && writeSelection(own) === writeSelection(selection);
  }

  private hasSparks(): boolean {
    return this.sheet.id === "spans" && this.sparks.available;
  }

  private columns(): GridColumn[] {
    const found: GridColumn[] = [{ id: "name", title: "Function", about: "", least: this.hasSparks() ? 10 : 12, grow: 3,
      number: false, sorts: true }];
    if (this.hasSparks()) {
      found.push({ id: "spark", title: "Frame by frame", number: false, sorts: false, least: 8.75, grow: 0,
        about: "self time over the run; each bar is the slowest of its frames; red: more than twice the median" });
    }
    for (const { id, title, about, kind } of this.sheet.columns) {
      const least = title.length > 6 ? 6.5 : kind === "ns" ? 5.75 : kind === "bytes" ? 6 : 5;
      found.push({ id, title, about, least, grow: 0.7, number: true, sorts: true });
    }
    found.push({ id: "place", title: "Place", about: "", least: 8, grow: 2, number: false, sorts: false });
    return found;
  }

  private fill(row: number, cells: readonly HTMLElement[]): void {
    const { sheet } = this;
    const name = sheet.name(row);
    let at = 0;
    put(cells[at++]!, name);
    if (this.hasSparks()) this.spark(cells[at++]!, row, name);
    for (const { kind, values, id } of sheet.columns) {
      const cell = cells[at++]!;
      const rough = kind === "ns" && values[row]! >= 0 && sheet.estimated?.(row) === true;
      cell.textContent = (rough ? "~" : "") + FORMATS[kind](values[row]!);
      if (kind !== "share") continue;
      cell.classList.add("part");
      cell.style.setProperty("--part", `${(100 * (values[row]! || 0) / this.greatest(id, values)).toFixed(1)}%`);
    }
    put(cells[at]!, sheet.place(row), nearName(sheet.place(row)));
    cells[at]!.classList.add("dim", "place");
  }

  private greatest(id: string, values: Float64Array): number {
    return this.model.keep(`table: greatest ${this.sheet.id} ${id}`, () =>
      values.reduce((most, value) => value > most ? value : most, 1e-9));
  }

  private spark(cell: HTMLElement, row: number, name: string): void {
    let canvas = cell.querySelector("canvas");
    if (!canvas) {
      canvas = h("canvas", { class: "spark", role: "img" });
      cell.replaceChildren(canvas);
    }
    const values = this.sparks.columns(row);
    const most = values.reduce((a, b) => Math.max(a, b), 0);
    canvas.setAttribute("aria-label", `${cut(name, 60)} per frame, at most ${ns(most)}`);
    drawSpark(canvas, values, most);
  }
}

/** Shows SHORT instead of TEXT, and TEXT as a tooltip. */
function put(cell: HTMLElement, text: string, short = text): void {
  cell.textContent = cut(short, 200);
  cell.title = cut(text, 1000);
}

/* Bars from the bottom; those above twice the median are marked. */
function drawSpark(canvas: HTMLCanvasElement, values: Float32Array, most: number): void {
  const high = 20;
  canvas.width = SPARK_COLUMNS * 2;
  canvas.height = high * 2;
  const ctx = canvas.getContext("2d");
  if (!ctx || most <= 0) return;
  const theme = palette();
  const sorted = [...values].filter((v) => v >= 0).sort((a, b) => a - b);
  const usual = sorted[Math.floor(sorted.length / 2)] ?? 0;
  for (let i = 0; i < values.length; i++) {
    if (values[i]! < 0) continue;
    const tall = Math.max(2, values[i]! / most * high * 2);
    ctx.fillStyle = values[i]! > 2 * usual && usual > 0 ? theme.bad : theme.textFaint;
    ctx.fillRect(i * 2, high * 2 - tall, 1.6, tall);
  }
}
