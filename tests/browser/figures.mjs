/* Parses figures of the page: "27.9ms" is 27,900,000 ns, plus or minus half of the last digit. */
import assert from "node:assert/strict";

const UNITS = { ns: 1, us: 1e3, ms: 1e6, s: 1e9, B: 1, KB: 2 ** 10, MB: 2 ** 20, GB: 2 ** 30, "%": 0.01, "×": 1, "": 1 };

/** The first figure in TEXT: {value, slack}. */
export function figure(text) {
  const found = /(\d[\d\u202f]*)(?:\.(\d+))?\s*(ns|us|ms|s|B|KB|MB|GB|%|×|)(?![\w])/.exec(text);
  assert.ok(found, `no figure in ${JSON.stringify(text)}`);
  const [, whole, part = "", unit] = found;
  const scale = UNITS[unit];
  return { value: Number(`${whole.replaceAll("\u202f", "")}.${part}`) * scale,
    slack: unit === "" && part === "" || unit === "ns" || unit === "B" ? 0.5 : 0.5 * scale * 10 ** -part.length };
}

/** Asserts that TEXT shows VALUE (nanoseconds, bytes, a share or a count) within its precision; null is "-". */
export function says(text, value, what = "") {
  if (value === null || value === undefined) return assert.equal(text.trim(), "-", what);
  const shown = figure(text);
  assert.ok(Math.abs(shown.value - value) <= shown.slack * 1.000001,
    `${what}: the page says ${JSON.stringify(text)}, the report ${value}`);
}
