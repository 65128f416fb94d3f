"""Runs and recordings made on one machine and read on both: the reports are equal. Also `piano build` with a cross compiler."""
from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import ARM, HERE, Machine
from e2e_helpers import Project, Report

MACHINES = pytest.mark.parametrize("made_on", [HERE, ARM], ids=lambda m: m.name)

PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void leaf(int n) { char *p = malloc(n); memset(p, 1, n); free(p); }
static void keep(void) { char *p = malloc(1000); p[0] = 1; __asm__ volatile("" :: "r"(p) : "memory"); }
static void update(int n) { for (int i = 1; i <= n; i++) leaf(i); }
int main(int argc, char **argv)
{
    for (int i = 0; i < 100; i++) update(10);
    for (int i = 0; i < 7; i++) keep();
    if (argc > 1) { (void)!write(1, "ready\n", 6); pause(); }
    return 0;
}
"""
CALLS = {"main": 1, "update": 100, "leaf": 1000, "keep": 7}


def said_by(project: Project, machine: Machine, *arguments: object) -> str:
    return project.command(machine.tool, *arguments).out


def same_on_both(project: Project, *arguments: object) -> str:
    """The output of both tools for ARGUMENTS, which must be equal."""
    here, arm = (said_by(project, m, *arguments) for m in (HERE, ARM))
    assert here == arm
    return here


def instrumented(project: Project, made_on: Machine) -> Path:
    """A program of MADE_ON, built by this machine's tool from a makefile."""
    project.write({"prog.c": PROGRAM, "Makefile": "prog: prog.c\n\t$(CC) -O1 -fno-builtin prog.c -o prog\n"})
    lib = {"PIANO_LIB": str(ARM.lib)} if made_on is ARM else {}
    done = project.piano("build", "--", "make", f"CC={' '.join(made_on.cc)}", env=lib)
    return Path(done.out.strip().splitlines()[-1])


def machine_of(path: Path) -> int:
    return int.from_bytes(path.read_bytes()[18:20], "little")


def expect_exact(report: Report) -> None:
    assert report.called() == CALLS
    assert report.row("leaf")["alloc_count"] == report.row("leaf")["free_count"] == 1000
    assert report.row("leaf")["alloc_bytes"] == 100 * sum(range(1, 11))
    assert (report.row("keep")["alloc_count"], report.row("keep")["alloc_bytes"]) == (7, 7000)


@MACHINES
def test_a_run(project: Project, made_on: Machine) -> None:
    program = instrumented(project, made_on)
    assert machine_of(program) == (183 if made_on is ARM else machine_of(Path("/proc/self/exe")))
    project.command(program)
    run = project.only_run()
    expect_exact(Report(json.loads(same_on_both(project, "report", run, "--all", "--json"))))
    same_on_both(project, "report", run, "--frames", "--all", "--json")
    same_on_both(project, "report", run, "--all")


@MACHINES
def test_a_run_that_was_killed(project: Project, made_on: Machine) -> None:
    """A file keeps the program's memory in the machine's layout, which is the same on both."""
    program = instrumented(project, made_on)
    process = subprocess.Popen([program, "wait"], cwd=project.root, env=project.env, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    process.kill()
    process.wait()
    assert list(project.runs.glob("*.live"))
    expect_exact(Report(json.loads(same_on_both(project, "report", project.only_run(), "--all", "--json"))))


def test_a_library_that_is_not_there(project: Project) -> None:
    project.write({"prog.c": PROGRAM})
    done = project.piano("build", "--", "gcc", "prog.c", env={"PIANO_LIB": str(project.root)}, check=False)
    assert done.status != 0 and f"PIANO_LIB names {project.root}, which has no libpiano.so" in done.err


def compiled(project: Project, machine: Machine, source: str = PROGRAM, *flags: str) -> Path:
    project.write({"prog.c": source})
    project.command(*machine.cc, "-O1", "-g", "-fno-builtin", "prog.c", "-o", "prog", *flags)
    return project.root / "prog"


@MACHINES
def test_a_heap_recording(project: Project, made_on: Machine) -> None:
    program = compiled(project, made_on)
    path = project.root / "r.rec"
    project.command(made_on.tool, "record", "--heap=1", "-o", path, "--", program)
    heap = json.loads(same_on_both(project, "report", "--heap", path, "--json"))
    same_on_both(project, "report", "--heap", path)
    same_on_both(project, "export", path, "--format", "collapsed")
    sites = {row["stack"][row["site_frame"]]["function"]: row for row in heap["sites"]}
    assert (sites["leaf"]["allocated_objects"], sites["leaf"]["allocated_bytes"]) == (1000, 5500)
    assert (sites["keep"]["live_objects"], sites["keep"]["live_bytes"]) == (7, 7000)
    assert [f["function"] for f in sites["leaf"]["stack"]][:3] == ["leaf", "update", "main"]


EVENTS = r"""
#include <signal.h>
#include <stdint.h>
#include <unistd.h>
void piano_mark(const char *name) __attribute__((weak));
void piano_task_spawn(uint64_t, const char *) __attribute__((weak));
void piano_poll_begin(uint64_t) __attribute__((weak));
void piano_poll_end(void) __attribute__((weak));
int main(int argc, char **argv)
{
    (void)argv;
    usleep(20000); /* shorter recordings get their clock's rate from the time of reading */
    for (int i = 0; i < 300; i++) { piano_poll_begin(7); piano_mark("inside"); piano_poll_end(); }
    if (argc > 1) { (void)!write(1, "ready\n", 6); pause(); }
    return 0;
}
"""


@pytest.mark.parametrize("is_killed", [False, True], ids=["ended", "killed"])
@MACHINES
def test_a_recording_of_events(project: Project, made_on: Machine, is_killed: bool) -> None:
    """The clock of a recording that was killed at once has only pairs from its start. The counter of the reading machine has
    no relation to another machine's."""
    program = compiled(project, made_on, EVENTS)
    path = project.root / "r.rec"
    env = {**project.env, "LD_PRELOAD": f"{made_on.lib}/libpiano.so", "PIANO_RECORD": str(path),
           "PIANO_CHILDREN": "1", "PIANO_EVENTS": "1"}
    process = subprocess.Popen([program, *["wait"] * is_killed], cwd=project.root, env=env, stdout=subprocess.PIPE)
    if is_killed:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGKILL)
    assert process.wait() == (-signal.SIGKILL if is_killed else 0)
    path, = project.root.glob("r.rec*")
    here, arm = (json.loads(said_by(project, m, "report", "--polls", path, "--json")) for m in (HERE, ARM))
    if not is_killed or made_on is ARM:
        assert here == arm  # otherwise the tool of this machine adds a pair with the current time
    assert here["polls"] == 300
