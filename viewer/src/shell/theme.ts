/* Light or dark: the system's setting, unless the user chooses one. The choice is stored if the browser
 * allows it (a page opened from a file may have no storage). It belongs to the user, so it is not in the
 * URL. */
import { forgetPalette } from "../util/palette";

export type Theme = "auto" | "light" | "dark";

const KEY = "piano-theme";
const NEXT: { readonly [T in Theme]: Theme } = { auto: "light", light: "dark", dark: "auto" };

export class ThemeSwitch {
  theme: Theme = "auto";
  private readonly system = window.matchMedia("(prefers-color-scheme: dark)");

  /** CHANGED is called when the colours change. */
  constructor(private readonly changed: () => void) {
    const kept = stored(() => localStorage.getItem(KEY));
    if (kept === "light" || kept === "dark") this.theme = kept;
    this.system.addEventListener("change", () => this.apply());
    this.apply();
  }

  /** auto -> light -> dark -> auto */
  next(): Theme {
    this.theme = NEXT[this.theme];
    stored(() => localStorage.setItem(KEY, this.theme));
    this.apply();
    return this.theme;
  }

  private apply(): void {
    const dark = this.theme === "dark" || (this.theme === "auto" && this.system.matches);
    document.documentElement.dataset["theme"] = dark ? "dark" : "light";
    forgetPalette();
    this.changed();
  }
}

function stored<T>(use: () => T): T | null {
  try {
    return use();
  } catch {
    return null;
  }
}
