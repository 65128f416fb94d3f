"""--from and --to: the same range, by the same rules, in every report, export and comparison."""
from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import pages
from conftest import Project
from made import make, names, program, put, recording, tool  # noqa: F401

MS = 1_000_000


def phases(path: Path) -> object:
    """10 s. Polls of 100 ms every second: `early` up to 5 s, then `late`. Thread 11 is parked from 0.2 to 0.9 of each second.
    CPU samples of 10 ms: 10 a second, in `parse` up to 5 s, then in `load`. Thread 12 is off the CPU from 3 to 7 s."""
    rec, s = recording(path, rate=1)
    rec.thread(11, "worker")
    rec.thread(12, "sleeper")
    early, late = rec.name("early"), rec.name("late")
    for i in range(10):
        at = 1000 * i
        rec.poll(11, at + 50, 100, task=1, name=early if i < 5 else late)
        rec.event(11, at + 200, make.PARK, make.API)
        rec.event(11, at + 900, make.UNPARK, 0)
        rec.event(11, at + 950, make.QUEUE, 3, i)
        rec.cpu(11, at + 100, s.parse if i < 5 else s.load, ms=10, count=10)
    rec.off(12, 3000, s.load, ms=4000)
    for i in range(1, 5):
        rec.sample(s.parse, 10_000, at_ms=2000 * i - 500)
        rec.snapshot(at_ms=2000 * i)
    rec.sample(s.load, 1, at_ms=9900)
    return rec


@pytest.fixture
def path(project: Project, program: Path) -> Path:  # noqa: F811
    return put(project, phases(program))


def polls(project: Project, path: Path, *flags: str) -> dict:
    return project.json("report", path, "--polls", *flags)


@tool
@pytest.mark.parametrize("flags", [("--from", "4s", "--to", "7s"), ("--from=4000ms", "--to", "7"), ("--from", "-6s", "--to=-3s"),
                                   ("--from", "4.0", "--to", "-3000000us")], ids=" ".join)
def test_range_of_polls(project: Project, path: Path, flags: tuple[str, ...]) -> None:
    data = polls(project, path, *flags)
    assert {t["name"]: (t["polls"], t["total_ns"]) for t in data["tasks"]} == {"early": (1, 100 * MS), "late": (2, 200 * MS)}
    assert data["run"]["range"] == {"from_ns": 4000 * MS, "to_ns": 7000 * MS}
    worker, = data["threads"]
    assert (worker["polls"], worker["busy_ns"]) == (3, 300 * MS)
    assert (worker["parks"], worker["parked_ns"], worker["events"]) == (3, 2100 * MS, 15)
    assert data["events"]["count"] == 15 and data["cpu"]["samples"] == 30
    queue, = data["queues"]
    assert (queue["count"], queue["min"], queue["max"]) == (3, 3, 6)  # 3: its value at the beginning of the range
    assert {p["start_ns"] for p in data["longest"]} == {4050 * MS, 5050 * MS, 6050 * MS}
    assert "from 4.0s to 7.0s" in project.piano("report", path, "--polls", *flags).out


@tool
def test_polls_count_where_they_begin_and_waits_are_clipped(project: Project, path: Path) -> None:
    data = polls(project, path, "--from", "2.1s", "--to", "4.1s")
    early, = data["tasks"]
    # Not the poll from 2.05 to 2.15, because it began earlier. The poll from 4.05 to 4.15 counts as a whole, with all its samples.
    assert (early["polls"], early["total_ns"], early["samples"]) == (2, 200 * MS, 10)
    worker, = data["threads"]
    assert worker["busy_ns"] == (50 + 100 + 50) * MS
    data = polls(project, path, "--from", "2.5s", "--to", "4.5s")
    worker, = data["threads"]
    assert (worker["parks"], worker["parked_ns"], worker["longest_park_ns"]) == (3, (400 + 700 + 300) * MS, 700 * MS)


@tool
def test_range_of_cpu_samples(project: Project, path: Path) -> None:
    data = project.json("report", path, "--cpu", "--from", "4s", "--to", "7s")
    rows = {f["name"]: f for f in data["functions"]}
    assert rows["make_node"]["self_ns"] == 300 * MS and data["cpu"]["samples"] == 30
    assert rows["parse"]["total_ns"] == 100 * MS and rows["load"]["total_ns"] == 200 * MS
    by_tid = {t["tid"]: t for t in data["threads"]}
    assert by_tid[11]["cpu_ns"] == 300 * MS
    assert by_tid[12]["off_cpu_ns"] == 3000 * MS, "of the wait, what is in the range"
    assert project.json("report", path, "--cpu", "--from", "8s")["cpu"]["switches"] == 0
    by_tid = {t["tid"]: t for t in project.json("report", path, "--cpu", "--threads", "--from", "6.5s")["threads"]}
    assert by_tid[12]["off_cpu_ns"] == 500 * MS and by_tid[11]["samples"] == 30
    tree = project.json("report", path, "--cpu", "--tree", "--to", "2s")["tree"]
    assert tree["ns"] == 200 * MS
    # An empty range differs from a missing instrument.
    assert project.json("report", path, "--cpu", "--from", "9.5s")["threads"] == []


@tool
def test_range_of_the_heap_is_growth_between_the_nearest_snapshots(project: Project, path: Path) -> None:
    growth = project.json("report", path, "--heap", "--from", "3.2s", "--to", "7.9s")["growth"]
    assert (growth["from"]["at_ns"], growth["to"]["at_ns"]) == (4000 * MS, 8000 * MS)
    parse, = growth["sites"]
    assert parse["live_bytes"] == [20_000, 40_000] and growth["allocated_bytes"] == 20_000
    data = project.json("report", path, "--heap", "--from", "3.2s", "--to", "7.9s")
    assert {data[key] for key in ("live_bytes", "allocated_bytes", "peak_bytes", "samples")} == {None} and data["sites"] == []
    text = project.piano("report", path, "--heap", "--from", "3.2s", "--to", "7.9s").out
    assert "live +19.5KB, allocated 19.5KB" in text and "Live at exit" not in text, "no sum of the whole recording"
    growth = project.json("report", path, "--heap", "--to", "2.5s")["growth"]
    assert growth["from"] == {"snapshot": None, "at_ns": 0, "live_bytes": 0} and growth["to"]["snapshot"] == 1
    assert "From the start to snapshot 1" in project.piano("report", path, "--heap", "--to", "2.5s").out
    done = project.piano("report", path, "--heap", "--from", "4.1s", "--to", "4.2s", check=False)
    assert done.status == 1 and "its growth within the range is not known" in done.err and done.out == ""
    for flag in ("--tree", "--leaks", "--peak"):
        done = project.piano("report", path, "--heap", flag, "--from", "4s", check=False)
        assert done.status == 2 and f"{flag} is of the whole recording" in done.err
    # With --growth, numbers without a unit are snapshots; with a unit they are times.
    assert project.json("report", path, "--growth", "--from", 2, "--to", 4)["growth"]["from"]["snapshot"] == 2
    assert project.json("report", path, "--growth", "--from", "2s", "--to", "4s")["growth"]["from"]["snapshot"] == 1


@tool
def test_range_of_the_overview(project: Project, path: Path) -> None:
    data = project.json("report", path, "--from", "4s", "--to", "7s")
    assert set(data["heap"].values()) == {None}, "unknown in a range"
    cpu = {"samples": 30, "switches": 1, "lost": None, "kernel_cpu_ns": None, "coverage": None, "incomplete": None}
    assert data["cpu"] == cpu and data["polls"] == {"events": 15}
    assert data["run"]["range"] == {"from_ns": 4000 * MS, "to_ns": 7000 * MS}
    text = project.piano("report", path, "--from", "4s", "--to", "7s").out
    assert "late: 2 polls" in text and "300.0ms on the CPU" in text and "From snapshot 2" in text
    assert project.json("report", path)["run"]["range"] is None
    # A range of everything gives the whole recording.
    whole, all_of_it = (project.json("report", path, "--polls", *flags) for flags in ((), ("--from", "0", "--to", "end")))
    assert whole["tasks"] == all_of_it["tasks"] and whole["longest"] == all_of_it["longest"]
    assert [{**t, "events": 0} for t in whole["threads"]] == [{**t, "events": 0} for t in all_of_it["threads"]]


@tool
def test_range_of_an_export(project: Project, path: Path) -> None:
    trace = json.loads(project.piano("export", path, "--format", "chrome", "--from", "4s", "--to", "7s").out)
    assert trace["otherData"]["range_ns"] == [4000 * MS, 7000 * MS]
    begun = [e["ts"] for e in trace["traceEvents"] if e.get("cat") == "poll"]
    assert begun == [4_050_000, 5_050_000, 6_050_000]
    parks = [e for e in trace["traceEvents"] if e.get("cat") == "park"]
    assert sum(e["dur"] for e in parks) == 2_100_000
    lines = project.piano("export", path, "--format", "collapsed", "--from", "4s", "--to", "7s").out.splitlines()
    assert sum(int(line.rsplit(" ", 1)[1]) for line in lines) == 300 * MS
    done = project.piano("export", path, "--format", "collapsed", "--by", "live", "--from", "4s", check=False)
    assert done.status == 1 and "memory is only known at snapshots" in done.err


@tool
def test_range_of_a_comparison(project: Project, program: Path, path: Path) -> None:  # noqa: F811
    other = put(project, phases(program), "1740000000001-7.rec")
    data = project.json("diff", path, other, "--from", "4s", "--to", "7s")
    load, = (f for f in data["functions"] if f["name"] == "make_node")
    assert load["self_ns"] == [300 * MS, 300 * MS]
    assert {t["name"]: t["polls"] for t in data["tasks"]} == {"early": [1, 1], "late": [2, 2]}
    assert not data.get("sites"), "memory is not compared in a range"
    assert data["ranges"] == [[4000 * MS, 7000 * MS]] * 2 and project.json("diff", path, other)["ranges"] is None
    assert project.piano("diff", path, other, "--from", "4s", "--to", "7s").out.startswith("from 4.0s to 7.0s\n")


@tool
def test_range_of_a_page(project: Project, path: Path) -> None:
    page = project.root / "page.html"
    done = project.piano("view", path, "--from", "4s", "--to", "7s", "-o", page)
    assert "samples, waits and polls are those from 4.0s to 7.0s; memory is that of the whole recording" in done.err
    report = pages.read(page).json("report")
    assert report["heap"]["live_bytes"] == 40_001
    assert report["polls"]["polls"] == 3 and report["cpu"]["cpu"]["samples"] == 30
    assert len(pages.read(page).rows("polls")) == 3 and sum(pages.read(page).column("parks", "length")) == 2_100 * MS


@tool
@pytest.mark.parametrize("flags, why", [
    (("--from", "10.5s"), "the range is outside of it: it is 10.0s long"),
    (("--to", "-20s"), "the range is outside of it"),
    (("--from", "5s", "--to", "3s"), "the range ends at 3.0s, before it begins at 5.0s"),
    (("--from", "5s", "--to", "5s"), "before it begins"),
], ids=str)
def test_range_outside_of_the_recording(project: Project, path: Path, flags: tuple[str, ...], why: str) -> None:
    for command in (("report", path), ("report", path, "--polls"), ("report", path, "--json"), ("report", path, "--heap"),
                    ("report", path, "--cpu"), ("export", path, "--format", "chrome"), ("view", path, "-o", project.root / "x")):
        done = project.piano(*command, *flags, check=False)
        assert done.status == 1 and why in done.err and done.out == "", (command, done)


@tool
@pytest.mark.parametrize("text", ["x", "-", "1e3", "0x10", "nan", "inf", "10 s", "5d", "1s2", "--", "1..2", "9" * 400 + "s"])
def test_hostile_time_is_a_usage_error(project: Project, path: Path, text: str) -> None:
    for command in ("report", "export", "view", "diff"):
        done = project.piano(command, path, f"--from={text}", check=False)
        assert done.status == 2 and "not a time such as 10s" in done.err, done


def test_range_of_frames(project: Project) -> None:
    program = project.cc(r"""
        static volatile int sink;
        static __attribute__((noinline)) void frame(void) { for (int i = 0; i < 1000; i++) sink++; }
        int main(void) { for (int i = 0; i < 50; i++) frame(); }
    """, "-O1", select=["--fn", "frame"])
    subprocess.run([program], check=True, env=project.env, cwd=project.root)
    run, = project.run_files()
    whole = project.json("report", run, "--frames")["frames"]
    starts = [frame["start_ns"] for frame in whole]
    first, last = starts[10], starts[20]
    part = project.json("report", run, "--frames", f"--from={first}ns", f"--to={last}ns")
    assert part["frames"] == whole[10:20], "numbers, spikes and times are those of the whole run"
    assert part["run"]["range"] == {"from_ns": first, "to_ns": last}
    text = project.piano("report", run, "--frames", f"--from={first}ns", f"--to={last}ns").out
    assert f"10 of {len(whole)} frames begin in it" in text
    done = project.piano("report", run, "--from", "0", check=False)
    assert done.status == 1 and "functions have sums of the whole run" in done.err
    done = project.piano("report", run, "--frames", "--from", "100s", check=False)
    assert done.status == 1 and "the range is outside of it" in done.err
