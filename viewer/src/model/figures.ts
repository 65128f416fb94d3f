/* Reading the JSON of `piano report` that is in the page. It is as the tool wrote it, or as somebody
 * made it: every step asks for what it expects, and what is not so is null. Null is shown as "-".
 */

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

/** The member KEY of an object, or null. */
export function member(of: Json | undefined, key: string): Json {
  if (typeof of !== "object" || of === null || Array.isArray(of)) return null;
  if (!Object.prototype.hasOwnProperty.call(of, key)) return null;
  return (of as { readonly [key: string]: Json })[key] ?? null;
}

/** The member at the end of a path. */
export function dig(of: Json | undefined, ...path: string[]): Json {
  let at: Json = of ?? null;
  for (const key of path) at = member(at, key);
  return at;
}

export function number(of: Json | undefined, key: string): number | null {
  const value = member(of, key);
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

export function text(of: Json | undefined, key: string): string | null {
  const value = member(of, key);
  return typeof value === "string" ? value : null;
}

export function list(of: Json | undefined, key: string): readonly Json[] {
  const value = member(of, key);
  return Array.isArray(value) ? value : [];
}

/** The texts of a list. */
export function texts(of: Json | undefined, key: string): string[] {
  return list(of, key).filter((item): item is string => typeof item === "string");
}

/** What stands behind the ± of an interval [low, high], or null: how far its farther end is from the value it
 * belongs to (KEY without _ci95), as in `piano report`. Where few samples are, it is cut off at the near end. */
export function halfWidth(of: Json | undefined, key: string): number | null {
  const [low, high] = list(of, key);
  if (typeof low !== "number" || typeof high !== "number" || high < low) return null;
  const value = number(of, key.replace(/_ci95$/, "")) ?? (low + high) / 2;
  return Math.max(high - value, value - low);
}
