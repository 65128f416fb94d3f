/* Describes a box of a flame graph as text: for the tooltip, for screen readers, and for the line below the
 * graph. */
import { changeOf, typicalLife, type Answer } from "../model/weight";
import type { Layout } from "./layout";
import { brief, bytes, count, ns, percent, times } from "../model/format";
import type { Keys } from "../model/keys";
import type { TipLine } from "../util/tooltip";

export type Form = "top" | "inverted" | "left";

/** A weight in its unit. */
export function amount(answer: Answer, value: number): string {
  return answer.question.unit === "ns" ? ns(value) : bytes(value);
}

/** "+1.2MB (2.10×)", "gone", "new", "no change". */
export function changeText(answer: Answer, before: number, after: number): string {
  if (before <= 0 && after <= 0) return "-";
  if (before <= 0) return `new, ${amount(answer, after)}`;
  if (after <= 0) return `gone, ${amount(answer, before)} before`;
  const delta = after - before;
  const sign = delta > 0 ? "+" : "\u2212";
  return delta === 0 ? "no change" : `${sign}${amount(answer, Math.abs(delta))} (${times(after / before)})`;
}

/** The text after the name in a box. */
export function boxFigure(answer: Answer, layout: Layout, node: number): string {
  const { total } = layout.tree;
  if (answer.question.colour !== "change") return percent(total[0]![node]!, total[0]![0]!);
  const before = total[1]![node]!, after = total[2]![node]!;
  if (before <= 0) return "new";
  if (after <= 0) return "gone";
  const by = Math.round((after / before - 1) * 100);
  if (Math.abs(changeOf(before, after)) === 1) return times(after / before);
  return by === 0 ? "same" : `${by > 0 ? "+" : "\u2212"}${Math.abs(by)}%`;
}

export function boxLines(answer: Answer, layout: Layout, keys: Keys, form: Form, node: number): TipLine[] {
  const { tree } = layout;
  const { question } = answer;
  const key = tree.key[node]!;
  const whole = tree.total[0]![0]!;
  const lines: TipLine[] = [node === 0 ? "All" : keys.name(key)];
  const place = keys.place(key), module = keys.moduleName(key);
  if (place !== "") lines.push(["at", place]);
  if (module !== "") lines.push(["in", module]);
  const total = tree.total[0]![node]!, self = tree.self[0]![node]!;
  const share = (value: number): string => `${amount(answer, value)}, ${percent(value, whole)}`;
  if (question.colour === "change") {
    const before = tree.total[1]![node]!, after = tree.total[2]![node]!;
    lines.push(["before", amount(answer, before)], ["after", amount(answer, after)],
      ["change", changeText(answer, before, after)]);
  } else if (form === "inverted") {
    lines.push([layout.depth[node]! > 1 ? "called via this path" : "self", share(total)]);
  } else lines.push(["total", share(total)], ["self", share(self)]);
  if (question.colour === "life") {
    const life = typicalLife(tree.total, node);
    lines.push(["typical lifetime", life < 0 ? "-" : ns(life)]);
  } else if (question.counts !== "" && question.colour !== "change") {
    const many = tree.total[1]![node]!;
    lines.push([question.counts, many >= 1e6 ? brief(Math.round(many)) : count(many)]);
  }
  const parent = tree.parent[node]!;
  if (node !== 0 && parent !== 0) {
    lines.push([form === "inverted" ? "share of the box above" : "share of its caller",
      percent(total, tree.total[0]![parent]!)]);
  }
  if (tree.cut?.[node]) lines.push(["callers", "zoom in to see them"]);
  return lines;
}

/** The sentence below the graph: what it shows, and from how many samples. */
export function aboutText(answer: Answer): string {
  const { question, rests } = answer;
  const many = rests < 0 ? "" : `${count(rests)} `;
  return `${question.about}${question.estimated ? `, estimated from ${many}samples` : `, ${many}times`}.`;
}
