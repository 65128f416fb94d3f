"""An instrumented program under `piano record`: its frames and its recording, joined by thread and time.

The program prints when each of its frames began and ended by CLOCK_MONOTONIC; the report must agree."""
from __future__ import annotations

import json
import os
import re
import signal
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conftest import PIANO, Done, Project, fn, frame, header, ndjson, put_run

CLOSE_NS = 5000  # the required precision of the join


def perf_refused() -> str:
    done = subprocess.run([PIANO, "doctor"], capture_output=True, text=True)
    found = re.search(r"^\S+\s+perf events: (.*)", done.stdout, re.M)
    return "" if found and re.search("cpu-clock|cycles", found[1]) else found[1] if found else "unknown"


REFUSED = perf_refused()
OWN_CODE = "own code only"  # the notice if the kernel hides the stacks of waits
NEEDS_PERF = pytest.mark.skipif(bool(REFUSED), reason=f"perf events are refused here: {REFUSED}")

PROGRAM = r"""
    #include <pthread.h>
    #include <signal.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <time.h>
    #include <unistd.h>
    static long now(clockid_t c) {
        struct timespec t;
        clock_gettime(c, &t);
        return t.tv_sec * 1000000000L + t.tv_nsec;
    }
    static volatile unsigned sum;
    static void *kept[64];
    static unsigned tiny(unsigned x) { return x * 3 + 1; }
    /* So much CPU time of this thread, whatever others do. The clock is read seldom: that is a system call, and a user may be
     * refused samples of the kernel. */
    static void burn(long ns) {
        long end = now(CLOCK_THREAD_CPUTIME_ID) + ns;
        while (now(CLOCK_THREAD_CPUTIME_ID) < end)
            for (int i = 0; i < 50000; i++)
                sum = sum * 1664525 + 1013904223;
    }
    static void nap(void) { usleep(40000); }
    static void grow(int i) { kept[i] = malloc(3 << 20); }
    static void count(void) { for (int i = 0; i < 300000; i++) sum += tiny(sum); }
    static void step(int thread, int i) {
        long from = now(CLOCK_MONOTONIC);
        if (i == 5) burn(150000000);
        else if (i == 10) nap();
        else if (i == 15) grow(i);
        else if (i == 20) count();
        else usleep(1000);
        long to = now(CLOCK_MONOTONIC);
        printf("%d %d %ld %ld\n", thread, i, from, to);
        fflush(stdout);
    }
    static void *other(void *arg) { for (int i = 0; i < 12; i++) step(2, i == 5 ? 0 : i == 10 ? 0 : i); return arg; }
    int main(int argc, char **argv) {
        pthread_t t;
        pthread_create(&t, NULL, other, NULL);
        for (int i = 0; i < 30; i++) step(1, i);
        pthread_join(t, NULL);
        if (argc > 1) raise(SIGKILL);
        return 0;
    }
"""
SELECT = ["--fn", "step", "--fn", "tiny", "--fn", "burn", "--fn", "nap", "--fn", "grow"]


def build(project: Project) -> Path:
    return project.cc(PROGRAM, "-pthread", "-g", select=SELECT)


def record(project: Project, *flags: Any, arguments: tuple[str, ...] = (), check: bool = True) -> Done:
    return project.piano("record", *flags, "--", build(project), *arguments, check=check)


def recordings(project: Project) -> list[Path]:
    return sorted(project.runs.glob("*.rec"))


def joined(project: Project, done: Done, *which: Any) -> list[tuple[int, int, int, int, dict[str, Any]]]:
    """(thread, number, from, to, frame) as the program printed them, each with its frame in the report. The frames of a thread are in
    the order of printing."""
    frames = project.frames(*which)
    said: dict[int, list[list[int]]] = {}
    for line in done.out.splitlines():
        numbers = [int(word) for word in line.split()]
        said.setdefault(numbers[0], []).append(numbers)
    lines = [json.loads(line) for line in project.run_files()[-1].read_text().splitlines()]
    pid = lines[0]["pid"]
    # Lines that a killed program had not written yet, such as the main thread's own, are only in its live image.
    others = {l["thread"] for l in lines if l.get("tid", pid) != pid}
    found = []
    for thread, numbers in said.items():
        own = [f for f in frames if (f["thread"] not in others) == (thread == 1)]
        assert len(own) == len(numbers), (thread, len(own), len(numbers))
        found += [(*n, f) for n, f in zip(numbers, own)]
    return found


def names(stack: list[dict[str, Any]]) -> list[str]:
    return [f["function"] for f in stack]


@NEEDS_PERF
def test_frames_get_their_own_samples_and_allocations(project: Project) -> None:
    done = record(project, "--cpu=999", "--heap=64K")
    rows = {(t, i): (a, b, f) for t, i, a, b, f in joined(project, done) if t == 1}
    assert len(rows) == 30
    burnt = rows[1, 5][2]["inside"]
    # 150 ms of CPU time at 999 Hz; a sample represents one millisecond.
    assert 100 <= burnt["cpu_samples"] <= 160 and 100e6 < burnt["cpu_ns"] < 170e6, burnt
    in_burn = sum(s["samples"] for s in burnt["stacks"] if "burn" in names(s["stack"]))
    # A sample may fall between the beginning of the frame and that of `burn`, or after its end.
    assert burnt["cpu_samples"] - 3 <= in_burn <= burnt["cpu_samples"], burnt["stacks"]
    for i in (3, 4, 6, 7):  # its neighbours sleep
        near = rows[1, i][2]["inside"]
        assert near["cpu_samples"] <= 1 and not any("burn" in names(s["stack"]) for s in near["stacks"]), near
    away = rows[1, 10][2]["inside"]
    assert away["off_cpu_ns"] >= 39e6 and away["off_cpu_ns"] <= away["end_mono_ns"] - away["begin_mono_ns"], away
    asleep = max(away["blocked"], key=lambda s: s["off_cpu_ns"])
    assert names(asleep["stack"]) == ["(no stack)"] if OWN_CODE in done.err else "nap" in names(asleep["stack"]), asleep
    assert not asleep["preempted"], asleep
    assert not any("nap" in names(s["stack"]) for i in (9, 11) for s in rows[1, i][2]["inside"]["blocked"])
    grown = rows[1, 15][2]["inside"]
    assert grown["live_blocks"] == 1 and 3 << 20 <= grown["live_bytes"] <= (3 << 20) + 65536, grown
    assert "grow" in names(grown["live"][0]["stack"])
    for (_, i), (_, _, f) in rows.items():
        assert i == 15 or not any("grow" in names(s["stack"]) for s in f["inside"]["live"]), (i, f["inside"])


@NEEDS_PERF
def test_clocks_of_run_and_recording_agree_to_microseconds(project: Project) -> None:
    done = record(project, "--cpu", "--heap")
    found = joined(project, done)
    assert len(found) == 42
    before = [a - f["inside"]["begin_mono_ns"] for _, _, a, _, f in found]
    behind = [f["inside"]["end_mono_ns"] - b for _, _, _, b, f in found]
    # The printed times always lie inside; at least once they are as close as reading a clock twice.
    assert min(before) > -CLOSE_NS and min(behind) > -CLOSE_NS, (before, behind)
    assert min(before) < CLOSE_NS and min(behind) < 10 * CLOSE_NS, (before, behind)
    by_tid = {(f["thread"], f["inside"]["tid"]) for *_, f in found}
    assert len(by_tid) == 2 and len({tid for _, tid in by_tid}) == 2


@NEEDS_PERF
def test_a_frame_ends_when_it_ends(project: Project) -> None:
    """The time of measuring is subtracted from a frame's wall time, but samples in that time belong to the frame."""
    done = record(project, "--cpu=999")
    _, _, a, b, f = next(row for row in joined(project, done) if row[:2] == (1, 20))
    took = f["inside"]["end_mono_ns"] - f["inside"]["begin_mono_ns"]
    assert took >= b - a - CLOSE_NS, (took, b - a)
    assert f["wall_ns"] <= took
    line = next(l for l in project.lines() if l.get("frame") is not None and l["start_ns"] == f["start_ns"])
    assert line["took_ns"] >= line["wall_ns"]


def test_both_files_and_where_they_are(project: Project) -> None:
    done = record(project, "--heap")
    run, rec = project.only_run(), recordings(project)[0]
    assert run.name.split("-")[1].split(".")[0] == rec.name.split("-")[1].split(".")[0], "both by the process id"
    assert run.name in done.err and rec.name in done.err and "piano report --frames" in done.err
    told = project.piano("report", run)
    assert "recorded, too" in told.err and rec.name in told.err
    assert project.json("report", run)["run"]["recording"] == str(rec)
    told = project.piano("report", rec)
    assert "measured by function and frame" in told.err and run.name in told.err
    frames = project.piano("report", "--frames", "--top", 42, run)
    assert "Inside the worst frames" in frames.out and rec.name in frames.out
    assert re.search(r"live +\d\.\dMB +grow < step < main", frames.out), frames.out
    assert project.piano("report", "--frames", "--top", 42, rec).out == frames.out


def worst_frames(project: Project, count: int) -> list[str]:
    text = project.piano("report", "--frames", "--top", count).out
    return re.split(r"(?m)^Frame ", text[text.index("Inside the worst frames"):])[1:]


@NEEDS_PERF
def test_report_names_samples_of_the_worst_frames(project: Project) -> None:
    done = record(project, "--cpu=999", "--heap=64K")
    assert len(worst_frames(project, 3)) == 3
    parts = worst_frames(project, 42)  # on a busy machine any frame can be one of the three worst
    burnt = next(p for p in parts if " burn < step < main" in p)
    assert re.search(r"\| 1\d\d CPU samples", burnt) and re.search(r"CPU +\d+ samples", burnt), burnt
    asleep = r"\(no stack\)" if OWN_CODE in done.err else "nap < step"
    naps = [p for p in parts if re.search(r"off the CPU ([4-9]\d|\d\d\d+)\.\dms", p)
            and re.search(r"off +([4-9]\d|\d\d\d+)\.\dms +.*" + asleep, p)]
    assert naps, parts


def test_recording_outside_the_runs_directory_is_joined(project: Project) -> None:
    """With -o the recording is not in the runs directory, but the run is."""
    out = project.root / "mine.rec"
    record(project, "--heap", "-o", out)
    assert not recordings(project)
    assert project.only_run().name in project.piano("report", out).err
    assert project.json("report", "--frames", out)["run"]["id"] == project.only_run().stem


def test_run_and_recording_of_a_killed_program_are_joined(project: Project) -> None:
    done = record(project, "--heap=64K", "--events", arguments=("die",), check=False)
    assert done.status == 128 + signal.SIGKILL
    found = joined(project, done)
    assert len(found) == 42
    for _, _, a, b, f in found:
        assert f["inside"]["begin_mono_ns"] < a + CLOSE_NS and f["inside"]["end_mono_ns"] > b - CLOSE_NS


def test_recording_of_another_process_is_not_joined(project: Project) -> None:
    """The same process id at another time, in another boot, or of another program."""
    record(project, "--heap")
    run, rec = project.only_run(), recordings(project)[0]
    lines = run.read_text().splitlines()
    first = json.loads(lines[0])

    def report(**changes: Any) -> str | None:
        run.write_text("\n".join([json.dumps({**first, **changes}), *lines[1:]]) + "\n")
        return project.json("report", run)["run"]["recording"]

    assert report() == str(rec)
    assert report(pid=first["pid"] + 1) is None
    assert report(program="/bin/true") is None
    assert report(timestamp_ms=first["timestamp_ms"] + 3_600_000,
                  start_mono_ns=first["start_mono_ns"] + 3_600_000_000_000) is None
    assert report(start_mono_ns=first["start_mono_ns"] + 3_600_000_000_000) is None, "of another boot"


def test_run_without_clock_sync_is_not_joined(project: Project) -> None:
    """Files of older versions are found, and the report says that it cannot join them."""
    record(project, "--heap")
    run = project.only_run()
    lines = run.read_text().splitlines()
    first = json.loads(lines[0])
    del first["start_mono_ns"]
    run.write_text("\n".join([json.dumps(first), *[l for l in lines[1:] if '"sync"' not in l]]) + "\n")
    done = project.piano("report", "--frames", "--json", run)
    data = json.loads(done.out)
    assert data["run"]["recording"] and all(f["inside"] is None for f in data["frames"])
    assert "has no clock sync" in done.err


def begins_of(project: Project, syncs: list[dict], starts: list[int]) -> tuple[list[int], list[dict]]:
    """The times at which frames begin, relative to the start of the recording."""
    pid, mono, real = 77, 5_000_000_000_000, 1740000000123
    made = bytearray(4096)
    made[:8] = b"PIANOREC"
    struct.pack_into("<8I", made, 8, 1, 4096, 65536, 62, pid, 1, 1, 4)
    struct.pack_into("<4Q", made, 40, 0, mono, real * 1_000_000, mono + 60_000_000_000)
    project.runs.mkdir(parents=True)
    (project.runs / f"{real}-{pid}.rec").write_bytes(made)
    lines = [header(["update"], places=["a.c:1"], pid=pid, clock="tsc", start_mono_ns=mono),
             {"thread": 1, "tid": pid, "start_ns": 0}]
    lines += [{"sync": True, "at_ns": s["at_ns"], "mono_ns": mono + s["mono_ns"]} for s in syncs]
    lines += [frame(i, [fn(0)], 1_000_000, start_ns=at) | {"took_ns": 2_000_000} for i, at in enumerate(starts)]
    run = put_run(project, f"{real}-{pid}", ndjson(*lines))
    os.utime(run, (real // 1000 + 4, real // 1000 + 4))
    frames = project.frames(run)
    return [f["inside"]["begin_mono_ns"] - mono for f in frames], frames


@pytest.mark.tool
def test_time_is_interpolated_between_clock_pairs(project: Project) -> None:
    """The clock is linear between two pairs; impossible pairs are ignored; old readers skip them."""
    # The counter runs 100 ppm fast, then 100 ppm slow.
    second = 1_000_000_000
    syncs = [{"at_ns": second, "mono_ns": second - 100_000},
             {"at_ns": 1_500_000_000, "mono_ns": 90 * second},  # impossible
             {"at_ns": 2 * second, "mono_ns": 2 * second}]
    begins, frames = begins_of(project, syncs, [0, 500_000_000, second, 1_500_000_000, 3 * second])
    assert begins == [0, 500_000_000 - 50_000, second - 100_000, 1_500_000_000 - 50_000, 3 * second]
    for f in frames:
        assert f["inside"]["end_mono_ns"] - f["inside"]["begin_mono_ns"] == pytest.approx(2_000_000, abs=300)


@pytest.mark.tool
@pytest.mark.parametrize("slept", [20, -20])
def test_events_after_suspend_are_at_the_right_time(project: Project, slept: int) -> None:
    """One of the clocks stops during suspend; later events still have the right time."""
    second = 1_000_000_000
    counter, kernel = max(slept, 0) * second, max(-slept, 0) * second
    syncs = [{"at_ns": n * second + (n > 1) * counter, "mono_ns": n * second + (n > 1) * kernel} for n in (1, 2, 3, 4)]
    moments = [500_000_000, 2_500_000_000, 3 * second, 10 * second]
    begins, _ = begins_of(project, syncs, [at + (at > second) * counter for at in moments])
    assert begins == [at + (at > second) * kernel for at in moments]


def test_a_turn_is_joined_from_begin_to_begin(project: Project) -> None:
    """Allocations of the caller between the calls of a turn belong to the turn."""
    program = project.cc(r"""
        #include <stdio.h>
        #include <stdlib.h>
        #include <time.h>
        #include <unistd.h>
        static long now(void) {
            struct timespec t;
            clock_gettime(CLOCK_MONOTONIC, &t);
            return t.tv_sec * 1000000000L + t.tv_nsec;
        }
        static void *volatile kept;
        static void poll_events(void) { usleep(500); }
        static void render(void) { usleep(500); }
        int main(void) {
            for (int i = 0; i < 20; i++) {
                long from = now();
                poll_events();
                if (i == 7) { kept = malloc(3 << 20); usleep(20000); }
                render();
                printf("%ld %ld\n", from, now());
            }
            return 0;
        }
    """, "-g", select=["--fn", "poll_events", "--fn", "render"])
    done = project.piano("record", "--heap=1", "--", program)
    frames = project.frames()
    assert len(frames) == 20 and all(f["kind"] == "turn" for f in frames)
    said = [[int(word) for word in line.split()] for line in done.out.splitlines()]
    for i, (f, (begin, end)) in enumerate(zip(frames, said)):
        inside = f["inside"]
        assert begin <= inside["begin_mono_ns"] + CLOSE_NS
        assert inside["end_mono_ns"] <= (said[i + 1][1] if i < 19 else end) + CLOSE_NS
        if i < 19:
            assert abs(inside["end_mono_ns"] - frames[i + 1]["inside"]["begin_mono_ns"]) < CLOSE_NS
        assert inside["end_mono_ns"] - inside["begin_mono_ns"] >= f["wall_ns"] - CLOSE_NS
        assert (inside["live_bytes"] >= 3 << 20) == (i == 7)
    assert frames[7]["between_ns"] >= 20_000_000 and frames[7]["spike"]
    text = project.piano("report", "--frames").out
    assert "Frame 8, turn from poll_events: " in text
