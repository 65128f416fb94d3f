/* Creates elements. Text is always textContent, so text from a run is never parsed as HTML. */

type Child = Node | string | null | undefined | false;

export interface Attributes {
  class?: string;
  id?: string;
  title?: string;
  role?: string;
  type?: string;
  href?: string;
  value?: string;
  tabindex?: string;
  [name: `aria-${string}` | `data-${string}`]: string | undefined;
  onclick?: (event: MouseEvent) => void;
}

/** <tag attributes>children</tag>; a string child is text. */
export function h<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {},
  ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined) continue;
    if (name === "onclick") element.addEventListener("click", value as unknown as EventListener);
    else element.setAttribute(name, String(value));
  }
  for (const child of children) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

/** A button; class "link" or "chip" (shell/style.css) changes its look. */
export function button(text: string, onclick: () => void, attributes: Attributes = {}): HTMLButtonElement {
  return h("button", { type: "button", class: "button", ...attributes, onclick: () => onclick() }, text);
}

/** A group of buttons with aria-pressed, of which one is chosen. */
export function choice(label: string, choices: readonly (readonly [value: string, text: string])[],
  chosen: () => string, choose: (value: string) => void): { element: HTMLElement; update(): void } {
  const buttons = choices.map(([value, text]) =>
    button(text, () => choose(value), { class: "segment", "data-value": value }));
  const element = h("div", { class: "segments", role: "group", "aria-label": label }, ...buttons);
  const update = (): void => {
    for (const item of buttons) {
      item.setAttribute("aria-pressed", String(item.dataset["value"] === chosen()));
    }
  };
  update();
  return { element, update };
}
