"""`piano diff`, `tag` and `list`."""
from __future__ import annotations

import json
import re

import pytest

from conftest import PIANO, Project, fn, frame, header, ndjson, put_run

pytestmark = pytest.mark.tool


def simple(self_ms: float, allocs: int, name: str = "walk", extra: list | None = None) -> str:
    return json.dumps({"run_id": "1_1", "timestamp_ms": 1, "functions": [
        {"name": name, "calls": 3, "total_ms": self_ms + 2, "self_ms": self_ms,
         "alloc_count": allocs, "alloc_bytes": allocs * 80}, *(extra or [])]})


def frames_run(self_ns: list[int], allocs: int = 10) -> str:
    return ndjson(header(["update"], places=["a.c:1"]),
                  *[frame(i, [fn(0, 1, ns, allocs, allocs * 100)], ns + 100)
                    for i, ns in enumerate(self_ns)])


@pytest.fixture
def pair(project: Project) -> Project:
    put_run(project, "1740000000001-1", simple(10.0, 100), ".json")
    put_run(project, "1740000000002-2", simple(8.0, 50), ".json")
    return project


def test_two_latest_runs(pair: Project) -> None:
    out = pair.piano("diff").out
    assert "Allocs" in out and "-50" in out
    row = next(line for line in out.splitlines() if line.startswith("walk"))
    assert "10.0ms" in row and "8.0ms" in row and "-2.0ms" in row and "-20.0%" in row


def test_json_names(pair: Project) -> None:
    row, = pair.json("diff")["functions"]
    assert row["name"] == "walk"
    assert row["self_ns"] == [10_000_000, 8_000_000]
    assert row["delta_pct"] == pytest.approx(-20)
    assert row["alloc_count"] == [100, 50] and row["alloc_bytes"] == [8000, 4000]
    assert row["significant"] is None, "one run a side says nothing about noise"


def test_named_runs_and_order(pair: Project) -> None:
    first, second = "1740000000001-1.json", "1740000000002-2.json"
    row, = pair.json("diff", second, first)["functions"]
    assert row["self_ns"] == [8_000_000, 10_000_000] and row["delta_pct"] == pytest.approx(25)
    same, = pair.json("diff", first, first)["functions"]
    assert same["delta_pct"] == 0


def test_tags_are_labels(pair: Project) -> None:
    pair.piano("tag", "after")
    pair.piano("tag", "before", "1740000000001-1.json")
    out = pair.piano("diff", "before", "after").out
    head = out.splitlines()[0]
    assert head.index("before") < head.index("after")
    row, = pair.json("diff", "before", "after")["functions"]
    assert row["self_ns"] == [10_000_000, 8_000_000]


def test_sorted_by_impact(project: Project) -> None:
    def run(a: float, b: float, c: float) -> str:
        return json.dumps({"run_id": "1", "timestamp_ms": 1, "functions": [
            {"name": n, "calls": 1, "self_ms": v, "total_ms": v}
            for n, v in (("small", a), ("big", b), ("shrinks", c))]})
    put_run(project, "1740000000001-1", run(1.0, 100.0, 50.0), ".json")
    put_run(project, "1740000000002-2", run(1.5, 105.0, 20.0), ".json")
    assert [f["name"] for f in project.json("diff")["functions"]] == ["shrinks", "big", "small"]


def test_new_and_gone_functions(project: Project) -> None:
    put_run(project, "1740000000001-1", simple(10.0, 1, "gone_fn"), ".json")
    put_run(project, "1740000000002-2", simple(5.0, 1, "new_fn"), ".json")
    rows = {f["name"]: f for f in project.json("diff")["functions"]}
    assert rows["gone_fn"]["self_ns"] == [10_000_000, 0]
    assert rows["new_fn"]["self_ns"] == [0, 5_000_000]
    assert rows["new_fn"]["delta_pct"] is None
    out = project.piano("diff").out
    assert "new_fn" in out and "gone_fn" in out


def test_huge_counts_do_not_wrap(project: Project) -> None:
    for stem, count in (("1740000000001-1", 1 << 41), ("1740000000002-2", 5)):
        put_run(project, stem, json.dumps({"run_id": "1", "timestamp_ms": 1, "functions": [
            {"name": "f", "calls": 1, "self_ms": 1.0, "total_ms": 1.0, "alloc_count": count,
             "alloc_bytes": count}]}), ".json")
    row, = project.json("diff")["functions"]
    assert row["alloc_count"] == [1 << 41, 5]
    assert "-2199023255547" in re.sub(r"[,_ ]", "", project.piano("diff").out)


@pytest.mark.parametrize("limit,after,status", [("5", 12.0, 1), ("25", 12.0, 0), ("5", 8.0, 0),
                                                ("20", 12.0, 0), ("19.9", 12.0, 1)])
def test_fail_above(project: Project, limit: str, after: float, status: int) -> None:
    put_run(project, "1740000000001-1", simple(10.0, 100), ".json")
    put_run(project, "1740000000002-2", simple(after, 100), ".json")
    done = project.piano("diff", "--fail-above", limit, check=False)
    assert done.status == status, done
    assert ("walk" in done.err) == (status == 1)
    assert "walk" in done.out, "the table is there in both cases"


def test_fail_above_looks_at_allocations_too(project: Project) -> None:
    put_run(project, "1740000000001-1", simple(10.0, 100), ".json")
    put_run(project, "1740000000002-2", simple(10.0, 200), ".json")
    assert project.piano("diff", "--fail-above", "10", check=False).status == 1


@pytest.mark.parametrize("limit", ["", "abc", "-5", "nan", "1e999"])
def test_fail_above_wants_a_number(pair: Project, limit: str) -> None:
    done = pair.piano("diff", "--fail-above", limit, check=False)
    assert done.status == 2 and done.err


def groups(project: Project, before: list[float], after: list[float]) -> tuple[str, str]:
    sides = []
    for side, values in (("1", before), ("2", after)):
        names = []
        for i, value in enumerate(values):
            path = put_run(project, f"174000000{side}{i:03d}-{side}", simple(value, 100), ".json")
            names.append(path.name)
        sides.append(",".join(names))
    return sides[0], sides[1]


def test_several_runs_say_what_is_beyond_the_noise(project: Project) -> None:
    a, b = groups(project, [10.0, 10.1, 9.9, 10.05], [13.0, 13.1, 12.9, 13.05])
    row, = project.json("diff", a, b)["functions"]
    assert row["significant"] is True and row["delta_pct"] == pytest.approx(30, abs=1)
    assert project.piano("diff", a, b, "--fail-above", "5", check=False).status == 1
    assert "slower" in project.piano("diff", a, b).out


def test_noise_is_called_noise(project: Project) -> None:
    a, b = groups(project, [10.0, 14.0, 8.0, 12.0], [11.0, 15.0, 9.0, 12.5])
    row, = project.json("diff", a, b)["functions"]
    assert row["significant"] is False
    assert project.piano("diff", a, b, "--fail-above", "5", check=False).status == 0


def test_tag_with_several_runs_is_a_group(project: Project) -> None:
    for i in range(3):
        put_run(project, f"174000000000{i}-1", simple(10.0 + i / 10, 100), ".json")
        project.piano("tag", "before", "--add")
    for i in range(3):
        put_run(project, f"175000000000{i}-1", simple(20.0 + i / 10, 100), ".json")
        project.piano("tag", "after", "--add")
    row, = project.json("diff", "before", "after")["functions"]
    assert row["self_ns"] == [10_100_000, 20_100_000] and row["significant"] is True


@pytest.mark.tool
def test_a_run_that_is_named_twice_counts_once(project: Project) -> None:
    """A run compared with itself does not vary, which would make any difference significant."""
    a, b = groups(project, [10.0], [10.5])
    done = project.piano("diff", f"{a},{a}", f"{b},{b}", "--json")
    assert [len(side) for side in json.loads(done.out)["runs"]] == [1, 1]
    assert json.loads(done.out)["functions"][0]["significant"] is None
    assert done.err.count("is named twice, and counts once") == 2


def test_runs_of_different_length_are_compared_per_frame(project: Project) -> None:
    put_run(project, "1740000000001-1", frames_run([1_000_000] * 100))
    put_run(project, "1740000000002-2", frames_run([1_000_000] * 300))
    data = project.json("diff")
    assert data["basis"] == "frame"
    assert data["functions"][0]["delta_pct"] == pytest.approx(0, abs=0.01)
    assert project.piano("diff", "--fail-above", "5", check=False).status == 0


def test_frames_judge_two_single_runs(project: Project) -> None:
    put_run(project, "1740000000001-1", frames_run([1_000_000 + 1000 * (i % 7) for i in range(60)]))
    put_run(project, "1740000000002-2", frames_run([2_000_000 + 1000 * (i % 7) for i in range(60)]))
    assert project.json("diff")["functions"][0]["significant"] is True
    put_run(project, "1740000000003-3", frames_run([2_000_000 + 1000 * (i % 5) for i in range(60)]))
    assert project.json("diff")["functions"][0]["significant"] is False


def test_one_run_is_not_enough(project: Project) -> None:
    put_run(project, "1740000000001-1", simple(10.0, 100), ".json")
    done = project.piano("diff", check=False)
    assert done.status == 1 and done.out == "" and done.err


def test_width_of_the_terminal(pair: Project) -> None:
    put_run(pair, "1740000000003-3", simple(9.0, 10, "a_very_long_name_" * 9), ".json")
    status, out = pair.run_in_pty(PIANO, "diff", columns=80)
    assert status == 0
    for line in out.splitlines():
        assert len(re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", line).rstrip()) <= 80, line


# tag and list ------------------------------------------------------------------------------------


def test_tag_lists_moves_and_resolves(pair: Project) -> None:
    pair.piano("tag", "base", "1740000000001-1.json")
    assert pair.report("base").row("walk")["alloc_count"] == 100
    assert "base" in pair.piano("tag").out
    if pair.piano("tag", "base", check=False).status != 0:
        assert pair.report("base").row("walk")["alloc_count"] == 100, "refused, so unchanged"
        pair.piano("tag", "base", "--force")
    assert pair.report("base").row("walk")["alloc_count"] == 50
    tags = pair.json("tag")["tags"]
    assert [t["name"] for t in tags] == ["base"] and tags[0]["runs"] == ["1740000000002-2.json"]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../../x", "/abs", "a\nb", "-x", "a,b"])
def test_bad_tag_names(pair: Project, name: str) -> None:
    done = pair.piano("tag", "--", name, check=False)
    assert done.status in (1, 2) and done.err, done
    assert not (pair.root / "x").exists()
    assert pair.json("tag")["tags"] == []


def test_tag_without_runs(project: Project) -> None:
    done = project.piano("tag", "base", check=False)
    assert done.status == 1 and done.err


def test_tag_of_a_deleted_run_is_an_error(pair: Project) -> None:
    pair.piano("tag", "base")
    (pair.runs / "1740000000002-2.json").unlink()
    done = pair.piano("report", "base", check=False)
    assert done.status == 1 and "base" in done.err


def test_list(project: Project) -> None:
    put_run(project, "1740000000001-1", frames_run([1000] * 5))
    put_run(project, "1740000000002-2", simple(1.0, 1), ".json")
    put_run(project, "1740000000003-3", "not a run\n")
    project.piano("tag", "base", "1740000000001-1.ndjson")
    out = project.piano("list").out
    for stem in ("1740000000001-1", "1740000000002-2", "1740000000003-3", "base"):
        assert stem in out
    runs = project.json("list")["runs"]
    assert [r["path"].split("/")[-1] for r in runs] == [
        "1740000000003-3.ndjson", "1740000000002-2.json", "1740000000001-1.ndjson"]
    assert "error" in runs[0] and runs[2]["frames"] == 5 and runs[2]["tags"] == ["base"]


def test_list_of_nothing(project: Project) -> None:
    done = project.piano("list")
    assert done.out.strip() == "" or "no runs" in (done.out + done.err).lower()
    assert project.json("list")["runs"] == []


# ---- below the resolution of the probes ----

CALLS = 44_850  # per frame


def hot_run(leaf_ns: int, caller_ns: int, other_ns: int = 400_000, frames: int = 60) -> str:
    """`overlap` is timed by sample, and `collide` calls it; `draw` calls nothing. Times per frame."""
    whole = max(leaf_ns, 0) + caller_ns
    return ndjson(header(["collide", "overlap", "draw"], places=["a.c:1", "a.c:2", "a.c:3"]),
                  *[frame(i, [fn(0, 1, caller_ns + i % 7, total_ns=whole + i % 7),
                              fn(1, CALLS, leaf_ns + i % 7, total_ns=leaf_ns + i % 7, timed=40),
                              fn(2, 1, other_ns + i % 7, total_ns=other_ns + i % 7)],
                          whole + other_ns + 100) for i in range(frames)])


def changes(project: Project, before: str, after: str, *flags: str, check: bool = True) -> dict:
    put_run(project, "1740000000001-1", before)
    put_run(project, "1740000000002-2", after)
    return {f["name"]: f for f in project.json("diff", *flags, check=check)["functions"]}


def test_time_that_wanders_between_a_tiny_function_and_its_caller(project: Project) -> None:
    """1 ns more per call in some functions, less in others: two runs of one program."""
    rows = changes(project, hot_run(80_000, 35_000), hot_run(175_000, -20_000),
                   "--fail-above", "20")
    for name in ("overlap", "collide"):
        assert rows[name]["significant"] is None, name
        assert rows[name]["resolved"] is False and rows[name]["failed"] is False, name
    assert rows["overlap"]["sampled"] == [True, True]
    assert rows["collide"]["sampled"] == [False, False]
    out = project.piano("diff", "--fail-above", "20").out
    lines = {line.split()[0]: line.split() for line in out.splitlines() if line.strip()}
    assert lines["overlap"][1].startswith("~4.8ms") and lines["overlap"][2].startswith("~9.3ms")
    assert lines["collide"][1:3] == ["2.1ms", "0ns"]
    assert "slower" not in out and "faster" not in out
    assert "blank: below timing resolution" in out
    assert "~ estimated from a sample of calls, or below timing resolution" in out


def test_a_tiny_function_that_did_get_slower(project: Project) -> None:
    """From 2 to 12 ns per call: more than a probe's error."""
    rows = changes(project, hot_run(90_000, 30_000), hot_run(540_000, 30_000), "--fail-above", "20",
                   check=False)
    assert rows["overlap"]["significant"] is True and rows["overlap"]["failed"] is True
    assert rows["overlap"]["resolved"] is True


def test_a_function_without_callees_answers_for_itself(project: Project) -> None:
    """`draw` moved the other way than `overlap`, but cannot have called it: its total is its self time."""
    rows = changes(project, hot_run(175_000, 35_000), hot_run(120_000, 35_000, 470_000))
    assert rows["overlap"]["significant"] is None
    assert rows["draw"]["significant"] is True and rows["draw"]["resolved"] is True


def test_repeated_runs_resolve_no_more(project: Project) -> None:
    """Runs that agree with each other may have the same error."""
    for side, leaf in (("before", 80_000), ("after", 120_000)):
        for i in range(3):
            put_run(project, f"174000000{'1' if side == 'before' else '2'}00{i}-{i + 1}",
                    hot_run(leaf + 10 * i, 30_000))
            project.piano("tag", side, *(["--add"] if i else []))
    row = next(f for f in project.json("diff", "before", "after")["functions"]
               if f["name"] == "overlap")
    assert row["significant"] is None and row["resolved"] is False


def test_three_runs_on_each_side_resolve_smaller_changes(project: Project) -> None:
    """The error of timed calls differs from run to run, so runs that agree limit it. 3 ns per call: too little for one run."""
    def run(ns: int) -> str:
        return ndjson(header(["update"], places=["a.c:1"]),
                      *[frame(i, [fn(0, 1000, ns + i % 5, total_ns=ns + i % 5)], ns + 100) for i in range(40)])
    for number, (side, ns) in enumerate((("before", 50_000), ("after", 53_000)), start=1):
        for i in range(3):
            put_run(project, f"174000000{number}00{i}-{i + 1}", run(ns + 10 * i))
            project.piano("tag", side, *(["--add"] if i else []))
            if i == 0:
                project.piano("tag", f"one-{side}")
    one, three = (project.json("diff", *sides)["functions"][0] for sides in (("one-before", "one-after"), ("before", "after")))
    assert one["resolved"] is False and one["significant"] is None
    assert three["resolved"] is True and three["significant"] is True


def test_calls_that_are_all_timed_have_a_limit_too(project: Project) -> None:
    def run(ns: int) -> str:
        return ndjson(header(["update"], places=["a.c:1"]),
                      *[frame(i, [fn(0, 1000, ns + i % 5, total_ns=ns + i % 5)], ns + 100)
                        for i in range(40)])
    assert changes(project, run(50_000), run(51_500))["update"]["resolved"] is False
    assert changes(project, run(50_000), run(58_000))["update"]["significant"] is True


def test_a_caller_of_little_else_is_as_uncertain_as_its_callee(project: Project) -> None:
    """Both are longer by less than 2 ns per call, which is the uncertainty of what is subtracted for the probes."""
    rows = changes(project, hot_run(80_000, 20_000), hot_run(140_000, 70_000), "--fail-above", "20")
    assert rows["collide"]["significant"] is None and rows["collide"]["failed"] is False
    rows = changes(project, hot_run(80_000, 20_000), hot_run(80_000, 400_000), "--fail-above", "20",
                   check=False)
    assert rows["collide"]["significant"] is True and rows["collide"]["failed"] is True


def test_too_small_to_tell_on_both_sides_is_no_change(project: Project) -> None:
    rows = changes(project, hot_run(80_000, -5_000), hot_run(80_000, -9_000))
    assert rows["collide"]["self_ns"] == [0, 0] and rows["collide"]["significant"] is False
    row = next(line for line in project.piano("diff", "--all").out.splitlines()
               if line.startswith("collide"))
    assert row.split() == ["collide", "0ns", "0ns", "0ns", "+0.0%"]


def waited_run(cpu_ns: list[int], runq_ns: list[int], runq_known: bool = True) -> str:
    """Frames of `update`, some of which waited for a CPU."""
    frames = [frame(i, [fn(0, 1, cpu + runq, total_ns=cpu + runq, cpu_ns=cpu, runq_ns=runq)], cpu + runq)
              for i, (cpu, runq) in enumerate(zip(cpu_ns, runq_ns))]
    known = {"runq_ns": sum(runq_ns)} if runq_known else {}
    wall = sum(cpu_ns) + sum(runq_ns)
    return ndjson(header(["update"], places=["a.c:1"]), *frames,
                  {"thread": 1, "tid": 7, "start_ns": 0, "end_ns": wall, "cpu_wall_ns": wall, "cpu_ns": sum(cpu_ns), **known},
                  {"end": True, "wall_ns": wall, "dropped": {}})


def test_waits_for_a_cpu_are_no_change(project: Project) -> None:
    """Three runs per side, so that the waits matter: the machine was busy during those of B."""
    for i in range(3):
        put_run(project, f"174000000000{i}-1", waited_run([1_000_000 + 1000 * i] * 30, [0] * 30))
        put_run(project, f"174000000001{i}-2", waited_run([1_000_000 + 1000 * i] * 30, [900_000 + 5000 * i] * 30))
    sides = [",".join(f"17400000000{s}{i}-{s + 1}.ndjson" for i in range(3)) for s in (0, 1)]
    row, = project.json("diff", *sides)["functions"]
    assert row["self_ns"] == [30_030_000, 30_030_000] and row["significant"] is not True
    assert project.json("diff", *sides)["without_runq"] is True
    done = project.piano("diff", *sides, "--fail-above", "20")
    assert "threads waited for a CPU: times are without these waits" in done.out
    wall = project.piano("diff", *sides, "--fail-above", "20", "--wall", check=False)
    assert wall.status == 1 and "update" in wall.err
    assert project.json("diff", *sides, "--wall")["without_runq"] is False


def test_a_change_is_found_under_waits(project: Project) -> None:
    """The slower side waited less: its wall time is smaller."""
    for i in range(3):
        put_run(project, f"174000000000{i}-1", waited_run([1_000_000 + 1000 * i] * 30, [900_000 + 50_000 * i] * 30))
        put_run(project, f"174000000001{i}-2", waited_run([1_300_000 + 1000 * i] * 30, [0] * 30))
    sides = [",".join(f"17400000000{s}{i}-{s + 1}.ndjson" for i in range(3)) for s in (0, 1)]
    row, = project.json("diff", *sides)["functions"]
    assert row["significant"] is True and row["delta_pct"] == pytest.approx(30, abs=0.1)
    assert project.piano("diff", *sides, "--fail-above", "20", check=False).status == 1


def test_wall_times_are_compared_if_waits_are_unknown(project: Project) -> None:
    put_run(project, "1740000000001-1", waited_run([1_000_000] * 30, [0] * 30))
    put_run(project, "1740000000002-2", waited_run([1_000_000] * 30, [900_000] * 30, runq_known=False))
    said = project.json("diff")
    assert said["without_runq"] is False
    assert said["functions"][0]["self_ns"] == [30_000_000, 57_000_000]
