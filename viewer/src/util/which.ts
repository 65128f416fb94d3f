/* Names the program and the run of a view. */
import { h } from "./element";
import { baseName, cut, safe } from "../model/format";
import type { Meta } from "../model/page";

/** The name of the program: as in the command line, otherwise of its executable. */
export function programName(meta: Meta): string {
  const called = meta.command.startsWith("'") ? "" : meta.command.split(/\s/, 1)[0] ?? "";
  return safe(baseName(called) || baseName(meta.program));
}

/** For views that cannot compare two runs: a line that says which run they show. */
export function firstOnly(meta: Meta): HTMLElement[] {
  const text = `Shows only ${cut(safe(meta.name), 80)}, the first of the two runs.`;
  return meta.b === null ? [] : [h("p", { class: "first-only dim" }, text)];
}
