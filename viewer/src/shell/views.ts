/* The views, in the order of their tabs. */
import { flameView } from "../flame/flame";
import { framesView } from "../frames/frames";
import { heapView } from "../heap/heap";
import { overviewView } from "../overview/overview";
import { tableView } from "../overview/table";
import { timelineView } from "../timeline/timeline";
import type { View } from "../util/view";

export function allViews(): View[] {
  return [overviewView(), framesView(), timelineView(), flameView(), heapView(), tableView()];
}
