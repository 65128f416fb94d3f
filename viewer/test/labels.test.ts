/* Names are cut to the width of a box without measuring every length with the browser. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Labels } from "../src/flame/labels";
import { cut } from "../src/model/format";

/** A font whose letters have different widths, and a counter of measurements. */
function made(names: readonly string[]): { labels: Labels; wide: (text: string) => number; asked: () => number } {
  let asked = 0;
  const wide = (text: string): number => [...text].reduce((sum, c) => sum + (c === "i" ? 3 : c === "…" ? 10 : c === "🎹" ? 14 : 7), 0);
  const labels = new Labels((text) => {
    asked++;
    return wide(text);
  }, (key) => names[key]!);
  labels.setFont("12px test");
  return { labels, wide, asked: () => asked };
}

test("a name is complete if it fits, otherwise cut to the available width", () => {
  const names = ["update", "initialise_physics_simulation", "🎹".repeat(12), ""];
  const { labels, wide } = made(names);
  for (const [key, name] of names.entries()) {
    assert.ok(Math.abs(labels.width(key) - wide(name)) < 0.01);
    for (let room = 0; room < 260; room += 3) {
      const shown = labels.fit(key, room);
      assert.ok(wide(shown) <= room + 0.01, `${shown} in ${room}`);
      if (wide(name) <= room) assert.equal(shown, name);
      else if (shown !== "") assert.ok([0, 1, 2].some((half) => shown === cut(name, shown.length + half)), shown);
    }
  }
  assert.equal(labels.fit(1, 24), "ini…");
});

test("zooming measures each letter once, and no names", () => {
  const { labels, asked } = made(["std::vector<int>::push_back", "std::map<int>::insert"]);
  for (let room = 20; room < 200; room++) for (const key of [0, 1]) labels.fit(key, room);
  const letters = new Set("std::vector<int>::push_backstd::map<int>::insert…").size;
  assert.equal(asked(), letters);
  labels.setFont("24px test");
  labels.fit(0, 100);
  assert.ok(asked() > letters, "another font has other widths");
});
