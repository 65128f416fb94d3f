/* A canvas with the resolution of the screen and the size of its element. It caches text widths and knows
 * which rectangles were drawn where. All coordinates are CSS pixels.
 *
 *   const surface = new Surface(el, "Timeline");     a <canvas> filling EL
 *   surface.fit()                                     true if the size changed; call before drawing
 *   surface.ctx, surface.width, surface.height        scaled: 1 unit is 1 CSS pixel
 *   surface.text("name", x, y, most)                  draws it cut in the middle to MOST pixels
 *   surface.hits.clear(); hits.add(x, y, w, h, what); hits.at(x, y) */
import { cut } from "../model/format";

/** The rectangles that were drawn, newest on top. For thousands of them, not millions: large views compute
 * hits. */
export class Hits<T> {
  private readonly rects: { x: number; y: number; w: number; h: number; what: T }[] = [];

  clear(): void {
    this.rects.length = 0;
  }

  add(x: number, y: number, w: number, h: number, what: T): void {
    this.rects.push({ x, y, w, h, what });
  }

  at(x: number, y: number): T | null {
    for (let i = this.rects.length - 1; i >= 0; i--) {
      const rect = this.rects[i];
      if (rect && x >= rect.x && x < rect.x + rect.w && y >= rect.y && y < rect.y + rect.h) return rect.what;
    }
    return null;
  }

  all(): readonly { x: number; y: number; w: number; h: number; what: T }[] {
    return this.rects;
  }
}

const MOST_MEASURED = 20000;
/** Longer names are cut before they are measured. */
const MOST_LETTERS = 400;

export class Surface<T = unknown> {
  readonly canvas: HTMLCanvasElement;
  readonly ctx: CanvasRenderingContext2D;
  readonly hits = new Hits<T>();
  width = 0;
  height = 0;
  /** Device pixels per CSS pixel. */
  ratio = 1;
  private widths = new Map<string, number>();
  private font = "";

  /** LABEL is the name for screen readers; the canvas can take the focus (tabindex 0). Without LABEL it is
   * a transparent overlay and gets no events. */
  constructor(readonly parent: HTMLElement, label: string | null) {
    this.canvas = document.createElement("canvas");
    if (label === null) {
      this.canvas.className = "overlay";
      this.canvas.setAttribute("aria-hidden", "true");
    } else {
      this.canvas.tabIndex = 0;
      this.canvas.setAttribute("role", "img");
      this.canvas.setAttribute("aria-label", label);
    }
    parent.append(this.canvas);
    const ctx = this.canvas.getContext("2d", { alpha: label === null });
    if (!ctx) throw new Error("This browser has no 2D canvas.");
    this.ctx = ctx;
  }

  /** Takes the size of the parent (or WIDTH, HEIGHT). True if it changed, so that everything must be
   * redrawn. */
  fit(width = this.parent.clientWidth, height = this.parent.clientHeight): boolean {
    const ratio = Math.min(window.devicePixelRatio || 1, 4);
    if (width === this.width && height === this.height && ratio === this.ratio) return false;
    this.width = width;
    this.height = height;
    this.ratio = ratio;
    this.canvas.width = Math.max(1, Math.round(width * ratio));
    this.canvas.height = Math.max(1, Math.round(height * ratio));
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.reset();
    return true;
  }

  /** Resets the transform and the clip, and sets the font if one is given. */
  reset(font = this.font): void {
    this.ctx.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    this.ctx.textBaseline = "middle";
    this.setFont(font);
  }

  setFont(font: string): void {
    if (font === "") return;
    if (font !== this.font) this.widths.clear();
    this.font = font;
    this.ctx.font = font;
  }

  /** Width of TEXT in the current font. */
  measure(text: string): number {
    let width = this.widths.get(text);
    if (width === undefined) {
      if (this.widths.size > MOST_MEASURED) this.widths.clear();
      width = this.ctx.measureText(text).width;
      this.widths.set(text, width);
    }
    return width;
  }

  /** TEXT cut in the middle so that it is at most MOST wide; "" if fewer than three letters fit. */
  fitted(text: string, most: number): string {
    const start = cut(text, MOST_LETTERS);
    const width = this.measure(start);
    if (width <= most) return start;
    let letters = Math.floor((start.length * most) / width);
    for (; letters >= 3; letters--) {
      const shorter = cut(start, letters);
      if (this.measure(shorter) <= most) return shorter;
    }
    return "";
  }

  /** Draws fitted TEXT with its middle at Y; returns its width. */
  text(text: string, x: number, y: number, most: number, colour?: string): number {
    const shown = this.fitted(text, most);
    if (shown === "") return 0;
    if (colour !== undefined) this.ctx.fillStyle = colour;
    this.ctx.fillText(shown, x, y);
    return this.measure(shown);
  }

  /** The position of a pointer event, in CSS pixels of the canvas. */
  point(event: MouseEvent): { x: number; y: number } {
    const box = this.canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }
}
