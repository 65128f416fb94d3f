/* The controls around the canvas of the flame graph: question, form, scope, zoom path and legend. */
import { button, choice, h } from "../util/element";
import type { Colours } from "./colours";
import type { Graph } from "./graph";
import { isScope } from "../model/scope";
import { cut, shortName } from "../model/format";
import type { Store } from "../model/state";

export function buildParts(graph: Graph, store: Store, zoomTo: (node: number) => void) {
  const weight = h("select", { "aria-label": "Weight of the boxes" });
  for (const q of graph.questions) weight.append(new Option(q.title, q.id));
  weight.addEventListener("change", () => store.setOption("flame.weight", weight.value));
  const form = choice("Form", [["left", "Left-heavy"], ["top", "Top-down"], ["inverted", "Inverted"]],
    () => graph.form, (value) => store.setOption("flame.form", value === "left" ? null : value));
  const widths = choice("Widths", [["before", "Before"], ["after", "After"], ["both", "Both"]],
    () => store.option("flame.widths", "after"),
    (value) => store.setOption("flame.widths", value === "after" ? null : value));
  const scopeName = h("b");
  const scopeMore = h("span", { class: "dim" });
  const scope = h("span", { class: "flame-scope" }, "of ", scopeName, scopeMore, " ",
    button("whole run", () => leaveScope(store), { class: "chip" }));
  const matched = h("output", { class: "flame-matched", "aria-live": "polite" });
  const sum = h("b");
  const toolbar = h("div", { class: "toolbar" }, weight, form.element, widths.element, scope, matched);
  const crumbs = h("nav", { class: "flame-crumbs", "aria-label": "Zoom path" });
  const empty = h("p", { class: "flame-empty" }, "No samples here. Select a longer range or another weight.");
  const area = h("div", { class: "flame-area" }, empty);
  const about = h("span", { class: "dim" });
  const swatches = h("ul", { class: "flame-legend", "aria-label": "Colours" });
  const foot = h("div", { class: "flame-foot" }, sum, about, swatches);
  return {
    toolbar, crumbs, area, foot, matched, sum, about, empty,
    /** OF: name of the selection. WHOLE: the weight has no times, so the graph covers the whole run. */
    update(of: string, whole: boolean): void {
      weight.value = graph.question().id;
      form.update();
      widths.update();
      widths.element.hidden = graph.question().colour !== "change";
      scope.hidden = of === "";
      scopeName.textContent = whole ? "the whole run" : cut(of, 80);
      scopeMore.textContent = whole ? `, not of ${cut(of, 60)}: this weight has no times` : "";
    },
    legend(colours: Colours["legend"]): void {
      swatches.replaceChildren(...colours.map(([colour, word]) => {
        const mark = h("i");
        mark.style.background = colour;
        return h("li", {}, mark, cut(word, 40));
      }));
    },
    path(of: Graph): void {
      const { tree } = of.layout;
      const nodes: number[] = [];
      for (let n = of.focus; n !== 0; n = tree.parent[n]!) nodes.unshift(n);
      crumbs.hidden = nodes.length === 0;
      const shown = nodes.length > 12 ? [...nodes.slice(0, 2), -1, ...nodes.slice(-9)] : nodes;
      crumbs.replaceChildren(button("all", () => zoomTo(0), { class: "link" }), ...shown.flatMap((n) => [
        h("span", { class: "dim", "aria-hidden": "true" }, " › "),
        n < 0 ? h("span", { class: "dim" }, `${nodes.length - 11} more`)
          : button(cut(shortName(of.keys.name(tree.key[n]!)), 48), () => zoomTo(n), { class: "link" }),
      ]));
    },
  };
}

/** Returns to the whole run. Clears a selection that would become the scope again. */
function leaveScope(store: Store): void {
  const { selection } = store.state;
  const options = { ...store.state.options };
  delete options["flame.of"];
  delete options["flame.zoom"];
  store.set({ options, selection: selection && isScope(selection) ? null : selection });
}
