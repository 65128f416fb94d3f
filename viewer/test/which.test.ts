/* What the program and its frames are called. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { frameNumber } from "../src/model/frame";
import type { Meta } from "../src/model/page";
import type { Tables } from "../src/model/schema";
import { firstOnly, programName } from "../src/util/which";

const meta = (program: string, command: string): Meta => ({ program, command, name: "a.rec", b: null }) as unknown as Meta;

test("a program is called as its user called it", () => {
  assert.equal(programName(meta("/usr/bin/redis-check-rdb", "/usr/bin/redis-server *:6379")), "redis-server");
  assert.equal(programName(meta("/opt/game", "")), "game");
  assert.equal(programName(meta("/opt/my game", "'/opt/my game' -x")), "my game");
  assert.equal(programName(meta("", "")), "");
});

test("only of a comparison is it said which run is shown", () => {
  assert.deepEqual(firstOnly(meta("/opt/game", "")), []);
});

test("frames count from 1 in words", () => {
  assert.equal(frameNumber({ frames: { number: Uint32Array.of(338) } } as unknown as Tables, 0), 339);
});
