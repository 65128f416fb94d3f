/* What a view of the page is. The shell (shell.ts) owns the tabs, the search box, the keys that hold
 * everywhere, the details panel and the error box; a view owns one element and draws itself in it.
 *
 * A view file exports a function that makes its view: `export function flameView(): View`. views.ts
 * lists them in the order of their tabs.
 *
 * Life: mount() once, when the tab is first shown (so a view that is never opened costs nothing); then
 * update() whenever it is visible and something changed: at most once per animation frame, before the
 * paint, with what changed. A view never keeps its own copy of the state: it reads store.state and calls
 * store.set(). An exception out of any of these functions ends in the visible error box.
 */
import type { Model } from "../model/model";
import type { Changed, Store } from "../model/state";

export interface View {
  /** Name in the URL: lower case, one word. */
  readonly id: string;
  /** Text of the tab. */
  readonly title: string;
  /** Lines for the help box: [keys, what they do]. */
  readonly help?: readonly (readonly [string, string])[];
  /** True when the run has what the view shows; a view that is not available has no tab. */
  available(model: Model): boolean;
  /** Builds its elements in EL (empty, sized by the shell; class "view view-<id>"). */
  mount(el: HTMLElement, model: Model, store: Store): void;
  /** Brings the picture up to date. CHANGED names what is new in the state since the last call; it has
   * "size" when the element was resized or just shown, "theme" when the colours changed. */
  update(changed: Changed): void;
  /** A key that the shell did not take, while the view is visible and no text field has the focus.
   * True: taken. */
  key?(event: KeyboardEvent): boolean;
  /** The number of things that match TEXT (already lower case, not empty); the shell shows it. The view
   * marks them by itself in update() (changed has "search"). */
  find?(text: string): number;
  /** Goes to the next (+1) or previous (-1) match: Enter and Shift+Enter in the search box. */
  step?(direction: 1 | -1): void;
}
