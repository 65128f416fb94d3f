/* The views, in the order of their tabs. */
import { flameView } from "./flame";
import { framesView } from "./frames";
import { heapView } from "./heap";
import { overviewView } from "./overview";
import { tableView } from "./table";
import { timelineView } from "./timeline";
import type { View } from "./view";

export function allViews(): View[] {
  return [overviewView(), framesView(), timelineView(), flameView(), heapView(), tableView()];
}
