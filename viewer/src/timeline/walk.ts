/* Keyboard navigation of the timeline: from item to item in a lane, and from lane to lane. */
import type { Lanes, Strip } from "./lanes";
import type { Model } from "../model/model";
import type { Selection, State } from "../model/state";
import { holds, selectionIn } from "./hit";

export const WALK_HELP: readonly (readonly [string, string])[] = [
  [", .", "previous and next item in the lane"],
  ["J, K", "lane below and above"],
];

export type Step = "before" | "after" | "down" | "up";

/** The step for a key. */
export function stepOf(key: string): Step | null {
  switch (key) {
    case ",": return "before";
    case ".": return "after";
    case "j": case "J": return "down";
    case "k": case "K": return "up";
    default: return null;
  }
}

/** The result of a step from the selection (or from the middle of the range, in lane FIRST); null: nothing
 * in that direction. */
export function walk(model: Model, lanes: Lanes, state: State, first: number, step: Step): Selection | null {
  const here = model.rangeOf(state.selection);
  const inLane = here?.thread !== undefined && state.selection?.kind !== "range" && state.selection?.kind !== "thread";
  if (!here || here.thread === undefined || !inLane) return nearest(lanes, first, (state.t0 + state.t1) / 2, 1);
  const lane = lanes.laneOfThread(here.thread);
  if (step === "down" || step === "up") return nearest(lanes, lane + (step === "down" ? 1 : -1), here.t0, step === "down" ? 1 : -1);
  const { selection } = state;
  const strip = lanes.stripsOf(here.thread).find((one) => selection && holds(model, one, selection, here.t0));
  if (!strip) return null;
  // Items can have equal starts or no length, so look for the exact row nearby.
  let index = strip.intervals.firstEndingAfter(here.t0 - 1);
  while (index < strip.intervals.count && (strip.intervals.start[index] as number) < here.t0) index++;
  const row = selectionRow(selection);
  while (index < strip.intervals.count && strip.intervals.row(index) !== row) index++;
  return pick(strip, index + (step === "after" ? 1 : -1));
}

/** The item nearest to TIME in the first lane that has any, from LANE on in DIRECTION. */
function nearest(lanes: Lanes, lane: number, time: number, direction: 1 | -1): Selection | null {
  for (; lane >= 0 && lane < lanes.lanes.length; lane += direction) {
    const own = lanes.lanes[lane];
    if (own?.kind !== "thread") continue;
    const strips = lanes.stripsOf(own.thread);
    const strip = strips.find((one) => one.kind === "poll" || one.kind === "frame") ?? strips[0];
    const found = strip ? strip.intervals.at(time, Infinity) : -1;
    if (strip && found >= 0) return pick(strip, found);
  }
  return null;
}

function pick(strip: Strip, index: number): Selection | null {
  return index >= 0 && index < strip.intervals.count ? selectionIn(strip, strip.intervals.row(index)) : null;
}

function selectionRow(selection: Selection | null): number {
  switch (selection?.kind) {
    case "frame": return selection.frame;
    case "poll": return selection.poll;
    case "park": return selection.park;
    case "sample": return selection.sample;
    default: return -1;
  }
}
