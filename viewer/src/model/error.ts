/* The page cannot be shown. The message is for the user and says what is broken. */
export class PageError extends Error {
  override readonly name = "PageError";
}
