/* The box that shows all errors, so that a broken page is never blank. */
import { button, h } from "../util/element";
import { PageError } from "../model/error";
import { cut, safe } from "../model/format";

const MOST_ERRORS = 5;

export class ErrorBox {
  readonly element = h("div", { class: "errors", role: "alert" });
  /** True: there is no view below the box, so it cannot be dismissed. */
  alone = true;
  private readonly seen = new Set<string>();

  /** Shows ERROR; ignores a message that is already shown. */
  show(error: unknown): void {
    const message = error instanceof Error ? error.message : String(error);
    const text = safe(cut(message || "unknown error", 2000));
    if (this.seen.has(text) || this.seen.size >= MOST_ERRORS) return;
    this.seen.add(text);
    const ours = error instanceof PageError;
    const box: HTMLElement = h("section", { class: "error" },
      h("h2", {}, ours ? "This page cannot be shown correctly" : "The viewer failed"),
      h("p", {}, text),
      h("p", { class: "dim" }, ours
        ? "The file is damaged, truncated or from another version. Make it again with `piano view RUN -o FILE.html`."
        : "This is a bug in the viewer, not in your program. The page may be incomplete."));
    if (!this.alone) box.append(button("Dismiss", () => box.remove()));
    this.element.append(box);
  }

  /** Runs WORK. If it throws, shows the error and returns OTHERWISE. */
  guard<T>(work: () => T, otherwise: T): T {
    try {
      return work();
    } catch (error) {
      this.show(error);
      return otherwise;
    }
  }

  /** Shows uncaught errors: event handlers of views, rejected promises. */
  watch(target: Window): void {
    target.addEventListener("error", (event) => this.show(event.error ?? event.message));
    target.addEventListener("unhandledrejection", (event) => this.show(event.reason));
  }
}
