"""Beginning and end of a recording with all instruments: programs that end at once, programs that never end, and many programs."""
from __future__ import annotations

import re
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from conftest import BURN, PIANO, Project
from events import compile
from test_cpu import REFUSED
from test_record import type_in_terminal
from test_servers import names, polls

NEEDS_PERF = pytest.mark.skipif(bool(REFUSED), reason=f"perf events are refused here: {REFUSED}")
INSTRUMENTS = ("--heap", "--cpu", "--polls")


@NEEDS_PERF
@pytest.mark.parametrize("source,status", [("int main(void) { return 0; }", 0), ("int main(void) { _exit(7); }", 7),
                                           ("int main(void) { raise(SIGKILL); }", 137), ("int main(void) { abort(); }", 134)],
                         ids=["returns", "_exit", "kill", "abort"])
def test_a_program_that_ends_at_once(project: Project, source: str, status: int) -> None:
    done = project.piano("record", "-o", "x.rec", "--", compile(project, source), check=False)
    assert done.status == status and "recording: x.rec" in done.err, done
    data = project.json("report", "x.rec")
    assert set(data["instruments"]) == {"heap", "cpu", "polls"}
    for flag in INSTRUMENTS:
        project.piano("report", "x.rec", flag)
        assert project.json("report", "x.rec", flag)["missing"]["gaps"] == 0


FOREVER = BURN + r"""
__attribute__((noinline)) void turn(void) { BURN(5000000); }
int main(void)
{
    int poller = epoll_create1(0);
    struct epoll_event e;
    for (int i = 0;; i++) {
        epoll_wait(poller, &e, 1, 1);
        turn();
        if (i == 10) {
            puts("ready");
            fflush(stdout);
        }
    }
}
"""


@NEEDS_PERF
def test_ctrl_c_reaches_the_program_and_finishes_the_recording(project: Project) -> None:
    """The program gets its signal; the recording is finished with the data until then."""
    program = compile(project, FOREVER, "-rdynamic")
    status, seen = type_in_terminal(project, b"\x03", PIANO, "record", "-o", "x.rec", "--", program)
    assert status == 130 and "recording: x.rec" in seen, seen
    data = polls(project, project.root / "x.rec")
    loop, = (task for task in data["tasks"] if task["kind"] == "loop")
    assert loop["polls"] >= 10 and loop["samples"] > 0
    assert any("turn" in names(stack) for poll in data["longest"] for stack in poll["stacks"])
    done = project.piano("report", "x.rec")
    assert "signal 2" in done.out + done.err or "SIGINT" in done.out + done.err, done


TREE = BURN + r"""
__attribute__((noinline)) void of_the_parent(void) { BURN(60000000); }
__attribute__((noinline)) void of_the_child(void) { BURN(60000000); }
__attribute__((noinline)) void of_the_program(void) { BURN(60000000); }
static void turns(int n)
{
    for (int i = 0; i < n; i++)
        poll(NULL, 0, 1);
}

int main(int argc, char **argv)
{
    printf("%d\n", getpid());
    fflush(stdout);
    if (argc > 1) {
        turns(40);
        of_the_program();
        return 0;
    }
    if (fork() == 0) {
        printf("%d\n", getpid());
        fflush(stdout);
        turns(20);
        of_the_child();
        exit(0);
    }
    if (fork() == 0) {
        execl("./other", "other", "x", (char *)0);
        _exit(1);
    }
    turns(10);
    of_the_parent();
    while (wait(NULL) > 0)
        ;
    return 0;
}
"""


def functions(part: dict[str, Any]) -> set[str]:
    return {f["name"] for f in part["functions"] if f["name"].startswith("of_the_")}


@NEEDS_PERF
@pytest.mark.parametrize("children", [False, True], ids=["one", "children"])
def test_every_process_of_a_tree_is_in_the_recording(project: Project, children: bool) -> None:
    """The recording contains each process of the tree; with --children each has its events too."""
    program = compile(project, TREE, "-rdynamic")
    shutil.copy(program, project.root / "other")
    done = project.piano("record", "--cpu=499", "--events", *([] if children else ["--no-children"]), "-o", "x.rec", "--", program)
    pids = [int(pid) for pid in done.out.split()]
    assert len(set(pids)) == 3
    data = project.json("report", "x.rec", "--cpu", "--threads")
    found = {part["pid"]: functions(part) for part in data["processes"]}
    assert set(pids) <= set(found), found
    assert found[pids[0]] == {"of_the_parent"}
    assert sorted(map(sorted, (found[pid] for pid in pids[1:]))) == [["of_the_child"], ["of_the_program"]]
    turns = {}
    for path in project.root.glob("x.rec*"):
        pid, = struct.unpack_from("<I", path.read_bytes()[:32], 24)
        turns[pid] = sum(t["parks"] for t in project.json("report", path, "--polls", "--process", pid)["threads"])
    whole = project.json("report", "x.rec", "--polls")["threads"]
    assert sum(thread["parks"] for thread in whole) == sum(turns.values())
    if children:
        program_pid = next(pid for pid in pids[1:] if found[pid] == {"of_the_program"})
        child_pid = next(pid for pid in pids[1:] if pid != program_pid)
        assert turns == {pids[0]: 10, child_pid: 20, program_pid: 40}
    else:
        assert turns == {pids[0]: 10}


@NEEDS_PERF
def test_report_names_the_process_of_a_sample(project: Project) -> None:
    program = compile(project, TREE, "-rdynamic")
    shutil.copy(program, project.root / "other")
    project.piano("record", "--cpu=499", "-o", "x.rec", "--", program)
    text = project.piano("report", "x.rec", "--cpu").out
    assert re.search(r"^.*\bother\b.*$", text, re.M) and Path(program).name in text, text
