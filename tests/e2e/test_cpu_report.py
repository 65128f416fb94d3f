"""`piano report --cpu`, and the summary of a recording of several instruments, with all numbers known."""
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import Project
from test_polls import make, mixed, program, put, traced  # noqa: F401

tool = pytest.mark.tool
MS = 10**6


def rows(data: dict[str, Any]) -> dict[str, tuple[int, int, int, int]]:
    return {f["name"]: (f["self_ns"] // MS, f["total_ns"] // MS, f["samples"], f["total_samples"])
            for f in data["functions"]}


@tool
def test_table_shows_self_and_total_time(project: Project, program: Path) -> None:
    rec, burn, wait, parse = traced(program)
    rec.thread(11, "main"), rec.thread(12, "helper")
    rec.cpu(11, 0, burn, ms=10, count=6).cpu(11, 100, parse, ms=10, count=3).cpu(12, 0, wait, ms=10)
    path = put(project, rec)
    data = project.json("report", path)
    assert rows(data) == {"burn": (70, 70, 7, 7), "parse": (30, 90, 3, 9), "wait_for": (0, 10, 0, 1),
                          "main": (0, 100, 0, 10)}
    assert [f["name"] for f in data["functions"][:2]] == ["burn", "parse"]
    assert (data["cpu"]["samples"], data["cpu"]["cpu_ns"], data["cpu"]["source"]) == (10, 100 * MS, "cpu-clock")
    assert data["functions"][0]["off_cpu_ns"] is None and data["functions"][0]["module"] == program.name
    assert [(t["name"], t["cpu_ns"]) for t in data["threads"]] == [("main", 90 * MS), ("helper", 10 * MS)]
    text = project.piano("report", path).out
    assert "cpu-clock at 99 Hz | 10 CPU samples, 100.0ms" in text
    assert any(line.split()[:5] == ["burn", "70.0ms", "70.0%", "70.0ms", "70.0%"] for line in text.splitlines())
    assert any(line.split()[:5] == ["parse", "30.0ms", "30.0%", "90.0ms", "90.0%"] for line in text.splitlines())


@tool
def test_recursion_counts_once(project: Project, program: Path) -> None:
    rec, _, _, _ = traced(program)
    elf = make.Program(make.Recording(), program)
    deep = rec.stack([elf.pc("burn")] * 5 + [elf.pc("main")])
    rec.cpu(11, 0, deep, ms=10)
    assert rows(project.json("report", put(project, rec)))["burn"] == (10, 10, 1, 1)


@tool
def test_off_cpu_time_is_shown_by_function_and_thread(project: Project, program: Path) -> None:
    rec, burn, wait, parse = traced(program)
    rec.cpu(11, 0, burn, ms=10, count=2).off(11, 20, wait, ms=300).off(11, 400, burn, ms=50, preempted=True)
    path = put(project, rec)
    data = project.json("report", path)
    off = {f["name"]: f["off_cpu_ns"] // MS for f in data["functions"]}
    assert off == {"burn": 300, "wait_for": 300, "main": 300, "parse": 0}
    assert (data["threads"][0]["off_cpu_ns"], data["threads"][0]["run_queue_ns"]) == (300 * MS, 50 * MS)
    assert "Off CPU" in project.piano("report", path).out
    tree = project.json("report", path, "--by", "off-cpu")["tree"]
    assert tree["ns"] == 300 * MS and tree["children"][0]["children"][0]["function"] == "wait_for"


@tool
def test_threads_are_shown_by_process(project: Project, program: Path) -> None:
    """Two processes with separate address spaces: their functions and threads are distinct."""
    rec, burn, wait, parse = traced(program)
    rec.thread(4711, "parent"), rec.thread(4712, "child", pid=4712), rec.thread(4713, "second", pid=4712)
    rec.cpu(4711, 0, burn, ms=10, count=3)
    rec.cpu(4712, 0, wait, ms=10, count=5, pid=4712).cpu(4713, 0, parse, ms=10, pid=4712)
    path = put(project, rec)
    data = project.json("report", path)
    assert [(p["name"], p["pid"], p["cpu_ns"]) for p in data["processes"]] == [
        ("child", 4712, 60 * MS), ("parent", 4711, 30 * MS)]
    assert rows(data["processes"][0]) == {"burn": (50, 50, 5, 5), "wait_for": (0, 50, 0, 5), "parse": (10, 10, 1, 1),
                                          "main": (0, 60, 0, 6)}
    text = project.piano("report", path).out
    assert text.index("Process child (4712)") < text.index("Process parent (4711)")
    data = project.json("report", path, "--threads")
    assert [(t["tid"], rows(t)["main"][1]) for t in data["threads"]] == [(4712, 50), (4711, 30), (4713, 10)]
    text = project.piano("report", path, "--threads").out
    assert "Process 4712, second (4713)" in text


@tool
def test_processes_have_their_own_modules(project: Project, program: Path) -> None:
    """Equal addresses are different functions in different processes: the tool distinguishes them by generation."""
    rec = make.Recording(program=str(program))
    elf = make.Program(rec, program, base=0x400000)
    first, second = make.TOOL_STACK | 1, make.TOOL_STACK | 2
    shift = elf.functions["parse"][0] - elf.functions["burn"][0]
    end = 0x400000 + (1 << 20)
    rec.module(str(program), 0x400000, end, 0x400000, make.build_id_of(program), since=2**31, until=2**31 + 1)
    rec.module(str(program), 0x400000, end, 0x400000 - shift, make.build_id_of(program), since=2**31 + 1,
               until=2**31 + 2)
    pc = elf.pc("burn", 1)
    rec.stack([pc], generation=2**31, number=first)
    rec.stack([pc], generation=2**31 + 1, number=second)
    rec.stack([pc], generation=2**31 + 2, number=make.TOOL_STACK | 3)
    rec.cpu(1, 0, first, ms=30, pid=1).cpu(2, 0, second, ms=20, pid=2).cpu(3, 0, make.TOOL_STACK | 3, ms=10, pid=3)
    data = project.json("report", put(project, rec))
    assert [f["name"] for f in data["functions"]][:2] == ["burn", "parse"]
    assert data["functions"][2]["module"] == "[unknown]"  # modules other than the program's


@tool
def test_tree_shows_times_of_calls(project: Project, program: Path) -> None:
    rec, burn, wait, parse = traced(program)
    rec.cpu(11, 0, burn, ms=10, count=6).cpu(11, 100, parse, ms=10, count=3).cpu(12, 0, wait, ms=10)
    path = put(project, rec)
    tree = project.json("report", path, "--cpu", "--tree")["tree"]
    main = tree["children"][0]
    assert (tree["ns"], main["function"], main["ns"], main["own_ns"]) == (100 * MS, "main", 100 * MS, 0)
    assert [(c["function"], c["ns"], c["own_ns"]) for c in main["children"]] == [
        ("parse", 90 * MS, 30 * MS), ("wait_for", 10 * MS, 0)]
    # Also without --cpu, because the recording contains nothing else.
    text = project.piano("report", path, "--tree").out
    assert "100.0ms  100.0%  main" in text and "60.0ms   60.0%" in text


@tool
def test_kernel_frames_have_a_module_of_their_own(project: Project, program: Path) -> None:
    rec, burn, wait, parse = traced(program)
    elf = make.Program(make.Recording(), program)
    rec.cpu(11, 0, rec.stack([0xFFFFFFFFFFFFFF00, elf.pc("burn")]), ms=10)
    data = project.json("report", put(project, rec))
    assert (data["functions"][0]["module"], data["functions"][0]["self_ns"]) == ("[kernel]", 10 * MS)
    assert data["functions"][1]["name"] == "burn"


@tool
def test_recording_of_several_instruments_has_a_summary_of_each(project: Project, program: Path) -> None:
    """A few lines of each instrument, and the command that shows more."""
    path = put(project, mixed(program))
    text = project.piano("report").out
    for heading, flag in (("Polls", "--polls"), ("CPU", "--cpu"), ("Heap", "--heap")):
        assert f"\n{heading}\n" in text and f"piano report {flag}" in text, heading
    assert "burn" in text and "epoll loop of main (11)" in text
    data = project.json("report")
    assert data["instruments"] == ["heap", "cpu", "polls"] and data["run"]["pid"] == 4711
    assert data["cpu"]["samples"] == 30 and data["heap"]["samples"] == 2
    for flag in ("--polls", "--cpu", "--heap"):
        assert project.piano("report", flag).out and project.piano("report", flag, path).out
    done = project.piano("report", "--cpu", "--heap", check=False)
    assert done.status == 2 and "choose one" in done.err
    assert project.piano("report", "--cpu", "--leaks", check=False).status == 2
    assert project.piano("report", "--cpu", "--tree", "--threads", check=False).status == 2


@tool
def test_lost_samples_are_reported(project: Project, program: Path) -> None:
    rec, burn, wait, parse = traced(program)
    rec.cpu(11, 0, burn)
    rec.trace["samples_lost"] = 17
    path = put(project, rec)
    assert "17 CPU samples were lost" in project.piano("report", path).err
    assert project.json("report", path)["cpu"]["lost"] == 17


@tool
def test_truncated_stacks_are_reported(project: Project, program: Path) -> None:
    rec, burn, _, _ = traced(program)
    rec.cpu(11, 0, burn)
    for whole, is_said in ((94, True), (96, False)):
        rec.trace["samples"], rec.trace["samples_unwound"] = 100, whole
        said = project.piano("report", "--cpu", put(project, rec)).err
        assert ("6 of 100 stacks are truncated" in said) == is_said, said


@tool
def test_recording_without_samples_is_reported(project: Project) -> None:
    rec = make.Recording(flags=make.HAS_CPU)
    done = project.piano("report", put(project, rec))
    assert "there is no CPU sample" in done.err and "no samples" in done.out
    assert json.loads(project.piano("report", "--json").out)["functions"] == []


@tool
def test_processes_without_a_sample_are_left_out(project: Project, program: Path) -> None:
    """A shell script starts a dozen processes without samples before the one that matters."""
    rec, burn, wait, _ = traced(program)
    rec.thread(4711, "worker")
    rec.cpu(4711, 0, burn, ms=10, count=3)
    for pid in range(5001, 5006):
        rec.thread(pid, "bash", pid=pid)
        rec.off(pid, 0, wait, ms=5, pid=pid)
    path = put(project, rec)
    text = project.piano("report", path, "--cpu").out
    assert "Process" not in text and "5 more without a sample" in text, text
    assert project.piano("report", path, "--cpu", "--all").out.count("Process bash") == 5
    rec.thread(6000, "other", pid=6000)
    rec.cpu(6000, 0, burn, ms=10, pid=6000)
    path = put(project, rec)
    text = project.piano("report", path, "--cpu").out
    assert text.count("Process ") == 2 and "bash" not in text, text
    assert project.piano("report", path, "--cpu", "--top", "1").out.count("Process ") == 1


@tool
def test_a_table_in_a_pipe_is_bounded(project: Project, program: Path, tmp_path: Path) -> None:
    long_one = tmp_path / ("a_module_with_a_name_" * 8)
    long_one.write_bytes(program.read_bytes())
    rec, burn, _, _ = traced(long_one)
    rec.cpu(11, 0, burn, ms=10)
    path = put(project, rec)
    text = project.piano("report", path, "--cpu").out
    assert "burn" in text and max(len(line) for line in text.splitlines()[1:]) < 180
    assert long_one.name in project.piano("report", path, "--cpu", "--all").out


@tool
@pytest.mark.parametrize("name,source,said", [("python3.12", 1, True), ("libpython3.11.so.1.0", 2, True),
                                              ("python3.12", 3, False), ("pythonic", 1, False)])
def test_python_by_perf_says_what_is_missing(project: Project, program: Path, tmp_path: Path, name: str, source: int,
                                             said: bool) -> None:
    python = tmp_path / name
    python.write_bytes(program.read_bytes())
    rec, burn, _, _ = traced(python)
    rec.cpu_source = source
    rec.cpu(11, 0, burn, ms=10)
    done = project.piano("report", put(project, rec), "--cpu")
    assert ("these stacks have no Python functions" in done.err) == said, done.err


@tool
def test_report_shows_the_name_the_program_was_called_by(project: Project, program: Path) -> None:
    rec, burn, _, _ = traced(program, command=["/usr/bin/redis-server", "--port", "0"])
    rec.cpu(11, 0, burn, ms=10)
    assert project.piano("report", put(project, rec), "--cpu").out.startswith("redis-server (pid ")
