"""`piano record --max-size`: the file stays below the limit, the newest data is kept, and losses are reported."""
from __future__ import annotations

import json
import re
import struct
import subprocess
import time

import pytest

import events
from conftest import LIMIT_S, PIANO, Project
from events import API, compile

MB = 1 << 20

COUNTS = """
    #include <piano.h>
    #include <pthread.h>
    #include <stdlib.h>
    static long most;
    static void *count(void *name) {
        for (long i = 0; i < most; i++) piano_value(name, i);
        return 0;
    }
    int main(int argc, char **argv) {
        pthread_t t;
        most = atol(argv[1]);
        pthread_create(&t, 0, count, "b");
        count("a");
        pthread_join(t, 0);
        return 0;
    }
"""


def values(r: events.Recording) -> dict[str, list[int]]:
    """The recorded values by name, in the order of the file's clock."""
    told: dict[str, list[int]] = {}
    for e in sorted(r.of("value"), key=lambda e: e.ticks):
        number, zigzag = e.fields
        told.setdefault(r.name(number), []).append(zigzag >> 1)
    return told


@pytest.mark.parametrize("flags", [["--events"], ["--events", "--heap"]], ids=" ".join)
def test_the_newest_events_are_kept(project: Project, flags: list[str]) -> None:
    program = compile(project, COUNTS, *API)
    path, most = project.root / "small.rec", 600_000
    done = project.piano("record", *flags, "--max-size", "2M", "-o", path, "--", program, most)
    assert path.stat().st_size <= 2 * MB
    r = events.load(path)
    told = values(r)
    kept = 0
    for name in ("a", "b"):
        numbers = sorted(told.get(name, []))
        if not numbers:  # the other thread started later, and has all the room
            continue
        assert numbers == list(range(numbers[0], most)), "the end of it, without a hole"
        kept += len(numbers)
    assert kept > 50_000, "most of the room is for events"
    assert r.trace["recycled"] > 0 and r.trace["dropped_memory"] == 0
    assert r.trace["events"] >= 2 * most, "all that were written"
    assert re.search(r"\d+ events, the oldest given up \(\d+\.\dMB\)", done.err), done.err
    said = project.piano("report", "--polls", path)
    assert re.search(r"\d+ chunks of old events were overwritten", said.err)
    assert project.json("report", "--polls", path)["dropped"]["recycled_chunks"] == r.trace["recycled"]


def test_chunks_rewritten_during_a_read_are_left_out(project: Project) -> None:
    """Skips a chunk that is rewritten while it is read: never reads it as something else."""
    program = compile(project, COUNTS, *API)
    path = project.root / "live.rec"
    recorder = subprocess.Popen([PIANO, "record", "--events", "--max-size", "4M", "-o", path, "--", program, str(10**12)],
                                cwd=project.root, env=project.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + LIMIT_S
        full = 0
        while full < 4 and time.monotonic() < until:
            done = project.piano("report", "--polls", "--json", path, check=False)
            data = json.loads(done.out) if done.status == 0 else None
            if not data or data["dropped"]["recycled_chunks"] == 0:
                continue
            full += 1
            assert data["run"]["end"] == "running"
            assert data["events"]["unknown"] == 0 and data["missing"]["gaps"] == 0, (data["events"], data["missing"])
            assert data["events"]["count"] > 50_000
        assert full == 4
    finally:
        recorder.terminate()
        recorder.wait(LIMIT_S)


def test_nothing_is_dropped_when_there_is_room(project: Project) -> None:
    program = compile(project, COUNTS, *API)
    path = project.root / "all.rec"
    done = project.piano("record", "--events", "--max-size", "64M", "-o", path, "--", program, 100_000)
    told = values(events.load(path))
    assert told == {"a": list(range(100_000)), "b": list(range(100_000))}
    assert "given up" not in done.err and path.stat().st_size < 8 * MB


def test_heap_recording_stays_below_the_size_limit(project: Project) -> None:
    """Live blocks fill the file; blocks without room are counted."""
    program = compile(project, """
        #include <stdlib.h>
        int main(void) { for (int i = 0; i < 200000; i++) if (!malloc(64)) return 1; return 0; }
    """, "-fno-builtin")
    path = project.root / "heap.rec"
    done = project.piano("record", "--heap=1", "--max-size", "1M", "-o", path, "--", program)
    assert path.stat().st_size <= MB
    assert re.search(r"\d+ not kept", done.err), done.err
    live = project.json("report", "--heap", path)
    assert live["allocated_bytes"] >= 200_000 * 64


def test_children_have_the_same_limit(project: Project) -> None:
    program = compile(project, COUNTS, *API)
    path = project.root / "tree.rec"
    project.piano("record", "--events", "--children", "--max-size=1M", "-o", path, "--",
                  "sh", "-c", f"{program} 100000; {program} 100000; true")
    files = list(project.root.glob("tree.rec*"))
    assert len(files) >= 2 and all(file.stat().st_size <= MB for file in files)
    assert all(struct.unpack_from("<Q", file.read_bytes(), 40)[0] <= 15 for file in files), "chunks"


@pytest.mark.tool
@pytest.mark.parametrize("size", ["0", "100K", "2G", "x", "-1M", "1M5", ""])
def test_wrong_size_is_a_usage_error(project: Project, size: str) -> None:
    done = project.piano("record", "--max-size", size, "--", "true", check=False)
    assert done.status == 2 and "--max-size" in done.err, done
    assert not (project.root / ".piano").exists()
