"""A task runtime that reports to piano, as docs/integrating.md shows: the test compiles the lines of the page."""
from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from conftest import LIB, ROOT, Project, need
from events import load

EXAMPLE = ROOT / "examples" / "pool"
REQUESTS, CHUNKS, WORKERS = 60, 8, 3


def documented() -> str:
    text = (ROOT / "docs" / "integrating.md").read_text()
    return re.search(r"^```c\n(.*?)^```$", text, re.S | re.M).group(1)


def build(project: Project, *flags: str, compiler: str = "gcc", name: str = "pool") -> Path:
    """The pool with its lines replaced by those of the document."""
    need(compiler)
    shutil.copytree(EXAMPLE, project.root / "src", dirs_exist_ok=True)
    project.write({"src/trace.h": documented()})
    sources = [project.root / "src" / file for file in ("main.c", "pool.c", "deque.c")]
    project.command(compiler, "-O2", "-g", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/include", *sources, "-o", name,
                    "-pthread", *flags)
    return project.root / name


def test_the_document_shows_what_the_example_has() -> None:
    assert documented() == (EXAMPLE / "trace.h").read_text()
    assert len(documented().splitlines()) <= 30


def test_it_builds_as_the_document_says(project: Project) -> None:
    need("make")
    shutil.copytree(EXAMPLE, project.root / "pool", dirs_exist_ok=True)
    project.command("make", "-B", "-C", "pool", f"PIANO={ROOT}/include")
    assert "20 requests answered" in project.command(project.root / "pool" / "pool", 20).out


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_every_task_is_told_and_the_long_one_stands_out(project: Project, compiler: str) -> None:
    program = build(project, "-fPIE", "-pie", compiler=compiler)  # clang 11 does not do this by default
    alone = project.command(program, REQUESTS, WORKERS)
    done = project.piano("record", "--events", "-o", "r.rec", "--", program, REQUESTS, WORKERS)
    assert done.out == alone.out and f"{REQUESTS} requests answered" in done.out
    report = json.loads(project.piano("report", "--polls", "--json", "r.rec").out)
    tasks = {task["name"]: task for task in report["tasks"]}
    assert {name: (task["kind"], task["polls"], task["spawned"], task["ended"]) for name, task in tasks.items()
            if task["kind"] != "loop"} == {
        "serve": ("task", 2 * REQUESTS, REQUESTS, REQUESTS), "add_up": ("task", CHUNKS * REQUESTS, CHUNKS * REQUESTS, CHUNKS * REQUESTS),
        "rebuild_index": ("task", 1, 1, 1)}
    assert tasks["serve"]["woken"] == report["wakes"]["count"] == REQUESTS
    assert tasks["rebuild_index"]["very_long"] == 1
    long, = [poll for poll in report["longest"] if poll["task"] == "rebuild_index"]
    assert re.fullmatch(r"worker \d", long["thread"])
    assert long["cause"]["kind"] == "spawn" and long["cause"]["worker"] is None
    assert sorted(worker["name"] for worker in report["workers"]) == [f"worker {i}" for i in range(WORKERS)]
    assert sum(thread["parks"] for thread in report["threads"] if thread["worker"] is not None) >= 1
    queues = {queue["queue"]: queue for queue in report["queues"]}
    assert set(queues) <= set(range(WORKERS + 1)) and queues[WORKERS]["max"] >= 1
    assert queues[WORKERS]["last"] == 0 and queues[WORKERS]["count"] == 2 * (REQUESTS + 1)
    text = project.piano("report", "--polls", "r.rec").out
    assert re.search(r"^! \d+ polls? took more than ", text, re.M)
    assert re.search(r"^ +\d+\. .*: rebuild_index \(task \d+\) on worker \d", text, re.M)


def test_who_woke_whom(project: Project) -> None:
    """A request is polled again after its last chunk: the chunk reports the wake before that poll."""
    project.piano("record", "--events", "-o", "r.rec", "--", build(project), REQUESTS, WORKERS)
    r = load(project.root / "r.rec")
    events = sorted(r.events, key=lambda e: e.ticks)
    names: dict[int, str] = {}
    running: dict[int, str] = {}
    woken: set[int] = set()
    polls: dict[int, int] = {}
    for e in events:
        if e.what == "task_spawn":
            names[e.fields[0]] = r.name(e.fields[1])
            assert re.fullmatch(r".*main\.c:\d+", r.name(e.fields[2]))
            polls[e.fields[0]] = 0
        elif e.what == "wake":
            assert running[e.tid] == "add_up" and names[e.fields[0]] == "serve"
            woken.add(e.fields[0])
        elif e.what == "poll_begin":
            running[e.tid] = names[e.fields[0]]
            assert polls[e.fields[0]] == 0 or e.fields[0] in woken
            polls[e.fields[0]] += 1
            woken.discard(e.fields[0])
        elif e.what == "task_end":
            assert e.fields[0] not in woken


def told(project: Project, program: Path) -> int:
    """Tasks that were recorded."""
    path = project.root / "r.rec"
    path.unlink(missing_ok=True)
    done = project.piano("record", "--events", "-o", path, "--", program, 5)
    assert "5 requests answered" in done.out
    return len(load(path).of("task_spawn"))


ALL = 5 + 5 * CHUNKS + 1
LINKED = (f"-L{LIB}", "-lpiano", f"-Wl,-rpath,{LIB}")


@pytest.mark.parametrize("flags, seen", [
    ((), ALL), (("-no-pie", "-fPIE"), ALL), (("-no-pie", "-fno-pie"), 0), (LINKED, ALL),
    (("-no-pie", "-fno-pie", *LINKED), ALL)])
def test_how_to_link(project: Project, flags: tuple[str, ...], seen: int) -> None:
    program = build(project, *flags)
    assert told(project, program) == seen
    assert "5 requests answered" in project.command(program, 5).out


def test_as_cplusplus(project: Project) -> None:
    need("g++")
    project.write({"trace.h": documented(), "prog.cc": """
        #include "trace.h"
        int main()
        {
            int task = 0;
            trace_worker(7);
            TRACE_SPAWN(&task, "task", "prog.cc:7");
            TRACE_WAKE(&task);
            TRACE_QUEUE(1, 2);
            TRACE_BEGIN(&task);
            TRACE_END();
            TRACE_DONE(&task);
            TELL(park);
            TELL(unpark);
            TELL(worker_stop);
        }
        """})
    project.command("g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/include", "prog.cc", "-o", "prog")
    project.command(project.root / "prog")
    project.piano("record", "--events", "-o", "r.rec", "--", project.root / "prog")
    assert [e.what for e in load(project.root / "r.rec").events if e.what != "thread"] == [
        "worker_start", "task_spawn", "wake", "queue", "poll_begin", "poll_end", "task_end", "park", "unpark", "worker_stop"]
