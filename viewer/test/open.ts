/* Opens a page that a test wrote, as the viewer does. */
import { inflateBlock } from "../src/model/decode";
import { Model } from "../src/model/model";
import { readMeta } from "../src/model/page";
import { Source } from "../src/model/source";
import type { PackedPage } from "./writer";

export async function open(page: PackedPage): Promise<Model> {
  const meta = readMeta(JSON.stringify(page.meta));
  const blocks: Uint8Array[] = [];
  for (const block of meta.blocks) blocks.push(await inflateBlock(page.data, block));
  return new Model(meta, new Source(meta, blocks));
}
