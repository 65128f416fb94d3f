/* Mouse and keys of a time axis, the same in every view that has one: the wheel zooms at the cursor,
 * dragging pans, Shift and dragging selects a range; W A S D and the arrow keys do the same. */
import type { TimeScale } from "./axis";
import type { Surface } from "./canvas";
import type { Store } from "../model/state";

export interface TimeInputUser {
  /** The current scale. */
  scale(): TimeScale;
  /** The pointer is at X, Y (CSS pixels of the canvas) with no button pressed. */
  hover(x: number, y: number, event: MouseEvent): void;
  leave(): void;
  click(x: number, y: number, event: MouseEvent): void;
  /** The pointer was dragged down by DY pixels. */
  scroll?(dy: number): void;
  /** The range that is being dragged, before it becomes a selection; null: the drag ended. */
  dragging?(range: { t0: number; t1: number } | null): void;
  /** The thread of a range that starts at Y, if any. */
  threadAt?(y: number): number | undefined;
}

/** Lines of the help box for views that use this class. */
export const TIME_HELP: readonly (readonly [string, string])[] = [
  ["wheel, W, S", "zoom in and out at the cursor"],
  ["drag, A, D, ← →", "pan"],
  ["Shift + drag; R", "select a range of time; R: the visible range"],
  ["double click, Z", "zoom to the selection"],
  ["0", "show the whole run"],
];

const CLICK_SLACK = 4;
const WHEEL_STEP = 0.0018;
const KEY_ZOOM = 1.4;
const KEY_PAN = 0.1;

interface Drag {
  readonly x: number;
  readonly y: number;
  readonly t0: number;
  readonly t1: number;
  readonly selects: boolean;
  lastY: number;
  moved: boolean;
}

export class TimeInput {
  private drag: Drag | null = null;
  private cursor: number | null = null;

  constructor(private readonly surface: Surface, private readonly store: Store,
    private readonly user: TimeInputUser) {
    const { canvas } = surface;
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", (event) => this.up(event));
    canvas.addEventListener("pointercancel", () => this.end());
    canvas.addEventListener("pointerleave", () => {
      this.cursor = null;
      if (!this.drag) user.leave();
    });
  }

  /** W A S D, arrows left and right, 0 and Z. True if the key was one of them. */
  key(event: KeyboardEvent): boolean {
    const { t0, t1 } = this.store.state;
    const pan = (t1 - t0) * KEY_PAN;
    switch (event.key.length === 1 ? event.key.toLowerCase() : event.key) {
      case "w": case "+": case "=": this.zoomAt(this.cursor, 1 / KEY_ZOOM); return true;
      case "s": case "-": this.zoomAt(this.cursor, KEY_ZOOM); return true;
      case "a": case "ArrowLeft": this.store.zoom(t0 - pan, t1 - pan); return true;
      case "d": case "ArrowRight": this.store.zoom(t0 + pan, t1 + pan); return true;
      case "r": this.store.select({ kind: "range", t0: Math.round(t0), t1: Math.round(Math.min(t1, this.store.bounds.end)) }); return true;
      case "0": case "Home": this.store.zoom(0, this.store.bounds.end); return true;
      default: return false;
    }
  }

  private zoomAt(x: number | null, factor: number): void {
    const scale = this.user.scale();
    const { t0, t1 } = this.store.state;
    const fixed = x === null ? (t0 + t1) / 2 : scale.toTime(Math.min(Math.max(x, scale.x), scale.right));
    const width = (t1 - t0) * factor;
    const left = fixed - ((fixed - t0) / (t1 - t0)) * width;
    this.store.zoom(left, left + width);
  }

  private wheel(event: WheelEvent): void {
    const { x } = this.surface.point(event);
    const scale = this.user.scale();
    if (x < scale.x && !event.ctrlKey) return; // over the names, the wheel scrolls the lanes
    event.preventDefault();
    const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      const { t0, t1 } = this.store.state;
      const shift = event.deltaX * unit * scale.step;
      this.store.zoom(t0 + shift, t1 + shift);
    } else if (event.shiftKey && this.user.scroll) this.user.scroll(-event.deltaY * unit);
    else this.zoomAt(x, Math.exp(Math.max(-600, Math.min(600, event.deltaY * unit)) * WHEEL_STEP));
  }

  private down(event: PointerEvent): void {
    if (event.button !== 0) return;
    const { x, y } = this.surface.point(event);
    const { t0, t1 } = this.store.state;
    this.drag = { x, y, t0, t1, selects: event.shiftKey, lastY: y, moved: false };
    try {
      this.surface.canvas.setPointerCapture(event.pointerId);
    } catch {
      // Pointers created by scripts cannot be captured; dragging then works inside the canvas only.
    }
  }

  private move(event: PointerEvent): void {
    const { x, y } = this.surface.point(event);
    this.cursor = x;
    const { drag } = this;
    if (!drag) return this.user.hover(x, y, event);
    if (!drag.moved && Math.hypot(x - drag.x, y - drag.y) < CLICK_SLACK) return;
    if (!drag.moved) {
      drag.moved = true;
      this.user.leave();
    }
    const scale = this.user.scale();
    if (drag.selects) this.user.dragging?.(this.range(drag, x));
    else {
      const shift = (drag.x - x) * scale.step;
      this.store.zoom(drag.t0 + shift, drag.t1 + shift);
      this.user.scroll?.(y - drag.lastY);
      drag.lastY = y;
    }
  }

  private up(event: PointerEvent): void {
    const { drag } = this;
    const { x, y } = this.surface.point(event);
    this.end();
    if (!drag) return;
    if (!drag.moved) this.user.click(x, y, event);
    else if (drag.selects) {
      const { t0, t1 } = this.range(drag, x);
      const thread = this.user.threadAt?.(drag.y);
      if (t0 < t1) {
        this.store.select(thread === undefined ? { kind: "range", t0, t1 } : { kind: "range", t0, t1, thread });
      }
    }
  }

  private end(): void {
    this.drag = null;
    this.user.dragging?.(null);
  }

  private range(drag: Drag, x: number): { t0: number; t1: number } {
    const scale = this.user.scale();
    const clamp = (at: number): number =>
      Math.round(scale.toTime(Math.min(Math.max(at, scale.x), scale.right)));
    const a = clamp(drag.x), b = clamp(x);
    return { t0: Math.max(0, Math.min(a, b)), t1: Math.min(this.store.bounds.end, Math.max(a, b)) };
  }
}
