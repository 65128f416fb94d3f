/* The time axis that all time-based views share: conversion of time to pixels, and ticks at round times. */
import type { Surface } from "./canvas";
import { moment } from "../model/format";
import { palette } from "./palette";

/** Maps [t0, t1) to the pixels [x, x + width). */
export class TimeScale {
  /** ns per pixel. */
  readonly step: number;

  constructor(readonly t0: number, readonly t1: number, readonly x: number, readonly width: number) {
    this.step = (t1 - t0) / Math.max(width, 1);
  }

  toX(time: number): number {
    return this.x + (time - this.t0) / this.step;
  }

  toTime(x: number): number {
    return this.t0 + (x - this.x) * this.step;
  }

  get right(): number {
    return this.x + this.width;
  }
}

/** A round step (1, 2 or 5 times a power of ten) of which at most MOST fit into SPAN. */
export function roundStep(span: number, most: number): number {
  const least = span / Math.max(most, 1);
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1e-300)));
  for (const factor of [1, 2, 5, 10]) if (power * factor >= least) return power * factor;
  return power * 10;
}

/** A round number of bytes, at least LEAST: 1, 2, 4... times a power of 1024. */
export function roundBytes(least: number): number {
  let step = 1;
  while (step < least) step *= 2;
  return step;
}

/** Ticks of SCALE, about one per GAP pixels: [time, label]. */
export function ticks(scale: TimeScale, gap: number): [number, string][] {
  const step = Math.max(1, roundStep(scale.t1 - scale.t0, scale.width / gap));
  const found: [number, string][] = [];
  for (let t = Math.ceil(scale.t0 / step) * step; t < scale.t1 && found.length < 200; t += step) {
    found.push([t, moment(t, step)]);
  }
  return found;
}

/** Draws labels along the top of [y, y + height), and faint lines down to BOTTOM. */
export function drawAxis(surface: Surface, scale: TimeScale, y: number, height: number, bottom: number): void {
  const { ctx } = surface;
  const colours = palette();
  surface.setFont(colours.fontSmall);
  const gap = Math.max(90, surface.measure("000.000000s") * 1.5);
  for (const [time, label] of ticks(scale, gap)) {
    const x = Math.round(scale.toX(time)) + 0.5;
    ctx.fillStyle = colours.line;
    ctx.fillRect(x - 0.5, y, 1, bottom - y);
    if (x + 4 + surface.measure(label) < scale.right) {
      surface.text(label, x + 4, y + height / 2, 200, colours.textDim);
    }
  }
}
