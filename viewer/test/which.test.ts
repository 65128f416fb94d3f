/* Names of the program and numbers of frames. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { frameNumber } from "../src/model/frame";
import type { Meta } from "../src/model/page";
import type { Tables } from "../src/model/schema";
import { firstOnly, programName } from "../src/util/which";

const meta = (program: string, command: string): Meta => ({ program, command, name: "a.rec", b: null }) as unknown as Meta;

test("the program has the name in its command line", () => {
  assert.equal(programName(meta("/usr/bin/redis-check-rdb", "/usr/bin/redis-server *:6379")), "redis-server");
  assert.equal(programName(meta("/opt/game", "")), "game");
  assert.equal(programName(meta("/opt/my game", "'/opt/my game' -x")), "my game");
  assert.equal(programName(meta("", "")), "");
});

test("only comparisons show which run a view uses", () => {
  assert.deepEqual(firstOnly(meta("/opt/game", "")), []);
});

test("frames are numbered from 1 on the page", () => {
  assert.equal(frameNumber({ frames: { number: Uint32Array.of(338) } } as unknown as Tables, 0), 339);
});
