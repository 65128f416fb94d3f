/* A page that a test wrote, as the viewer opens it. */
import { inflateBlock } from "../src/decode";
import { Model } from "../src/model";
import { readMeta } from "../src/page";
import { Source } from "../src/source";
import type { PackedPage } from "./writer";

export async function open(page: PackedPage): Promise<Model> {
  const meta = readMeta(JSON.stringify(page.meta));
  const blocks: Uint8Array[] = [];
  for (const block of meta.blocks) blocks.push(await inflateBlock(page.data, block));
  return new Model(meta, new Source(meta, blocks));
}
