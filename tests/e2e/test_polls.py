"""`piano report --polls` of recordings with known events."""
from __future__ import annotations

import importlib.util
import json
import random
import resource
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conftest import PIANO, ROOT, Project

spec = importlib.util.spec_from_file_location("make_recording", ROOT / "tools" / "make-recording.py")
make = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make)

tool = pytest.mark.tool
MS = 10**6

SOURCE = """\
extern int rand(void); int sink;
__attribute__((noinline)) int burn(int n) { while (n--) sink += rand(); return sink; }
__attribute__((noinline)) int parse(int n) { return burn(n) + 1; }
__attribute__((noinline)) int wait_for(int n) { return burn(n) + 2; }
int main(int argc, char **argv) { return parse(argc) + wait_for(argc); }
"""


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    (folder / "prog.c").write_text(SOURCE)
    subprocess.run(["gcc", "-O1", "-g", "prog.c", "-o", "prog"], cwd=folder, check=True)
    return folder / "prog"


def put(project: Project, rec: Any, name: str = "1740000000000-7.rec") -> Path:
    project.runs.mkdir(parents=True, exist_ok=True)
    return Path(rec.write(project.runs / name))


def polls(project: Project, rec: Any, *flags: str) -> dict[str, Any]:
    return project.json("report", put(project, rec), "--polls", *flags)


def tasks(data: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {task["name"]: task for task in data["tasks"]}


def flags(data: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {flag["kind"]: flag for flag in data["flags"]}


def names(stack: list[dict[str, Any]]) -> list[str]:
    return [frame["function"] for frame in stack]


# Polls -------------------------------------------------------------------------------------------

@tool
@pytest.mark.parametrize("ticks", [None, 1.0, 2.5, 0.025])
def test_count_and_percentiles_of_polls_are_exact(project: Project, ticks: float | None) -> None:
    """Count, percentiles and the longest polls, for each clock of the events."""
    rec = make.Recording(ticks_per_ns=ticks)
    rec.thread(11, "main")
    fast, slow = rec.name("fast"), rec.name("slow")
    for i in range(100):
        rec.poll(11, 10 * i, 1 + i / 100, task=1, name=fast)
    rec.poll(11, 2000, 60, task=2, name=slow).poll(11, 3000, 20, task=3, name=slow)
    data = polls(project, rec)
    near = 41 if ticks == 0.025 else 1
    assert data["polls"] == 102
    row = tasks(data)["fast"]
    assert (row["polls"], row["kind"], row["open"]) == (100, "callback", 0)
    assert abs(row["p50_ns"] - 1.5 * MS) <= near and abs(row["p99_ns"] - 1.98 * MS) <= near
    assert abs(row["max_ns"] - 1.99 * MS) <= near and row["on_cpu"] is None
    row = tasks(data)["slow"]
    assert (row["polls"], row["long"], row["very_long"]) == (2, 2, 1)
    first, second = data["longest"][:2]
    assert (first["task"], first["task_id"], first["thread"], first["tid"]) == ("slow", 2, "main (11)", 11)
    assert abs(first["start_ns"] - 2000 * MS) <= near and abs(first["duration_ns"] - 60 * MS) <= near
    assert abs(second["duration_ns"] - 20 * MS) <= near and len(data["longest"]) == 10
    flag = flags(data)["long-polls"]
    assert flag["count"] == 2 and abs(flag["worst_ns"] - 60 * MS) <= near
    assert flag["text"].startswith("2 polls took more than 10ms, 1 of them more than 50ms; the longest 60.0ms: slow")


@tool
def test_report_shows_no_flags_when_nothing_is_wrong(project: Project) -> None:
    rec = make.Recording()
    for i in range(10):
        rec.poll(11, 10 * i, 9.9, task=1, name=rec.name("fine"))
    path = put(project, rec)
    assert project.json("report", path, "--polls")["flags"] == []
    text = project.piano("report", path, "--polls").out
    assert "Red flags\nnone\n" in text and "fine" in text


@tool
def test_nested_open_and_stray_polls_are_counted(project: Project) -> None:
    rec = make.Recording(end_ns=0, exit_status=0, state=make.ACTIVE)
    rec.trace["end_ticks"] = 0
    outer, inner = rec.name("outer"), rec.name("inner")
    rec.event(11, 1, make.POLL_END)  # its beginning is not in the recording
    rec.event(11, 10, make.POLL_BEGIN, 1, outer)
    rec.poll(11, 15, 5, task=2, name=inner)
    rec.event(11, 40, make.POLL_END)
    rec.event(11, 50, make.POLL_BEGIN, 3, outer)
    rec.event(12, 90, make.MARK, rec.name("last word"))
    data = polls(project, rec)
    rows = tasks(data)
    assert (rows["outer"]["polls"], rows["outer"]["open"], rows["inner"]["nested"]) == (2, 1, 1)
    assert data["events"]["stray_ends"] == 1
    open_one, closed = data["longest"][:2]
    assert (open_one["open"], open_one["task_id"], open_one["duration_ns"]) == (True, 3, 40 * MS)
    assert (closed["open"], closed["duration_ns"], closed["depth"]) == (False, 30 * MS, 0)
    assert data["longest"][2]["depth"] == 1
    # Time in polls counts once.
    assert next(t for t in data["threads"] if t["tid"] == 11)["busy_ns"] == 70 * MS


@tool
def test_loops_are_found_without_annotation(project: Project) -> None:
    """A thread that returns to the same wait has a loop; other waits in a turn are time lost in it."""
    rec = make.Recording()
    rec.thread(4711, "server")
    rec.event(4711, 1, make.PARK, make.EPOLL)
    for i in range(20):
        rec.turn(4711, 10 + 10 * i, 2, returned=3)
    rec.event(4711, 500, make.UNPARK, 1)
    rec.event(4711, 505, make.PARK, make.CONDITION).event(4711, 540, make.UNPARK, 0)
    rec.event(4711, 560, make.PARK, make.EPOLL)
    for i in range(3):  # too few for a loop
        rec.turn(12, 10 + 300 * i, 200, kind=make.CONDITION)
    data = polls(project, rec)
    assert list(tasks(data)) == ["epoll loop of server (4711)"]
    row = data["tasks"][0]
    assert (row["polls"], row["kind"], row["p50_ns"], row["max_ns"]) == (21, "loop", 2 * MS, 60 * MS)
    worst = data["longest"][0]
    assert (worst["waited_ns"], worst["wait_returned"], worst["task_id"]) == (35 * MS, 0, None)
    assert data["longest"][1]["wait_returned"] == 3
    thread = next(t for t in data["threads"] if t["tid"] == 4711)
    # 1-10, 19 gaps of 8 ms, 202-500, 35 in the turn, 560-10000
    assert (thread["parks"], thread["loop"]) == (23, "epoll")
    assert thread["parked_ns"] == (9 + 19 * 8 + 298 + 35 + 9440) * MS
    assert "the wait before it ended by its timeout" in project.piano("report", "--polls").out


@tool
def test_one_wait_in_epoll_is_a_loop(project: Project) -> None:
    """Programs use epoll only in loops: one turn is enough, complete or not. Other waits need four."""
    rec = make.Recording(end_ns=6 * make.SECOND)
    rec.thread(4711, "main")
    rec.event(4711, 1, make.PARK, make.EPOLL).turn(4711, 10, 300)
    rec.event(12, 1, make.PARK, make.EPOLL).event(12, 20, make.UNPARK, 2).event(12, 520, make.MARK, rec.name("end"))
    rec.event(13, 1, make.PARK, make.EPOLL).event(13, 20, make.UNPARK, 2)  # the rest is unknown
    for tid, kind in (14, make.POLL), (15, make.SELECT), (16, make.CONDITION), (17, make.SEMAPHORE), (18, make.URING):
        rec.event(tid, 1, make.PARK, kind)
        for i in range(2):
            rec.turn(tid, 10 + 100 * i, 50, kind=kind)
    data = polls(project, rec)
    assert sorted(poll["duration_ns"] for poll in data["longest"]) == [300 * MS, 500 * MS] and data["polls"] == 2
    assert tasks(data)["epoll loop of main (4711)"]["polls"] == 1 and "long-polls" in flags(data)


@tool
def test_a_thread_that_tells_its_polls_has_no_loop(project: Project) -> None:
    rec = make.Recording()
    for i in range(10):
        rec.event(11, 10 * i, make.UNPARK, 2)
        rec.poll(11, 10 * i + 1, 2, task=5, name=rec.name("on_read"))
        rec.event(11, 10 * i + 5, make.PARK, make.EPOLL)
    data = polls(project, rec)
    assert list(tasks(data)) == ["on_read"] and data["polls"] == 10


@tool
def test_a_loop_that_ended_with_its_thread(project: Project) -> None:
    """The last turn of an ended thread does not last until the end of the recording."""
    rec = make.Recording()
    for i in range(10):
        rec.turn(12, 10 * i + 5, 1)
    rec.event(12, 200, make.UNPARK, 1)
    rec.event(12, 203, make.MARK, rec.name("bye"))
    data = polls(project, rec)
    assert data["longest"][0]["open"] and data["longest"][0]["duration_ns"] == 3 * MS


# Causes ------------------------------------------------------------------------------------------

@tool
def test_wakes_and_spawns_are_counted_by_task(project: Project) -> None:
    rec = make.Recording(ticks_per_ns=3.0)
    name, other = rec.name("job"), rec.name("boss")
    rec.event(11, 1, make.WORKER_START, 7, rec.name("w-seven"))
    rec.event(12, 5, make.POLL_BEGIN, 1, other)
    rec.event(12, 6, make.TASK_SPAWN, 2**63 + 5, name, rec.name("boss.c:12"))
    rec.event(12, 7, make.POLL_END)
    rec.poll(11, 10, 1, task=2**63 + 5)
    rec.event(12, 20, make.POLL_BEGIN, 1, other)
    rec.event(12, 21, make.WAKE, 2**63 + 5).event(12, 22, make.WAKE, 2**63 + 5)
    rec.event(12, 23, make.POLL_END)
    rec.poll(11, 40, 15, task=2**63 + 5)
    rec.poll(11, 60, 12, task=2**63 + 5)  # no wake
    data = polls(project, rec)
    row = tasks(data)["job"]
    assert (row["kind"], row["polls"], row["spawned"], row["ended"]) == ("task", 3, 1, 0)
    assert (row["woken"], row["late"], row["wake"]["max_ns"]) == (1, 1, 18 * MS)
    assert (data["wakes"]["count"], data["wakes"]["late"], data["wakes"]["p99_ns"]) == (1, 1, 18 * MS)
    assert (data["spawn_to_poll"]["count"], data["spawn_to_poll"]["max_ns"]) == (1, 4 * MS)
    first, second = data["longest"][:2]
    assert first["cause"] == {"kind": "wake", "at_ns": 22 * MS, "late_ns": 18 * MS, "thread": "thread 12",
                              "tid": 12, "worker": None, "task": "boss"}
    assert first["task_id"] == 2**63 + 5 and first["worker"] == 7 and first["thread"] == "w-seven"
    assert second["cause"] is None
    flag = flags(data)["late-wakes"]
    assert (flag["count"], flag["worst_ns"], flag["subject"]) == (1, 18 * MS, "job")
    assert "woken 18.0ms before it began, by boss on thread 12" in project.piano("report", "--polls").out


@tool
def test_workers_that_move_between_threads_are_listed(project: Project) -> None:
    rec = make.Recording()
    rec.event(11, 1, make.WORKER_START, 0, 0).event(11, 50, make.WORKER_STOP)
    rec.event(12, 60, make.WORKER_START, 0, 0)
    data = polls(project, rec)
    assert data["workers"] == [{"worker": 0, "name": None, "tid": 11, "start_ns": 1 * MS, "end_ns": 50 * MS},
                               {"worker": 0, "name": None, "tid": 12, "start_ns": 60 * MS, "end_ns": None}]


@tool
def test_growing_queues_and_starved_workers_are_flagged(project: Project) -> None:
    rec = make.Recording()
    rec.event(11, 0, make.WORKER_START, 1, 0).event(12, 0, make.WORKER_START, 2, 0)
    rec.event(11, 100, make.PARK, make.API)
    for i in range(100):
        rec.event(12, 101 + i, make.QUEUE, 9, i)
        rec.event(12, 101 + i, make.QUEUE, 8, 4)
        rec.event(12, 101 + i, make.TASK_SPAWN, i, rec.name("leaky"), 0)
    rec.event(11, 250, make.UNPARK, 0)
    data = polls(project, rec)
    found = flags(data)
    assert set(found) == {"queue-growth", "task-growth", "starved-worker"}
    assert "queue 9 grows" in found["queue-growth"]["text"] and found["queue-growth"]["count"] == 99
    assert found["task-growth"]["count"] == 100 and found["task-growth"]["subject"] == "leaky"
    assert found["starved-worker"]["worst_ns"] == 149 * MS  # from the first queue event on
    assert found["starved-worker"]["text"].startswith("worker 1 was parked for 149.0ms while work was queued")
    queue = next(q for q in data["queues"] if q["queue"] == 9)
    assert (queue["first"], queue["last"], queue["max"], queue["count"]) == (0, 99, 99, 100)


@tool
def test_tasks_that_end_are_no_leak(project: Project) -> None:
    rec = make.Recording()
    for i in range(400):
        rec.event(11, i, make.TASK_SPAWN, i, rec.name("fine"), 0).event(11, i + 0.5, make.TASK_END, i)
    data = polls(project, rec)
    assert data["flags"] == [] and data["events"]["count"] == 800


@tool
def test_marks_and_values_are_summarised(project: Project) -> None:
    rec = make.Recording()
    for i, value in enumerate((-3, 10, 2**62, -2**62)):
        rec.event(11, i, make.VALUE, rec.name("load"), value).event(11, i, make.MARK, rec.name("tick"))
    data = polls(project, rec)
    assert data["values"] == [{"name": "load", "count": 4, "first": -3, "last": -2**62, "min": -2**62,
                               "max": 2**62}]
    assert data["marks"] == [{"name": "tick", "count": 4}]


# Joined with samples -----------------------------------------------------------------------------

def traced(program: Path, **options: Any) -> tuple[Any, Any, Any, Any]:
    rec = make.Recording(program=str(program), **options)
    elf = make.Program(rec, program)
    stack = lambda *functions: rec.stack(elf.pcs(*functions), generation=0)
    return rec, stack("burn", "parse", "main"), stack("burn", "wait_for", "main"), stack("parse", "main")


@tool
def test_what_most_of_a_poll_was_in(project: Project, program: Path) -> None:
    """Its stacks are many and end at different places; the report shows their common part."""
    rec, burn, wait, parse = traced(program)
    rec.poll(11, 100, 50, task=1, name=rec.name("slow")).poll(11, 200, 50, task=1, name=rec.name("slow"))
    rec.cpu(11, 100, burn, count=2).cpu(11, 130, parse, count=2)
    rec.cpu(11, 200, wait, count=3).cpu(11, 230, parse, count=2)
    first, second = sorted(polls(project, rec)["longest"], key=lambda poll: poll["start_ns"])
    assert first["mostly"] == {"function": "parse", "samples": 4, "share": 1.0}
    assert second["mostly"] == {"function": "burn", "samples": 3, "share": 0.6}
    text = project.piano("report", "--polls").out
    assert "     all of it in parse < main\n" in text and "     60 % in burn < wait_for < main\n" in text, text


@tool
@pytest.mark.parametrize("columns", ["", "60", "80", "120"])
def test_stacks_fit_and_have_the_first_own_function(project: Project, program: Path, tmp_path: Path, columns: str) -> None:
    """The function that called a dozen frames of the C library is shown; long names are truncated, but it is never left out."""
    libc = tmp_path / "libc.so.6"
    libc.write_bytes(program.read_bytes())
    rec = make.Recording(program=str(program))
    own, plumbing = make.Program(rec, program), make.Program(rec, libc, base=0x7f0000000000)
    deep = plumbing.pcs("burn", *["wait_for", "burn"] * 5, "wait_for") + own.pcs("parse", *["wait_for", "burn"] * 20, "main")
    stack = rec.stack(deep, generation=0)
    rec.poll(11, 100, 50, task=1, name=rec.name("slow")).off(11, 100, stack, ms=40)
    done = project.piano("report", "--polls", put(project, rec), env={"COLUMNS": columns} if columns else {})
    (line,) = [line for line in done.out.splitlines() if line.startswith("     off ")]
    assert "burn < ... < wait_for < parse" in line and line.endswith(" < ..."), line
    assert len(line) <= max(int(columns or 160), 64), line
    (whole,) = [line for line in project.piano("report", "--polls", "--all").out.splitlines() if line.startswith("     off ")]
    assert whole.count(" < ") == len(deep) - 1 and whole.endswith("main")


@tool
def test_samples_are_joined_to_polls_by_thread_and_time(project: Project, program: Path) -> None:
    """Joined by thread and time: samples a nanosecond outside, or of another thread, are not in it."""
    rec, burn, wait, parse = traced(program)
    rec.poll(11, 100, 50, task=1, name=rec.name("slow"))
    rec.cpu(11, 99.999999, parse, ms=1).cpu(11, 150, parse, ms=2).cpu(12, 120, parse)
    rec.cpu(11, 100, burn, ms=10, count=3).cpu(11, 130, parse, ms=10)
    data = polls(project, rec)
    worst = data["longest"][0]
    assert (worst["samples"], worst["cpu_ns"], worst["off_cpu_ns"]) == (4, 40 * MS, None)
    assert worst["on_cpu"] == pytest.approx(0.8)
    assert [(s["samples"], names(s["stack"])) for s in worst["stacks"]] == [
        (3, ["burn", "parse", "main"]), (1, ["parse", "main"])]
    assert tasks(data)["slow"]["on_cpu"] == pytest.approx(0.8)
    text = project.piano("report", "--polls").out
    assert "CPU     3 samples  burn < parse < main" in text


@tool
def test_blocked_time_of_polls_is_exact(project: Project, program: Path) -> None:
    """Exactly the off-CPU time within the poll counts; waiting for a CPU is separate."""
    rec, burn, wait, parse = traced(program)
    name = rec.name("sleeper")
    rec.poll(11, 100, 50, task=1, name=name)
    rec.off(11, 90, parse, ms=15)                       # 5 ms of it is in the poll
    rec.off(11, 110, wait, ms=30)                       # all of it
    rec.off(11, 148, burn, ms=10, preempted=True)       # 2 ms
    rec.cpu(11, 106, burn, ms=10)
    data = polls(project, rec)
    worst = data["longest"][0]
    assert (worst["off_cpu_ns"], worst["run_queue_ns"]) == (37 * MS, 2 * MS)
    assert worst["on_cpu"] == pytest.approx(13 / 50)
    assert [(s["off_cpu_ns"], s["preempted"], names(s["stack"])[0]) for s in worst["blocked"]] == [
        (30 * MS, False, "burn"), (5 * MS, False, "parse"), (2 * MS, True, "burn")]
    flag = flags(data)["blocking"]
    assert (flag["subject"], flag["worst_ns"]) == ("sleeper", 35 * MS)
    text = project.piano("report", "--polls").out
    assert "sleeper blocks: 35.0ms of 50.0ms in its polls was spent waiting (on the CPU: 26.0%)" in text
    assert "off    30.0ms      burn < wait_for < main" in text and "wait    2.0ms" in text


@tool
def test_preempted_is_not_blocked(project: Project, program: Path) -> None:
    rec, burn, wait, parse = traced(program)
    rec.poll(11, 100, 50, task=1, name=rec.name("pushed"))
    rec.off(11, 105, wait, ms=40, preempted=True)
    data = polls(project, rec)
    assert "blocking" not in flags(data) and data["longest"][0]["on_cpu"] == pytest.approx(0.2)


@tool
def test_a_wait_for_a_cpu_in_nested_polls_is_one(project: Project, program: Path) -> None:
    rec, burn, wait, parse = traced(program)
    outer, inner = rec.name("outer"), rec.name("inner")
    rec.event(11, 100, make.POLL_BEGIN, 1, outer).event(11, 120, make.POLL_BEGIN, 2, inner)
    rec.event(11, 180, make.POLL_END).event(11, 200, make.POLL_END)
    rec.off(11, 130, wait, ms=40, preempted=True)
    data = polls(project, rec)
    assert {name: task["run_queue_ns"] for name, task in tasks(data).items()} == {"outer": 40 * MS, "inner": 40 * MS}
    assert flags(data)["contention"]["worst_ns"] == 40 * MS
    assert "polls waited for a CPU: 40.0ms of their 100.0ms" in project.piano("report", "--polls").out


@tool
def test_parks_show_cpu_time_and_waits_for_a_cpu(project: Project, program: Path) -> None:
    """Of a park: the CPU time in it, and its wait for a CPU."""
    rec, burn, wait, parse = traced(program)
    rec.event(11, 10, make.PARK, make.EPOLL).event(11, 110, make.UNPARK, 2)
    rec.off(11, 12, wait, ms=80).off(11, 95, wait, ms=5, preempted=True)
    thread = polls(project, rec)["threads"][0]
    assert (thread["park_cpu_ns"], thread["park_run_queue_ns"], thread["parked_ns"]) == (15 * MS, 5 * MS, 100 * MS)


@tool
def test_park_time_is_shown_by_cause(project: Project) -> None:
    rec = make.Recording(flags=make.HAS_EVENTS)
    barrier, idle = 7, 9
    for tid, kind, at, ms in ((11, make.EPOLL, 10, 30), (11, barrier, 50, 8), (12, barrier, 20, 4), (12, idle, 30, 1)):
        rec.event(tid, at, make.PARK, kind).event(tid, at + ms, make.UNPARK, 0)
    data = polls(project, rec)
    assert [t["parked_by"] for t in data["threads"]] == [{"epoll": 30 * MS, "barrier": 8 * MS}, {"barrier": 4 * MS, "idle": 1 * MS}]
    assert "parked, all threads: epoll 30.0ms, barrier 12.0ms, idle 1.0ms" in project.piano("report", "--polls").out


# The file ----------------------------------------------------------------------------------------

@tool
def test_unknown_events_and_fields_are_skipped(project: Project) -> None:
    """Old readers skip unknown parts: longer events, and unknown ones."""
    rec = make.Recording()
    name = rec.name("known")
    payload = make.struct.pack("<QQQ", 11, rec.start_ns, rec.start_ns)
    payload += make.event(200, 1 * MS, 1, 2, 3, 4, 5, 6) + make.event(make.POLL_BEGIN, 1 * MS, 1, name, 77, 78)
    payload += make.event(99, 1 * MS) + make.event(make.POLL_END, 9 * MS, 1)
    rec.extra_chunks = [(make.EVENTS, 0, len(payload), payload)]
    rec.flags = make.HAS_EVENTS
    data = polls(project, rec)
    assert (data["events"]["count"], data["events"]["unknown"]) == (4, 2)
    assert data["longest"][0]["duration_ns"] == 10 * MS and data["longest"][0]["start_ns"] == 2 * MS
    done = project.piano("report", "--polls")
    assert "2 events are of kinds this piano does not know" in done.err


@tool
def test_a_chunk_goes_from_thread_to_thread(project: Project) -> None:
    rec = make.Recording(flags=make.HAS_EVENTS)
    name = rec.name("n")
    payload = make.struct.pack("<QQQ", 11, rec.start_ns, rec.start_ns)
    payload += make.event(make.POLL_BEGIN, MS, 1, name) + make.event(make.POLL_END, MS)
    payload += make.event(make.THREAD, MS, 12)
    payload += make.event(make.POLL_BEGIN, MS, 2, name) + make.event(make.POLL_END, 3 * MS)
    second = make.struct.pack("<QQQ", 11, rec.start_ns + 50 * MS, rec.start_ns + 50 * MS)
    second += make.event(make.POLL_BEGIN, 0, 3, name) + make.event(make.POLL_END, 5 * MS)
    # The later chunk comes first in the file.
    rec.extra_chunks = [(make.EVENTS, 8, len(second), second), (make.EVENTS, 3, len(payload), payload)]
    data = polls(project, rec)
    assert [(p["tid"], p["task_id"], p["start_ns"], p["duration_ns"]) for p in data["longest"]] == [
        (11, 3, 50 * MS, 5 * MS), (12, 2, 4 * MS, 3 * MS), (11, 1, 1 * MS, 1 * MS)]
    assert [t["events"] for t in data["threads"]] == [5, 2]


@tool
def test_damage_is_named_by_its_byte(project: Project) -> None:
    rec = make.Recording(flags=make.HAS_EVENTS)
    name = rec.name("n")
    payload = make.struct.pack("<QQQ", 11, rec.start_ns, rec.start_ns)
    payload += make.event(make.POLL_BEGIN, MS, 1, name) + make.event(make.POLL_END, MS)
    bad = len(payload)
    payload += bytes((make.POLL_BEGIN, 200, 1))  # claims more bytes than there are
    rec.extra_chunks = [(make.EVENTS, 0, len(payload), payload)]
    path = put(project, rec)
    data = project.json("report", path, "--polls")
    assert data["polls"] == 1
    at = 4096 + 65536 + 64 + bad  # after the chunk of names
    assert data["missing"]["list"] == [{"byte": at, "what": "an event that cannot be read: the rest of its chunk "
                                                            "is left out"}]
    assert f"byte {at}: an event that cannot be read" in project.piano("report", path, "--polls").err


@tool
def test_clock_follows_its_pairs(project: Project) -> None:
    """The clock is linear between two pairs, also if the kernel adjusts it."""
    rec = make.Recording(ticks_per_ns=2.0, flags=make.HAS_EVENTS, end_ns=5 * 10**9 + 2 * 10**9)
    name = rec.name("n")
    chunks, ticks = [], 10**12
    # In the second half, a tick is half a percent longer.
    for i, (at, rate) in enumerate(((0, 2.0), (10**9, 1.99))):
        payload = make.struct.pack("<QQQ", 11, ticks, rec.start_ns + at)
        payload += make.event(make.POLL_BEGIN, round(10**8 * rate), i, name)
        payload += make.event(make.POLL_END, round(10**8 * rate))
        chunks.append((make.EVENTS, i, len(payload), payload))
        ticks += round(10**9 * rate)
    rec.extra_chunks = chunks
    rec.end_pair = False
    rec.trace["end_ticks"], rec.trace["end_mono_ns"] = ticks, rec.start_ns + 2 * 10**9
    data = polls(project, rec)
    assert sorted((p["start_ns"], p["duration_ns"]) for p in data["longest"]) == [
        (100 * MS, 100 * MS), (1100 * MS, 100 * MS)]
    assert data["events"]["clock"] == "counter" and not data["events"]["rough_clock"]


@tool
def test_recording_without_the_instrument_is_an_error(project: Project) -> None:
    heap, events = make.Recording(), make.Recording()
    events.poll(11, 1, 1, task=1)
    a, b = put(project, heap, "1740000000001-1.rec"), put(project, events, "1740000000002-1.rec")
    done = project.piano("report", a, "--polls", check=False)
    assert done.status == 1 and "has no events" in done.err and "piano record --events" in done.err
    done = project.piano("report", b, "--heap", check=False)
    assert done.status == 1 and "has no heap samples" in done.err
    done = project.piano("report", b, "--cpu", check=False)
    assert done.status == 1 and "has no CPU samples" in done.err
    for flags_ in (("--polls", "--heap"), ("--polls", "--tree"), ("--polls", "--leaks"), ("--polls", "--frames")):
        assert project.piano("report", b, *flags_, check=False).status == 2, flags_
    # Without a flag, shows the only instrument.
    assert "Polls by task" in project.piano("report", b).out


@tool
def test_names_are_made_safe(project: Project) -> None:
    rec = make.Recording()
    rec.thread(11, b"\x1b[31mred")
    rec.poll(11, 1, 20, task=1, name=rec.name("evil\x1b]0;title\x07\u202e"))
    path = put(project, rec)
    text = project.piano("report", path, "--polls").out
    assert "\x1b" not in text and "\u202e" not in text and "evil" in text
    json.loads(project.piano("report", path, "--polls", "--json").out)


@tool
def test_ten_million_events_take_bounded_memory(project: Project) -> None:
    """Bounded memory: no event is kept. `make bench` measures the time."""
    subprocess.run(["python3", str(ROOT / "tools/make-recording.py"), "--events", "10000000", "--threads", "8",
                    "-o", str(project.root / "big.rec")], check=True)
    limit = 48 << 20  # memory other than the mapped file

    def bounded() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    done = subprocess.run([PIANO, "report", "--polls", "--json", "big.rec"], cwd=project.root, env=project.env,
                          capture_output=True, preexec_fn=None if "san-" in PIANO else bounded, timeout=120)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["events"]["count"] >= 10_000_000 and data["polls"] >= 4_000_000
    assert sum(t["events"] for t in data["threads"]) == data["events"]["count"]


# Random damage -----------------------------------------------------------------------------------

def mixed(program: Path) -> Any:
    """A recording with all instruments."""
    rec, burn, wait, parse = traced(program, ticks_per_ns=2.5, rate=1)
    rec.sample(burn, 100).sample(wait, 50, lived_us=3)
    rec.snapshot(at_ms=500)
    rec.thread(11, "main"), rec.thread(12, "worker")
    rec.event(12, 1, make.WORKER_START, 1, rec.name("w"))
    for i in range(30):
        rec.turn(11, 10 * i + 5, 4)
        rec.event(12, 10 * i + 2, make.TASK_SPAWN, i, rec.name("t"), rec.name("t.c:1"))
        rec.event(12, 10 * i + 3, make.WAKE, i).poll(12, 10 * i + 4, 3, task=i)
        rec.event(12, 10 * i + 8, make.QUEUE, 1, i).event(12, 10 * i + 8, make.MARK, rec.name("m"))
        rec.event(12, 10 * i + 8, make.VALUE, rec.name("v"), -i).event(12, 10 * i + 9, make.TASK_END, i)
        rec.cpu(11, 10 * i + 6, burn).off(12, 10 * i + 5, wait, ms=1)
    return rec


COMMANDS = (("report",), ("report", "--json"), ("report", "--polls"), ("report", "--polls", "--json", "--all"),
            ("report", "--cpu"), ("report", "--cpu", "--threads", "--json"), ("report", "--cpu", "--tree"),
            ("report", "--heap"), ("export", "--format", "chrome"), ("export", "--format", "collapsed", "--by", "cpu"),
            ("export", "--format", "pprof", "--by", "off-cpu"), ("export", "--format", "speedscope", "--by", "cpu"),
            ("export", "--format", "firefox"), ("export", "--format", "pprof", "--by", "peak"))


@tool
@pytest.mark.parametrize("seed", range(6))
def test_damaged_recordings_never_crash_the_report(project: Project, program: Path, seed: int) -> None:
    """Bytes changed, cut or repeated: an answer or an error, never a crash, and valid JSON."""
    image = mixed(program).bytes()
    dice = random.Random(seed)
    project.runs.mkdir(parents=True, exist_ok=True)
    for turn in range(10):
        data = bytearray(image)
        for _ in range(dice.choice((1, 4, 40))):
            # Mostly in headers and the first bytes of chunks.
            chunk = dice.randrange(-1, (len(data) - 4096) // 65536)
            start = 0 if chunk < 0 else 4096 + 65536 * chunk
            at = start + dice.choice((dice.randrange(64), dice.randrange(200), dice.randrange(4000)))
            data[min(at, len(data) - 1)] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
        if dice.random() < 0.3:
            data = data[:dice.randrange(len(data))]
        path = project.runs / "1740000000000-7.rec"
        path.write_bytes(data)
        for command in dice.sample(COMMANDS, 4):
            done = subprocess.run([PIANO, *command, str(path)], capture_output=True, cwd=project.root,
                                  env=project.env, timeout=60)
            assert done.returncode in (0, 1), (seed, turn, command, done)
            assert b"Sanitizer" not in done.stderr, done.stderr.decode()
            if done.returncode == 0 and "--json" in command:
                json.loads(done.stdout)
