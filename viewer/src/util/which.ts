/* Which program and which run a view is of. */
import { h } from "./element";
import { baseName, cut, safe } from "../model/format";
import type { Meta } from "../model/page";

/** What the program is called: as its user called it, else as its executable. */
export function programName(meta: Meta): string {
  const called = meta.command.startsWith("'") ? "" : meta.command.split(/\s/, 1)[0] ?? "";
  return safe(baseName(called) || baseName(meta.program));
}

/** For views that have no picture of two runs: says which one they show. */
export function firstOnly(meta: Meta): HTMLElement[] {
  const text = `Of ${cut(safe(meta.name), 80)} alone, the first of the two runs.`;
  return meta.b === null ? [] : [h("p", { class: "first-only dim" }, text)];
}
