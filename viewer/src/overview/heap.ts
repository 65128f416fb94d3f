/* The overview's answers about memory: who holds it, who churns it, what may leak. */
import { figure, name, type Fact, type Question } from "./fact";
import { dig, halfWidth, number, type Json } from "../model/figures";
import { baseName, bytes, count, ns, percent, shortName } from "../model/format";
import { leadersOf, type Place } from "../model/heap_places";
import { trendsOf } from "../model/heap_series";
import { tablesOf } from "../heap/tables";
import type { Model } from "../model/model";

const MOST = 4;
const LONG_RUN = 10e9; // ns
const MANY = 100; // objects

function placeFact(model: Model, place: Place, table: string, value: number, most: number, rest: string, half: number | null,
  bad = false): Fact {
  const site = leadersOf(model, place, table)[0];
  return {
    words: [name(place.name), " ", figure(bytes(value)), half ? ` ±${bytes(half)}` : "", rest],
    more: [baseName(place.where), place.caller === "" ? "" : `called by ${shortName(place.caller)}`]
      .filter((t) => t !== "").join(", "),
    part: most > 0 ? value / most : 0, bad,
    go: (store) => store.set({ view: "heap", options: { ...store.state.options, "heap.table": table },
      ...(site === undefined ? {} : { selection: { kind: "site", site } }) }),
  };
}

export function heapQuestions(model: Model): Question[] {
  if (model.tables.sites.rows === 0) return [];
  const report = (model.report()["heap"] ?? null) as Json;
  const value = (key: string): string => bytes(number(report, key) ?? NaN);
  const half = halfWidth(report, "live_bytes_ci95");
  const sampled = number(dig(report, "run"), "rate") === 1 ? "every allocation recorded"
    : `estimated from ${count(number(report, "samples") ?? NaN)} samples`;
  // If most memory was freed, live places say little about what the program needs: show the peak too.
  const passed = (number(report, "live_bytes") ?? 0) < (number(report, "peak_bytes") ?? 0) / 2;
  const found: Question[] = [];
  for (const table of tablesOf(model)) {
    const rows = table.rows().slice(0, MOST);
    if (table.id === "live") {
      found.push({ id: "live", title: "Who holds memory?",
        lead: `${value("live_bytes")}${half ? ` ±${bytes(half)}` : ""} live at the end, ` +
          `${value("peak_bytes")} at the peak; ${sampled}.`,
        facts: rows.map((p) => placeFact(model, p, "live", p.live, rows[0]!.live, "", p.liveHalf)) });
    } else if (table.id === "peak" && passed) {
      found.push({ id: "peak", title: "Who held memory at the peak?",
        lead: `${value("peak_bytes")} after ${ns(number(report, "peak_at_ns") ?? -1)}; ${value("live_bytes")} left ` +
          `at the end; ${sampled}.`,
        facts: rows.map((p) => placeFact(model, p, "peak", p.peak, rows[0]!.peak, "", p.peakHalf)) });
    } else if (table.id === "churn") {
      found.push({ id: "churn", title: "Who churns memory?",
        lead: `${value("allocated_bytes")} allocated in total. Freed again within a millisecond:`,
        facts: rows.map((p) => placeFact(model, p, "churn", p.churn, rows[0]!.churn,
          `, ${percent(p.churn, p.allocated)} of what it allocated`, null)) });
    } else if (table.id === "leaks") found.push(leaks(model, rows));
  }
  return found;
}

/** The criteria of docs/heap.md, and not only growth: many objects, old, rarely freed; and a run that is
 * long enough to rule out that the program was still initialising. */
function isLikely(model: Model, place: Place): boolean {
  return model.end >= LONG_RUN && place.objects >= MANY && model.end - place.oldest > model.end / 2 &&
    place.freed < place.allocated / 10;
}

function leaks(model: Model, rows: readonly Place[]): Question {
  const trends = trendsOf(model);
  const most = rows.reduce((sum, place) => Math.max(sum, place.live), 0);
  return {
    id: "leaks", title: "What may leak?",
    lead: "Still live, and growing during the run or old and rarely freed. A sign, not a proof.",
    facts: rows.map((place) => {
      const trend = trends.get(place);
      const grows = trend?.word === "grows";
      const rest = grows ? `, grows by ${bytes(trend!.rate)} per second`
        : place.oldest < Infinity ? `, oldest ${ns(model.end - place.oldest)} old` : "";
      const fact = placeFact(model, place, "leaks", place.live, most, rest, place.liveHalf, grows);
      return isLikely(model, place) ? fact : { ...fact, headline: "Grows" };
    }),
  };
}
