"""kill -9 at any time, two hundred times: every recording opens, and contains what the program knew to be written.

The program counts its events in a shared mapping of another file, each after the call has returned."""
from __future__ import annotations

import mmap
import os
import random
import signal
import struct
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from conftest import LIMIT_S, PIANO, Project
from events import API, compile, environment, recordings

SLOTS = 4  # two threads that count, one that starts and ends repeatedly, one that allocates
PROGRAM = r"""
static volatile uint64_t *counts;

static void *count(void *arg)
{
    uintptr_t me = (uintptr_t)arg;
    for (uint64_t i = 0;; i++) {
        piano_queue_depth(me, i);
        __atomic_store_n(&counts[8 * me], i + 1, __ATOMIC_RELEASE);
        if (i % 1000 == 999)
            poll(NULL, 0, 0); /* recorded as waits, between the others */
    }
}

static void *brief(void *arg)
{
    piano_poll_begin(7);
    piano_value("brief", *(int64_t *)arg);
    __atomic_store_n(&counts[8 * 2], *(int64_t *)arg + 1, __ATOMIC_RELEASE);
    piano_poll_end();
    return NULL;
}

static void *holder(void *arg)
{
    static char *held[64];
    for (uint64_t i = 0;; i++) {
        free(held[i % 64]);
        held[i % 64] = malloc(10000);
        __atomic_store_n(&counts[8 * 3], i + 1, __ATOMIC_RELEASE);
    }
}

int main(int argc, char **argv)
{
    pthread_t thread;
    counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, open(argv[1], O_RDWR), 0);
    pthread_create(&thread, NULL, count, (void *)0);
    pthread_create(&thread, NULL, count, (void *)1);
    pthread_create(&thread, NULL, holder, NULL);
    counts[8 * 4] = getpid();
    for (int64_t n = 0;; n++) {
        CHECK(pthread_create(&thread, NULL, brief, &n) == 0);
        pthread_join(thread, NULL);
    }
}
"""


class Killed:
    """One run of the program until it is killed; what it counted, and what was recorded."""

    def __init__(self, project: Project, program: Path, chance: random.Random, command: tuple = (), **env: Any):
        shared = project.root / "counts"
        shared.write_bytes(bytes(4096))
        process = subprocess.Popen([*command, program, shared], env={**project.env, **env}, stderr=subprocess.DEVNULL,
                                   start_new_session=True)
        try:
            with open(shared, "r+b") as file, mmap.mmap(file.fileno(), 4096) as memory:
                def read(slot: int) -> int:
                    return struct.unpack_from("<Q", memory, 64 * slot)[0]
                # Kills after a time, perhaps before main, or after a number of events.
                early = not command and chance.random() < 0.4
                until = time.monotonic() + chance.random() * 0.05
                many = chance.randrange(1, 20000)
                while time.monotonic() < until if early else read(0) < many or not read(4):
                    assert process.poll() is None
                    time.sleep(0)
                os.kill(read(4) or process.pid, signal.SIGKILL)
                process.wait(LIMIT_S)
                self.known = [read(slot) for slot in range(SLOTS)]
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()


def check(project: Project, killed: Killed, path: Path) -> tuple[int, int]:
    """(events in the recording, events that it counts as dropped: on a busy machine a thread may get no chunk)"""
    data = project.json("report", path, "--polls")
    dropped = data["dropped"].pop("memory")
    assert set(data["dropped"].values()) == {0}
    assert data["missing"]["gaps"] == data["missing"]["bad_numbers"] == 0 and data["missing"]["list"] == []
    queues = {queue["queue"]: queue for queue in data["queues"]}
    for number in (0, 1):
        if killed.known[number]:
            queue = queues[number]
            assert killed.known[number] - dropped <= queue["count"] <= killed.known[number] + 1
            assert queue["count"] - 1 <= queue["last"] == queue["max"] < queue["count"] + dropped
    if killed.known[2]:
        value, = data["values"]
        assert value["name"] == "brief" and killed.known[2] - dropped <= value["count"] <= killed.known[2] + 1
        task, = (task for task in data["tasks"] if task["kind"] != "loop")
        assert value["count"] - dropped <= task["polls"] <= value["count"] + 1 + dropped
        assert task["open"] <= 1 + dropped
    return data["events"]["count"], dropped


@pytest.mark.parametrize("seed", range(4))
def test_recording_survives_a_kill_at_any_moment(project: Project, seed: int) -> None:
    program = compile(project, PROGRAM, *API)
    chance = random.Random(seed)
    seen = []
    for _ in range(40):
        killed = Killed(project, program, chance, **environment(project))
        found = recordings(project)
        assert found or not any(killed.known)
        for path in found:
            seen.append(check(project, killed, path))
            path.unlink()
    counts = [count for count, _ in seen]
    assert len(seen) > 20 and len(set(counts)) > 10
    assert sum(dropped for _, dropped in seen) <= sum(counts) / 10000


@pytest.mark.parametrize("seed", range(2))
def test_recording_of_all_instruments_survives_a_kill(project: Project, seed: int) -> None:
    """`piano record` notices, and finishes what it has to add."""
    program = compile(project, PROGRAM, *API)
    chance = random.Random(100 + seed)
    path = project.root / "r.rec"
    opened = 0
    for _ in range(20):
        killed = Killed(project, program, chance, command=(PIANO, "record", "-o", str(path), "--"))
        if not path.exists():
            assert not any(killed.known)
            continue
        overview = project.json("report", path)
        if killed.known[0]:
            check(project, killed, path)
            heap = project.json("report", path, "--heap")
            # One sample per half megabyte on average; five times as many bytes without a sample have a probability of 1/150.
            assert heap["samples"] > 0 or killed.known[3] * 10000 < 8 << 20
            assert "events" in overview["polls"]
            opened += 1
        path.unlink()
    assert opened >= 10


STEPPER = r"""
#include <sys/ptrace.h>
/* Runs a program until its Nth stop at a system call, and kills it there. Returns 1 if it ended before that. */
int main(int argc, char **argv)
{
    int status, stops = atoi(argv[1]);
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        setenv("LD_PRELOAD", argv[2], 1);
        execv(argv[3], argv + 3);
        _exit(3);
    }
    waitpid(child, &status, 0);
    for (int i = 0; i < stops && !WIFEXITED(status); i++) {
        CHECK(ptrace(PTRACE_SYSCALL, child, NULL, NULL) == 0);
        CHECK(waitpid(child, &status, 0) == child);
    }
    if (WIFEXITED(status))
        return 1;
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return 0;
}
"""


def test_recording_survives_a_kill_at_every_system_call_of_its_start(project: Project) -> None:
    """A recording gets its name only when it is valid."""
    stepper = compile(project, STEPPER)
    program = compile(project, "int main(void) { return 0; }", name="empty")
    env = environment(project)
    library = env.pop("LD_PRELOAD")
    stops, found = 0, 0
    while project.command(stepper, stops, library, program, env=env, check=False).status == 0:
        for path in recordings(project):
            project.json("report", path)
            path.unlink()
            found += 1
        stops += 1
    assert 20 < found < stops


FRAMES = "".join(f"static __attribute__((noinline)) void leaf_{i}(void) {{ sink++; }}\n" for i in range(40))
FRAMES = f"""
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>
static volatile int sink;
static volatile uint64_t *counts;
{FRAMES}
static __attribute__((noinline)) void turn(void) {{ {"".join(f"leaf_{i}();" for i in range(40))} }}
int main(int argc, char **argv)
{{
    counts = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, open(argv[1], O_RDWR), 0);
    counts[8 * 4] = getpid();
    for (uint64_t i = 0;; i++) {{
        turn();
        __atomic_store_n(&counts[0], i + 1, __ATOMIC_RELEASE);
    }}
}}
"""


@pytest.mark.parametrize("seed", range(2))
def test_run_of_a_killed_program_has_every_line_once(project: Project, seed: int) -> None:
    """Lines that are in the run file, or being written to it, are not read from the live image again."""
    program = project.cc(FRAMES, "-w", select=["--frame", "turn"])
    chance = random.Random(200 + seed)
    for _ in range(60):
        killed = Killed(project, program, chance)
        for path in project.run_files() if killed.known[0] else ():
            report = project.report(path)
            calls = report.calls("turn", "leaf_0", "leaf_39")
            assert killed.known[0] <= calls["turn"] <= killed.known[0] + 1, (killed.known, calls)
            assert {calls["leaf_0"], calls["leaf_39"]} <= {killed.known[0], killed.known[0] + 1}
            assert report.frame_count in (killed.known[0], killed.known[0] + 1)
        for left in project.runs.iterdir() if project.runs.is_dir() else ():
            left.unlink()
