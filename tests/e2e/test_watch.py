"""`piano record --watch`, `--on-long-poll` and `--on-growth`: red flags when they occur, and a recording that ends or takes a
snapshot at an event while the program continues."""
from __future__ import annotations

import os
import re
import struct
import subprocess
import time
from pathlib import Path
from typing import Any, Iterable

import pytest

from conftest import LIMIT_S, PIANO, Project
from made import make, put
from samples import DENY, compiled
from test_cpu import REFUSED
from events import API, compile

MS = 1_000_000
PERF = pytest.mark.skipif(bool(REFUSED), reason=f"perf events are refused here: {REFUSED}")

# Polls of some microseconds until the named file exists, with one poll of 150 ms in between. Then a mark and exit status 5.
LATE = r"""
static void spend(long ms)
{
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    do clock_gettime(CLOCK_MONOTONIC, &b);
    while ((b.tv_sec - a.tv_sec) * 1000000000L + b.tv_nsec - a.tv_nsec < ms * 1000000L);
}

int main(int argc, char **argv)
{
    void *block = NULL;
    piano_task_spawn(1, "brief", "late.c:1");
    piano_task_spawn(2, "the long one", "late.c:2");
    piano_mark("before");
    for (long i = 0; access(argv[1], F_OK) != 0; i++) {
        piano_poll_begin(1);
        free(block);
        block = malloc(5000);
        piano_poll_end();
        usleep(1000);
        if (i == 200 && argc > 2) {
            piano_poll_begin(2);
            spend(atol(argv[2]));
            piano_poll_end();
        }
    }
    for (int i = 0; i < 20000; i++)
        piano_mark("after");
    return 5;
}
"""


class Recorder:
    """`piano record`, with its messages read while it runs."""

    def __init__(self, project: Project, *words: object, under: tuple[object, ...] = ()):
        self.process = subprocess.Popen([*map(str, under), PIANO, "record", *map(str, words)], cwd=project.root, env=project.env,
                                        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        self.said: list[str] = []

    def wait_for(self, pattern: str) -> re.Match[str]:
        until = time.monotonic() + LIMIT_S
        while time.monotonic() < until:
            line = self.process.stderr.readline()
            assert line, self.said
            self.said.append(line.rstrip("\n"))
            found = re.search(pattern, line)
            if found:
                return found
        raise AssertionError(self.said)

    def finish(self) -> int:
        self.said += self.process.stderr.read().splitlines()
        return self.process.wait(LIMIT_S)

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(LIMIT_S)
        self.process.stderr.close()


def without_times(text: str) -> str:
    """The clock of a finished recording is slightly more exact."""
    return re.sub(r"\b[0-9.]+(ns|us|ms|s)\b", "TIME", text)


def marks(project: Project, path: Path) -> set[str]:
    return {mark["name"] for mark in project.json("report", "--polls", path)["marks"]}


def test_red_flags_are_printed_as_they_happen(project: Project) -> None:
    program, path, stop = compile(project, LATE, *API), project.root / "r.rec", project.root / "stop"
    with Recorder(project, "--events", "--watch", "-o", path, "--", program, stop, 150) as recorder:
        said = recorder.wait_for(r"! (\d+ polls? took more than .*; the longest \S+: the long one on prog \(\d+\), \S+ after the start)")
        assert recorder.process.poll() is None, "it runs"
        stop.touch()
        assert recorder.finish() == 5
    flags = project.json("report", "--polls", path)["flags"]
    long_one, = (flag for flag in flags if flag["kind"] == "long-polls")
    assert long_one["subject"] == "the long one"
    if long_one["count"] == 1:  # on a busy machine other polls are long too
        assert without_times(long_one["text"]) == without_times(said.group(1)), "the same words, from the same code"
    assert sum("the long one" in line for line in recorder.said) == 1, "once"


def test_watch_is_silent_without_red_flags(project: Project) -> None:
    program, path, stop = compile(project, LATE, *API), project.root / "r.rec", project.root / "stop"
    with Recorder(project, "--events", "--watch", "--on-long-poll=10s", "-o", path, "--", program, stop) as recorder:
        while project.piano("report", "--polls", path, check=False).status != 0 or \
                sum(task["polls"] for task in project.json("report", "--polls", path)["tasks"]) < 1500:
            assert recorder.process.poll() is None
        stop.touch()
        assert recorder.finish() == 5
    flags = project.json("report", "--polls", path)["flags"]
    assert bool(flags) == any("!" in line for line in recorder.said), (flags, recorder.said)
    assert project.json("report", "--polls", path)["run"]["fired"] == []
    assert marks(project, path) == {"before", "after"}


def test_watch_of_a_short_program(project: Project) -> None:
    """Includes the last milliseconds before the end; each task that blocks has its own flag."""
    program = compile(project, r"""
        int main(void)
        {
            piano_task_spawn(1, "sleeper", "short.c:1");
            piano_task_spawn(2, "waiter", "short.c:2");
            for (int task = 1; task <= 2; task++) {
                piano_poll_begin(task);
                poll(NULL, 0, 60);
                piano_poll_end();
            }
            return 0;
        }
    """, *API)
    path = project.root / "r.rec"
    done = project.piano("record", "--events", "--watch", "-o", path, "--", program)
    flags = project.json("report", "--polls", path)["flags"]
    assert [flag["kind"] for flag in flags] == ["long-polls", "blocking", "blocking"]
    said = [line.split("! ", 1)[1] for line in done.err.splitlines() if "! " in line]
    assert sorted(map(without_times, said)) == sorted(without_times(flag["text"]) for flag in flags)


def test_long_poll_ends_the_recording_but_not_the_program(project: Project) -> None:
    program, path, stop = compile(project, LATE, *API), project.root / "r.rec", project.root / "stop"
    with Recorder(project, "--events", "--heap=1K", "--on-long-poll", "100ms", "-o", path, "--", program, stop, 150) as recorder:
        recorder.wait_for(r"after \S+: a poll took \S+ \(the long one on prog \(\d+\)\); the recording ends here, the program goes on")
        assert recorder.process.poll() is None
        stop.touch()
        assert recorder.finish() == 5, "the program's own status"
    data = project.json("report", "--polls", path)
    fired, = data["run"]["fired"]
    assert (fired["kind"], fired["action"], fired["limit"]) == ("long-poll", "end", 100 * MS)
    # It may become true before the poll ends.
    assert fired["what"].startswith("the long one on ") and fired["value"] >= 100 * MS
    longest = data["longest"][0]
    assert longest["task"] == "the long one" and longest["duration_ns"] >= (100 if longest["open"] else 150) * MS
    assert fired["at_ns"] <= data["run"]["ended_ns"] == data["run"]["wall_ns"]
    assert marks(project, path) == {"before"}, "what came later is not in it"
    assert sum(task["open"] for task in data["tasks"]) == longest["open"]
    assert project.json("report", "--heap", path)["snapshots"][-1]["kind"] == "asked"
    text = project.piano("report", "--polls", path)
    assert re.search(r"after \S+: a poll took \S+ \(the long one on ", text.err)
    assert "the recording ends there: --on-long-poll, although the program went on" in text.err


def test_open_poll_ends_the_recording_too(project: Project) -> None:
    """A poll that never ends is long as well."""
    program = compile(project, r"""
        int main(int argc, char **argv)
        {
            piano_task_spawn(1, "stuck", "stuck.c:1");
            piano_poll_begin(1);
            while (access(argv[1], F_OK) != 0)
                usleep(1000);
            piano_poll_end();
        }
    """, *API)
    path, stop = project.root / "r.rec", project.root / "stop"
    with Recorder(project, "--events", "--on-long-poll=200ms:end", "-o", path, "--", program, stop) as recorder:
        recorder.wait_for(r"a poll took \S+ \(stuck on prog")
        stop.touch()
        assert recorder.finish() == 0
    stuck, = project.json("report", "--polls", path)["tasks"]
    assert (stuck["name"], stuck["open"]) == ("stuck", 1) and stuck["max_ns"] >= 200 * MS


# What piano does after a condition has ended the recording ----------------------------------------------------

# A poll of 150 ms, and 600 ms of CPU time after the file exists whose name is given. With a second name, a process with an empty
# environment reads from that.
AFTERWARDS = LATE[:LATE.index("int main")] + r"""
static double cpu_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    char *const nothing[] = {NULL};
    if (argc > 2 && fork() == 0) {
        for (int fd = 0; fd < 3; fd++)
            dup2(open("/dev/null", O_RDWR), fd);
        execle("/bin/cat", "cat", argv[2], (char *)NULL, nothing);
        _exit(1);
    }
    piano_task_spawn(1, "the long one", "afterwards.c:1");
    piano_poll_begin(1);
    spend(150);
    piano_poll_end();
    while (access(argv[1], F_OK) != 0)
        usleep(1000);
    for (double end = cpu_time() + 0.6; cpu_time() < end; )
        ;
    return 5;
}
"""


def ended(project: Project, *words: object, **options: Any) -> Recorder:
    """The recording has ended because of the long poll."""
    recorder = Recorder(project, "--events", "--on-long-poll=100ms", "-o", "r.rec", *words, **options)
    recorder.wait_for("the recording ends here, the program goes on")
    return recorder


@PERF
def test_recorder_sleeps_after_the_end_of_the_recording(project: Project) -> None:
    """The rings of the samples are closed, and not waited for."""
    program, stop = compile(project, AFTERWARDS, *API), project.root / "stop"
    with ended(project, "--cpu", "--", program, stop) as recorder:
        now = Path(f"/proc/{recorder.process.pid}/syscall")
        if not now.exists():
            pytest.skip("this kernel does not tell the system calls of a process")
        until = time.monotonic() + LIMIT_S
        while now.read_text() == "running\n":
            assert time.monotonic() < until, "it is never at rest"
        stop.touch()
        assert recorder.finish() == 5


@pytest.mark.parametrize("by", ["perf", "timers"])
def test_cpu_time_after_the_end_of_the_recording_is_not_missing(project: Project, by: str) -> None:
    """Samples end with the recording. The CPU time with which they are compared ends there, too."""
    program, stop = compile(project, AFTERWARDS, *API), project.root / "stop"
    if by == "perf" and REFUSED:
        pytest.skip(f"perf events are refused here: {REFUSED}")
    under = (compiled(project, DENY, name="deny"),) if by == "timers" else ()
    with ended(project, "--cpu=499", "--", program, stop, under=under) as recorder:
        stop.touch()
        assert recorder.finish() == 5
    assert "samples cover" not in "".join(recorder.said)
    cpu = project.json("report", "--cpu", "r.rec")["cpu"]
    assert cpu["lost"] == 0 and not cpu["incomplete"], cpu
    assert cpu["kernel_cpu_ns"] is None or cpu["kernel_cpu_ns"] < 600 * MS


@PERF
def test_process_without_environment_is_known_after_the_end_of_the_recording(project: Project) -> None:
    """The samples have told which processes there are."""
    program, stop, gate = compile(project, AFTERWARDS, *API), project.root / "stop", project.root / "gate"
    os.mkfifo(gate)
    try:
        with ended(project, "--cpu", "--", program, stop, gate) as recorder:
            stop.touch()
            assert recorder.finish() == 5
        found = [m for m in (re.search(r"1 process that it started still runs \((\d+)\)", line) for line in recorder.said) if m]
        assert found, recorder.said
        assert Path(f"/proc/{found[0].group(1)}/comm").read_text() == "cat\n"
    finally:
        gate.open("w").close()


def test_snapshot_instead_of_the_end(project: Project) -> None:
    program, path, stop = compile(project, LATE, *API), project.root / "r.rec", project.root / "stop"
    with Recorder(project, "--events", "--heap=1K", "--on-long-poll", "100ms:snapshot", "-o", path, "--", program, stop,
                  150) as recorder:
        recorder.wait_for(r"a poll took \S+ .*; a snapshot was taken")
        stop.touch()
        assert recorder.finish() == 5
    data = project.json("report", "--polls", path)
    fired, = data["run"]["fired"]
    assert fired["action"] == "snapshot" and data["run"]["ended_ns"] is None
    assert marks(project, path) == {"before", "after"}
    assert "asked" in [s["kind"] for s in project.json("report", "--heap", path)["snapshots"]]
    assert "the recording ends there" not in project.piano("report", "--polls", path).err


GROWS = r"""
int main(int argc, char **argv)
{
    char *hold = malloc(8 << 20);
    long step = atol(argv[2]);
    memset(hold, 1, 8 << 20);
    for (long i = 0; access(argv[1], F_OK) != 0 && (step || i < atol(argv[3])); i++) {
        void *more = malloc(step ? step : 65536);
        if (!step)
            free(more);
        usleep(1000);
    }
    return 6;
}
"""


def test_growth_ends_the_recording(project: Project) -> None:
    program, path, stop = compile(project, GROWS, "-fno-builtin"), project.root / "r.rec", project.root / "stop"
    with Recorder(project, "--heap=64K", "--on-growth", "50%/s", "-o", path, "--", program, stop, 65536) as recorder:
        found = recorder.wait_for(r"the heap grew by (\S+)% \(from \S+ to \S+ in \S+\); the recording ends here")
        assert float(found.group(1)) >= 50
        stop.touch()
        assert recorder.finish() == 6
    fired, = project.json("report", "--heap", path)["run"]["fired"]
    assert (fired["kind"], fired["limit"]) == ("growth", 500) and fired["value"] >= 500
    heap = project.json("report", "--heap", path)
    assert heap["snapshots"][-1]["kind"] == "asked"
    text = project.piano("report", "--heap", path).err
    assert re.search(r"after \S+: the heap grew by \S+% \(from ", text) and "--on-growth" in text


def test_churn_is_no_growth(project: Project) -> None:
    program, path = compile(project, GROWS, "-fno-builtin"), project.root / "r.rec"
    done = project.piano("record", "--heap=64K", "--on-growth=10%/200ms", "-o", path, "--", program, "none", 0, 1500, check=False)
    assert done.status == 6 and "grew" not in done.err
    assert project.json("report", "--heap", path)["run"]["fired"] == []


def test_watch_of_too_many_events_says_what_it_skipped(project: Project) -> None:
    program = compile(project, r"""
        int main(void)
        {
            struct timespec a, b;
            piano_task_spawn(1, "one", "storm.c:1");
            clock_gettime(CLOCK_MONOTONIC, &a);
            do {
                for (int i = 0; i < 1000; i++) {
                    piano_poll_begin(1);
                    piano_wake(1);
                    piano_poll_end();
                }
                clock_gettime(CLOCK_MONOTONIC, &b);
            } while (b.tv_sec - a.tv_sec < 3);
            return 0;
        }
    """, *API)
    for size in ("4M", "512M"):
        path = project.root / f"{size}.rec"
        done = project.piano("record", "--events", "--watch", "--on-long-poll=500ms", "--max-size", size, "-o", path, "--", program)
        assert re.search(r"\S+ of events came faster than they are watched", done.err), done.err
        # A poll whose end was skipped is not a long one, and a task whose poll was skipped did not wait.
        assert "recording ends here" not in done.err and "began more than" not in done.err, done.err


@pytest.mark.tool
@pytest.mark.parametrize("flags", [
    ("--on-long-poll", "100"), ("--on-long-poll", "-1s"), ("--on-long-poll", "0s"), ("--on-long-poll", "100ms:stop"),
    ("--on-long-poll", ":end"), ("--on-long-poll", "1" * 50 + "s"), ("--on-growth", "10%"), ("--on-growth", "10/min"),
    ("--on-growth", "0%/min"), ("--on-growth", "-5%/min"), ("--on-growth", "nan%/min"), ("--on-growth", "10%/"),
    ("--on-growth", "10%/5"), ("--on-growth", "10%/1ms"), ("--on-growth", "10%/min:"), ("--on-growth", "1e9%/min"),
    ("--on-growth", "10%/-1s")], ids=" ".join)
def test_hostile_condition_is_a_usage_error(project: Project, flags: tuple[str, ...]) -> None:
    done = project.piano("record", *flags, "--", "true", check=False)
    assert done.status == 2 and flags[0] in done.err and not (project.root / ".piano").exists()


@pytest.mark.tool
def test_condition_needs_its_instrument(project: Project) -> None:
    for flags, why in ((("--heap", "--watch"), "--watch is about events, and needs --events"),
                       (("--cpu", "--on-long-poll=1s"), "--on-long-poll is about events, and needs --events"),
                       (("--events", "--on-growth=10%/min"), "--on-growth is about memory, and needs --heap"),
                       (("--pid", "1", "--heap", "--watch"), "--watch is about events, and needs --events"),
                       (("--pid", "1", "--cpu", "--on-growth=10%/min"), "--on-growth is about memory, and needs --heap")):
        words: Iterable[str] = () if "--pid" in flags else ("--", "true")
        done = project.piano("record", *flags, *words, check=False)
        assert done.status == 2 and why in done.err, done


@pytest.mark.parametrize("is_terminal", [True, False], ids=["terminal", "pipe"])
def test_room_for_events_is_said_beforehand(project: Project, is_terminal: bool) -> None:
    program = compile(project, r"""
        int main(void)
        {
            struct timespec a, b;
            clock_gettime(CLOCK_MONOTONIC, &a);
            do {
                for (int i = 0; i < 1000; i++)
                    piano_mark("mark");
                clock_gettime(CLOCK_MONOTONIC, &b);
            } while (b.tv_sec - a.tv_sec < 2);
        }
    """, *API)
    words = ("record", "--events", "--max-size=8M", "-o", project.root / "r.rec", "--", program)
    if is_terminal:
        status, said = project.run_in_pty(PIANO, *words, columns=300)
        assert status == 0
    else:
        said = project.piano(*words).err
    found = re.search(r"events come at (\S+)MB a second: the recording keeps those of the last (\S+), then the oldest", said)
    assert found, said
    assert said.index("events come at") < said.index("they cover the last ")


@pytest.mark.tool
def test_end_that_the_tool_wrote_is_the_end_of_the_recording(project: Project) -> None:
    """Checks bytes: events and samples after `ended_ns` are skipped, a hostile text is printed safely, an impossible time is
    ignored."""
    rec = make.Recording()
    name = rec.name("poll")
    for at in (100, 500, 2000, 5000):
        rec.poll(11, at, 10, task=1, name=name)
        rec.cpu(11, at, rec.stack([0x1000]), ms=10)
    rec.event(11, 990, make.POLL_BEGIN, 2, rec.name("open then"))
    rec.events[11].sort(key=lambda e: e[0])
    path = put(project, rec)
    data = bytearray(path.read_bytes())
    what = b"evil\x1b[31m\xff \"quoted\""
    fired = struct.pack("<QIIQQ160s", rec.moment(999), 1, 2, 120 * MS, 100 * MS, what.ljust(160, b"x"))
    struct.pack_into("<QQ", data, 2752, rec.moment(1000), 1)
    data[2768:2768 + len(fired)] = fired
    path.write_bytes(data)
    report = project.json("report", path, "--polls")
    assert {t["name"]: (t["polls"], t["open"]) for t in report["tasks"]} == {"poll": (2, 0), "open then": (1, 1)}
    assert report["tasks"][0]["max_ns"] == 10 * MS and report["cpu"]["samples"] == 2
    assert report["run"]["ended_ns"] == report["run"]["wall_ns"] == 1000 * MS
    first, = report["run"]["fired"]
    assert (first["at_ns"], first["value"]) == (999 * MS, 120 * MS) and first["what"].startswith("evil")
    said = project.piano("report", path, "--polls").err
    assert "after 999.0ms: a poll took 120.0ms (evil\\x1b[31m" in said and "\x1b" not in said
    for ended, times in ((2**63, 2**63), (1, 2**44), (rec.start_ns - 1, 0)):
        struct.pack_into("<QQ", data, 2752, ended, times)
        path.write_bytes(data)
        report = project.json("report", path, "--polls")
        assert report["polls"] == 5 and report["run"]["ended_ns"] is None and report["run"]["fired"] == []
    struct.pack_into("<QQ", data, 2752, 0, 1000)  # more often than are kept
    path.write_bytes(data)
    assert len(project.json("report", path, "--polls")["run"]["fired"]) == 4
