/* The tooltip: describes what is under the pointer in a few lines. Screen readers announce it (aria-live)
 * when the keyboard moves the cursor of a canvas. It is not interactive; a click opens the details panel
 * instead. */
import { cut } from "../model/format";
import { h } from "./element";

/** A line of a tooltip: a heading, or a name and its value. */
export type TipLine = string | readonly [name: string, value: string];

const MOST_LETTERS = 160;

class Tooltip {
  private readonly element = h("div", { class: "tooltip", role: "status", "aria-live": "polite" });

  /** Adds the (hidden) element to the page; the shell calls this once. */
  attach(parent: HTMLElement): void {
    this.element.hidden = true;
    parent.append(this.element);
  }

  /** Shows LINES beside the point X, Y of the window (clientX, clientY). Long names are cut in the middle. */
  show(x: number, y: number, lines: readonly TipLine[]): void {
    this.element.replaceChildren(...lines.map((line) =>
      typeof line === "string" ? h("div", { class: "tip-head" }, cut(line, MOST_LETTERS))
        : h("div", { class: "tip-line" }, h("span", {}, line[0]), h("b", {}, cut(line[1], MOST_LETTERS)))));
    this.element.hidden = false;
    const { offsetWidth: w, offsetHeight: height } = this.element;
    const left = x + 14 + w > window.innerWidth ? x - 14 - w : x + 14;
    const top = y + 16 + height > window.innerHeight ? y - 10 - height : y + 16;
    this.element.style.left = `${Math.max(4, left)}px`;
    this.element.style.top = `${Math.max(4, top)}px`;
  }

  hide(): void {
    this.element.hidden = true;
  }
}

export const tooltip = new Tooltip();
