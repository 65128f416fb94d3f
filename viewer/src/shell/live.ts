/* A page of `piano view --live`: asks its own server for newer data about once a second, as long as somebody
 * looks at the page, until the recording is complete. Nothing else on any page is fetched. */
import { inflateBlock } from "../model/decode";
import { PageError } from "../model/error";
import { Model } from "../model/model";
import { readMeta } from "../model/page";
import { Source } from "../model/source";
import { button, h } from "../util/element";

/** What is before the data in an answer of the server. */
interface Note {
  readonly state: "running" | "ended";
  readonly number: number;
  /** Bytes of the description; 0: there is nothing newer. */
  readonly meta_bytes: number;
  readonly wait_ms: number;
}

const LEAST_MS = 1000;
/** The server is asked this often even if it says that newer data takes longer, because the recording may end. */
const MOST_MS = 2000;
const TOLD_MS = 3000;
const LOST_MS = 5000;
const MOST_LOST = 3;

/** The model of an answer's bytes, after its note. */
export async function readAnswer(bytes: Uint8Array, metaBytes: number): Promise<Model> {
  const meta = readMeta(new TextDecoder().decode(bytes.subarray(0, metaBytes)));
  const data = bytes.subarray(metaBytes), blocks: Uint8Array[] = [];
  for (const block of meta.blocks) blocks.push(await inflateBlock(data, block));
  return new Model(meta, new Source(meta, blocks));
}

export function readNote(bytes: Uint8Array): { note: Note; at: number } {
  const end = bytes.indexOf(10);
  const json = JSON.parse(new TextDecoder().decode(bytes.subarray(0, Math.max(end, 0)))) as Note;
  const numbers = [json.number, json.meta_bytes, json.wait_ms];
  if (end < 0 || !numbers.every((n) => Number.isSafeInteger(n) && n >= 0)) {
    throw new PageError("The server's answer is not from this version of piano.");
  }
  return { note: json, at: end + 1 };
}

export class Live {
  readonly element = h("div", { class: "live", role: "status" });
  private readonly text = h("span", { class: "live-state" });
  private readonly switch: HTMLButtonElement;
  private number = 1;
  private paused = false;
  private over = false;
  private lost = 0;
  private every = 0;
  private asking = false;
  private timer: number | undefined;

  /** SHOW replaces the model of the page; false: not now, because the user is in the middle of something. */
  constructor(private readonly show: (model: Model) => boolean, private readonly fail: (error: unknown) => void) {
    this.switch = button("Pause", () => this.toggle(), { class: "chip" });
    this.element.append(this.text, this.switch);
    document.addEventListener("visibilitychange", () => this.plan(0));
    this.say();
    this.plan(LEAST_MS);
  }

  private toggle(): void {
    this.paused = !this.paused;
    this.say();
    this.plan(0);
  }

  private say(): void {
    const state = this.over ? "ended" : this.lost >= MOST_LOST ? "lost" : this.paused ? "paused" : "live";
    const often = this.every < TOLD_MS ? "" : `, every ${Math.round(this.every / 1000)} s`;
    const words = { ended: "ended", lost: "piano has stopped: this is the last state", paused: "paused", live: `live${often}` };
    this.element.dataset["state"] = state;
    this.element.dataset["number"] = String(this.number);
    this.text.textContent = words[state];
    this.switch.textContent = this.paused ? "Follow" : "Pause";
    this.switch.hidden = this.over || state === "lost";
  }

  private plan(wait: number): void {
    window.clearTimeout(this.timer);
    if (this.over || this.paused || document.hidden || this.asking || this.lost >= MOST_LOST) return;
    this.timer = window.setTimeout(() => void this.ask(), wait);
  }

  private async ask(): Promise<void> {
    let wait = LEAST_MS;
    this.asking = true;
    try {
      const answer = await fetch(`live/${this.number}`, { cache: "no-store", credentials: "omit" });
      if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
      wait = await this.take(new Uint8Array(await answer.arrayBuffer()));
      this.lost = 0;
    } catch (error) {
      if (error instanceof PageError) {
        this.over = true;
        this.fail(error);
      }
      this.lost++;
      wait = LOST_MS;
    }
    this.asking = false;
    this.say();
    this.plan(wait);
  }

  /** Shows an answer. Returns how long to wait for the next one. */
  private async take(bytes: Uint8Array): Promise<number> {
    const { note, at } = readNote(bytes);
    if (note.meta_bytes > 0) {
      const model = await readAnswer(bytes.subarray(at), note.meta_bytes);
      if (this.paused || !this.show(model)) return LEAST_MS; // asked for again
      this.number = note.number;
    }
    this.over = note.state === "ended";
    this.every = Math.max(note.meta_bytes > 0 ? 0 : this.every, note.wait_ms);
    return Math.min(MOST_MS, Math.max(LEAST_MS, note.wait_ms));
  }
}
