"""`piano export` of events and CPU samples: the Trace Event Format checked by its published rules, pprof, collapsed, speedscope."""
from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from conftest import Project
from conftest import fn, frame, header, ndjson, put_run, update_run
from test_export import fields, profile_of, speedscope_schema
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
    profiled: dict[str, list[Any]] = defaultdict(list)
    for e in trace["traceEvents"]:
        assert isinstance(e["ph"], str) and isinstance(e["name"], str) and e["name"] != ""
        assert isinstance(e["pid"], int) and isinstance(e["tid"], int)
        assert isinstance(e["ts"], (int, float)) and e["ts"] >= 0
        if e["ph"] == "M":
            assert e["name"] in ("process_name", "thread_name") and isinstance(e["args"]["name"], str)
            continue
        assert isinstance(e["cat"], str)
        assert "stack" not in e.get("args", {}), "stacks are in tables"
        if "sf" in e:
            assert e["sf"] in frames
        if e["ph"] == "X":
            assert e["dur"] >= 0
            slices[e["pid"], e["tid"]].append((round(e["ts"] * 1000), round((e["ts"] + e["dur"]) * 1000)))
        elif e["ph"] == "i":
            assert e["s"] in ("g", "p", "t")
        elif e["ph"] == "C":
            assert e["args"] and all(isinstance(v, (int, float)) for v in e["args"].values())
        elif e["ph"] == "P":
            profiled[e["id"]].append(e)
        elif e["ph"] in ("s", "f"):
            flows[e["cat"], e["name"], e["id"]].append(e["ph"])
            assert e["ph"] == "s" or e["bp"] == "e"
        else:
            raise AssertionError(f"phase {e['ph']}")
    assert all(ends == ["s", "f"] for ends in flows.values())
    for events in profiled.values():
        validate_profile(events)
    for thread, list_ in slices.items():
        stack: list[int] = []
        for begin, end in sorted(list_, key=lambda s: (s[0], -s[1])):
            while stack and stack[-1] <= begin:
                stack.pop()
            assert not stack or end <= stack[-1] + 1, (thread, begin, end, stack)
            stack.append(end)


def validate_profile(events: list[dict[str, Any]]) -> None:
    """A profile of V8: its start, then chunks in order, of one thread; callers come before what they call."""
    start, *chunks = events
    assert start["name"] == "Profile" and {e["name"] for e in chunks} == {"ProfileChunk"}
    assert len({(e["pid"], e["tid"]) for e in events}) == 1
    known: set[int] = set()
    for chunk in chunks:
        data = chunk["args"]["data"]
        for node in data["cpuProfile"]["nodes"]:
            assert node["id"] not in known and node.get("parent", 1) in known | {1}
            assert node["callFrame"]["functionName"] != ""
            known.add(node["id"])
        assert set(data["cpuProfile"]["samples"]) <= known
        assert len(data["cpuProfile"]["samples"]) == len(data["timeDeltas"]) and min(data["timeDeltas"]) >= 0


def profiles(trace: dict[str, Any]) -> dict[tuple[int, int], list[tuple[float, float, list[str]]]]:
    """By (pid, tid): begin and length in microseconds of each sample that is not idle, and its stack, innermost first. A sample
    lasts until the next one."""
    threads: dict[str, Any] = {}
    found: dict[tuple[int, int], list[Any]] = defaultdict(list)
    for e in trace["traceEvents"]:
        if e["ph"] != "P":
            continue
        if e["name"] == "Profile":
            threads[e["id"]] = {"at": e["args"]["data"]["startTime"], "nodes": {}, "last": None}
            continue
        state, data = threads[e["id"]], e["args"]["data"]
        state["nodes"].update({n["id"]: n for n in data["cpuProfile"]["nodes"]})
        for node, delta in zip(data["cpuProfile"]["samples"], data["timeDeltas"]):
            begin, state["at"] = state["at"], state["at"] + delta
            if state["last"] is not None and state["nodes"][state["last"]]["callFrame"]["functionName"] != "(idle)":
                found[e["pid"], e["tid"]].append((begin, delta, stack_of(state["nodes"], state["last"])))
            state["last"] = node
    assert all(state["nodes"][state["last"]]["callFrame"]["functionName"] == "(idle)" for state in threads.values())
    return found


def stack_of(nodes: dict[int, Any], number: int | None) -> list[str]:
    names = []
    while number is not None and number != 1:
        names.append(nodes[number]["callFrame"]["functionName"])
        number = nodes[number].get("parent")
    return names


@tool
def test_chrome_has_polls_parks_and_wakes(project: Project, program: Path) -> None:
    trace = chrome(project, mixed(program))
    validate(trace)
    count = Counter((e["ph"], e.get("cat")) for e in trace["traceEvents"])
    # Thirty polls of tasks, thirty turns of the loop, and a park after each of them.
    assert count["X", "poll"] == 60 and count["X", "park"] == 30 and count["X", "blocked"] == 30
    assert count["s", "wake"] == count["f", "wake"] == 30 and count["i", "mark"] == 30
    assert count["C", "value"] == 60 and count["C", "heap"] == 1
    poll = next(e for e in trace["traceEvents"] if e["ph"] == "X" and e["name"] == "t")
    assert (poll["ts"], poll["dur"], poll["tid"], poll["args"]["task"]) == (4000.0, 3000.0, 12, "0")
    assert poll["args"]["late_us"] == 1000.0 and poll["args"]["on_cpu"] == pytest.approx(2 / 3, abs=0.001)
    park = next(e for e in trace["traceEvents"] if e.get("cat") == "park")
    assert park["name"] == "park: epoll" and park["cname"] == "thread_state_sleeping"
    # A sample stands for the 10 ms before it. The first one, 6 ms after the start, would begin before the recording.
    samples = profiles(trace)
    assert list(samples) == [(4711, 11)] and len(samples[4711, 11]) == 30
    assert samples[4711, 11][0] == (1_000, 10_000, ["burn", "parse", "main"])
    assert sum(length for _, length, _ in samples[4711, 11]) == 300_000
    away = next(e for e in trace["traceEvents"] if e.get("cat") == "blocked")
    assert (away["name"], away["ts"], away["dur"], away["pid"]) == ("burn", 5000.0, 1000.0, 1_000_004_711)
    names = {(e["name"], e["pid"], e["tid"]): e["args"]["name"] for e in trace["traceEvents"] if e["ph"] == "M"}
    assert names["process_name", 4711, 4711] == program.name and names["thread_name", 4711, 12] == "w"
    assert names["process_name", 1_000_004_711, 4711] == f"{program.name}: off the CPU"
    chain, at = [], away["sf"]
    while at:
        chain.append(trace["stackFrames"][at]["name"])
        at = trace["stackFrames"][at].get("parent")
    assert chain == ["burn", "wait_for", "main"] and len(trace["stackFrames"]) == 3, "only what slices refer to"
    live = next(e for e in trace["traceEvents"] if e.get("cat") == "heap")
    assert (live["name"], live["ts"], live["args"]) == ("heap: live bytes", 500_000.0, {"bytes": 100})
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
def test_chrome_of_cpu_samples_has_a_profile_for_each_thread(project: Project, program: Path) -> None:
    """Each sample covers the time that it stands for, and nothing else does. One that begins a little after the one before
    begins where that ends."""
    rec, burn, wait, parse = traced(program)
    rec.cpu(11, 20, burn, ms=10, count=2).cpu(11, 40.4, burn).cpu(11, 100, parse, ms=2.5).cpu(12, 20, wait, pid=12, ms=4)
    trace = chrome(project, rec)
    validate(trace)
    assert Counter(e["ph"] for e in trace["traceEvents"]) == {"P": 4, "M": 4}
    assert profiles(trace) == {
        (4711, 11): [(10_000 + 10_000 * i, 10_000, ["burn", "parse", "main"]) for i in range(3)] + [(97_500, 2_500, ["parse", "main"])],
        (12, 12): [(16_000, 4_000, ["burn", "wait_for", "main"])]}


@tool
def test_chrome_of_samples_that_overlap_keeps_their_sum(project: Project, program: Path) -> None:
    """Samples may stand for more time than has passed since the one before, and for fractions of a microsecond."""
    rec, burn, wait, parse = traced(program)
    for i in range(9000):  # three chunks
        rec.cpu(11, 10 + 0.01 * i, burn if i % 3 else parse, ms=0.0105003)
    trace = chrome(project, rec)
    validate(trace)
    samples = profiles(trace)[4711, 11]
    assert len(samples) == 9000 and sum(1 for e in trace["traceEvents"] if e["name"] == "ProfileChunk") == 3
    assert abs(sum(length for _, length, _ in samples) - 9000 * 10.5) <= 1
    burned = sum(length for _, length, stack in samples if stack[0] == "burn")
    assert abs(burned - 6000 * 10.5) < 10
    assert all(begin + length <= after for (begin, length, _), (after, _, _) in zip(samples, samples[1:]))


@tool
def test_chrome_tells_blocked_from_preempted(project: Project, program: Path) -> None:
    trace = chrome(project, weighed(program))
    validate(trace)
    away = {e["cat"]: (e["name"], e["dur"]) for e in trace["traceEvents"] if e["ph"] == "X"}
    assert away == {"blocked": ("burn", 300_000.0), "preempted": ("waiting for a CPU", 7_000.0)}


@tool
def test_chrome_of_memory_has_its_snapshots(project: Project) -> None:
    rec = make.Recording(rate=1)
    rec.sample(0, 100).snapshot(at_ms=5, resident=4096)
    rec.sample(0, 50).snapshot(at_ms=6)
    trace = chrome(project, rec)
    validate(trace)
    assert [(e["name"], e["ts"], e["args"]["bytes"]) for e in trace["traceEvents"] if e["ph"] == "C"] == [
        ("heap: live bytes", 5000.0, 100), ("resident bytes", 5000.0, 4096), ("heap: live bytes", 6000.0, 150)]


@tool
def test_chrome_needs_a_timeline(project: Project) -> None:
    path = put(project, make.Recording())
    done = project.piano("export", path, "--format", "chrome", check=False)
    assert done.status == 1 and "has no events, CPU samples or snapshots" in done.err
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


TIMES = [("samples", "count"), ("cpu", "nanoseconds"), ("switches", "count"), ("off_cpu", "nanoseconds"),
         ("wait", "nanoseconds"), ("preempted", "nanoseconds")]


@tool
@pytest.mark.parametrize("by,chosen", [("cpu", "cpu"), ("off-cpu", "off_cpu")])
def test_pprof_has_cpu_and_off_cpu_time(project: Project, program: Path, by: str, chosen: str) -> None:
    path = put(project, weighed(program))
    profile = profile_of(project, path, "--by", by)
    assert profile.types == TIMES
    assert sorted(values for _, values in profile.samples) == [
        [0, 0, 1, 300 * MS, 300 * MS, 0], [3, 30 * MS, 0, 0, 0, 0], [6, 60 * MS, 0, 0, 7 * MS, 7 * MS]]
    parts = dict(profile.fields)
    assert profile.strings[parts[14]] == chosen and parts[12] == 10**9 // 99 and parts[10] == 10 * make.SECOND
    assert [profile.strings[v] for _, v in fields(parts[11])] == ["cpu", "nanoseconds"]


@tool
def test_pprof_without_times_off_the_cpu_has_no_such_series(project: Project, program: Path) -> None:
    """They are not known, which is not zero. A recording that does not say how often it sampled has the mean of its samples."""
    rec, burn, wait, parse = traced(program, cpu_hz=0)
    profile = profile_of(project, put(project, rec.cpu(11, 100, burn, ms=5).cpu(11, 200, burn, ms=3)))
    assert profile.types == TIMES[:2] and [values for _, values in profile.samples] == [[2, 8 * MS]]
    assert dict(profile.fields)[12] == 4 * MS


@tool
def test_pprof_has_memory_and_times_in_one_file(project: Project, program: Path) -> None:
    path = put(project, mixed(program))
    memory = [("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes")]
    for by, chosen, has_duration in (("live", "inuse_space", False), ("cpu", "cpu", True)):
        profile = profile_of(project, path, "--by", by)
        assert profile.types == memory + TIMES and profile.strings[dict(profile.fields)[14]] == chosen
        assert (10 in dict(profile.fields)) == has_duration
        sums = [sum(values[i] for _, values in profile.samples) for i in range(10)]
        assert sums == [2, 150, 1, 100, 30, 300 * MS, 30, 30 * MS, 30 * MS, 0]
    # Memory in a range of time is not known.
    assert profile_of(project, path, "--from", "0s", "--to", "5s").types == TIMES


@tool
def test_pprof_says_thread_process_and_task(project: Project, program: Path) -> None:
    rec, burn, wait, parse = traced(program, rate=1)
    rec.thread(11, "main"), rec.thread(12, "worker"), rec.thread(99, "child", pid=99)
    rec.event(12, 1, make.TASK_SPAWN, 7, rec.name("accept"), 0)
    # A poll of a task with a callback in it, and a turn of a loop, which is no task.
    rec.event(12, 10, make.POLL_BEGIN, 7).poll(12, 20, 10, task=8, name=rec.name("parse_it")).event(12, 60, make.POLL_END)
    for i in range(5):
        rec.turn(11, 10 * i + 5, 4)
    rec.cpu(12, 15, burn, ms=2).cpu(12, 25, burn, ms=3).cpu(12, 70, burn, ms=4).cpu(11, 6, burn, ms=5)
    rec.cpu(99, 30, burn, ms=6, pid=99).off(12, 40, wait, ms=7)
    rec.sample(parse, 64)
    profile = profile_of(project, put(project, rec), "--by", "cpu")
    name = profile.types.index(("cpu", "nanoseconds"))
    away = profile.types.index(("off_cpu", "nanoseconds"))
    own = {"process": program.name, "pid": 4711}
    worker = {**own, "thread": "worker", "tid": 12}
    labels = {values[name] or values[away]: label for (_, values), label in zip(profile.samples, profile.labels)}
    assert labels == {
        0: own, 2 * MS: {**worker, "task": "accept"}, 3 * MS: {**worker, "task": "parse_it"}, 4 * MS: worker,
        5 * MS: {**own, "thread": "main", "tid": 11}, 6 * MS: {"process": "child", "pid": 99, "thread": "child", "tid": 99},
        7 * MS: {**worker, "task": "accept"}}


def stretches(data: dict[str, Any], profile: dict[str, Any]) -> list[tuple[int, int, list[str]]]:
    """Begin, length and stack of each stretch that is not idle."""
    frames, at, out = data["shared"]["frames"], 0, []
    for stack, weight in zip(profile["samples"], profile["weights"]):
        if stack:
            out.append((at, weight, [frames[i]["name"] for i in stack]))
        at += weight
    return out


@tool
def test_speedscope_has_a_profile_for_each_thread_in_order_of_time(project: Project, program: Path) -> None:
    rec, burn, wait, parse = traced(program)
    rec.thread(4711, "main"), rec.thread(12, "worker")
    # The worker has more CPU time, but the main thread is shown first.
    rec.cpu(12, 20, burn, ms=10, count=9)
    rec.cpu(4711, 110, burn, ms=10).cpu(4711, 120, parse, ms=10, count=2).cpu(4711, 200, burn, ms=5)
    rec.off(4711, 300, wait, ms=40).off(4711, 400, burn, ms=7, preempted=True).off(12, 500, wait, ms=2)
    path = put(project, rec)
    data = json.loads(project.piano("export", path, "--format", "speedscope").out)
    by_name = {p["name"]: p for p in data["profiles"]}
    assert list(by_name) == [
        "main (4711): CPU time", "main (4711): blocked", "main (4711): waiting for a CPU", "worker (12): CPU time",
        "worker (12): blocked", "all threads: CPU time", "all threads: blocked", "all threads: waiting for a CPU"]
    assert data["activeProfileIndex"] == 0
    assert stretches(data, by_name["main (4711): CPU time"]) == [
        (100 * MS, 10 * MS, ["main", "parse", "burn"]), (110 * MS, 20 * MS, ["main", "parse"]),
        (195 * MS, 5 * MS, ["main", "parse", "burn"])]
    assert stretches(data, by_name["main (4711): blocked"]) == [(300 * MS, 40 * MS, ["main", "wait_for", "burn"])]
    assert stretches(data, by_name["main (4711): waiting for a CPU"]) == [(400 * MS, 7 * MS, ["main", "parse", "burn"])]
    assert stretches(data, by_name["worker (12): CPU time"]) == [(10 * MS, 90 * MS, ["main", "parse", "burn"])]
    sums = stretches(data, by_name["all threads: CPU time"])
    assert sorted((stack[-1], weight) for _, weight, stack in sums) == [("burn", 15 * MS), ("burn", 90 * MS), ("parse", 20 * MS)]
    data = json.loads(project.piano("export", path, "--format", "speedscope", "--by", "off-cpu").out)
    assert data["profiles"][data["activeProfileIndex"]]["name"] == "main (4711): blocked"
    part = json.loads(project.piano("export", path, "--format", "speedscope", "--from", "150ms").out)
    assert stretches(part, part["profiles"][0]) == [(45 * MS, 5 * MS, ["main", "parse", "burn"])]


@tool
def test_stacks_that_only_waited_for_a_cpu_have_names(project: Project, program: Path) -> None:
    rec, burn, wait, parse = traced(program)
    path = put(project, rec.cpu(4711, 20, burn).off(4711, 100, wait, ms=7, preempted=True))
    profile = profile_of(project, path)
    found = {name for locations, values in profile.samples if values[5] for l in locations for name in profile.names(l)}
    assert found == {"burn", "wait_for", "main"}
    data = json.loads(project.piano("export", path, "--format", "speedscope").out)
    assert stretches(data, data["profiles"][1]) == [(100 * MS, 7 * MS, ["main", "wait_for", "burn"])]


@tool
def test_speedscope_has_a_frame_for_each_function(project: Project) -> None:
    """Samples on different lines of a function belong to the same frame; functions of different modules do not."""
    rec = make.Recording()
    for path, start in (("/tmp/a", 0x400000), ("/tmp/b.so", 0x600000)):
        rec.module(path, start, start + 0x10000, bias=start)
        for i in range(3):
            rec.symbol(path, 0x100 + i, [("inner", "x.h", 70 + i, True), ("work", "a.c", 10 + i, False)])
    for i in range(3):
        rec.cpu(4711, 20 + 10 * i, rec.stack([0x400101 + i]))
    rec.cpu(4711, 90, rec.stack([0x600101]))
    data = json.loads(project.piano("export", put(project, rec), "--format", "speedscope").out)
    assert data["shared"]["frames"] == [{"name": "work", "file": "a.c"}, {"name": "inner", "file": "x.h"}] * 2
    profile, = data["profiles"]
    assert profile["samples"] == [[], [0, 1], [0, 1], [0, 1], [], [2, 3]]
    assert profile["weights"] == [10 * MS, 10 * MS, 10 * MS, 10 * MS, 40 * MS, 10 * MS]


def test_speedscope_matches_its_schema(project: Project, program: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="python3-jsonschema is not installed")
    data = json.loads(project.piano("export", put(project, weighed(program)), "--format", "speedscope").out)
    jsonschema.validate(data, speedscope_schema())


# Firefox -----------------------------------------------------------------------------------------

def firefox(project: Project, path: Path, *flags: str) -> dict[str, Any]:
    data = json.loads(project.piano("export", path, "--format", "firefox", *flags).out)
    for thread in data["threads"]:
        for table in ("funcTable", "frameTable", "stackTable", "resourceTable", "samples", "markers", "nativeSymbols"):
            columns = {key: column for key, column in thread[table].items() if key not in ("length", "weightType")}
            assert {len(column) for column in columns.values()} == {thread[table]["length"]}, table
        prefixes = thread["stackTable"]["prefix"]
        assert all(prefix is None or prefix < i for i, prefix in enumerate(prefixes)), "callers come first"
        assert thread["samples"]["time"] == sorted(thread["samples"]["time"])
        kinds = {schema["name"] for schema in data["meta"]["markerSchema"]}
        assert {marker["type"] for marker in thread["markers"]["data"]} <= kinds
    return data


def frames_of(thread: dict[str, Any], stack: int | None) -> list[tuple[str, str, str, int]]:
    """(function, file, module, line), innermost first."""
    text, found = thread["stringArray"], []
    while stack is not None:
        frame_ = thread["stackTable"]["frame"][stack]
        function = thread["frameTable"]["func"][frame_]
        table = thread["funcTable"]
        found.append((text[table["name"][function]], text[table["fileName"][function]],
                      text[thread["resourceTable"]["name"][table["resource"][function]]], thread["frameTable"]["line"][frame_]))
        stack = thread["stackTable"]["prefix"][stack]
    return found


@tool
def test_firefox_has_threads_lines_markers_and_memory(project: Project, program: Path) -> None:
    rec = mixed(program)
    rec.snapshot(at_ms=700)
    data = firefox(project, put(project, rec))
    assert [(t["name"], t["pid"], t["tid"], t["isMainThread"]) for t in data["threads"]] == [
        ("main", "4711", 11, False), ("worker", "4711", 12, False)]
    main, worker = data["threads"]
    samples = main["samples"]
    assert samples["weightType"] == "tracing-ms" and sum(samples["weight"]) == pytest.approx(300)
    assert sum(samples["threadCPUDelta"]) == 300 * MS and samples["time"][-1] == 10_000
    burned = frames_of(main, next(stack for stack in samples["stack"] if stack is not None))
    assert [(name, file[-6:], module) for name, file, module, _ in burned] == [
        (name, "prog.c", program.name) for name in ("burn", "parse", "main")]
    assert all(line > 0 for *_, line in burned)
    markers = Counter(marker["type"] for marker in worker["markers"]["data"])
    assert markers == {"Poll": 30, "Mark": 30, "Blocked": 30}
    assert Counter(marker["type"] for marker in main["markers"]["data"]) == {"Poll": 30, "Park": 30}
    away = next(i for i, marker in enumerate(worker["markers"]["data"]) if marker["type"] == "Blocked")
    assert [name for name, *_ in frames_of(worker, worker["markers"]["data"][away]["cause"]["stack"])] == ["burn", "wait_for", "main"]
    assert (worker["markers"]["startTime"][away], worker["markers"]["endTime"][away]) == (5, 6)
    counter, = data["counters"]
    assert (counter["category"], counter["samples"]["time"], counter["samples"]["count"]) == ("Memory", [500, 700], [100, 0])


@tool
def test_firefox_shows_a_range_and_other_processes(project: Project, program: Path) -> None:
    rec, burn, wait, parse = traced(program)
    rec.thread(4711, "main"), rec.thread(99, "child", pid=99)
    rec.cpu(4711, 20, burn, count=30).cpu(99, 100, parse, pid=99).off(99, 150, wait, ms=100, pid=99)
    path = put(project, rec)
    data = firefox(project, path)
    assert [(t["processName"], t["pid"], t["isMainThread"]) for t in data["threads"]] == [
        (program.name, "4711", True), ("child", "99", True)]
    data = firefox(project, path, "--from", "200ms", "--to", "300ms")
    main, child = data["threads"]
    assert sum(main["samples"]["weight"]) == pytest.approx(100)
    assert sum(child["samples"]["weight"]) == 0
    assert (child["markers"]["startTime"], child["markers"]["endTime"]) == ([200], [250]) and data["counters"] == []
    done = project.piano("export", path, "--format", "firefox", "--by", "cpu", check=False)
    assert done.status == 2 and "all is in it" in done.err
    run = put_run(project, "1740000000123-77", update_run(WALLS))
    done = project.piano("export", run, "--format", "firefox", check=False)
    assert done.status == 1 and "--format chrome" in done.err and done.out == ""


# Runs of instrumented programs -------------------------------------------------------------------

WALLS = [4_000_000, 8_000_000, 40_000_000]


@tool
def test_run_in_chrome_has_its_frames(project: Project) -> None:
    path = put_run(project, "1740000000123-77", update_run(WALLS))
    trace = json.loads(project.piano("export", path, "--format", "chrome").out)
    validate(trace)
    frames = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert [(e["ts"], e["dur"], e["tid"], e["name"]) for e in frames] == [
        (20_000.0 * i, wall / 1000, 77, "update") for i, wall in enumerate(WALLS)]
    assert [e["args"].get("spike") for e in frames] == [None, None, True]
    assert frames[0]["args"] == {"frame": 0, "wall_ms": 4.0, "allocations": 10, "allocated_bytes": 1000}


@tool
def test_run_in_pprof_and_collapsed_has_self_times(project: Project) -> None:
    path = put_run(project, "1740000000123-77", update_run(WALLS))
    known = {row["name"]: row for row in project.json("report", path, "--all")["functions"]}
    profile = profile_of(project, path)
    assert profile.types == [("calls", "count"), ("wall", "nanoseconds"), ("alloc_objects", "count"), ("alloc_space", "bytes")]
    assert profile.strings[dict(profile.fields)[14]] == "wall" and dict(profile.fields)[12] == 1
    found = {profile.names(*locations)[0]: values for locations, values in profile.samples}
    assert found == {name: [row["calls"], row["self_ns"], row["alloc_count"], row["alloc_bytes"]] for name, row in known.items()}
    assert [label["thread"] for label in profile.labels] == ["main", "main"] and profile.labels[0]["tid"] == 77
    lines = dict(line.rsplit(" ", 1) for line in project.piano("export", path, "--format", "collapsed").out.splitlines())
    assert {name: int(weight) for name, weight in lines.items()} == {name: row["self_ns"] for name, row in known.items()}
    assert project.piano("export", path, "--format", "collapsed", "--by", "allocated").out == "update 3000\n"
    data = json.loads(project.piano("export", path, "--format", "speedscope").out)
    profile, = data["profiles"]
    assert profile["name"] == "main: self time" and profile["endValue"] == sum(row["self_ns"] for row in known.values())
    assert {"name": "physics", "file": "src/physics.c", "line": 58} in data["shared"]["frames"]


@tool
def test_run_has_no_figures_of_recordings(project: Project) -> None:
    path = put_run(project, "1740000000123-77", update_run(WALLS))
    for flags in (("--by", "live"), ("--by", "cpu"), ("--from", "1s")):
        done = project.piano("export", path, "--format", "collapsed", *flags, check=False)
        assert done.status == 1 and "recording" in done.err and done.out == "", done


@tool
def test_frames_are_beside_the_samples_of_the_same_process(project: Project, program: Path) -> None:
    """The run has its own clock; both files say when it was zero on the other."""
    rec, burn, wait, parse = traced(program, pid=77)
    rec.cpu(77, 30, burn, ms=10)
    began = rec.real_ns // 10**6
    text = ndjson(
        header(["update"], run_id=f"77_{began}", timestamp_ms=began, pid=77, program=str(program), start_mono_ns=rec.start_ns + 5 * MS),
        {"thread": 1, "tid": 77, "name": "main", "start_ns": 0},
        *[frame(i, [fn(0, 1, 3 * MS, total_ns=3 * MS)], 3 * MS) for i in range(2)],
        {"end": True, "wall_ns": 60 * MS, "dropped": {}})
    put_run(project, f"{began}-77", text)
    path = put(project, rec, f"{began}-77.rec")
    frames = lambda: [(e["ts"], e["dur"], e["pid"], e["tid"]) for e in trace["traceEvents"] if e.get("cat") == "frame"]
    trace = json.loads(project.piano("export", path, "--format", "chrome").out)
    validate(trace)
    assert frames() == [(5_000.0, 3_000.0, 77, 77), (25_000.0, 3_000.0, 77, 77)]
    # Polls of the same thread may overlap them.
    rec.poll(77, 26, 10, task=1, name=rec.name("slow"))
    put(project, rec, f"{began}-77.rec")
    trace = json.loads(project.piano("export", path, "--format", "chrome").out)
    validate(trace)
    assert [f[2:] for f in frames()] == [(2_000_000_077, 77)] * 2
    names = {e["pid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"}
    assert names[2_000_000_077] == f"{program.name}: frames"
