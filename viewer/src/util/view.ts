/* The interface of a view. The shell (shell/shell.ts) owns the tabs, the search box, the global keys, the
 * details panel and the error box. A view owns one element and draws in it.
 *
 * The file of a view exports a function that creates it: `export function flameView(): View`.
 * shell/views.ts lists them in the order of their tabs.
 *
 * The shell calls mount() once, when the tab is first opened, so a view that is never opened costs
 * nothing. Then it calls update() when the view is visible and something changed: at most once per
 * animation frame, before the browser paints. A view never copies the state: it reads store.state and
 * calls store.set(). The error box shows exceptions from all of these functions. */
import type { Model } from "../model/model";
import type { Changed, Store } from "../model/state";

export interface View {
  /** Name in the URL: lower case, one word. */
  readonly id: string;
  /** Text of the tab. */
  readonly title: string;
  /** Lines for the help box: [keys, what they do]. */
  readonly help?: readonly (readonly [string, string])[];
  /** True if the run has the data of the view; otherwise the view has no tab. */
  available(model: Model): boolean;
  /** Creates its elements in EL (empty, sized by the shell; class "view view-<id>"). */
  mount(el: HTMLElement, model: Model, store: Store): void;
  /** Redraws. CHANGED has the parts of the state that changed since the last call; "size" if the element
   * was resized or just opened; "theme" if the colours changed. */
  update(changed: Changed): void;
  /** Handles a key that the shell did not handle, while the view is visible and no text field has the
   * focus. True: handled. */
  key?(event: KeyboardEvent): boolean;
  /** The number of matches of TEXT (lower case, not empty), which the shell shows. The view marks them in
   * update() (changed has "search"). */
  find?(text: string): number;
  /** Goes to the next (+1) or previous (-1) match: Enter and Shift+Enter in the search box. */
  step?(direction: 1 | -1): void;
}
