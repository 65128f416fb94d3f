/* The details panel: shows the selection in full, with complete names in scrolling boxes and links to the
 * other views.
 *
 * Each kind of selection has one function that describes it. The file of that kind registers the function
 * when it is loaded:
 *
 *   describe("site", (panel, selection, model, store) => {
 *     panel.title("Allocation site", model.functionOf(...));
 *     panel.facts([["live", bytes(...)], ...]);
 *     panel.stack(model, node);
 *     panel.links([["Flame graph", () => store.open("flame", selection)]]);
 *   }); */
import { button, h } from "./element";
import { cut } from "../model/format";
import type { Model } from "../model/model";
import { writeSelection } from "../model/state";
import type { Selection, Store } from "../model/state";

type Kind = Selection["kind"];
type Of<K extends Kind> = Extract<Selection, { kind: K }>;
export type Describe<K extends Kind> =
  (panel: Panel, selection: Of<K>, model: Model, store: Store) => void;
/** A selection in one line: the text of its pin. */
export type Name<K extends Kind> = (selection: Of<K>, model: Model) => string;

const describers = new Map<Kind, Describe<Kind>>();
const namers = new Map<Kind, Name<Kind>>();

/** Registers how a kind of selection is shown in the panel and named in a pin. */
export function describe<K extends Kind>(kind: K, show: Describe<K>, name: Name<K>): void {
  describers.set(kind, show as unknown as Describe<Kind>);
  namers.set(kind, name as unknown as Name<Kind>);
}

/** SELECTION in one line. */
export function nameOf(selection: Selection, model: Model): string {
  return namers.get(selection.kind)?.(selection as never, model) ?? writeSelection(selection);
}

/** A row of a table in the panel: cells are text; a row with `go` is a link. */
export interface PanelRow {
  readonly cells: readonly string[];
  readonly go?: () => void;
  /** 0 to 1: length of the bar behind the row. */
  readonly part?: number;
}

const MOST_ROWS = 200;
/** Maximum frames of a stack that are shown. */
const MOST_FRAMES = 400;

/** What the describing functions write to. All text is set as textContent. */
export class Panel {
  constructor(private readonly body: HTMLElement) {}

  /** WHAT it is ("Frame 12"), and its full NAME, if it has one. */
  title(what: string, name = ""): void {
    this.body.append(h("h2", {}, what));
    if (name !== "") this.name(name);
  }

  /** A full name, in a scrolling box from which it can be copied. */
  name(name: string): void {
    this.body.append(h("div", { class: "full-name", tabindex: "0", role: "region", "aria-label": "full name" },
      name));
  }

  heading(text: string): void {
    this.body.append(h("h3", {}, text));
  }

  text(text: string): void {
    this.body.append(h("p", {}, text));
  }

  /** Pairs of a name and a value. */
  facts(pairs: readonly (readonly [string, string])[]): void {
    const list = h("dl", { class: "facts" });
    for (const [name, value] of pairs) list.append(h("dt", {}, name), h("dd", {}, value));
    this.body.append(list);
  }

  /** Buttons that open other views. */
  links(links: readonly (readonly [string, () => void])[]): void {
    this.body.append(h("div", { class: "links" },
      ...links.map(([text, go]) => button(text, go, { class: "chip" }))));
  }

  /** A table; HEADS are the titles. The first column is text, the others are numbers. */
  table(label: string, heads: readonly string[], rows: readonly PanelRow[]): void {
    const body = h("tbody");
    for (const row of rows.slice(0, MOST_ROWS)) body.append(tableRow(row));
    const table = h("table", { class: "panel-table", "aria-label": label },
      h("thead", {}, h("tr", {}, ...heads.map((head) => h("th", {}, head)))), body);
    this.body.append(table);
    if (rows.length > MOST_ROWS) this.text(`… and ${rows.length - MOST_ROWS} more`);
  }

  /** The stack of NODE with places, innermost frame first. */
  stack(model: Model, node: number): void {
    const nodes = model.stack(node).reverse();
    const list = h("ol", { class: "stack" });
    for (const [depth, own] of nodes.entries()) {
      if (depth === MOST_FRAMES) {
        list.append(h("li", { class: "dim" }, `… ${nodes.length - depth} more frames`));
        break;
      }
      const code = model.tables.nodes.code[own] as number;
      const place = model.placeOf(code);
      const name = model.codeName(code);
      list.append(h("li", { title: cut(name, 2000) },
        h("span", { class: "fn" }, cut(name, 300)),
        place !== "" && h("span", { class: "place" }, cut(place, 200)),
        model.tables.code.inlined[code] === 1 && h("span", { class: "place" }, "inlined")));
    }
    this.body.append(list);
  }

  /** Any other elements. */
  add(...nodes: Node[]): void {
    this.body.append(...nodes);
  }
}

function tableRow(row: PanelRow): HTMLElement {
  const [first = "", ...rest] = row.cells;
  const short = cut(first, 120);
  const cell = h("td", { title: first.length > short.length ? cut(first, 2000) : undefined },
    row.go ? button(short, row.go, { class: "link" }) : short);
  const line = h("tr", {}, cell, ...rest.map((text) => h("td", { class: "number" }, text)));
  if (row.part !== undefined && row.part > 0) {
    cell.classList.add("bar");
    cell.style.setProperty("--part", `${Math.min(100, 100 * row.part).toFixed(1)}%`);
  }
  return line;
}

/* The panel itself ------------------------------------------------------------------------------- */

export class Details {
  readonly element = h("aside", { class: "details", "aria-label": "Details", tabindex: "-1" });

  constructor(private model: Model, private readonly store: Store) {
    this.update();
  }

  /** The run has grown. */
  replace(model: Model): void {
    const { scrollTop } = this.element;
    this.model = model;
    this.update();
    this.element.scrollTop = scrollTop;
  }

  /** Shows the selection and the pins; hidden if there are none. */
  update(): void {
    const { selection, pins } = this.store.state;
    this.element.hidden = selection === null && pins.length === 0;
    const body = h("div", { class: "details-body" });
    this.element.replaceChildren(body);
    if (pins.length > 0) body.append(this.pinList(pins));
    if (!selection) return;
    body.append(this.tools(selection));
    describers.get(selection.kind)?.(new Panel(body), selection as never, this.model, this.store);
  }

  private tools(selection: Selection): HTMLElement {
    const pinned = this.store.state.pins.some((pin) => writeSelection(pin) === writeSelection(selection));
    return h("div", { class: "details-tools" },
      button(pinned ? "Unpin" : "Pin", () => this.store.togglePin(selection),
        { class: "chip", "aria-pressed": String(pinned), title: "Keep it here when you select something else" }),
      button("×", () => this.store.select(null), { class: "icon", "aria-label": "Close the details" }));
  }

  private pinList(pins: readonly Selection[]): HTMLElement {
    const list = h("ul", { class: "pins", "aria-label": "Pinned" });
    for (const pin of pins) {
      const name = cut(nameOf(pin, this.model), 60);
      list.append(h("li", {},
        button(name, () => this.store.select(pin), { class: "link" }),
        button("×", () => this.store.togglePin(pin), { class: "icon", "aria-label": `Unpin ${name}` })));
    }
    return list;
  }
}
