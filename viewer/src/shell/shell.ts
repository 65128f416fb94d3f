/* The frame around the views: header, tabs, search, keys, details, errors. It decides when to draw: it
 * collects changes of the state and passes them to the visible view once per animation frame. */
import { Details, nameOf } from "../util/details";
import { button, h } from "../util/element";
import type { ErrorBox } from "./error_box";
import { count, cut, ns, safe } from "../model/format";
import { Help } from "./help";
import { Address } from "./address";
import { followSelection } from "../model/follow";
import { Live } from "./live";
import { focusAgain, focusIn, restoreScrolls, scrollsOf } from "./place";
import { allViews } from "./views";
import type { Model } from "../model/model";
import { forgetPalette } from "../util/palette";
import type { Change, Store } from "../model/state";
import { ThemeSwitch } from "./theme";
import { tooltip } from "../util/tooltip";
import type { View } from "../util/view";
import { programName } from "../util/which";

interface Tab {
  readonly view: View;
  readonly tab: HTMLButtonElement;
  readonly panel: HTMLElement;
  mounted: boolean;
}

export class Shell {
  private tabs: Tab[] = [];
  private readonly help = new Help();
  private readonly details: Details;
  private readonly searchBox = h("input", { type: "search", "aria-label": "Search", title: "Search ( / )" });
  private readonly found = h("output", { "aria-live": "polite" });
  private readonly said = h("div", { class: "sr-only", role: "status" });
  private readonly viewArea = h("div", { class: "views" });
  private readonly themeButton: HTMLButtonElement;
  private readonly heading = h("h1");
  private readonly tabList = h("div", { class: "tabs", role: "tablist", "aria-label": "Views" });
  private readonly noticeArea = h("div", { class: "notice-area" });
  private pressed = false;
  private pending = new Set<Change>();
  private scheduled = false;

  constructor(root: HTMLElement, private model: Model,
    private readonly store: Store, views: readonly View[], private readonly errors: ErrorBox) {
    this.details = new Details(model, store);
    const theme = new ThemeSwitch(() => this.change(["theme"]));
    this.themeButton = button("", () => this.nameTheme(theme.next()), { class: "icon" });
    this.nameTheme(theme.theme);
    const top = this.header();
    this.fill(views);
    if (model.meta.live) this.follow(top);
    root.replaceChildren(top, errors.element, this.noticeArea,
      h("div", { class: "main" }, this.viewArea, this.details.element), this.said, this.help.element);
    tooltip.attach(root);
    this.searchBox.placeholder = "Search";
    this.searchBox.value = store.state.search;
    store.subscribe((changed) => this.change(changed));
    new Address(store);
    new ResizeObserver(() => this.change(["size"])).observe(this.viewArea);
    document.addEventListener("keydown", (event) => this.key(event));
    this.change(["view", "size", "selection", "search"]);
    this.draw();
  }

  /* Building ------------------------------------------------------------------------------------- */

  private header(): HTMLElement {
    this.tabList.addEventListener("keydown", (event) => this.tabKey(event));
    this.searchBox.addEventListener("input", () => this.store.set({ search: this.searchBox.value }));
    return h("header", { class: "top" }, this.heading, this.tabList,
      h("div", { class: "tools" },
        h("div", { class: "search", role: "search" }, this.searchBox, this.found),
        this.themeButton,
        button("?", () => this.help.open(this.current()?.view), { class: "icon", "aria-label": "Help",
          title: "Keys and mouse ( ? )" })));
  }

  /** Everything that depends on the model, except the details. */
  private fill(views: readonly View[]): void {
    const { meta } = this.model;
    const name = safe(meta.name || "run"), program = programName(meta);
    this.heading.replaceChildren(...[
      program !== "" && h("span", { class: "run", title: cut(safe(meta.command || name), 1000) }, cut(program, 40)),
      h("span", { class: program === "" ? "run" : "run dim", title: cut(name, 1000) }, cut(name, 80)),
      h("span", { class: "dim duration" }, ns(meta.duration_ns)),
      meta.b && h("span", { class: "run", title: "the run it is compared with" }, `→ ${cut(safe(meta.b.name), 80)}`),
      meta.b && meta.b.duration_ns > 0 && h("span", { class: "dim" }, ns(meta.b.duration_ns))]
      .filter((part): part is HTMLElement => part instanceof HTMLElement));
    this.viewArea.replaceChildren();
    this.tabs = views.map((view) => this.makeTab(view));
    this.tabList.replaceChildren(...this.tabs.map((tab) => tab.tab));
    this.noticeArea.replaceChildren(...this.notices());
  }

  private follow(top: HTMLElement): void {
    const live = new Live((model) => this.replace(model), (error) => this.errors.show(error));
    top.insertBefore(live.element, this.tabList);
    window.addEventListener("pointerdown", () => (this.pressed = true), true);
    for (const end of ["pointerup", "pointercancel"] as const) {
      window.addEventListener(end, () => (this.pressed = false), true);
    }
  }

  /** The recording has grown: shows MODEL with the same view, range, selection and scroll positions. False:
   * not now, because the user drags something or has selected a text. */
  replace(model: Model): boolean {
    if (this.pressed || window.getSelection()?.isCollapsed === false) return false;
    const views = allViews().filter((view) => this.errors.guard(() => view.available(model), false));
    const focus = focusIn(this.viewArea, document.activeElement);
    const tabFocus = document.activeElement?.closest(".tab")?.id;
    const scrolled = scrollsOf(this.viewArea), opened = this.noticeArea.querySelector("details")?.open;
    const old = this.model;
    tooltip.hide();
    this.model = model;
    this.store.grow(model, views.map((view) => view.id), (s) => followSelection(s, old, model));
    this.fill(views);
    this.details.replace(model);
    const notices = this.noticeArea.querySelector("details");
    if (notices) notices.open = opened === true;
    for (const what of ["view", "selection", "search"] as const) this.pending.add(what);
    this.draw();
    restoreScrolls(this.viewArea, scrolled);
    if (focus) focusAgain(this.viewArea, focus);
    if (tabFocus) document.getElementById(tabFocus)?.focus();
    return true;
  }

  private notices(): HTMLElement[] {
    const { notices, dropped } = this.model.meta;
    const lines = notices.map((text) => cut(safe(text), 1000));
    for (const [cause, number] of Object.entries(dropped)) {
      lines.push(`${count(number)} dropped: ${cut(safe(cause), 200)}`);
    }
    if (lines.length === 0) return [];
    return [h("details", { class: "notices", "aria-label": "Notices" },
      h("summary", {}, lines.length === 1 ? lines[0] ?? "" : `${lines.length} notices about this run`),
      h("ul", {}, ...lines.map((line) => h("li", {}, line))))];
  }

  private makeTab(view: View): Tab {
    const tab = h("button", { type: "button", class: "tab", role: "tab", id: `tab-${view.id}`,
      "aria-controls": `view-${view.id}`, onclick: () => this.store.open(view.id) }, view.title);
    const panel = h("section", { class: `view view-${view.id}`, id: `view-${view.id}`, role: "tabpanel",
      "aria-labelledby": `tab-${view.id}` });
    panel.hidden = true;
    this.viewArea.append(panel);
    return { view, tab, panel, mounted: false };
  }

  private nameTheme(theme: string): void {
    this.themeButton.textContent = theme === "dark" ? "☾" : theme === "light" ? "☀" : "◐";
    this.themeButton.title = `Colours: ${theme === "auto" ? "system" : theme}`;
    this.themeButton.setAttribute("aria-label", this.themeButton.title);
  }

  private current(): Tab | undefined {
    return this.tabs.find((tab) => tab.view.id === this.store.state.view);
  }

  /* Drawing -------------------------------------------------------------------------------------- */

  private change(changed: Iterable<Change>): void {
    for (const what of changed) this.pending.add(what);
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => this.draw());
  }

  private draw(): void {
    const changed = this.pending;
    this.pending = new Set();
    this.scheduled = false;
    const tab = this.current();
    if (!tab || changed.size === 0) return;
    if (changed.has("size")) forgetPalette(); // zooming the page changes the text size
    if (changed.has("view")) this.showTab(tab, changed);
    if (changed.has("selection") || changed.has("pins")) {
      const had = this.details.element.hidden;
      this.errors.guard(() => this.details.update(), undefined);
      const { selection } = this.store.state;
      this.said.textContent = selection ? cut(this.errors.guard(() => nameOf(selection, this.model), ""), 200) : "";
      if (had !== this.details.element.hidden) changed.add("size");
    }
    this.errors.guard(() => {
      if (!tab.mounted) {
        tab.mounted = true;
        tab.view.mount(tab.panel, this.model, this.store);
      }
      tab.view.update(changed);
    }, undefined);
    if (changed.has("search") || changed.has("view")) this.search(tab);
  }

  private showTab(tab: Tab, changed: Set<Change>): void {
    tooltip.hide();
    for (const other of this.tabs) {
      other.panel.hidden = other !== tab;
      other.tab.setAttribute("aria-selected", String(other === tab));
      other.tab.tabIndex = other === tab ? 0 : -1;
    }
    // Changes while the view was hidden are not recorded, so everything counts as changed.
    for (const what of ["t0", "t1", "selection", "search", "pins", "options", "size", "theme"] as const) {
      changed.add(what);
    }
  }

  private search(tab: Tab): void {
    const text = this.store.state.search.toLowerCase();
    if (this.searchBox.value !== this.store.state.search) this.searchBox.value = this.store.state.search;
    if (text === "") this.found.textContent = "";
    else if (!tab.view.find) this.found.textContent = "not in this view";
    else {
      const matches = this.errors.guard(() => tab.view.find?.(text) ?? 0, 0);
      this.found.textContent = matches === 1 ? "1 match" : `${count(matches)} matches`;
    }
  }

  /* Keys ----------------------------------------------------------------------------------------- */

  private tabKey(event: KeyboardEvent): void {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    const here = this.tabs.findIndex((tab) => tab.tab === document.activeElement);
    if (step === 0 || here < 0) return;
    event.preventDefault();
    const next = this.tabs[(here + step + this.tabs.length) % this.tabs.length];
    next?.tab.focus();
    if (next) this.store.open(next.view.id);
  }

  private key(event: KeyboardEvent): void {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.target instanceof HTMLElement ? event.target : document.body;
    if (this.help.element.open) return;
    if (target === this.searchBox) return this.searchKey(event);
    if (target.matches("input, select, textarea")) return;
    if (event.key === "Escape") this.escape();
    else if (event.key === "/") this.searchBox.focus();
    else if (event.key === "?") this.help.open(this.current()?.view);
    else if (/^[1-9]$/.test(event.key) && this.tabs[Number(event.key) - 1]) {
      this.store.open(this.tabs[Number(event.key) - 1]?.view.id ?? "");
    } else if (event.key.toLowerCase() === "p" && this.store.state.selection) {
      this.store.togglePin(this.store.state.selection);
    } else {
      // On buttons and in the details panel, Enter, Space and arrows have their own meaning.
      const own = target.closest(".details, .tabs") !== null ||
        (target.matches("button, summary, a") && (event.key === "Enter" || event.key === " "));
      const view = this.current()?.view;
      if (own || !this.errors.guard(() => view?.key?.(event) ?? false, false)) return;
    }
    event.preventDefault();
  }

  private searchKey(event: KeyboardEvent): void {
    if (event.key === "Enter") {
      event.preventDefault();
      this.errors.guard(() => this.current()?.view.step?.(event.shiftKey ? -1 : 1), undefined);
    } else if (event.key === "Escape") {
      event.preventDefault();
      if (this.searchBox.value !== "") this.store.set({ search: "" });
      else this.searchBox.blur();
    }
  }

  private escape(): void {
    tooltip.hide();
    if (this.store.state.search !== "") this.store.set({ search: "" });
    else if (this.store.state.selection) this.store.select(null);
  }
}
