/* A page that cannot be shown as it is: the message is for the reader, and says what is broken. */
export class PageError extends Error {
  override readonly name = "PageError";
}
