/* The help box (`?`): the keys that hold everywhere, and those of the view shown. */
import { button, h } from "../util/element";
import type { View } from "../util/view";

const EVERYWHERE: readonly (readonly [string, string])[] = [
  ["1 … 9", "open a view"],
  ["/", "search; Enter and Shift+Enter go to the next and previous match"],
  ["Esc", "close, clear the search, then the selection"],
  ["P", "pin or unpin what is selected"],
  ["?", "this help"],
  ["click", "select: the details panel tells all about it"],
];

export class Help {
  readonly element = h("dialog", { class: "help", "aria-label": "Help" });

  open(view: View | undefined): void {
    this.element.replaceChildren(
      h("h2", {}, "Keys and mouse"), keyList(EVERYWHERE),
      ...(view?.help ? [h("h3", {}, view.title), keyList(view.help)] : []),
      h("h3", {}, "Links"),
      h("p", {}, "The address of this page always holds the view, the time range, the search and what is " +
        "selected: copy it to show a colleague with the same file exactly this."),
      button("Close", () => this.element.close()));
    if (!this.element.open) this.element.showModal();
  }
}

function keyList(keys: readonly (readonly [string, string])[]): HTMLElement {
  const list = h("dl");
  for (const [key, what] of keys) list.append(h("dt", {}, h("kbd", {}, key)), h("dd", {}, what));
  return list;
}
