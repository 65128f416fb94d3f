/* Reads the JSON of `piano report` that is in the page. The file may have been edited, so every access
 * checks the type; anything unexpected is null, which the page shows as "-". */

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

/** The member KEY of an object, or null. */
export function member(of: Json | undefined, key: string): Json {
  if (typeof of !== "object" || of === null || Array.isArray(of)) return null;
  if (!Object.prototype.hasOwnProperty.call(of, key)) return null;
  return (of as { readonly [key: string]: Json })[key] ?? null;
}

/** Follows a path of keys. */
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

/** The strings in a list. */
export function texts(of: Json | undefined, key: string): string[] {
  return list(of, key).filter((item): item is string => typeof item === "string");
}

/** The value after the ± for an interval [low, high], or null: the distance from the value (KEY without
 * _ci95) to the farther end, as in `piano report`. With few samples the interval is cut off at the
 * nearer end. */
export function halfWidth(of: Json | undefined, key: string): number | null {
  const [low, high] = list(of, key);
  if (typeof low !== "number" || typeof high !== "number" || high < low) return null;
  const value = number(of, key.replace(/_ci95$/, "")) ?? (low + high) / 2;
  return Math.max(high - value, value - low);
}
