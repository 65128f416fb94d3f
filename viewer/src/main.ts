/* The entry point: finds the data, decompresses it and starts the shell. The first view needs only a few
 * columns. All others are decoded and checked afterwards, one at a time, so that a damaged page is reported
 * even if no view uses the damaged column. */
import "./shell/style.css";
import { inflateBlock, joinData } from "./model/decode";
import { h } from "./util/element";
import { PageError } from "./model/error";
import { ErrorBox } from "./shell/error_box";
import { Model } from "./model/model";
import { findPage } from "./model/page";
import { Shell } from "./shell/shell";
import { Source } from "./model/source";
import { Store, withoutRows } from "./model/state";
import { allViews } from "./shell/views";

/** Lets the browser paint and handle events. */
function pause(): Promise<void> {
  return new Promise((resolve) => window.setTimeout(resolve, 0));
}

async function load(progress: HTMLProgressElement): Promise<Model> {
  performance.mark("piano-started");
  const page = findPage(document);
  await pause();
  const data = joinData(page.takeData());
  performance.mark("piano-decoded");
  const blocks: Uint8Array[] = [];
  progress.max = Math.max(1, page.meta.blocks.length);
  for (const block of page.meta.blocks) {
    blocks.push(await inflateBlock(data, block));
    progress.value = blocks.length;
  }
  performance.mark("piano-inflated");
  return new Model(page.meta, new Source(page.meta, blocks));
}

async function verify(model: Model, errors: ErrorBox): Promise<void> {
  try {
    for (const checked of model.verify()) {
      void checked;
      await pause();
    }
  } catch (error) {
    errors.show(error);
  }
  performance.mark("piano-verified");
}

async function start(root: HTMLElement): Promise<void> {
  const errors = new ErrorBox();
  errors.watch(window);
  const progress = h("progress", { "aria-label": "Loading" });
  const loading = h("div", { class: "loading" }, "Reading the run…", progress);
  root.replaceChildren(errors.element, loading);
  try {
    const model = await load(progress);
    const views = allViews().filter((view) => errors.guard(() => view.available(model), false));
    const { hash } = window.location;
    const store = new Store(model, views.map((view) => view.id), model.meta.live ? withoutRows(hash) : hash);
    if (views.length === 0) throw new PageError("There is nothing in this run to show.");
    errors.alone = false;
    new Shell(root, model, store, views, errors);
    performance.mark("piano-shown");
    await pause();
    await verify(model, errors);
  } catch (error) {
    errors.show(error);
  }
  loading.remove();
}

const root = document.getElementById("app") ?? document.body.appendChild(h("div", { id: "app" }));
void start(root);
