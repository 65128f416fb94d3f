import assert from "node:assert/strict";
import { test } from "node:test";
import { Buckets } from "../src/model/buckets";
import { Intervals } from "../src/model/intervals";
import { random } from "./synthetic";

test("buckets have the same cover and the same longest intervals as the intervals themselves", () => {
  const next = random(21);
  const count = 50000, start = new Float64Array(count), length = new Float64Array(count);
  let time = 0;
  for (let i = 0; i < count; i++) {
    start[i] = time += Math.floor(next() * 100);
    length[i] = next() < 0.001 ? 40000 : Math.floor(next() * 60);
    time += length[i] as number;
  }
  const near = new Intervals(start, length), end = time + 5000;
  const far = new Buckets(near, end);
  for (const columns of [64, 333, 1000, 4000]) {
    const step = end / columns;
    assert.ok(step >= far.finest);
    const exact = new Float64Array(columns), shown = new Float64Array(columns), best = new Float64Array(columns).fill(-1);
    near.columns(0, step, columns, (run) => exact.fill(run.cover, run.x0, run.x1));
    far.columns(0, step, columns, (run) => {
      shown.fill(run.cover, run.x0, run.x1);
      best.fill(length[run.best] as number, run.x0, run.x1);
    });
    let wrong = 0, sum = 0, all = 0;
    for (let x = 0; x < columns; x++) {
      wrong += Math.abs((exact[x] as number) - (shown[x] as number));
      sum += (shown[x] as number) * step;
    }
    for (let i = 0; i < count; i++) all += length[i] as number;
    assert.ok(wrong / columns < 0.03, `${wrong / columns} of a column off`);
    assert.ok(Math.abs(sum - all) < all * 1e-6, "time was lost");
    for (let i = 0; i < count; i++) {
      const x = Math.floor(((start[i] as number) + (length[i] as number) / 2) / step);
      if (length[i] === 40000) assert.equal(best[x], 40000);
    }
  }
});
