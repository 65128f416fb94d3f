/* Browser interfaces that Debian 12's TypeScript does not declare. */
declare class DecompressionStream {
  constructor(format: "deflate" | "gzip");
  readonly readable: ReadableStream<Uint8Array>;
  readonly writable: WritableStream<Uint8Array>;
}
