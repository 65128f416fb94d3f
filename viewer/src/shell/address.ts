/* Keeps the URL's hash and the store in sync. Opening a view adds an entry to the browser's history.
 * Panning, selecting and typing replace the current entry, after a short delay, because browsers refuse
 * hundreds of changes in a row. */
import type { Store } from "../model/state";

const QUIET_MS = 250;

export class Address {
  private timer: number | undefined;
  private written = "";

  constructor(private readonly store: Store) {
    this.write(false);
    store.subscribe((changed) => {
      if (changed.has("view")) this.write(true);
      else {
        window.clearTimeout(this.timer);
        this.timer = window.setTimeout(() => this.write(false), QUIET_MS);
      }
    });
    const follow = (): void => {
      if (window.location.hash !== this.written) {
        this.written = window.location.hash;
        store.restore(window.location.hash);
      }
    };
    window.addEventListener("hashchange", follow);
    window.addEventListener("popstate", follow);
  }

  private write(step: boolean): void {
    window.clearTimeout(this.timer);
    const hash = this.store.hash();
    if (hash === window.location.hash) return;
    this.written = hash;
    try {
      if (step) window.history.pushState(null, "", hash);
      else window.history.replaceState(null, "", hash);
    } catch {
      // A sandboxed frame has no history; the page works without it.
    }
  }
}
