"""A decoder of a recording's events that is independent of the tool: docs/recording-format.md and src/common/events.h in Python. Also
runs programs with libpiano.so preloaded, as `piano record --events` does."""
from __future__ import annotations

import struct
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conftest import LIB, OLD_LIBC, PRELOAD, ROOT, Done, Project, need

HEADER, CHUNK, CHUNK_HEADER = 4096, 65536, 64
THREADS, EVENTS, NAMES, DEFINITIONS = 6, 7, 9, 12
PARTS, PART = 16, 4088  # size of a chunk of definitions
HAS_HEAP, CHILD, HAS_EVENTS = 1, 4, 16
TRACE_AT = 2480
TRACE = ("start_ticks", "end_ticks", "end_mono_ns", "kinds", "cpu_hz", "events", "dropped_memory", "dropped_busy",
         "dropped_names", "recycled", "samples", "samples_lost", "samples_unwound", "switches", "threads_missed",
         "ring_chunks", "ring_most", "overwritten", "overwritten_ns", "definitions_in_ring")
CODES = ("", "thread", "worker_start", "worker_stop", "task_spawn", "task_end", "poll_begin", "poll_end", "park",
         "unpark", "wake", "queue", "mark", "value")
PARKS = ("api", "epoll", "poll", "select", "uring", "condition", "semaphore", "barrier", "tasks", "idle")


@dataclass
class Event:
    what: str
    tid: int
    ticks: int
    ns: float
    fields: list[int]
    at: int  # byte in the file
    bytes: int


@dataclass
class Recording:
    flags: int
    state: int
    pid: int
    trace: dict[str, int]
    start_ns: int
    names: dict[int, str] = field(default_factory=dict)
    threads: dict[int, list[str]] = field(default_factory=dict)  # tid: its names; the last one counts
    events: list[Event] = field(default_factory=list)
    chunks: dict[int, int] = field(default_factory=dict)  # type: how many
    skipped: int = 0  # events with an unknown code

    def of(self, *what: str, tid: int | None = None) -> list[Event]:
        return [e for e in self.events if e.what in what and tid in (None, e.tid)]

    def name(self, number: int) -> str | None:
        return self.names[number] if number else None


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7f) << shift
        at, shift = at + 1, shift + 7
        if not data[at - 1] & 0x80:
            return value, at


def records(data: bytes, at: int, used: int):
    """(byte, length) of the records of a log."""
    end = at + used
    while at < end:
        length, = struct.unpack_from("<I", data, at)
        assert length >= 8 and length % 8 == 0 and at + length <= end
        yield at, length
        at += length


class Clock:
    """Converts ticks to CLOCK_MONOTONIC with the pairs of the header and of the chunks' headers."""

    def __init__(self, pairs: list[tuple[int, int]], has_counter: bool):
        (t0, n0), (t1, n1) = min(pairs), max(pairs)
        self.t0, self.n0 = t0, n0
        self.rate = (n1 - n0) / (t1 - t0) if has_counter and t1 > t0 else 1.0

    def ns(self, ticks: int) -> float:
        return self.n0 + (ticks - self.t0) * self.rate


def decode_events(r: Recording, data: bytes, at: int, used: int, clock: Clock) -> None:
    tid, ticks, _ = struct.unpack_from("<QQQ", data, at)
    end, at = at + used, at + 24
    while at < end:
        begin, code, stop = at, data[at], at + 2 + data[at + 1]
        assert stop <= end, "an event crosses what is committed"
        since, at = varint(data, at + 2)
        ticks += since
        fields = []
        while at < stop:
            value, at = varint(data, at)
            fields.append(value)
        at = stop
        if not 0 < code < len(CODES):
            r.skipped += 1
            continue
        if CODES[code] == "thread":
            tid = fields[0]
        r.events.append(Event(CODES[code], tid, ticks, clock.ns(ticks), fields, begin, stop - begin))


def load(path: Path) -> Recording:
    data = path.read_bytes()
    assert data[:8] == b"PIANOREC"
    pid, _, flags, state, chunks = struct.unpack_from("<IIIIQ", data, 24)
    start_ns, = struct.unpack_from("<Q", data, 48)
    trace = dict(zip(TRACE, struct.unpack_from(f"<{len(TRACE)}Q", data, TRACE_AT)))
    trace["has_counter"] = trace.pop("kinds") & 0xffffffff
    r = Recording(flags, state, pid, trace, start_ns)
    events, definitions = [], []
    for number in range(chunks):
        at = HEADER + CHUNK * number
        kind, ready, index, used = struct.unpack_from("<IIQQ", data, at) if at + CHUNK <= len(data) else (0, 0, 0, 0)
        if ready != 1:
            continue
        assert used <= CHUNK - CHUNK_HEADER
        r.chunks[kind] = r.chunks.get(kind, 0) + 1
        at += CHUNK_HEADER
        if kind == NAMES:
            for record, length in records(data, at, used):
                text = data[record + 8:record + length].split(b"\0")[0]
                r.names[struct.unpack_from("<I", data, record + 4)[0]] = text.decode("utf-8", "replace")
        elif kind == THREADS:
            for record, _ in records(data, at, used):
                _, tid, of = struct.unpack_from("<III", data, record)
                assert of == pid
                name = data[record + 24:record + 40].split(b"\0")[0].decode()
                r.threads.setdefault(tid, []).append(name)
        elif kind == EVENTS and used >= 24:
            events.append((index, at, used))
        elif kind == DEFINITIONS:
            for part in range(at, at + PARTS * PART, PART):
                kind, ready, index, used = struct.unpack_from("<IIQQ", data, part)
                if ready == 1 and used >= 24:
                    assert kind == DEFINITIONS and used <= PART - CHUNK_HEADER
                    definitions.append((index, part + CHUNK_HEADER, used))
    pairs = [(trace["start_ticks"], start_ns)] + [struct.unpack_from("<QQ", data, at + 8)
                                                        for _, at, _ in events + definitions]
    if trace["end_ticks"]:
        pairs.append((trace["end_ticks"], trace["end_mono_ns"]))
    clock = Clock(pairs, bool(trace["has_counter"]))
    assert len({index for index, _, _ in events}) == len(events)
    for _, at, used in sorted(events):
        decode_events(r, data, at, used, clock)
    ring, r.events = r.events, []
    for _, at, used in sorted(definitions):
        decode_events(r, data, at, used, clock)
    r.events = merged(r.events, ring)
    return r


def merged(definitions: list[Event], ring: list[Event]) -> list[Event]:
    """The events of each thread in order of time; at equal times, definitions come first. Threads are in the order of the ring."""
    out: list[Event] = []
    waiting: dict[int, list[Event]] = {}
    for e in definitions:
        waiting.setdefault(e.tid, []).append(e)
    for e in ring:
        mine = waiting.get(e.tid, [])
        while mine and mine[0].ticks <= e.ticks:
            out.append(mine.pop(0))
        out.append(e)
    return out + [e for left in waiting.values() for e in left]


# Programs ---------------------------------------------------------------------------------------

PRELUDE = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <piano.h>
#define CHECK(x) do { if (!(x)) { fprintf(stderr, "line %d: %s, errno %d\n", __LINE__, #x, errno); exit(3); } } while (0)
"""

API = (f"-I{ROOT}/include", f"-L{LIB}", "-lpiano", f"-Wl,-rpath,{LIB}")


def compile(project: Project, source: str, *flags: str, name: str = "prog", compiler: str = "gcc") -> Path:
    need(compiler)
    ending = ".cc" if compiler == "g++" else ".c"
    project.write({name + ending: PRELUDE.lstrip("\n") + textwrap.dedent(source)})
    project.command(compiler, "-O2", "-w", f"-I{ROOT}/include", name + ending, "-o", name, "-pthread", *flags, *OLD_LIBC)
    return project.root / name


def environment(project: Project, **more: Any) -> dict[str, str]:
    return {"LD_PRELOAD": PRELOAD, "PIANO_RECORD": str(project.root / "r.rec"),
            "PIANO_CHILDREN": "1", "PIANO_EVENTS": "1", **{key: str(value) for key, value in more.items()}}


def recordings(project: Project) -> list[Path]:
    return sorted(project.root.glob("r.rec*"))


def record(project: Project, program: Path, *arguments: Any, **more: Any) -> tuple[Recording, Done]:
    """The only recording that a run of PROGRAM makes."""
    done = project.command(program, *arguments, env=environment(project, **more))
    path, = recordings(project)
    r = load(path)
    path.unlink()
    assert r.flags & HAS_EVENTS
    return r, done


def parks(r: Recording, tid: int | None = None) -> list[tuple[str, int]]:
    """(kind, argument of UNPARK) of the waits, which must come in pairs."""
    found = r.of("park", "unpark", tid=tid)
    assert [e.what for e in found] == ["park", "unpark"] * (len(found) // 2)
    return [(PARKS[a.fields[0]], b.fields[0]) for a, b in zip(found[::2], found[1::2])]
