/* The state of the page: view, time range, selection, search and pins. All of it is in the URL's hash, so
 * that a copied link shows the same state to a colleague.
 *
 *   #v=timeline&t=1000-250000&s=poll:17&q=parse&p=frame:3,site:9&flame.form=inverted
 *
 * Row numbers are those of the page's tables. A hash is untrusted input: parseHash() accepts only what it
 * understands, and clean() drops rows that do not exist. */

/** The selection, which the details panel shows. Numbers are rows of the table of that name. */
export type Selection =
  | { kind: "range"; t0: number; t1: number; thread?: number }
  | { kind: "frame"; frame: number }
  | { kind: "poll"; poll: number }
  | { kind: "park"; park: number }
  | { kind: "sample"; sample: number }
  | { kind: "thread"; thread: number }
  | { kind: "task"; task: number }
  | { kind: "function"; function: number }
  | { kind: "node"; node: number }
  | { kind: "site"; site: number };

export interface State {
  /** Id of the current view. */
  readonly view: string;
  /** The time range of all time axes, ns since the start of the run; t0 < t1. */
  readonly t0: number;
  readonly t1: number;
  readonly selection: Selection | null;
  /** The text in the search box, as typed. */
  readonly search: string;
  /** Kept in the details panel beside the selection, oldest first. */
  readonly pins: readonly Selection[];
  /** Options of the views, e.g. "flame.form": "inverted". Keys: <view id>.<name>. An option with its
   * default value is absent. */
  readonly options: Readonly<Record<string, string>>;
}

/** What changed: fields of State, or "size" and "theme" (see util/view.ts). */
export type Change = keyof State | "size" | "theme";
export type Changed = ReadonlySet<Change>;
export type Listener = (changed: Changed) => void;

/** Limits of the time axis: the whole run. */
export interface Bounds {
  /** End of the run, ns since its start. */
  readonly end: number;
  /** Does the row exist? Selections and pins that fail this check are dropped. */
  has(selection: Selection): boolean;
}

/** Maximum number of pins and length of a search text, because the length of a URL is limited. */
const MOST_PINS = 12;
const MOST_SEARCH = 500;
/** Minimum width of the time range, ns. */
const SHORTEST = 100;

export class Store {
  state: State;
  private readonly listeners = new Set<Listener>();

  /** BOUNDS changes only in grow(). */
  constructor(public bounds: Bounds, private views: readonly string[], hash = "") {
    this.home = homeOf(bounds, views);
    this.state = this.clean({ ...this.home, ...parseHash(hash) });
  }

  private home: State;

  /** The run has grown: BOUNDS and VIEWS replace those so far, and FOLLOW finds a selection again. A range
   * that ended with the run ends with it again; the whole run is the whole run again. Listeners are not
   * called: the caller draws everything. */
  grow(bounds: Bounds, views: readonly string[], follow: (selection: Selection) => Selection | null): void {
    const { state, home } = this;
    const moved = state.t1 === home.t1 ? Math.max(bounds.end, SHORTEST) - home.t1 : 0;
    this.bounds = bounds;
    this.views = views;
    this.home = homeOf(bounds, views);
    this.state = this.clean({ ...state, t0: state.t0 === 0 ? 0 : state.t0 + moved, t1: state.t1 + moved,
      selection: state.selection && follow(state.selection),
      pins: state.pins.map(follow).filter((pin): pin is Selection => pin !== null) });
  }

  /** Changes the state. Listeners are called once, if anything changed. */
  set(patch: Partial<State>): void {
    const before = this.state;
    const after = this.clean({ ...before, ...patch });
    const changed = new Set<Change>();
    for (const key of Object.keys(after) as (keyof State)[]) {
      if (!same(before[key], after[key])) changed.add(key);
    }
    if (changed.size === 0) return;
    this.state = after;
    for (const listener of [...this.listeners]) listener(changed);
  }

  /** Selects (null: nothing). */
  select(selection: Selection | null): void {
    this.set({ selection });
  }

  /** Opens a view, and optionally selects something. */
  open(view: string, selection?: Selection | null): void {
    this.set(selection === undefined ? { view } : { view, selection });
  }

  /** Does the page have this view? (A run without stacks has no flame graph.) */
  offers(view: string): boolean {
    return this.views.includes(view);
  }

  /** Shows [t0, t1), limited to the run and to at least 100 ns. */
  zoom(t0: number, t1: number): void {
    this.set({ t0, t1 });
  }

  /** The option NAME ("flame.form"), or OTHERWISE. */
  option(name: string, otherwise: string): string {
    return this.state.options[name] ?? otherwise;
  }

  /** Sets an option; null resets it to its default. */
  setOption(name: string, value: string | null): void {
    const options = { ...this.state.options };
    if (value === null) delete options[name];
    else options[name] = value;
    this.set({ options });
  }

  /** Adds a pin, or removes it. */
  togglePin(selection: Selection): void {
    const text = writeSelection(selection);
    const rest = this.state.pins.filter((pin) => writeSelection(pin) !== text);
    this.set({ pins: rest.length < this.state.pins.length ? rest : [...rest, selection] });
  }

  /** Calls LISTENER at every change. Returns a function that removes it. */
  subscribe(listener: Listener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** The state as a hash ("#v=..."), without defaults. */
  hash(): string {
    return writeHash(this.state, this.home);
  }

  /** Sets the state from a hash (back button, pasted link). Missing parts get their defaults. */
  restore(hash: string): void {
    this.set({ ...this.home, ...parseHash(hash) });
  }

  private clean(state: State): State {
    const { end } = this.bounds;
    const span = Math.max(end, SHORTEST);
    let t0 = Number.isFinite(state.t0) ? state.t0 : 0;
    let t1 = Number.isFinite(state.t1) ? state.t1 : span;
    const width = Math.min(span, Math.max(SHORTEST, Math.round(t1 - t0)));
    t0 = Math.round(Math.min(Math.max(0, t0), span - width));
    t1 = t0 + width;
    const fits = (s: Selection) => this.bounds.has(s);
    const selection = state.selection && fits(state.selection) ? state.selection : null;
    const pins = state.pins.filter(fits).slice(-MOST_PINS);
    const view = this.views.includes(state.view) ? state.view : this.home.view;
    return { view, t0, t1, selection, pins, options: state.options,
      search: state.search.slice(0, MOST_SEARCH) };
  }
}

function homeOf(bounds: Bounds, views: readonly string[]): State {
  return { view: views[0] ?? "", t0: 0, t1: Math.max(bounds.end, SHORTEST), selection: null,
    search: "", pins: [], options: {} };
}

/** Equal by value; the parts of a state are small. */
function same(a: unknown, b: unknown): boolean {
  return a === b || (typeof a === "object" && JSON.stringify(a) === JSON.stringify(b));
}

/* The hash ------------------------------------------------------------------------------------- */

/** "frame:12", "range:100-200@3": a selection in the URL. */
export function writeSelection(s: Selection): string {
  switch (s.kind) {
    case "range":
      return `range:${Math.round(s.t0)}-${Math.round(s.t1)}` +
        (s.thread === undefined ? "" : `@${s.thread}`);
    case "frame": return `frame:${s.frame}`;
    case "poll": return `poll:${s.poll}`;
    case "park": return `park:${s.park}`;
    case "sample": return `sample:${s.sample}`;
    case "thread": return `thread:${s.thread}`;
    case "task": return `task:${s.task}`;
    case "function": return `function:${s.function}`;
    case "node": return `node:${s.node}`;
    case "site": return `site:${s.site}`;
  }
}

/** The inverse; null for anything else. */
export function readSelection(text: string): Selection | null {
  const range = /^range:(\d{1,16})-(\d{1,16})(?:@(\d{1,10}))?$/.exec(text);
  if (range) {
    const t0 = Number(range[1]), t1 = Number(range[2]);
    if (!(t0 < t1)) return null;
    return range[3] === undefined ? { kind: "range", t0, t1 }
      : { kind: "range", t0, t1, thread: Number(range[3]) };
  }
  const row = /^(frame|poll|park|sample|thread|task|function|node|site):(\d{1,10})$/.exec(text);
  if (!row) return null;
  const kind = row[1] as Exclude<Selection["kind"], "range">;
  return { kind, [kind]: Number(row[2]) } as unknown as Selection;
}

/** HASH without row numbers: those of a page that is live are of one reading only. */
export function withoutRows(hash: string): string {
  const parts = hash.replace(/^#/, "").split("&");
  return `#${parts.filter((part) => !/^[sp]=/.test(part)).join("&")}`;
}

function parseHash(hash: string): Partial<State> {
  const found: { -readonly [K in keyof State]?: State[K] } = {};
  const options: Record<string, string> = {};
  for (const [key, value] of new URLSearchParams(hash.replace(/^#/, ""))) {
    if (key === "v") found.view = value;
    else if (key === "t") {
      const range = /^(\d{1,16})-(\d{1,16})$/.exec(value);
      if (range && Number(range[1]) < Number(range[2])) {
        found.t0 = Number(range[1]);
        found.t1 = Number(range[2]);
      }
    } else if (key === "s") found.selection = readSelection(value);
    else if (key === "q") found.search = value;
    else if (key === "p") {
      found.pins = value.split(",").map(readSelection).filter((s): s is Selection => s !== null);
    } else if (/^[a-z]{1,20}\.[a-z]{1,20}$/.test(key) && value.length <= 200) options[key] = value;
  }
  found.options = options;
  return found;
}

function writeHash(state: State, home: State): string {
  const parts = [`v=${encodeURIComponent(state.view)}`];
  if (state.t0 !== home.t0 || state.t1 !== home.t1) parts.push(`t=${state.t0}-${state.t1}`);
  if (state.selection) parts.push(`s=${writeSelection(state.selection)}`);
  if (state.search !== "") parts.push(`q=${encodeURIComponent(state.search)}`);
  if (state.pins.length > 0) parts.push(`p=${state.pins.map(writeSelection).join(",")}`);
  for (const key of Object.keys(state.options).sort()) {
    parts.push(`${key}=${encodeURIComponent(state.options[key] ?? "")}`);
  }
  return `#${parts.join("&")}`;
}
