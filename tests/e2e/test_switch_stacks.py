"""Stacks of threads that leave their CPUs: no long wait lacks one, however many short absences there are; and how much of a stack
is taken."""
from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from conftest import PIANO, Done, Project
from samples import OFF, PREEMPTED, Recording, Sample, compiled


def waits_refused() -> str:
    """Why the kernel gives no stacks of threads that wait; empty if it does."""
    done = subprocess.run([PIANO, "doctor"], capture_output=True, text=True)
    found = re.search(r"^(\S+)\s+perf events: (.*)", done.stdout, re.M)
    return "" if found and found[1] == "ok" else found[2] if found else "unknown"


REFUSED = waits_refused()
pytestmark = pytest.mark.skipif(bool(REFUSED), reason=f"perf events are refused here: {REFUSED}")

# Naps of 2 ms below DEPTH frames of 100 bytes or more, and BLINKS absences of some 80 microseconds before each.
NAPS = r"""
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
static void away(long ns)
{
    struct timespec t = {0, ns};
    nanosleep(&t, NULL);
}
__attribute__((noinline)) static void nap(void) { away(2000000); __asm__ volatile(""); }
__attribute__((noinline)) static void blink(void) { away(70000); __asm__ volatile(""); }
__attribute__((noinline)) static void turn(int blinks)
{
    for (int i = 0; i < blinks; i++)
        blink();
    nap();
}
__attribute__((noinline)) static void down(int depth, int blinks)
{
    char frame[100];
    __asm__ volatile("" ::"r"(frame) : "memory");
    if (depth > 0)
        down(depth - 1, blinks);
    else
        turn(blinks);
    __asm__ volatile("" ::"r"(frame) : "memory");
}
int main(int argc, char **argv)
{
    prctl(PR_SET_TIMERSLACK, 1L);
    for (int i = 0; i < atoi(argv[3]); i++)
        down(atoi(argv[1]), atoi(argv[2]));
    return 0;
}
"""


def naps(project: Project, depth: int, blinks: int, count: int) -> tuple[list[Sample], Done]:
    """Its long waits."""
    (project.root / "x.rec").unlink(missing_ok=True)
    program: Path = compiled(project, NAPS)
    done = project.piano("record", "--cpu", "-o", "x.rec", "--", program, depth, blinks, count)
    rec = Recording(project.root / "x.rec")
    found = [s for s in rec.kind(OFF) if not s.flags & PREEMPTED and 1.5e6 <= s.value < 50e6]
    assert len(found) > 0.9 * count, done
    return found, done


@pytest.mark.timing
def test_long_waits_among_short_ones_have_stacks(project: Project) -> None:
    found, done = naps(project, 0, 20, 500)
    seen = [s for s in found if s.stack]
    assert len(seen) >= 0.95 * len(found), done
    assert all("turn" in s.names and "main" in s.names and s.stack_flags == 0 for s in seen)
    assert sum("nap" in s.names for s in seen) >= 450  # the others are short absences that took long


def test_few_waits_have_long_stacks(project: Project) -> None:
    found, _ = naps(project, 40, 0, 100)
    assert all(s.names.count("down") == 41 and "main" in s.names and s.stack_flags == 0 for s in found)


@pytest.mark.timing
def test_short_stacks_of_many_waits_are_marked(project: Project) -> None:
    """What does not fit is missing at its outer end, and the stack says so."""
    found, _ = naps(project, 40, 20, 500)
    short = [s for s in found if s.stack and s.stack_flags]
    assert len(short) > 0.5 * len(found)
    assert all("turn" in s.names and "down" in s.names and "main" not in s.names for s in short)


THREADS = 20
PAUSES = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void *wait_for_ever(void *arg)
{
    for (;;)
        usleep(3000);
    return arg;
}
int main(int argc, char **argv)
{
    pthread_t t;
    for (int i = 1; i < atoi(argv[1]); i++)
        pthread_create(&t, NULL, wait_for_ever, NULL);
    puts("ready");
    fflush(stdout);
    wait_for_ever(NULL);
}
"""


def test_few_descriptors_are_enough_for_waits(project: Project) -> None:
    """If the descriptors do not suffice for both lengths of stacks, the long ones are taken."""
    program = compiled(project, PAUSES)
    with subprocess.Popen([program, str(THREADS)], stdout=subprocess.PIPE) as running:
        try:
            assert running.stdout and running.stdout.readline() == b"ready\n"
            cpus = len(os.sched_getaffinity(running.pid))
            most = cpus + 2 * THREADS * cpus + THREADS * cpus // 2 + 10  # of whole CPUs, of threads, half of the short ones, others
            project.command("prlimit", f"--nofile={most}:{most}", PIANO, "record", "--cpu", "--pid", running.pid,
                            "--duration", "0.5", "-o", "pid.rec")
        finally:
            running.kill()
    assert any(s.stack for s in Recording(project.root / "pid.rec").kind(OFF))
