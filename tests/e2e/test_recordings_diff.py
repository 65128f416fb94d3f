"""`piano diff` of two recordings: CPU time by function, polls by task, together with memory; significant changes and noise."""
from __future__ import annotations

import json
import math
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from conftest import Project
from heaps import compile
from made import make, program, put, recording

tool = pytest.mark.tool
__all__ = ["program"]


def sampled(project: Project, program: Path, name: str, heap: bool = False, ms: float = 1, **counts: int) -> Path:
    """COUNT samples of MS in each of the named functions, called by main."""
    rec, s = recording(program, rate=1)
    if heap:
        rec.sample(s.parse, 1000, count=3).sample(s.load, 500)
    at = 0.0
    for function, count in counts.items():
        stack = rec.stack(s.elf.pcs(function, "main"), number=make.TOOL_STACK | (len(rec.stacks) + 1))
        rec.cpu(1, at, stack, ms=ms, count=count)
        at += ms * count
    return put(project, rec, name)


def rows(project: Project, a: Path, b: Path, *flags: Any) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in project.json("diff", a, b, *flags)["functions"]}


def pair(project: Project, program: Path, a: dict[str, Any], b: dict[str, Any]) -> tuple[Path, Path]:
    return sampled(project, program, "1740000000001-1.rec", **a), sampled(project, program, "1740000000002-1.rec", **b)


@tool
@pytest.mark.parametrize("before, after, ms, beyond", [
    (100, 150, 1, True), (150, 100, 1, True), (100, 130, 1, False), (1000, 1130, 1, True), (1000, 1100, 1, False),
    (0, 9, 1, True), (0, 8, 1, False), (9, 0, 1, True),
    (100, 150, 10, True), (4, 6, 25, False),  # equal time from fewer samples is less certain
])
def test_change_beyond_the_error_of_the_samples_is_significant(project: Project, program: Path, before: int, after: int, ms: float,
                                                 beyond: bool) -> None:
    a, b = pair(project, program, {"load": 200, "make_node": before, "ms": ms}, {"load": 200, "make_node": after, "ms": ms})
    row = rows(project, a, b)["make_node"]
    period = ms * 10**6
    assert row["self_ns"] == [before * period, after * period] and row["samples"] == [before, after]
    assert row["delta_pct"] == (pytest.approx((after - before) / before * 100, abs=0.001) if before else None)
    assert row["noise_ns"] == pytest.approx(period * (1 + 2.576 * math.sqrt(before + after)), rel=1e-6)
    assert row["significant"] is beyond
    assert row["alloc_count"] is None and row["alloc_bytes"] is None
    line = next(line for line in project.piano("diff", a, b).out.splitlines() if line.startswith("make_node"))
    word = "slower" if after > before else "faster"
    assert (word if beyond else "noise") in line, line
    assert rows(project, a, b)["load"]["significant"] is False


@tool
def test_samples_of_unequal_weight_have_a_larger_error(project: Project, program: Path) -> None:
    """One sample of a long period counts as one sample in the error, not as many."""
    paths = []
    for number, count in enumerate((100, 160)):
        rec, s = recording(program)
        stack = rec.stack(s.elf.pcs("make_node", "main"), number=make.TOOL_STACK | 9)
        rec.cpu(1, 0, stack, ms=1, count=count)
        rec.cpu(1, 1000, stack, ms=50, count=2)
        paths.append(put(project, rec, f"174000000000{number}-1.rec"))
    row = rows(project, *paths)["make_node"]
    squares = 260 + 4 * 50**2
    assert row["noise_ns"] == pytest.approx(1e6 * (200 / 102 + 2.576 * math.sqrt(squares)), rel=1e-6)
    assert row["significant"] is False


@tool
def test_fail_above_fails_on_cpu_time(project: Project, program: Path) -> None:
    a, b = pair(project, program, {"load": 1000, "make_node": 1000}, {"load": 1000, "make_node": 1300})
    failed = project.piano("diff", a, b, "--fail-above", "20", "--json", check=False)
    assert failed.status == 1 and "make_node: self CPU time +30.0%, above 20%" in failed.err, failed
    data = json.loads(failed.out)
    assert [row["name"] for row in data["functions"] if row["failed"]] == ["make_node"]
    assert data["cpu_total"]["failed"] is False and data["cpu_total"]["self_ns"] == [2 * 10**9, 2.3 * 10**9]
    assert "CPU time +15.0%, above 10%" in project.piano("diff", a, b, "--fail-above", "10", check=False).err
    assert project.piano("diff", a, b, "--fail-above", "31").status == 0
    assert project.piano("diff", b, a, "--fail-above", "0").status == 0, "faster is no failure"


@tool
def test_small_functions_do_not_fail(project: Project, program: Path) -> None:
    a, b = pair(project, program, {"load": 10_000, "make_node": 20}, {"load": 10_000, "make_node": 90})
    row = rows(project, a, b)["make_node"]
    assert row["significant"] is True
    assert project.piano("diff", a, b, "--fail-above", "10").status == 0


@tool
def test_programs_of_different_names_are_compared_and_reported(project: Project, program: Path) -> None:
    old, new = shutil.copy(program, project.root / "app-1.0"), shutil.copy(program, project.root / "app-1.1")
    a = sampled(project, Path(old), "1740000000001-1.rec", make_node=100)
    b = sampled(project, Path(new), "1740000000002-1.rec", make_node=300)
    found = project.json("diff", a, b)["functions"]
    assert [(r["name"], r["self_ns"], r["present"]) for r in found if r["name"] == "make_node"] == [
        ("make_node", [10**8, 3 * 10**8], [True, True])]
    assert "different programs: app-1.0 and app-1.1" in project.piano("diff", a, b).err


@tool
def test_libraries_are_told_apart_but_not_their_versions(project: Project) -> None:
    paths = []
    for number, version in enumerate(("1.2", "1.3")):
        rec = make.Recording(program="/nowhere/app")
        rec.module(f"/nowhere/liba.so.{version}", 0x400000, 0x500000, 0x400000)
        rec.module(f"/nowhere/libb.so.{version}", 0x600000, 0x700000, 0x600000)
        for base, name, count in ((0x400000, "a", 50), (0x600000, "b", 100 * (number + 1))):
            rec.symbol(f"/nowhere/lib{name}.so.{version}", 0x10, [("work", "w.c", 1, False)])
            rec.cpu(1, base / 10**5, rec.stack([base + 0x11], number=make.TOOL_STACK | (len(rec.stacks) + 1)), ms=1,
                    count=count)
        paths.append(put(project, rec, f"174000000000{number}-1.rec"))
    found = project.json("diff", *paths)["functions"]
    assert sorted((r["module"], r["samples"]) for r in found) == [("liba.so.1.3", [50, 50]), ("libb.so.1.3", [100, 200])]


@tool
def test_cpu_time_and_memory_are_compared_together(project: Project, program: Path) -> None:
    a, b = pair(project, program, {"load": 100, "heap": True}, {"load": 300, "heap": True})
    done = project.piano("diff", a, b)
    assert done.out.index("CPU time by function") < done.out.index("Memory by site") < done.out.index("live ")
    data = project.json("diff", a, b)
    assert data["kind"] == "recording" and "tasks" not in data
    by_name = {row["name"]: row for row in data["functions"]}
    assert by_name["make_node"]["alloc_count"] == [4, 4] and by_name["make_node"]["alloc_bytes"] == [3500, 3500]
    assert by_name["load"]["alloc_count"] == [0, 0] and by_name["load"]["self_ns"] == [10**8, 3 * 10**8]
    assert {(s["name"], s["caller"]) for s in data["sites"]} == {("make_node", "inner"), ("make_node", "load")}
    assert data["heap_total"]["live_bytes"] == [3500, 3500]


@tool
def test_only_instruments_of_both_recordings_are_compared(project: Project, program: Path) -> None:
    a, b = pair(project, program, {"make_node": 100, "heap": True}, {"make_node": 300})
    data = project.json("diff", a, b)
    assert "sites" not in data and data["functions"][0]["alloc_bytes"] is None
    rec, s = recording(program, rate=1)
    rec.sample(s.parse, 100)
    done = project.piano("diff", b, put(project, rec, "1740000000003-1.rec"), check=False)
    assert done.status == 1 and done.out == "" and "nothing in common to compare" in done.err, done


@tool
def test_warnings_are_printed_once_per_recording(project: Project, program: Path) -> None:
    paths = []
    for number in range(2):
        rec, s = recording(program, rate=1, dropped_live=7 + number)
        rec.sample(s.parse, 1000)
        rec.cpu(1, 0, rec.stack(s.elf.pcs("load", "main"), number=make.TOOL_STACK | 9), count=20)
        rec.trace["samples_lost"] = 3
        rec.extra_chunks = [(77, 0, 8, b"whatever")]
        paths.append(put(project, rec, f"174000000000{number}-1.rec"))
    said = project.piano("diff", *paths).err
    assert said.count("of a kind this piano does not know") == 2 and said.count("were lost") == 2, said


# Polls -----------------------------------------------------------------------------------------------------


def polled(project: Project, name: str, **tasks: list[float]) -> Path:
    """Polls of each task with the given durations in milliseconds."""
    rec = make.Recording()
    rec.thread(1, "main")
    at = 1.0
    for number, (task, times) in enumerate(tasks.items(), 1):
        for ms in times:
            rec.poll(1, at, ms, number, rec.name(task))
            at += ms + 1
    return put(project, rec, name)


@tool
def test_polls_are_compared_by_task(project: Project) -> None:
    a = polled(project, "1740000000001-1.rec", read=[1.0, 1.1] * 500, write=[2.0] * 30, gone=[1.0])
    b = polled(project, "1740000000002-1.rec", read=[1.5, 1.6] * 480 + [9.0] * 40, write=[2.0] * 29 + [30.0], new=[5.0])
    data = project.json("diff", a, b)
    tasks = {t["name"]: t for t in data["tasks"]}
    read, write = tasks["read"], tasks["write"]
    assert read["p50_significant"] and read["p99_significant"] and read["polls"] == [1000, 1000]
    assert read["p99_ns"] == pytest.approx([1.1e6, 9e6], rel=0.01) and read["max_ns"] == pytest.approx([1.1e6, 9e6], rel=0.01)
    assert read["p50_delta_pct"] == pytest.approx(45, abs=10)
    assert not write["p50_significant"] and not write["p99_significant"], "one long poll in thirty says nothing"
    assert tasks["gone"]["p50_ns"][1] is None and tasks["new"]["p50_ns"][0] is None and tasks["new"]["p50_delta_pct"] is None
    lines = {line.split()[0]: line for line in project.piano("diff", a, b).out.splitlines() if line.strip()}
    assert lines["read"].count("slower") == 2 and "slower" not in lines["write"]
    assert "gone" in lines["gone"] and "new" in lines["new"][4:]
    failed = project.piano("diff", a, b, "--fail-above", "20", "--json", check=False)
    assert failed.status == 1 and "read: p50 of its polls +" in failed.err and "read: p99 of its polls +" in failed.err
    assert "write" not in failed.err
    assert {t["name"]: t["failed_by"] for t in json.loads(failed.out)["tasks"]}["read"] == ["p50_ns", "p99_ns"]
    assert project.piano("diff", b, a, "--fail-above", "0").status == 0


@tool
def test_the_same_polls_are_noise(project: Project) -> None:
    luck = random.Random(7)
    a, b = (polled(project, f"174000000000{i}-1.rec", read=[luck.expovariate(1) for _ in range(1000)]) for i in (1, 2))
    task = project.json("diff", a, b)["tasks"][0]
    assert not task["p50_significant"] and not task["p99_significant"]
    assert "noise" in project.piano("diff", a, b).out


@tool
def test_loops_are_matched_without_the_number_of_their_thread(project: Project) -> None:
    paths = []
    for number, (tid, named) in enumerate(((4711, True), (4712, True))):
        rec = make.Recording()
        rec.thread(tid, "worker (1)" if named else "")
        rec.event(tid, 0.5, make.PARK, make.EPOLL)
        for turn in range(50):
            rec.turn(tid, 1 + turn * 3, 1 + number)
        paths.append(put(project, rec, f"174000000000{number}-1.rec"))
    tasks = project.json("diff", *paths)["tasks"]
    assert [(t["name"], [p > 40 for p in t["polls"]]) for t in tasks] == [("epoll loop of worker (1)", [True, True])]
    assert tasks[0]["p50_significant"] is True


# A real recording ------------------------------------------------------------------------------------------


def test_two_builds_of_one_program_are_compared_by_name(project: Project) -> None:
    for version, turns in (("a", 40), ("b", 400)):
        prog = compile(project, """
            __attribute__((noinline)) unsigned same(unsigned n) { volatile unsigned x = 1; while (n--) x = x * 3; return x; }
            __attribute__((noinline)) unsigned changed(unsigned n) { volatile unsigned x = 1; while (n--) x = x * 5; return x; }
            int main(void) { return (same(60 * 1000 * 1000) + changed(%d * 1000 * 1000)) == 1; }
        """ % turns, "-g")
        project.piano("record", "--cpu=999", "-o", f"{version}.rec", "--", prog)
    done = project.piano("diff", "a.rec", "b.rec", "--fail-above", "80", "--json", check=False)
    found = {row["name"]: row for row in json.loads(done.out)["functions"]}
    assert found["changed"]["significant"] is True and found["changed"]["delta_pct"] > 80, found["changed"]
    assert done.status == 1 and "changed: self CPU time" in done.err
    assert found["changed"]["present"] == [True, True], "the names of the first build are still known"
