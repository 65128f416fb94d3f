"""`piano record --pid` as a flight recorder: red flags and conditions of a process that ran already."""
from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path
from typing import Any, Iterator

import pytest

from conftest import LIMIT_S, Project
from heaps import compile
from test_attach import skip_if_refused
from test_watch import MS, Recorder, without_times

# Turns of a loop with poll(). Files of these names say what else it does: one long turn; blocks of 64 KB that stay; 100 blocks
# from the start, of which one at a time is replaced. It ends with status 5.
PROGRAM = r"""
    #include <poll.h>
    static char *old[100];
    static char *make(void) { char *p = malloc(65536); memset(p, 1, 65536); return p; }
    static NOINLINE void spend(long ms)
    {
        struct timespec a, b;
        clock_gettime(CLOCK_MONOTONIC, &a);
        do clock_gettime(CLOCK_MONOTONIC, &b);
        while ((b.tv_sec - a.tv_sec) * 1000000000L + b.tv_nsec - a.tv_nsec < ms * 1000000L);
    }
    int main(void)
    {
        for (int i = 0; i < 100; i++) old[i] = make();
        puts("ready");
        fflush(stdout);
        int again = -1; /* a loop is known after four waits: the first long turn may come before */
        for (int turn = 0; access("stop", F_OK) != 0; turn++) {
            poll(0, 0, 1);
            if (turn == again) spend(150);
            if (access("long", F_OK) == 0) { unlink("long"); spend(150); again = turn + 20; }
            if (access("grow", F_OK) == 0) KEEP(make());
            if (access("churn", F_OK) == 0) { free(old[turn % 100]); old[turn % 100] = make(); }
        }
        return 5;
    }
"""


@pytest.fixture
def process(project: Project) -> Iterator[subprocess.Popen]:
    running = subprocess.Popen([compile(project, PROGRAM)], cwd=project.root, stdout=subprocess.PIPE, text=True)
    try:
        assert running.stdout.readline() == "ready\n"
        yield running
    finally:
        running.kill()
        running.communicate()


def recorder(project: Project, process: subprocess.Popen, *words: Any) -> Recorder:
    """It has begun to record."""
    tool = Recorder(project, *words, "-o", "x.rec", "--pid", process.pid)
    try:
        tool.wait_for("recording process")
    except AssertionError:
        skip_if_refused("".join(tool.said))
        raise
    return tool


def fired(project: Project) -> list[dict[str, Any]]:
    return project.json("report", "x.rec")["run"]["fired"]


def end(project: Project, process: subprocess.Popen) -> None:
    """The process is as it was, but for the library."""
    assert "x.rec" not in Path(f"/proc/{process.pid}/maps").read_text()
    (project.root / "stop").touch()
    assert process.wait(LIMIT_S) == 5


def test_red_flags_of_a_process_that_ran_already(project: Project, process: subprocess.Popen) -> None:
    with recorder(project, process, "--events", "--watch") as tool:
        (project.root / "long").touch()
        said = tool.wait_for(r"! (\d+ polls? took more than .*: poll loop of prog \(\d+\), \S+ after the start)")
        tool.process.send_signal(signal.SIGINT)
        assert tool.finish() == 0
    flags = project.json("report", "--polls", "x.rec")["flags"]
    first = next(flag for flag in flags if flag["kind"] == "long-polls")
    if first["count"] == 1:  # a busy machine makes others long too
        assert without_times(first["text"]) == without_times(said.group(1)), "the same words, from the same code"
    end(project, process)


def test_long_poll_ends_the_recording_of_a_process(project: Project, process: subprocess.Popen) -> None:
    """piano leaves the process at once, which goes on."""
    with recorder(project, process, "--events", "--heap=1K", "--on-long-poll", "100ms") as tool:
        (project.root / "long").touch()
        tool.wait_for(r"after \S+: a poll took \S+ \(poll loop of prog.*\); the recording ends here, the program goes on")
        assert tool.finish() == 0 and process.poll() is None
    one, = fired(project)
    assert (one["kind"], one["action"], one["limit"]) == ("long-poll", "end", 100 * MS)
    data = project.json("report", "--polls", "x.rec")
    assert one["at_ns"] <= data["run"]["ended_ns"] == data["run"]["wall_ns"]
    assert data["longest"][0]["duration_ns"] >= 150 * MS
    assert project.json("report", "--heap", "x.rec")["snapshots"][-1]["kind"] == "asked"
    assert "the recording ends there: --on-long-poll" in project.piano("report", "--polls", "x.rec").err
    end(project, process)


def test_snapshot_instead_of_the_end_of_a_process(project: Project, process: subprocess.Popen) -> None:
    with recorder(project, process, "--events", "--heap=1K", "--on-long-poll", "100ms:snapshot") as tool:
        (project.root / "long").touch()
        tool.wait_for(r"a poll took \S+ .*; a snapshot was taken")
        assert tool.process.poll() is None
        tool.process.send_signal(signal.SIGINT)
        assert tool.finish() == 0
    one, = fired(project)
    assert one["action"] == "snapshot" and project.json("report", "--polls", "x.rec")["run"]["ended_ns"] is None
    assert "asked" in [s["kind"] for s in project.json("report", "--heap", "x.rec")["snapshots"]]
    end(project, process)


def test_growth_ends_the_recording_of_a_process(project: Project, process: subprocess.Popen) -> None:
    """The process is judged by its resident memory: what it held before is not in the recording."""
    with recorder(project, process, "--heap", "--on-growth", "50%/500ms") as tool:
        (project.root / "grow").touch()
        found = tool.wait_for(r"the heap grew by (\S+)% \(resident memory from (\S+)MB to \S+ in \S+\); the recording ends here")
        assert float(found.group(1)) >= 50 and float(found.group(2)) >= 6, "with the blocks from before"
        assert tool.finish() == 0
    one, = fired(project)
    assert (one["kind"], one["limit"]) == ("growth", 500) and one["what"].startswith("resident memory from ")
    end(project, process)


def test_replaced_memory_is_no_growth(project: Project, process: subprocess.Popen) -> None:
    """Live bytes grow from nothing to 6.4 MB, because frees of older blocks are not seen."""
    with recorder(project, process, "--heap=1", "--on-growth", "20%/200ms") as tool:
        (project.root / "churn").touch()
        while project.piano("report", "--heap", "x.rec", check=False).status != 0 or \
                project.json("report", "--heap", "x.rec")["allocated_objects"] < 1000:
            assert tool.process.poll() is None, tool.finish()
        tool.process.send_signal(signal.SIGINT)
        assert tool.finish() == 0
    assert fired(project) == [] and "grew" not in "".join(tool.said)
    assert project.json("report", "--heap", "x.rec")["live_bytes"] >= 100 * 65536
    end(project, process)


def test_condition_that_cannot_be_watched_is_refused(project: Project) -> None:
    """Nothing can be loaded into the process, so there are no events. The CPU alone is not what was asked for."""
    source = 'int main(void) { puts("ready"); fflush(stdout); for (;;) pause(); }'
    running = subprocess.Popen([compile(project, source, "-static")], stdout=subprocess.PIPE, text=True)
    try:
        assert running.stdout.readline() == "ready\n"
        done = project.piano("record", "--on-long-poll=1s", "--pid", running.pid, "-o", "x.rec", check=False)
        skip_if_refused(done.err)
        assert done.status == 1 and re.search("statically linked", done.err) and not (project.root / "x.rec").exists()
    finally:
        running.kill()
        running.communicate()
