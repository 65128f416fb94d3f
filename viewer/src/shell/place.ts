/* Where the user is in a view: scroll positions and the focus. They are kept when the view is built again
 * from newer data. Elements are found again by their class and their number among those. */

export interface Scroll {
  readonly where: string;
  readonly number: number;
  readonly top: number;
  readonly left: number;
}

function alike(root: HTMLElement, where: string): HTMLElement[] {
  return [...root.querySelectorAll<HTMLElement>(where)];
}

/** A selector of the elements with the same tag and classes. */
function selectorOf(element: Element): string {
  return element.tagName.toLowerCase() + [...element.classList].map((name) => `.${CSS.escape(name)}`).join("");
}

export function scrollsOf(root: HTMLElement): Scroll[] {
  const found: Scroll[] = [];
  for (const element of alike(root, "*")) {
    if (element.scrollTop === 0 && element.scrollLeft === 0) continue;
    const where = selectorOf(element);
    found.push({ where, number: alike(root, where).indexOf(element), top: element.scrollTop, left: element.scrollLeft });
  }
  return found;
}

export function restoreScrolls(root: HTMLElement, scrolls: readonly Scroll[]): void {
  for (const { where, number, top, left } of scrolls) alike(root, where)[number]?.scrollTo(left, top);
}

export function focusIn(root: HTMLElement, element: Element | null): { where: string; number: number } | null {
  if (!(element instanceof HTMLElement) || !root.contains(element)) return null;
  const where = selectorOf(element);
  return { where, number: alike(root, where).indexOf(element) };
}

export function focusAgain(root: HTMLElement, focus: { where: string; number: number }): void {
  alike(root, focus.where)[focus.number]?.focus({ preventScroll: true });
}
