/* A table of many rows, of which only the visible ones are elements. For screen readers it is a grid: rows
 * have numbers, columns have a sort order, the arrow keys move a cursor and Enter selects the row.
 *
 * Heads and rows are in one box that scrolls in both directions; the heads stay at the top, and the first
 * column stays at the left. If columns are outside of the box, a shadow at the edge indicates it, and the
 * button `more` shows their number and scrolls to them. Sizes are in rem, so that larger text makes larger
 * rows. */
import { button, h } from "../util/element";

export interface GridColumn {
  readonly id: string;
  readonly title: string;
  /** Tooltip of the head. */
  readonly about: string;
  /** Minimum width in rem, and share of the remaining width. */
  readonly least: number;
  readonly grow: number;
  readonly number: boolean;
  /** Heads of columns that cannot be sorted are not buttons. */
  readonly sorts: boolean;
}

export interface GridHost {
  readonly label: string;
  columns(): readonly GridColumn[];
  count(): number;
  /** Fills the cells of row I (in display order). */
  fill(i: number, cells: readonly HTMLElement[]): void;
  sortedBy(): { id: string; down: boolean };
  sort(id: string): void;
  take(i: number): void;
  isTaken(i: number): boolean;
}

const ROW_REM = 1.625;
const SPARE = 6;
/** How far an arrow key scrolls sideways, in rem. */
const ASIDE_REM = 6;

export class Grid {
  /** The grid and its edge. `more` belongs into a toolbar. */
  readonly box: HTMLElement;
  readonly more = button("", () => this.aside(), { class: "chip grid-more" });
  private readonly element = h("div", { class: "grid", role: "grid", tabindex: "0" });
  private readonly head = h("div", { class: "grid-head", role: "row" });
  private readonly body = h("div", { class: "grid-body", role: "rowgroup" });
  private readonly rows = new Map<number, HTMLElement>();
  private spare: HTMLElement[] = [];
  private cursor = 0;
  private shape = "";
  private waiting = false;

  constructor(private readonly host: GridHost) {
    this.element.setAttribute("aria-label", host.label);
    this.element.append(this.head, this.body);
    this.box = h("div", { class: "grid-box" }, this.element, h("div", { class: "grid-edge", "aria-hidden": "true" }));
    this.more.hidden = true;
    this.element.addEventListener("scroll", () => this.soon());
    this.body.addEventListener("click", (event) => this.click(event));
  }

  private soon(): void {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.draw();
    });
  }

  private rem(): number {
    return parseFloat(getComputedStyle(document.documentElement).fontSize) || 16;
  }

  private rowHeight(): number {
    return Math.round(ROW_REM * this.rem());
  }

  /** Call when columns, order or rows may have changed. */
  update(): void {
    const columns = this.host.columns();
    const shape = columns.map((c) => `${c.id}:${c.least}`).join(" ");
    if (shape !== this.shape) {
      this.shape = shape;
      this.element.style.setProperty("--columns", columns.map((c) => `minmax(${c.least}rem, ${c.grow}fr)`).join(" "));
      this.element.style.setProperty("--wide", `${columns.reduce((sum, c) => sum + c.least, 0)}rem`);
      this.element.scrollLeft = 0;
      this.spare = [];
    }
    for (const [, row] of this.rows) row.remove();
    this.rows.clear();
    this.heads(columns);
    this.element.setAttribute("aria-rowcount", String(this.host.count() + 1));
    this.element.setAttribute("aria-colcount", String(columns.length));
    this.cursor = Math.max(0, Math.min(this.cursor, this.host.count() - 1));
    this.draw();
  }

  toTop(): void {
    this.cursor = 0;
    this.element.scrollTop = 0;
  }

  private heads(columns: readonly GridColumn[]): void {
    const sorted = this.host.sortedBy();
    const had = this.head.contains(document.activeElement) ? sorted.id : "";
    this.head.setAttribute("aria-rowindex", "1");
    this.head.replaceChildren(...columns.map((column) => {
      const on = sorted.id === column.id;
      const cell = h("div", { class: column.number ? "grid-th number" : "grid-th", role: "columnheader",
        title: column.about || undefined,
        "aria-sort": !column.sorts ? undefined : !on ? "none" : sorted.down ? "descending" : "ascending" });
      if (!column.sorts) cell.append(column.title);
      else {
        const arrow = on ? (sorted.down ? " ↓" : " ↑") : "";
        const sort = h("button", { type: "button", class: "grid-sort", onclick: () => this.host.sort(column.id) },
          column.title, h("span", { "aria-hidden": "true" }, arrow));
        cell.append(sort);
        if (had === column.id) queueMicrotask(() => sort.focus());
      }
      return cell;
    }));
  }

  private draw(): void {
    const high = this.rowHeight();
    const count = this.host.count();
    this.body.style.height = `${count * high}px`;
    const top = this.element.scrollTop;
    const from = Math.max(0, Math.floor(top / high) - SPARE);
    const to = Math.min(count, Math.ceil((top + this.element.clientHeight) / high) + SPARE);
    for (const [i, row] of this.rows) {
      if (i >= from && i < to) continue;
      this.rows.delete(i);
      row.remove();
      this.spare.push(row);
    }
    for (let i = from; i < to; i++) {
      let row = this.rows.get(i);
      if (!row) {
        row = this.spare.pop() ?? this.newRow();
        this.rows.set(i, row);
        row.dataset["row"] = String(i);
        row.id = `grid-row-${i}`;
        row.setAttribute("aria-rowindex", String(i + 2));
        row.style.transform = `translateY(${i * high}px)`;
        row.style.height = `${high}px`;
        this.host.fill(i, [...row.children] as HTMLElement[]);
        this.body.append(row);
      }
      row.setAttribute("aria-selected", String(this.host.isTaken(i)));
      row.classList.toggle("cursor", i === this.cursor);
    }
    this.tellSides();
    if (count > 0) this.element.setAttribute("aria-activedescendant", `grid-row-${this.cursor}`);
    else this.element.removeAttribute("aria-activedescendant");
  }

  /** The heads that are partly or completely beyond the right edge. */
  private beyond(): HTMLElement[] {
    const edge = this.element.scrollLeft + this.element.clientWidth + 1;
    return ([...this.head.children] as HTMLElement[]).filter((head) => head.offsetLeft + head.offsetWidth > edge);
  }

  /** Shows which columns are outside of the box. */
  private tellSides(): void {
    const { scrollLeft, clientWidth, offsetWidth } = this.element;
    const first = (this.head.firstElementChild as HTMLElement).offsetWidth;
    const hidden = this.beyond().length, left = scrollLeft > 1;
    this.element.classList.toggle("loose", first > clientWidth / 2); // no room for columns beside it
    this.box.style.setProperty("--bar", `${offsetWidth - clientWidth}px`);
    this.box.classList.toggle("more-left", left);
    this.box.classList.toggle("more-right", hidden > 0);
    this.more.hidden = !left && hidden === 0;
    this.more.textContent = hidden > 0 ? `${hidden} more ${hidden === 1 ? "column" : "columns"} →` : "← first columns";
  }

  /** Scrolls to the columns on the right, or back to the first ones. */
  private aside(): void {
    const [next] = this.beyond();
    const first = this.element.classList.contains("loose") ? 0 : (this.head.firstElementChild as HTMLElement).offsetWidth;
    this.element.scrollTo({ left: next ? next.offsetLeft - first : 0 });
  }

  private newRow(): HTMLElement {
    return h("div", { class: "grid-row", role: "row" }, ...this.host.columns().map((column) =>
      h("div", { class: column.number ? "grid-td number" : "grid-td", role: "gridcell" })));
  }

  private click(event: MouseEvent): void {
    const row = event.target instanceof Element ? event.target.closest<HTMLElement>(".grid-row") : null;
    if (!row) return;
    this.cursor = Number(row.dataset["row"]);
    this.host.take(this.cursor);
    this.draw();
  }

  /** Moves the cursor to a row and scrolls to it. */
  go(i: number): void {
    this.cursor = Math.max(0, Math.min(i, this.host.count() - 1));
    const high = this.rowHeight();
    const y = this.cursor * high;
    const room = this.element.clientHeight - this.head.offsetHeight;
    if (y < this.element.scrollTop) this.element.scrollTop = y;
    else if (y + high > this.element.scrollTop + room) this.element.scrollTop = y + high - room;
    this.draw();
  }

  get at(): number {
    return this.cursor;
  }

  key(event: KeyboardEvent): boolean {
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.rowHeight()) - 2);
    const to: Record<string, number> = {
      ArrowDown: this.cursor + 1, ArrowUp: this.cursor - 1, PageDown: this.cursor + page,
      PageUp: this.cursor - page, Home: 0, End: this.host.count() - 1,
    };
    const next = to[event.key];
    if (next !== undefined) this.go(next);
    else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      this.element.scrollBy({ left: ASIDE_REM * this.rem() * (event.key === "ArrowLeft" ? -1 : 1) });
    }
    else if (event.key === "Enter" && this.host.count() > 0) {
      this.host.take(this.cursor);
      this.draw();
    } else return false;
    return true;
  }
}
