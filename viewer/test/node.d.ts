/* The parts of Node's interface that the tests use; Debian has no types for Node. */
declare module "node:fs" {
  export function readFileSync(path: string, encoding: "utf8"): string;
  export function writeFileSync(path: string, text: string): void;
}

declare module "node:zlib" {
  export function deflateSync(bytes: Uint8Array, options?: { level?: number }): Uint8Array;
}

declare module "node:crypto" {
  export function createHash(name: string): {
    update(text: string): { digest(encoding: "base64"): string };
  };
}

declare module "node:test" {
  export function test(name: string, body: () => void | Promise<void>): void;
}

declare module "node:assert/strict" {
  interface Assert {
    equal(actual: unknown, expected: unknown, message?: string): void;
    deepEqual(actual: unknown, expected: unknown, message?: string): void;
    ok(value: unknown, message?: string): void;
    throws(body: () => unknown, expected?: RegExp): void;
    rejects(body: () => Promise<unknown>, expected?: RegExp): Promise<void>;
  }
  const assert: Assert;
  export default assert;
}

declare const process: { readonly argv: string[]; exitCode: number };
declare const Buffer: { from(bytes: Uint8Array): { toString(encoding: "base64"): string } };
