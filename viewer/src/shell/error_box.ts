/* The visible box for everything that fails: a broken page says what is broken, it is never blank. */
import { button, h } from "../util/element";
import { PageError } from "../model/error";
import { cut, safe } from "../model/format";

const MOST_ERRORS = 5;

export class ErrorBox {
  readonly element = h("div", { class: "errors", role: "alert" });
  /** There is nothing behind the box: it stays. */
  alone = true;
  private readonly seen = new Set<string>();

  /** Shows ERROR once; the same message again changes nothing. */
  show(error: unknown): void {
    const message = error instanceof Error ? error.message : String(error);
    const text = safe(cut(message || "unknown error", 2000));
    if (this.seen.has(text) || this.seen.size >= MOST_ERRORS) return;
    this.seen.add(text);
    const ours = error instanceof PageError;
    const box: HTMLElement = h("section", { class: "error" },
      h("h2", {}, ours ? "This page cannot be shown as it should" : "The viewer failed"),
      h("p", {}, text),
      h("p", { class: "dim" }, ours
        ? "The file is damaged, cut short or from another version: make it again with `piano view RUN -o FILE.html`."
        : "This is a fault of the viewer, not of your program. What is shown may be incomplete."));
    if (!this.alone) box.append(button("Dismiss", () => box.remove()));
    this.element.append(box);
  }

  /** Runs WORK; what it throws is shown, and OTHERWISE returned. */
  guard<T>(work: () => T, otherwise: T): T {
    try {
      return work();
    } catch (error) {
      this.show(error);
      return otherwise;
    }
  }

  /** Shows what nobody caught: event handlers of views, rejected promises. */
  watch(target: Window): void {
    target.addEventListener("error", (event) => this.show(event.error ?? event.message));
    target.addEventListener("unhandledrejection", (event) => this.show(event.reason));
  }
}
