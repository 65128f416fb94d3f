/* The number of a frame, the same in every view. */
import type { Tables } from "./schema";

/** The number in `piano report --frames`, from 1. (JSON and the page's table count from 0.) */
export function frameNumber(tables: Tables, row: number): number {
  return (tables.frames.number[row] as number) + 1;
}
