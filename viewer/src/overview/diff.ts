/* The overview's answers for a comparison of two runs: which functions changed most. */
import { figure, greatest, name, type Fact, type Question } from "./fact";
import { list, member, text, type Json } from "../model/figures";
import { flameOfFunction } from "../flame/link";
import { topDown } from "../model/trie";
import { WHOLE } from "../model/scope";
import { ask, DIFFS, sidesOf, type Answer, type Question as Asked } from "../model/weight";
import { amount } from "../flame/words";
import { ns, percent, safe, times } from "../model/format";
import { sumFunctions } from "../model/function_sums";
import { keysOf, trieOf } from "../model/keys";
import type { Model } from "../model/model";

const MOST = 5;

/** Timed functions of two runs, as `piano diff` classifies them. */
function spansQuestion(model: Model): Question[] {
  const rows = list((model.report()["diff"] ?? null) as Json, "functions");
  const pair = (row: Json): [number, number] => {
    const [a, b] = list(row, "self_ns");
    return [typeof a === "number" ? a : 0, typeof b === "number" ? b : 0];
  };
  const delta = (row: Json): number => Math.abs(pair(row)[1] - pair(row)[0]);
  const found = greatest(rows.length, MOST, (i) => delta(rows[i]!)).map((i) => rows[i]!);
  if (found.length === 0) return [];
  const most = delta(found[0]!);
  const byName = new Map<string, number>();
  const { functions } = model.tables;
  for (let row = functions.rows - 1; row >= 0; row--) byName.set(model.text(functions.name[row]!), row);
  return [{
    id: "diffspans", title: "Which self times changed?",
    lead: "Timed functions of both runs, largest change first" +
      (model.meta.b ? `; after is ${safe(model.meta.b.name)}.` : "."),
    facts: found.map((row): Fact => {
      const [a, b] = pair(row);
      const judged = member(row, "significant");
      const by = `${b > a ? "+" : "\u2212"}${ns(Math.abs(b - a))}`;
      const share = a > 0 ? `, ${b > a ? "+" : "\u2212"}${percent(Math.abs(b - a), a)}` : ", new";
      const fn = byName.get(text(row, "name") ?? "");
      const fact: Fact = { words: [name(safe(text(row, "name") ?? "-")), " ", figure(by), share],
        part: delta(row) / most, bad: b > a && judged === true,
        more: judged === true ? "beyond the noise" : judged === false ? "within the noise"
          : member(row, "resolved") === false ? "below timing resolution" : "noise unknown" };
      return fn === undefined ? fact
        : { ...fact, go: (store) => store.open("table", { kind: "function", function: fn }) };
    }),
  }];
}

export function diffQuestions(model: Model): Question[] {
  return [...spansQuestion(model), ...stackQuestions(model)];
}

const TITLES: Readonly<Record<string, string>> = {
  diffcpu: "Which CPU times changed?", diffalloc: "Which functions allocate more or less?", difflive: "Which functions hold more or less?",
};

/** Values before and after, by key: self time for CPU, allocations of the function itself for memory. */
function sumsOf(model: Model, question: Asked, answer: Answer): [Float64Array, Float64Array] {
  const keys = keysOf(model), trie = trieOf(model);
  if (question.unit === "ns") {
    const { self } = sumFunctions(topDown(trie, answer.channels, null), keys.count);
    return [self[1]!, self[2]!];
  }
  const { diff, nodes } = model.tables;
  const sums: [Float64Array, Float64Array] = [new Float64Array(keys.count), new Float64Array(keys.count)];
  for (const [side, values] of sidesOf(question, diff).entries()) {
    for (let row = 0; row < diff.rows; row++) {
      const key = keys.ofCode[nodes.code[diff.site_node[row]!]!]!;
      if (values[row]! > 0) sums[side]![key] = sums[side]![key]! + values[row]!;
    }
  }
  return sums;
}

function stackQuestions(model: Model): Question[] {
  if (model.tables.diff.rows === 0) return [];
  const keys = keysOf(model);
  return DIFFS.filter((question) => question.has(model.tables)).map((question) => {
    const answer = ask(question, model.tables, trieOf(model), WHOLE, "both");
    const [before, after] = sumsOf(model, question, answer);
    const delta = (key: number): number => after[key]! - before[key]!;
    const rows = greatest(keys.count, MOST, (key) => Math.abs(delta(key)));
    const most = rows.length > 0 ? Math.abs(delta(rows[0]!)) : 0;
    const all = (channel: number): number => answer.channels[channel]!.reduce((a, b) => a + b, 0);
    return {
      id: question.id, title: TITLES[question.id] ?? question.title,
      lead: `${amount(answer, all(1))} before, ${amount(answer, all(2))} after` +
        (model.meta.b ? ` (${safe(model.meta.b.name)})` : "") + "; estimated from samples.",
      facts: rows.map((key): Fact => ({
        words: [name(keys.name(key)), " ",
          figure(`${delta(key) > 0 ? "+" : "\u2212"}${amount(answer, Math.abs(delta(key)))}`),
          before[key]! <= 0 ? ", new" : after[key]! <= 0 ? ", gone" : `, ${times(after[key]! / before[key]!)}`],
        part: most > 0 ? Math.abs(delta(key)) / most : 0, bad: delta(key) > 0,
        go: (store) => flameOfFunction(store, model, keys.name(key), question.id, false),
      })),
    };
  });
}
