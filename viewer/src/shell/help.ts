/* The help box (`?`): the global keys, and those of the current view. */
import { button, h } from "../util/element";
import type { View } from "../util/view";

const EVERYWHERE: readonly (readonly [string, string])[] = [
  ["1 … 9", "open a view"],
  ["/", "search; Enter and Shift+Enter go to the next and previous match"],
  ["Esc", "close a dialog, clear the search, or clear the selection"],
  ["P", "pin or unpin the selection"],
  ["?", "this help"],
  ["click", "select, and show it in the details panel"],
];

export class Help {
  readonly element = h("dialog", { class: "help", "aria-label": "Help" });

  open(view: View | undefined): void {
    this.element.replaceChildren(
      h("h2", {}, "Keys and mouse"), keyList(EVERYWHERE),
      ...(view?.help ? [h("h3", {}, view.title), keyList(view.help)] : []),
      h("h3", {}, "Links"),
      h("p", {}, "The address of this page contains the view, the time range, the search and the selection. " +
        "Copy it to show the same state to a colleague who has the same file."),
      button("Close", () => this.element.close()));
    if (!this.element.open) this.element.showModal();
  }
}

function keyList(keys: readonly (readonly [string, string])[]): HTMLElement {
  const list = h("dl");
  for (const [key, what] of keys) list.append(h("dt", {}, h("kbd", {}, key)), h("dd", {}, what));
  return list;
}
