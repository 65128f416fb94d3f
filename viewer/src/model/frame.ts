/* What a frame is called, in every view. */
import type { Tables } from "./schema";

/** The number `piano report --frames` gives it: from 1 on. (JSON and the page's own table count from 0.) */
export function frameNumber(tables: Tables, row: number): number {
  return (tables.frames.number[row] as number) + 1;
}
