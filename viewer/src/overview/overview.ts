/* The overview: answers to the questions with which users open a profile, as text. The most likely problems
 * are at the top, in large figures. Every answer is a button that opens the view that shows it. */
import { diffQuestions } from "./diff";
import { h } from "../util/element";
import { plain, type Fact, type Question, type Word } from "./fact";
import { dig, list, number, text, type Json } from "../model/figures";
import { count, cut, ns, safe } from "../model/format";
import type { Model } from "../model/model";
import { heapQuestions } from "./heap";
import { blockedQuestion, framesQuestion, functionQuestions, pollsQuestion } from "./time";
import type { Changed, Store } from "../model/state";
import type { View } from "../util/view";

export function overviewView(): View {
  return new Overview();
}

/** Questions whose first answer is a headline, in this order. */
const HEADLINES: readonly (readonly [id: string, title: string])[] = [
  ["diffspans", "Largest change"], ["diffcpu", "Largest change on the CPU"], ["diffalloc", "Largest change of memory"],
  ["frames", "Worst frame"], ["polls", "Longest poll"], ["leaks", "Likely leak"],
  ["live", "Biggest holder"], ["peak", "Biggest at the peak"], ["cpu", "Hottest function"], ["spans", "Most self time"],
  ["churn", "Most churn"],
];
const MOST_HEADLINES = 4;

class Overview implements View {
  readonly id = "overview";
  readonly title = "Overview";
  readonly help = [["Tab, Enter", "go to an answer and open its view"]] as const;
  private store!: Store;

  available(): boolean {
    return true;
  }

  mount(el: HTMLElement, model: Model, store: Store): void {
    this.store = store;
    const memory = heapQuestions(model);
    const questions = [flagsQuestion(model, memory), ...diffQuestions(model), framesQuestion(model),
      pollsQuestion(model), ...functionQuestions(model), blockedQuestion(model), ...memory, missingQuestion(model)]
      .filter((q): q is Question => q !== null && (q.facts.length > 0 || q.none !== undefined));
    if (!questions.some((q) => q.facts.length > 0 && q.id !== "missing")) questions.unshift(emptyQuestion(model));
    const page = h("div", { class: "overview", tabindex: "-1" }, this.about(model), this.headlines(questions),
      h("div", { class: "questions" }, ...questions.map((question) => this.question(question))));
    el.append(page);
  }

  update(changed: Changed): void {
    void changed; // the text does not depend on the state
  }

  private about(model: Model): HTMLElement {
    const { meta } = model;
    const kinds: Readonly<Record<string, string>> =
      { spans: "timed functions", heap: "sampled allocations", cpu: "CPU samples", events: "polls and waits" };
    const has = meta.kinds.map((kind) => kinds[kind] ?? safe(kind)).join(", ");
    const started = meta.started_ms > 0 ? new Date(meta.started_ms).toLocaleString() : "";
    const facts = [started, meta.pid > 0 ? `pid ${meta.pid}` : "", has].filter((fact) => fact !== "");
    return h("p", { class: "overview-about" },
      h("span", { class: "mono" }, cut(safe(meta.command || meta.program), 200)),
      h("span", { class: "dim" }, facts.join(" · ")));
  }

  private headlines(questions: readonly Question[]): HTMLElement {
    const out = h("div", { class: "headlines" });
    for (const [id, title] of HEADLINES) {
      const fact = questions.find((q) => q.id === id)?.facts[0];
      if (!fact || out.childElementCount >= MOST_HEADLINES) continue;
      if (id === "leaks" && !fact.bad) continue;
      if ((id === "live" || id === "peak") && out.querySelector("[data-id=leaks], [data-id=live]")) continue;
      out.append(this.headline(id, fact.headline ?? title, fact));
    }
    return out;
  }

  private headline(id: string, title: string, fact: Fact): HTMLElement {
    const big = fact.words.find((word): word is { figure: string } => typeof word !== "string" && "figure" in word);
    const card = h("button", { type: "button", class: fact.bad ? "headline bad" : "headline", "data-id": id,
      "aria-label": `${title}: ${plain(fact.words)}`, onclick: () => fact.go?.(this.store) },
      h("span", { class: "headline-title" }, title), h("span", { class: "headline-figure" }, big?.figure ?? "-"),
      h("span", { class: "headline-words" }, ...wordNodes(without(fact.words, big))));
    return card;
  }

  private question(question: Question): HTMLElement {
    const title = h("h2", {}, question.title);
    const body = question.facts.length === 0 ? h("p", { class: "dim" }, question.none ?? "")
      : h("ol", { class: "answers" }, ...question.facts.map((fact) => h("li", {}, this.fact(fact))));
    return h("section", { class: `question question-${question.id}` }, title,
      question.lead !== "" && h("p", { class: "dim" }, question.lead), body);
  }

  private fact(fact: Fact): HTMLElement {
    const inside = [h("span", { class: "answer-words" }, ...wordNodes(fact.words)),
      fact.more ? h("span", { class: "answer-more dim" }, cut(fact.more, 140)) : null];
    const made = fact.go
      ? h("button", { type: "button", class: "answer", onclick: () => fact.go?.(this.store) }, ...inside)
      : h("div", { class: "answer still" }, ...inside);
    if (fact.bad) made.classList.add("bad");
    if (fact.part !== undefined) made.style.setProperty("--part", `${(100 * Math.min(fact.part, 1)).toFixed(1)}%`);
    return made;
  }
}

/** The words without the figure, which is shown above them. */
function without(words: readonly Word[], big: Word | undefined): Word[] {
  return words.filter((word, i) => word !== big && !(word === " " && words[i + 1] === big));
}

function wordNodes(words: readonly Word[]): (Node | string)[] {
  return words.map((word) => typeof word === "string" ? word
    : "name" in word ? h("span", { class: "name" }, word.name) : h("b", {}, word.figure));
}

/* ---- red flags ---- */

/** The link of a red flag of the polls report. */
function flagGo(model: Model, flag: Json): Fact["go"] {
  const subject = text(flag, "subject");
  const { tasks } = model.tables;
  for (let row = 0; subject !== null && row < tasks.rows; row++) {
    if (model.text(tasks.name[row]!) === subject) return (store) => store.open("timeline", { kind: "task", task: row });
  }
  return text(flag, "kind") === "long-polls" ? pollsQuestion(model)?.facts[0]?.go : (store) => store.open("timeline");
}

/** Frames that took more than twice their median are a red flag too. */
function spikeFlag(model: Model): Fact[] {
  const frames = framesQuestion(model);
  const summary = dig((model.report()["functions"] ?? null) as Json, "frames");
  const spikes = number(summary, "spikes") ?? 0;
  if (!frames || spikes === 0) return [];
  const all = count(number(summary, "count") ?? NaN);
  const words = [`${count(spikes)} of ${all} frames took more than twice the median; ` +
    `the worst ${ns(number(summary, "max_ns") ?? -1)}`];
  return [{ words, bad: true, go: frames.facts[0]?.go }];
}

function flagsQuestion(model: Model, memory: readonly Question[]): Question | null {
  const report = model.report();
  const facts: Fact[] = [];
  for (const flag of list((report["polls"] ?? null) as Json, "flags")) {
    const words = text(flag, "text");
    if (words !== null) facts.push({ words: [cut(safe(words), 300)], bad: true, go: flagGo(model, flag) });
  }
  facts.push(...spikeFlag(model));
  const leaks = memory.find((question) => question.id === "leaks")?.facts.filter((fact) => fact.bad) ?? [];
  for (const leak of leaks.slice(0, 3)) facts.push({ words: leak.words, bad: true, go: leak.go });
  return { id: "flags", title: "Red flags", lead: "", facts,
    none: "None: no value exceeded a threshold." };
}

/* ---- missing data ---- */

/** For a page without data: explains possible reasons. */
function emptyQuestion(model: Model): Question {
  const hints: Readonly<Record<string, string>> = {
    spans: "None of the functions chosen for piano build was called.",
    heap: "No allocation was sampled: --heap=1 records every one.",
    cpu: "No CPU sample was taken: --cpu=4000 takes them more often.",
    events: "No poll and no wait was recorded.",
  };
  const ran = model.meta.duration_ns > 0 ? `The program ran for ${ns(model.meta.duration_ns)}. ` : "";
  return { id: "empty", title: "There is nothing to show", lead: `${ran}Nothing was recorded:`,
    facts: model.meta.kinds.map((kind) => ({ words: [hints[kind] ?? safe(kind)] })), none: "" };
}

function missingQuestion(model: Model): Question {
  const { notices, dropped } = model.meta;
  const facts: Fact[] = notices.map((words) => ({ words: [cut(safe(words), 400)] }));
  for (const [cause, number] of Object.entries(dropped)) {
    facts.push({ words: [{ figure: count(number) }, " dropped: ", cut(safe(cause), 200)], bad: true });
  }
  return { id: "missing", title: "What is missing?", lead: "", facts, none: "Nothing was dropped." };
}
