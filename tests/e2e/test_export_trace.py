"""`piano export` of events and CPU samples: the Trace Event Format checked by its published rules, pprof, collapsed, speedscope."""
from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from conftest import Project
from test_export import profile_of, speedscope_schema
from test_polls import make, mixed, program, put, traced  # noqa: F401

tool = pytest.mark.tool
MS = 10**6


def chrome(project: Project, rec: Any) -> dict[str, Any]:
    path = put(project, rec)
    out = project.root / "trace.json"
    project.piano("export", path, "--format", "chrome", "-o", out, "--force")
    return json.loads(out.read_text())


def validate(trace: dict[str, Any]) -> None:
    """The rules of the Trace Event Format: fields by phase, slices of a thread nested or disjoint,
    flows with both ends, no missing stack frames."""
    assert isinstance(trace["traceEvents"], list) and trace["displayTimeUnit"] in ("ms", "ns")
    frames = trace["stackFrames"]
    for frame in frames.values():
        assert isinstance(frame["name"], str) and isinstance(frame["category"], str)
        assert "parent" not in frame or frame["parent"] in frames
    slices: dict[Any, list[tuple[float, float]]] = defaultdict(list)
    flows: dict[Any, list[str]] = defaultdict(list)
    for e in trace["traceEvents"]:
        assert isinstance(e["ph"], str) and isinstance(e["name"], str) and e["name"] != ""
        assert isinstance(e["pid"], int) and isinstance(e["tid"], int)
        assert isinstance(e["ts"], (int, float)) and e["ts"] >= 0
        if e["ph"] == "M":
            assert e["name"] in ("process_name", "thread_name") and isinstance(e["args"]["name"], str)
            continue
        assert isinstance(e["cat"], str)
        if "sf" in e:
            assert e["sf"] in frames
        if e["ph"] == "X":
            assert e["dur"] >= 0
            slices[e["pid"], e["tid"]].append((round(e["ts"] * 1000), round((e["ts"] + e["dur"]) * 1000)))
        elif e["ph"] == "i":
            assert e["s"] in ("g", "p", "t")
        elif e["ph"] == "C":
            assert e["args"] and all(isinstance(v, (int, float)) for v in e["args"].values())
        elif e["ph"] in ("s", "f"):
            flows[e["cat"], e["name"], e["id"]].append(e["ph"])
            assert e["ph"] == "s" or e["bp"] == "e"
        else:
            raise AssertionError(f"phase {e['ph']}")
    assert all(ends == ["s", "f"] for ends in flows.values())
    for thread, list_ in slices.items():
        stack: list[int] = []
        for begin, end in sorted(list_, key=lambda s: (s[0], -s[1])):
            while stack and stack[-1] <= begin:
                stack.pop()
            assert not stack or end <= stack[-1] + 1, (thread, begin, end, stack)
            stack.append(end)


@tool
def test_chrome_has_polls_parks_and_wakes(project: Project, program: Path) -> None:
    trace = chrome(project, mixed(program))
    validate(trace)
    count = Counter((e["ph"], e.get("cat")) for e in trace["traceEvents"])
    # Thirty polls of tasks, thirty turns of the loop, and a park after each of them.
    assert count["X", "poll"] == 60 and count["X", "park"] == 30 and count["X", "off-cpu"] == 30
    assert count["s", "wake"] == count["f", "wake"] == 30 and count["i", "mark"] == 30
    assert count["i", "cpu"] == 30 and count["C", "value"] == 60
    poll = next(e for e in trace["traceEvents"] if e["ph"] == "X" and e["name"] == "t")
    assert (poll["ts"], poll["dur"], poll["tid"], poll["args"]["task"]) == (4000.0, 3000.0, 12, "0")
    assert poll["args"]["late_us"] == 1000.0 and poll["args"]["on_cpu"] == pytest.approx(2 / 3, abs=0.001)
    park = next(e for e in trace["traceEvents"] if e.get("cat") == "park")
    assert park["name"] == "park: epoll" and park["cname"] == "thread_state_sleeping"
    sample = next(e for e in trace["traceEvents"] if e.get("cat") == "cpu")
    assert sample["name"] == "burn" and sample["args"]["stack"] == "burn < parse < main"
    names = {(e["name"], e["pid"], e["tid"]): e["args"]["name"] for e in trace["traceEvents"] if e["ph"] == "M"}
    assert names["process_name", 4711, 4711] == program.name and names["thread_name", 4711, 12] == "w"
    assert names["process_name", 1_000_004_711, 4711] == f"{program.name}: off the CPU"
    chain, at = [], sample["sf"]
    while at:
        chain.append(trace["stackFrames"][at]["name"])
        at = trace["stackFrames"][at].get("parent")
    assert chain == ["burn", "parse", "main"]
    values = [e["args"]["value"] for e in trace["traceEvents"] if e["ph"] == "C" and e["name"] == "v"]
    assert values == [-i for i in range(30)]


@tool
def test_chrome_of_open_and_nested_polls(project: Project) -> None:
    rec = make.Recording()
    rec.poll(12, 1.000005, 0.000007, task=9, name=rec.name("tiny"))
    rec.event(11, 10, make.POLL_BEGIN, 2**64 - 1, rec.name("outer\x1b\"\\"))
    rec.poll(11, 15, 5, task=2, name=rec.name("inner"))
    rec.event(11, 30, make.PARK, make.CONDITION).event(11, 35, make.UNPARK, 0)
    rec.event(11, 40, make.POLL_BEGIN, 4, rec.name("inner"))
    trace = chrome(project, rec)
    validate(trace)
    tiny = next(e for e in trace["traceEvents"] if e["name"] == "tiny")
    assert (tiny["ts"], tiny["dur"]) == (1000.005, 0.007)
    outer = next(e for e in trace["traceEvents"] if e["name"].startswith("outer"))
    assert outer["args"]["open"] is True and outer["args"]["task"] == str(2**64 - 1)


@tool
def test_depths_of_queues_have_the_same_limit_everywhere(project: Project) -> None:
    rec = make.Recording(flags=make.HAS_EVENTS)
    for i, depth in enumerate((3, 2**40, 2**40 + 1, 2**64 - 1)):
        rec.event(11, 10 + i, make.QUEUE, 5, depth)
    depths = [e["args"]["depth"] for e in chrome(project, rec)["traceEvents"] if e["name"] == "queue 5"]
    assert depths == [3, 2**40, 2**40, 2**40]
    queue, = json.loads(project.piano("report", put(project, rec), "--polls", "--json").out)["queues"]
    assert (queue["first"], queue["last"], queue["max"]) == (3, 2**40, 2**40)


@tool
def test_chrome_of_cpu_samples_has_instants(project: Project, program: Path) -> None:
    rec, burn, wait, parse = traced(program)
    rec.cpu(11, 0, burn, ms=10, count=3).cpu(12, 0, wait, pid=12)
    trace = chrome(project, rec)
    validate(trace)
    assert Counter(e["ph"] for e in trace["traceEvents"]) == {"i": 4, "M": 4}


@tool
def test_chrome_needs_a_timeline(project: Project) -> None:
    path = put(project, make.Recording())
    done = project.piano("export", path, "--format", "chrome", check=False)
    assert done.status == 1 and "has no events or CPU samples" in done.err
    done = project.piano("export", path, "--format", "chrome", "--by", "live", check=False)
    assert done.status == 2
    done = project.piano("export", path, "--format", "collapsed", "--by", "cpu", check=False)
    assert done.status == 1 and "has no CPU samples" in done.err


# Stacks ------------------------------------------------------------------------------------------

def weighed(program: Path) -> Any:
    rec, burn, wait, parse = traced(program)
    rec.cpu(11, 0, burn, ms=10, count=6).cpu(11, 100, parse, ms=10, count=3)
    return rec.off(11, 200, wait, ms=300).off(11, 600, burn, ms=7, preempted=True)


@tool
def test_collapsed_has_cpu_and_off_cpu_time(project: Project, program: Path) -> None:
    path = put(project, weighed(program))
    # CPU time is the default of a recording without heap samples.
    for flags in ((), ("--by", "cpu")):
        assert project.piano("export", path, "--format", "collapsed", *flags).out == \
            f"main;parse {30 * MS}\nmain;parse;burn {60 * MS}\n"
    assert project.piano("export", path, "--format", "collapsed", "--by", "off-cpu").out == \
        f"main;wait_for;burn {300 * MS}\n"


@tool
@pytest.mark.parametrize("by,chosen", [("cpu", "cpu"), ("off-cpu", "off_cpu")])
def test_pprof_has_cpu_and_off_cpu_time(project: Project, program: Path, by: str, chosen: str) -> None:
    path = put(project, weighed(program))
    profile = profile_of(project, path, "--by", by)
    assert profile.types == [("samples", "count"), ("cpu", "nanoseconds"), ("switches", "count"),
                             ("off_cpu", "nanoseconds")]
    assert sorted(values for _, values in profile.samples) == [
        [0, 0, 1, 300 * MS], [3, 30 * MS, 0, 0], [6, 60 * MS, 0, 0]]
    assert profile.strings[dict(profile.fields)[14]] == chosen


@tool
def test_speedscope_has_cpu_and_off_cpu_time(project: Project, program: Path) -> None:
    data = json.loads(project.piano("export", put(project, weighed(program)), "--format", "speedscope").out)
    cpu, off = data["profiles"]
    assert (cpu["name"], cpu["unit"], cpu["endValue"]) == ("CPU time", "nanoseconds", 90 * MS)
    assert (off["endValue"], len(off["samples"])) == (300 * MS, 1)


def test_speedscope_matches_its_schema(project: Project, program: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="python3-jsonschema is not installed")
    data = json.loads(project.piano("export", put(project, weighed(program)), "--format", "speedscope").out)
    jsonschema.validate(data, speedscope_schema())
