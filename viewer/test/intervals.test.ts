import assert from "node:assert/strict";
import { test } from "node:test";
import { Intervals, nest } from "../src/model/intervals";
import { Steps } from "../src/model/steps";
import { random } from "./synthetic";

function lane(count: number, seed: number): Intervals {
  const next = random(seed);
  const start = new Float64Array(count), length = new Float64Array(count);
  for (let i = 0, time = 50; i < count; i++) {
    start[i] = time += Math.floor(next() * 30);
    length[i] = next() < 0.05 ? Math.floor(next() * 900) : Math.floor(next() * 20);
    time += length[i] as number;
  }
  return new Intervals(start, length);
}

test("sum and longest agree with a linear search", () => {
  const next = random(2);
  for (const count of [1, 7, 8, 9, 64, 65, 600, 4097]) {
    const all = lane(count, count);
    for (let i = 0; i < 200; i++) {
      const from = Math.floor(next() * count), to = from + 1 + Math.floor(next() * (count - from));
      let sum = 0, most = -1;
      for (let k = from; k < to; k++) {
        sum += all.length[k] as number;
        most = Math.max(most, all.length[k] as number);
      }
      assert.equal(all.sum(from, to), sum);
      const best = all.longest(from, to);
      assert.ok(best >= from && best < to);
      assert.equal(all.length[best], most);
    }
  }
});

test("all long intervals are found", () => {
  const all = lane(2000, 12);
  const plain: number[] = [];
  for (let i = 100; i < 1900; i++) if ((all.length[i] as number) >= 300) plain.push(i);
  assert.ok(plain.length > 5);
  assert.deepEqual(all.atLeast(300, 100, 1900).sort((a, b) => a - b), plain);
  assert.deepEqual(all.atLeast(1e9, 0, 2000), []);
});

test("pixel columns have the cover of their intervals", () => {
  const all = lane(3000, 4);
  const end = all.end(2999);
  for (const [t0, t1, width] of [[0, end, 100], [0, end, 900], [100, 900, 50], [5000, 5100, 300], [end - 10, end + 500, 20],
    [end + 5, end + 10, 10]] as [number, number, number][]) {
    const step = (t1 - t0) / width;
    const drawn = new Float64Array(width);
    let before = 0;
    all.columns(t0, step, width, (run) => {
      assert.ok(run.x0 >= before && run.x1 > run.x0 && run.x1 <= width);
      before = run.x1;
      assert.ok(run.best >= run.from && run.best < run.to);
      drawn.fill(run.cover, run.x0, run.x1);
    });
    for (let x = 0; x < width; x++) {
      const left = t0 + x * step, right = left + step;
      let covered = 0;
      for (let i = 0; i < all.count; i++) {
        covered += Math.max(0, Math.min(right, all.end(i)) - Math.max(left, all.start[i] as number));
      }
      assert.ok(Math.abs(covered / step - (drawn[x] as number)) < 1e-6, `${t0}-${t1} column ${x}: ${covered / step} ${drawn[x]}`);
    }
  }
});

test("selected intervals keep their rows", () => {
  const all = lane(50, 3), some = all.only((index) => index % 7 === 0);
  assert.equal(some.count, 8);
  assert.deepEqual([some.row(1), some.start[1], some.length[1]], [7, all.start[7], all.length[7]]);
});

test("the interval at a time is found", () => {
  const all = new Intervals(Float64Array.of(10, 30, 30), Float64Array.of(5, 0, 10));
  assert.equal(all.at(12, 0), 0);
  assert.equal(all.at(16, 0), -1);
  assert.equal(all.at(17, 3), 0);
  assert.equal(all.at(28, 3), 1);
  assert.equal(all.at(35, 0), 2);
  assert.equal(all.at(100, 3), -1);
});

test("nested intervals are distributed to layers without overlap, and none is lost", () => {
  const next = random(8);
  const count = 500;
  const start = Float64Array.from({ length: count }, () => Math.floor(next() * 10000)).sort();
  const length = Float64Array.from({ length: count }, () => Math.floor(next() * 200));
  const layers = nest(start, length, 1000, 4);
  assert.ok(layers.length > 1 && layers.length <= 4);
  const seen = new Set<number>();
  for (const layer of layers) {
    for (let i = 0; i < layer.count; i++) {
      seen.add(layer.row(i));
      assert.equal(layer.start[i], start[layer.row(i) - 1000]);
      if (i > 0) assert.ok(layer.end(i - 1) <= (layer.start[i] as number));
    }
  }
  assert.equal(seen.size, count);
  assert.equal(nest(Float64Array.of(1, 5), Float64Array.of(4, 1), 0, 4).length, 1);
});

test("steps: minimum and maximum of each column", () => {
  const next = random(6);
  const at = Float64Array.from({ length: 700 }, () => Math.floor(next() * 10000)).sort();
  const value = Float64Array.from(at, () => Math.floor(next() * 100) - 20);
  const steps = new Steps(at, value);
  assert.equal(steps.least, Math.min(...value));
  assert.equal(steps.most, Math.max(...value));
  steps.columns(200, 90, 100, (x, low, high) => {
    const left = 200 + x * 90, right = left + 90;
    const inForce = Array.from(value).filter((_, i) => (at[i] as number) >= left && (at[i] as number) < right);
    const before = Array.from(at).filter((time) => time < left).length;
    if (before > 0) inForce.push(value[before - 1] as number);
    assert.deepEqual([low, high], [Math.min(...inForce), Math.max(...inForce)]);
  });
});
