"""`piano view -o`: pages, decoded by an independent reader (pages.py), compared with `piano report --json`."""
from __future__ import annotations

import json
import os
import random
import shutil
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT, Project, fn, frame, header, ndjson, put_run, update_run
from made import make, program, put, recording  # noqa: F401 (program is a fixture)
from pages import NONE, Page, digest, directives, read

tool = pytest.mark.tool
MS = 10**6
HOSTILE = ["</script><script>alert(1)</script>", "<!--<script>", "a&b\"c'd", "\u2028\u2029", "\u202egnp.exe",
           "]]>", "x" * 100_000, "\x1b[31mred"]


def view(project: Project, *words: Any, name: str = "page.html", **options: Any) -> Page:
    path = project.root / name
    project.piano("view", *words, "-o", path, "--force", **options)
    return read(path)


def by_name(page: Page, table: str) -> dict[str, dict[str, Any]]:
    strings = page.strings
    return {strings[row["name"]]: row for row in page.rows(table)}


def whole(value: float) -> int:
    return int(value + 0.5)


# Runs of functions --------------------------------------------------------------------------------

@tool
def test_page_has_functions_and_frames(project: Project) -> None:
    run = put_run(project, "1740000000123-77", update_run([5 * MS] * 30 + [50 * MS]))
    page = view(project, run)
    report = project.json("report", run, "--all")
    assert page.meta["format"] == 1 and page.meta["kinds"] == ["spans"] and page.meta["b"] is None
    assert page.meta["started_ms"] == 1740000000123 and page.meta["name"] == run.name
    rows = by_name(page, "functions")
    assert set(rows) == {"update", "physics"}
    for row in report["functions"]:
        mine = rows[row["name"]]
        for key, theirs in (("calls", "calls"), ("self", "self_ns"), ("total", "total_ns"), ("p50", "p50_ns"),
                            ("p99", "p99_ns"), ("alloc_count", "alloc_count"), ("alloc_bytes", "alloc_bytes"),
                            ("free_count", "free_count"), ("line", "line")):
            assert mine[key] == row[theirs], (row["name"], key)
        assert page.strings[mine["file"]] == row["file"]
    listed = project.frames(run)
    frames = page.rows("frames")
    assert len(frames) == len(listed) == 31
    assert [f["start"] for f in frames] == [f["start_ns"] for f in listed]
    assert [f["wall"] for f in frames] == [f["wall_ns"] for f in listed]
    assert [bool(f["spike"]) for f in frames] == [f["spike"] for f in listed]
    assert sum(f["spike"] for f in frames) == report["frames"]["spikes"] == 1
    assert [f["number"] for f in frames] == [f["frame"] for f in listed]
    inside = page.rows("frame_functions")
    functions = [page.strings[r["name"]] for r in page.rows("functions")]
    mine = [(r["frame"], functions[r["function"]], r["calls"], r["self"], r["alloc_count"]) for r in inside]
    theirs = [(f["frame"], e["name"], e["calls"], e["self_ns"], e["alloc_count"])
              for f in listed for e in f["functions"]]
    assert mine == theirs
    words = page.json("report")
    assert words["functions"]["functions"] == project.json("report", run)["functions"]
    assert words["frames"]["frames"] == project.json("report", run, "--frames", "--top", 20)["frames"]
    assert any("1 spike" in line["text"] for line in words["overview"] if line["kind"] == "spans")
    assert page.rows("threads") == [{"tid": 77, "name": page.strings.index("main"), "worker": NONE, "is_main": 1,
                                     "pid": 0, "process": NONE, "place": 0}]


@tool
def test_frames_of_several_threads_and_unknown_starts(project: Project) -> None:
    lines = [header(["tick"]), {"thread": 1, "tid": 77, "name": "main", "start_ns": 0},
             {"thread": 2, "tid": 78, "name": "other", "start_ns": 0}]
    lines += [frame(i, [fn(0, 1, 1000)], 1000, thread=1 + i % 2) for i in range(20)]
    page = view(project, put_run(project, "1-77", ndjson(*lines)))
    threads = page.rows("threads")
    assert [page.strings[t["name"]] for t in threads] == ["main", "other"]
    assert [t["tid"] for t in threads] == [77, 78]
    assert [f["thread"] for f in page.rows("frames")] == [i % 2 for i in range(20)]
    for line in lines[3:]:
        del line["start_ns"]
    page = view(project, put_run(project, "2-77", ndjson(*lines)))
    starts = page.column("frames", "start")
    assert starts == sorted(starts) and len(set(starts)) == 20
    assert any("no start" in notice for notice in page.meta["notices"])


@tool
def test_page_of_a_run_without_frames_has_functions_only(project: Project) -> None:
    text = '{"run_id":"7_1","timestamp_ms":1,"functions":[{"name":"walk","calls":3,"self_ms":10.0}]}'
    page = view(project, put_run(project, "1-7", text, ".json"))
    assert "frames" not in page and "frame_functions" not in page
    row = by_name(page, "functions")["walk"]
    assert (row["calls"], row["self"], row["total"], row["p50"]) == (3, 10 * MS, -1, -1)


# Recordings ---------------------------------------------------------------------------------------

def heap_recording(program: Path) -> Any:
    rec, s = recording(program, rate=64 * 1024)
    rec.sample(s.parse, 30_000, count=37, at_ms=5, tid=4711).snapshot(at_ms=100, resident=10**7)
    rec.sample(s.load, 100, count=11, lived_us=4).sample(s.load, 3_000_000, count=5, at_ms=200, tid=4712)
    rec.snapshot(at_ms=300, resident=2 * 10**7)
    rec.free(s.load, 3_000_000, lived_us=10**6)
    return rec.sample(0, 4096)


@tool
def test_page_has_heap_sites(project: Project, program: Path) -> None:
    path = put(project, heap_recording(program))
    page = view(project, path)
    report = project.json("report", path, "--heap")
    assert page.meta["kinds"] == ["heap"]
    sites = {tuple(page.stack(s["node"])): s for s in page.rows("sites")}
    assert set(sites) == {("main", "parse", "inner", "make_node"), ("main", "load", "make_node"), ("(no stack)",)}
    for site in report["sites"]:
        mine = sites[tuple(f["function"] for f in reversed(site["stack"]))]
        for key in ("live_bytes", "live_objects", "allocated_bytes", "allocated_objects", "freed_bytes",
                    "peak_bytes", "churn_bytes"):
            assert whole(mine[key]) == site[key], (site, key)
        assert mine["samples"] == site["samples"] and mine["live_samples"] == site["live_samples"]
        assert mine["freed_samples"] == site["freed_samples"]
        life = site["median_lifetime_ns"]
        assert mine["median_life"] == (-1 if life is None else life)
        assert mine["oldest"] == (-1 if site["oldest_ns"] is None else site["oldest_ns"])
        assert page.stack(mine["site_node"]) == [f["function"] for f in
                                                 reversed(site["stack"][site["site_frame"]:])]
    places = {(page.stack(s["site_node"])[-1], page.stack(s["caller_node"])[-1] if s["caller_node"] != NONE else None)
              for s in sites.values()}
    assert places == {(p["function"], p["caller"]) for p in report["places"]}
    code = {page.strings[c["function"]]: c for c in page.rows("code")}
    assert code["inner"]["inlined"] == 1 and code["inner"]["line"] == 3 and code["parse"]["line"] == 4
    assert page.strings[code["inner"]["file"]].endswith("prog.c") and code["(no stack)"]["file"] == NONE
    snapshots = page.rows("snapshots")
    assert [(s["at"], whole(s["live_bytes"]), s["resident"]) for s in snapshots] == \
        [(s["at_ns"], s["live_bytes"], s["resident_bytes"]) for s in report["snapshots"]]
    shares: dict[int, float] = {}
    for row in page.rows("snapshot_sites"):
        shares[row["snapshot"]] = shares.get(row["snapshot"], 0) + row["live_bytes"]
    assert {k: whole(v) for k, v in shares.items()} == \
        {i: whole(s["live_bytes"]) for i, s in enumerate(snapshots)}
    blocks = page.rows("blocks_live")
    assert len(blocks) == report["live_samples"]
    assert whole(sum(b["weight"] for b in blocks)) == report["live_bytes"]
    assert [b["at"] for b in blocks] == sorted(b["at"] for b in blocks)
    tids = [t["tid"] for t in page.rows("threads")]
    assert {tids[b["thread"]] for b in blocks if b["size"] == 3_000_000} == {4712}
    assert page.json("report")["heap"] == project.json("report", path, "--heap", "--top", 50)
    assert page.json("report")["growth"]["sites"]


WRAPPED = """\
extern void *malloc(unsigned long); char *sink;
__attribute__((noinline)) char *xmalloc(int n) { sink = malloc(n); return sink; }
__attribute__((noinline)) char *open_file(int n) { char *p = xmalloc(n); p[0] = 1; return p; }
int main(int argc, char **argv) { open_file(argc); return sink == argv[0]; }
"""


@tool
def test_page_shows_callers_of_wrappers_as_sites(project: Project) -> None:
    project.write({"wrapped.c": WRAPPED})
    project.command("gcc", "-O1", "-g", "-fno-builtin", "wrapped.c", "-o", "wrapped")
    rec = make.Recording(program=str(project.root / "wrapped"), rate=1)
    elf = make.Program(rec, project.root / "wrapped")
    rec.sample(rec.stack(elf.pcs("xmalloc", "open_file", "main")), 1000)
    page = view(project, put(project, rec))
    (site,) = page.rows("sites")
    assert page.stack(site["node"]) == ["main", "open_file", "xmalloc"]
    assert page.stack(site["site_node"]) == ["main", "open_file"]
    assert page.stack(site["caller_node"]) == ["main"]


def trace(program: Path) -> Any:
    rec, s = recording(program)
    task, mark, value = rec.name("accept"), rec.name("loaded"), rec.name("temperature")
    rec.thread(4711, "main")
    rec.thread(4712, "pool")
    rec.event(4712, 1.0, make.WORKER_START, 3, rec.name("runner"))
    rec.event(4711, 2.0, make.TASK_SPAWN, 9, rec.name("fetch"), 0)
    rec.event(4711, 5.0, make.WAKE, 9)
    for i in range(12):
        rec.turn(4711, 10.0 + 10 * i, 2.0)
    rec.poll(4712, 18.0, 4.0, 9).poll(4712, 30.0, 25.0, 5, task)
    rec.event(4712, 60.0, make.POLL_BEGIN, 6, task).event(4712, 61.0, make.POLL_BEGIN, 7, task)
    rec.event(4712, 62.0, make.POLL_END).event(4712, 64.0, make.POLL_END)
    rec.event(4712, 70.0, make.QUEUE, 1, 5).event(4712, 71.0, make.QUEUE, 1, 0)
    rec.event(4712, 72.0, make.MARK, mark).event(4712, 73.0, make.VALUE, value, -12)
    rec.event(4712, 80.0, make.POLL_BEGIN, 8, task)  # never ends
    rec.cpu(4712, 31.0, s.parse, ms=10, count=2).cpu(4711, 5.0, s.load, ms=1)
    return rec.off(4712, 45.0, s.load, ms=5).off(4711, 50.0, s.load, ms=3, preempted=True)


@tool
def test_page_has_polls_parks_and_points(project: Project, program: Path) -> None:
    path = put(project, trace(program))
    page = view(project, path)
    report = project.json("report", path, "--polls")
    assert page.meta["kinds"] == ["cpu", "events"]
    tasks = by_name(page, "tasks")
    for task in report["tasks"]:
        mine = tasks[task["name"]]
        for key, theirs in (("polls", "polls"), ("total", "total_ns"), ("p50", "p50_ns"), ("p99", "p99_ns"),
                            ("max", "max_ns")):
            assert mine[key] == task[theirs], (task["name"], key)
        assert mine["on_cpu"] == pytest.approx(-1 if task["on_cpu"] is None else task["on_cpu"], abs=1e-4)
    polls = page.rows("polls")
    assert len(polls) == report["polls"]
    assert [(p["thread"], p["start"]) for p in polls] == sorted((p["thread"], p["start"]) for p in polls)
    threads, strings = page.rows("threads"), page.strings
    names = [strings[t["name"]] for t in page.rows("tasks")]
    longest = max((p for p in polls if not p["flags"] & 1), key=lambda p: p["length"])
    assert (longest["start"], longest["length"], names[longest["task"]]) == (30 * MS, 25 * MS, "accept")
    woken = [p for p in polls if p["wake_at"]]
    assert len(woken) == report["wakes"]["count"] == 1
    assert woken[0]["wake_at"] - 1 == 5 * MS and threads[woken[0]["waker_thread"]]["tid"] == 4711
    assert names[woken[0]["task"]] == "fetch"
    assert [p["start"] for p in polls if p["flags"] & 2] == [61 * MS]
    assert [p["start"] for p in polls if p["flags"] & 1 and threads[p["thread"]]["tid"] == 4712] == [80 * MS]
    for thread in report["threads"]:
        lane = next(i for i, t in enumerate(threads) if t["tid"] == thread["tid"])
        parks = [p for p in page.rows("parks") if p["thread"] == lane]
        assert (len(parks), sum(p["length"] for p in parks)) == (thread["parks"], thread["parked_ns"])
    assert [strings[threads[i]["worker"]] for i in range(2) if threads[i]["worker"] != NONE] == ["runner"]
    assert [t["is_main"] for t in threads] == [int(t["tid"] == 4711) for t in threads]
    assert [(q["at"], q["depth"]) for q in page.rows("queues")] == [(70 * MS, 5), (71 * MS, 0)]
    assert [strings[r["name"]] for r in page.rows("queue_names")] == ["queue 1"]
    assert [(m["at"], strings[m["name"]], threads[m["thread"]]["tid"]) for m in page.rows("marks")] == \
        [(72 * MS, "loaded", 4712)]
    assert [(v["at"], strings[v["name"]], v["value"]) for v in page.rows("values")] == \
        [(73 * MS, "temperature", -12.0)]
    words = page.json("report")
    longest = {"longest": words["polls"]["longest"]}
    assert words["polls"] == project.json("report", path, "--polls", "--top", 50) | longest
    assert longest["longest"] == report["longest"]
    assert [line["text"] for line in words["overview"] if line["kind"] == "polls"] == \
        [flag["text"] for flag in report["flags"]]


@tool
def test_page_has_cpu_samples(project: Project, program: Path) -> None:
    path = put(project, trace(program))
    page = view(project, path)
    report = project.json("report", path, "--cpu")
    samples, threads = page.rows("samples"), page.rows("threads")
    assert [s["at"] for s in samples] == sorted(s["at"] for s in samples)
    on = [s for s in samples if s["kind"] == 0]
    assert len(on) == report["cpu"]["samples"]
    assert sum(s["value"] for s in on) == report["cpu"]["cpu_ns"]
    self_ns: dict[str, int] = {}
    for s in on:
        leaf = page.stack(s["node"])[-1]
        self_ns[leaf] = self_ns.get(leaf, 0) + s["value"]
    assert self_ns == {f["name"]: f["self_ns"] for f in report["functions"] if f["self_ns"]}
    assert [(s["at"], s["value"], s["kind"], threads[s["thread"]]["tid"]) for s in samples if s["kind"]] == \
        [(45 * MS, 5 * MS, 1, 4712), (50 * MS, 3 * MS, 2, 4711)]
    assert page.json("report")["cpu"] == project.json("report", path, "--cpu", "--top", 50)


# A run and a recording of one process -------------------------------------------------------------

def both(project: Project, program: Path, pid: int = 4711, **more: Any) -> tuple[Path, Path]:
    rec, s = recording(program)
    rec.thread(4711, "main")
    path = put(project, rec.cpu(4711, 1500.0, s.parse, ms=10), "1740000000123-4711.rec")
    lines = [header(["update"], pid=pid, program=str(program), **more),
             {"thread": 1, "tid": pid, "name": "main", "start_ns": 0}]
    lines += [frame(i, [fn(0, 1, 9 * MS)], 10 * MS) for i in range(100)]
    return put_run(project, f"1740000000123-{pid}", ndjson(*lines, {"end": True, "wall_ns": 2 * 10**9})), path


@tool
@pytest.mark.parametrize("words", ["run", "recording", "both", "none"])
def test_a_run_and_its_recording_are_one_page(project: Project, program: Path, words: str) -> None:
    run, path = both(project, program, start_mono_ns=6 * 10**9)
    page = view(project, *{"run": [run], "recording": [path], "both": [path, run], "none": []}[words])
    assert page.meta["kinds"] == ["spans", "cpu"]
    assert page.meta["start_mono_ns"] == str(5 * 10**9)
    assert len(page.rows("threads")) == 1, "joined by tid"
    assert page.column("samples", "at") == [1500 * MS]
    frames = page.rows("frames")  # the run began one second after the recording
    assert frames[0]["start"] == pytest.approx(1000 * MS, abs=10)
    during = [f for f in frames if f["start"] <= 1500 * MS < f["start"] + f["wall"]]
    assert len(during) == 1 and during[0]["number"] == 25
    assert {"functions", "cpu"} <= set(page.json("report"))


@tool
def test_the_title_begins_with_the_program(project: Project, program: Path) -> None:
    run, path = both(project, program, start_mono_ns=6 * 10**9)
    (title,) = [e[2] for e in view(project, path).elements if e[0] == "title"]
    assert title.startswith(f"{program.name}: ") and title.endswith(" | piano"), title


@tool
def test_a_frame_ends_where_the_report_ends_it(project: Project, program: Path) -> None:
    """Its wall time excludes the time of measuring, but the samples in that time belong to it."""
    run, _ = both(project, program, start_mono_ns=6 * 10**9)
    plain = view(project, run).rows("frames")
    lines = [json.loads(line) for line in run.read_text().splitlines()]
    for line in lines:
        if "wall_ns" in line and "frame" in line:
            line["took_ns"] = line["wall_ns"] + 94_000
    run.write_text(ndjson(*lines))
    frames = view(project, run).rows("frames")
    inside = [f["inside"] for f in project.json("report", run, "--frames", "--all")["frames"]]
    assert [f["took"] for f in plain] == pytest.approx([f["wall"] for f in plain], abs=10)
    assert [f["took"] for f in frames] == [i["end_mono_ns"] - i["begin_mono_ns"] for i in inside]
    assert frames[0]["took"] == pytest.approx(frames[0]["wall"] + 94_000, abs=10)


@tool
def test_run_without_clock_sync_is_not_joined(project: Project, program: Path) -> None:
    run, path = both(project, program, timestamp_ms=1740000000123 + 700)
    page = view(project, run, path)
    assert page.column("frames", "start")[0] == 700 * MS
    assert any("to the millisecond" in n for n in page.meta["notices"])


@tool
def test_alone_leaves_the_companion_out(project: Project, program: Path) -> None:
    run, path = both(project, program)
    assert view(project, run, "--alone").meta["kinds"] == ["spans"]
    assert view(project, path, "--alone").meta["kinds"] == ["cpu"]


@tool
def test_a_run_and_a_recording_of_two_processes_are_refused(project: Project, program: Path) -> None:
    run, path = both(project, program, pid=99)
    done = project.piano("view", run, path, "-o", "page.html", check=False)
    assert done.status == 1 and "not of the same process" in done.err
    assert not (project.root / "page.html").exists()


# Two to compare -----------------------------------------------------------------------------------

@tool
def test_two_runs_are_compared_on_one_page(project: Project) -> None:
    a = put_run(project, "1740000000001-77", update_run([5 * MS] * 30))
    b = put_run(project, "1740000000002-77", update_run([9 * MS] * 30))
    page = view(project, a, b)
    assert page.meta["b"]["name"] == b.name and page.meta["name"] == a.name
    second = {r["name"]: r["self_ns"] for r in project.json("report", b)["functions"]}
    strings = page.strings
    assert {strings[r["name"]]: r["self"] for r in page.rows("b_functions")} == second
    mine, theirs = page.json("report")["diff"], project.json("diff", a, b)
    assert mine["functions"] == theirs["functions"]


@tool
def test_two_recordings_are_compared_on_one_page(project: Project, program: Path) -> None:
    paths = []
    for n, size in enumerate((10_000, 30_000)):
        rec, s = recording(program, rate=1)
        rec.sample(s.parse, size, count=3).sample(s.load, 500, lived_us=5)
        rec.cpu(4711, 5.0, s.load, ms=10 + 5 * n)
        paths.append(put(project, rec, f"174000000000{n}-7.rec"))
    page = view(project, *paths)
    rows = {tuple(page.stack(r["node"])): r for r in page.rows("diff")}
    parse, load = rows[("main", "parse", "inner", "make_node")], rows[("main", "load", "make_node")]
    assert (parse["a_live"], parse["b_live"], parse["a_alloc"], parse["b_alloc"]) == (30_000, 90_000, 30_000, 90_000)
    assert (load["a_live"], load["a_alloc"], load["a_cpu"], load["b_cpu"]) == (0, 500, 10 * MS, 15 * MS)
    assert page.meta["b"]["name"] == paths[1].name and page.json("report")["heap_diff"]


@tool
def test_two_builds_are_compared_by_function_name(project: Project, program: Path) -> None:
    """The same functions in app-old and app-new, with symbols and stripped, are the same stacks; those of a library with
    another name are not."""
    for stripped in (False, True):
        paths = []
        for name, size in (("app-old", 100), ("app-new", 300)):
            shutil.copy(program, project.root / name)
            shutil.copy(program, project.root / f"lib-{name}")
            if stripped:
                project.command("strip", project.root / name)
            rec = make.Recording(program=str(project.root / name), rate=1)
            own = make.Program(rec, program)
            lib = make.Program(rec, project.root / f"lib-{name}", base=0x7F0000000000)
            rec.modules = [(str(project.root / name) if m[0] == str(program) else m[0], *m[1:]) for m in rec.modules]
            rec.sample(rec.stack(own.pcs("make_node", "load", "main")), size)
            rec.sample(rec.stack(lib.pcs("parse") + own.pcs("main")), 7)
            paths.append(put(project, rec, f"{name}.rec"))
        page = view(project, *paths)
        figures = sorted((r["a_alloc"], r["b_alloc"]) for r in page.rows("diff"))
        assert figures == [(0, 7), (7, 0), (100, 300)], f"stripped: {stripped}"
        both = next(r for r in page.rows("diff") if r["a_alloc"] == 100)
        assert page.stack(both["site_node"])[-1].startswith("app-old+0x" if stripped else "make_node")


@tool
def test_allocator_functions_are_marked(project: Project, program: Path) -> None:
    shutil.copy(program, project.root / "libc.so.6")
    rec = make.Recording(program=str(program), rate=1)
    own, libc = make.Program(rec, program), make.Program(rec, project.root / "libc.so.6", base=0x7F0000000000)
    rec.cpu(4711, 5.0, rec.stack(libc.pcs("make_node") + own.pcs("load", "main")), ms=1)
    page = view(project, put(project, rec))
    assert {page.strings[c["function"]]: c["plumbing"] for c in page.rows("code")} == {"make_node": 1, "load": 0, "main": 0}


# Hostile, broken, large ---------------------------------------------------------------------------

@tool
def test_hostile_names_in_runs_never_become_markup(project: Project) -> None:
    names = HOSTILE
    lines = [header(names, program="/bin/</script><img src=x onerror=alert(1)>"),
             {"thread": 1, "tid": 77, "name": names[0], "start_ns": 0}]
    lines += [frame(i, [fn(k, 1, 1000) for k in range(len(names))], 9000) for i in range(3)]
    run = put_run(project, "1740000000123-77", ndjson(*lines))
    run = run.rename(run.with_name("</title><script>alert(2)<.ndjson".replace("/", "_")))
    page = view(project, run)
    assert set(names) <= set(page.strings)
    assert "<img" not in page.text and "<script>alert" not in page.text and "</title><script" not in page.text
    meta = page.script("piano-meta")
    assert not set("<>&\u2028\u2029") & set(meta)
    tags = [e[0] for e in page.elements]
    assert tags.count("script") == 3 and tags.count("img") == 0 and tags.count("title") == 1
    assert page.meta["program"] == "/bin/</script><img src=x onerror=alert(1)>"


@tool
def test_hostile_names_in_recordings_never_become_markup(project: Project) -> None:
    rec = make.Recording(program="/x/</script>\u2028", command=["/x/</script>", "<b>", "a b"])
    rec.thread(4711, "</script>")
    for name in HOSTILE[:5]:
        rec.poll(4711, 10.0 * len(rec.names) + 1, 5.0, 1, rec.name(name))
    page = view(project, put(project, rec))
    assert set(HOSTILE[:5]) <= set(page.strings)
    assert "</script>" in page.strings and page.meta["command"] == "/x/</script> <b> a b"
    assert [e[0] for e in page.elements].count("script") == 3


@tool
def test_long_symbols_are_stored_once(project: Project) -> None:
    """A hundred stacks of a hundred frames, each with a name of 100 kB (which the symbolizer shortens): the notice is printed once, and
    not again in each report."""
    names = [f"f{i}_" + "f" * 100_000 for i in range(10)]
    source = "extern void *malloc(unsigned long); char *sink;\n" + "".join(
        f"__attribute__((noinline)) void {name}(int n) {{ sink = malloc(n + {i}); }}\n"
        for i, name in enumerate(names))
    calls = "".join(f"{name}(argc);" for name in names)
    project.write({"long.c": f"{source}int main(int argc, char **argv) {{ {calls} return sink == argv[0]; }}\n"})
    project.command("gcc", "-O1", "-fno-builtin", "long.c", "-o", "long")
    rec = make.Recording(program=str(project.root / "long"), rate=1)
    elf = make.Program(rec, project.root / "long")
    pcs = [elf.pc(name) for name in names]
    for n in range(100):
        rec.sample(rec.stack([pcs[(n >> k % 10 & 3) + k % 6] for k in range(100)]), 1000 + n)
    page = view(project, put(project, rec))
    told = [text for text in page.strings if len(text) > 1000]
    assert len(told) == 9 and all(any(name.startswith(text[:1000]) for name in names) for text in told)
    report = next(b for b in page.meta["blocks"] if b["name"] == "report.json")
    assert report["raw_bytes"] < 5 << 20
    assert sum(page.column("sites", "live_bytes")) == sum(1000 + n for n in range(100))


@tool
def test_names_that_are_not_utf8(project: Project) -> None:
    text = ndjson(header(["A", "B"]), frame(0, [fn(0), fn(1)], 9000)).encode()
    run = put_run(project, "1-77", "")
    run.write_bytes(text.replace(b'"A"', b'"\xff\xfe"'))
    assert "\ufffd\ufffd" in view(project, run).strings


@tool
def test_odd_file_names_are_escaped_in_the_title(project: Project) -> None:
    run = put_run(project, "1-77", update_run([MS] * 5))
    odd = os.path.join(os.fsencode(run.parent), b"a\xff\xe2\x80\xaeb\x1b&<i>.ndjson")
    os.rename(run, odd)
    page = view(project, os.fsdecode(odd))
    (title,) = [e[2] for e in page.elements if e[0] == "title"]
    assert title == r"a\xff\u{202e}b\x1b&<i>.ndjson | piano"
    assert page.meta["name"] == "a\ufffd\u202eb\x1b&<i>.ndjson"


@tool
def test_policy_allows_only_the_pages_own_script_and_style(project: Project) -> None:
    page = view(project, put_run(project, "1-77", update_run([MS] * 5)))
    script, style = page.code()
    rules = directives(page.policy())
    assert rules["default-src"] == ["'none'"] and rules["base-uri"] == ["'none'"] and rules["form-action"] == ["'none'"]
    assert rules["script-src"] == [digest(script)] and rules["style-src"] == [digest(style)]
    assert rules["img-src"] == ["data:", "blob:"] and len(rules) == 6
    head = page.text.split("<script", 1)[0]
    assert head.index("Content-Security-Policy") < head.index("<style"), "it comes before what it rules"
    assert "\r" not in script + style, "a parser would change it, and its digest"
    outside = [a for _, a, _ in page.elements if "src" in a or "href" in a]
    assert outside == []


@tool
@pytest.mark.parametrize("kind", ["empty", "garbage", "cut", "version", "no-header", "directory"])
def test_broken_input_is_an_error(project: Project, program: Path, kind: str) -> None:
    path = project.root / "broken.rec"
    whole_file = heap_recording(program).bytes()
    if kind == "directory":
        path.mkdir()
    elif kind == "version":
        rec = make.Recording()
        rec.version = 99
        rec.write(path)
    else:
        path.write_bytes({"empty": b"", "garbage": random.Random(3).randbytes(70_000), "cut": whole_file[:100],
                          "no-header": b"PIANOREC" + bytes(5000)}[kind])
    done = project.piano("view", path, "-o", "page.html", check=False)
    assert done.status == 1 and done.err.startswith("piano: ") and done.out == "", repr(done)
    assert not list(project.root.glob("page.html*"))


@tool
def test_damaged_recordings_make_a_page_that_says_so(project: Project, program: Path) -> None:
    whole_file = heap_recording(program).bytes()
    path = project.root / "cut.rec"
    path.write_bytes(whole_file[:len(whole_file) - 65536])
    page = view(project, path)
    assert any("byte" in notice for notice in page.meta["notices"]) and page.meta["dropped"]["places_unreadable"] > 0
    rng = random.Random(5)
    for source in (whole_file, trace(program).bytes()):
        for _ in range(30):
            broken = bytearray(source)
            for _ in range(20):
                broken[rng.randrange(8, len(broken))] = rng.randrange(256)
            path.write_bytes(broken)
            done = project.piano("view", path, "--alone", "-o", "page.html", "--force", check=False)
            assert done.status in (0, 1), repr(done)
            if done.status == 0:
                checked(read(project.root / "page.html"))


def checked(page: Page) -> None:
    """The viewer's assumptions: row numbers exist, rows are in order."""
    sizes = {name: info.get("rows", 1) for name, info in page.meta["tables"].items()}
    rows = {"thread": "threads", "node": "nodes", "task": "tasks", "waker_thread": "threads", "waker_task": "tasks",
            "code": "code", "queue": "queue_names", "function": "functions", "frame": "frames", "site": "sites",
            "snapshot": "snapshots", "root": "functions", "site_node": "nodes", "caller_node": "nodes",
            "parent": "nodes"}
    for table, info in page.meta["tables"].items():
        for column in info.get("columns", []):
            values = page.column(table, column["name"])
            assert len(values) == info["rows"]
            if column["name"] in rows and table != "code":
                most = sizes.get(rows[column["name"]], 0)
                assert all(v < most or v == NONE for v in values), (table, column["name"])
        if table in ("samples", "queues", "marks", "values", "snapshots"):
            assert page.column(table, "at") == sorted(page.column(table, "at"))
    assert all(p == NONE or p < i for i, p in enumerate(page.column("nodes", "parent") if "nodes" in page else []))


def test_page_size_grows_less_than_the_run(project: Project) -> None:
    sizes = []
    for frames in (2_000, 20_000):
        run = project.root / f"{frames}.ndjson"
        project.command("python3", ROOT / "tools" / "make-run.py", "--frames", frames, "-o", run)
        page = view(project, run)
        assert len(page.column("frames", "start")) == frames
        sizes.append((run.stat().st_size, sum(b["bytes"] for b in page.meta["blocks"])))
    (small, small_page), (large, large_page) = sizes
    assert large_page / small_page < large / small and large_page < large / 20


def test_large_data_is_divided_into_several_elements(project: Project) -> None:
    """Random data cannot be compressed, so it does not fit into one element."""
    rng = random.Random(1)
    lines = [header([f"f{i}" for i in range(40)])]
    lines += [frame(n, [fn(k, rng.randrange(2**31), rng.randrange(2**40), rng.randrange(2**31), rng.randrange(2**40))
                        for k in range(40)], rng.randrange(2**40)) for n in range(18_000)]
    page = view(project, put_run(project, "1-77", ndjson(*lines)))
    ids = [a["id"] for _, a, _ in page.scripts("application/octet-stream")]
    assert ids == ["piano-data", "piano-data-1"]
    selfs = page.column("frame_functions", "self")
    assert len(selfs) == 40 * 18_000 and selfs[-1] == lines[-1]["fns"][-1]["self_ns"]


# The file -----------------------------------------------------------------------------------------

@tool
def test_output_file_is_private_and_not_overwritten(project: Project) -> None:
    run = put_run(project, "1-77", update_run([MS] * 5))
    path = project.root / "page.html"
    before = os.umask(0)
    try:
        done = project.piano("view", run, "-o", path)
    finally:
        os.umask(before)
    assert done.out == "" and "wrote" in done.err
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("mine")
    done = project.piano("view", run, "-o", path, check=False)
    assert done.status == 1 and "is there already" in done.err and "--force" in done.err
    assert path.read_text() == "mine"
    project.piano("view", run, "--output", path, "--force")
    assert read(path).meta["format"] == 1
    assert [p.name for p in project.root.iterdir() if p.name != ".piano"] == ["page.html"], "nothing is left over"


@tool
@pytest.mark.parametrize("dangling", [False, True])
def test_a_link_is_not_followed(project: Project, dangling: bool) -> None:
    run = put_run(project, "1-77", update_run([MS] * 5))
    target, link = project.root / "target", project.root / "link.html"
    if not dangling:
        target.write_text("mine")
    link.symlink_to(target)
    assert project.piano("view", run, "-o", link, check=False).status == 1
    project.piano("view", run, "-o", link, "--force")
    assert not link.is_symlink() and read(link).meta["format"] == 1
    assert not target.exists() if dangling else target.read_text() == "mine"


@tool
def test_page_is_written_to_stdout_and_pipes(project: Project) -> None:
    run = put_run(project, "1-77", update_run([MS] * 5))
    assert Page(project.piano("view", run, "-o", "-").out).meta["format"] == 1
    pipe, seen = project.root / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: seen.append(pipe.read_text()))
    reader.start()
    project.piano("view", run, "-o", pipe)
    reader.join(20)
    assert Page(seen[0]).meta["format"] == 1 and stat.S_ISFIFO(pipe.stat().st_mode)
    status, said = project.run_in_pty(os.environ.get("PIANO", ROOT / "build" / "piano"), "view", run, "-o", "-")
    assert status == 1 and "not for a terminal" in said


@tool
def test_full_disk_is_an_error(project: Project) -> None:
    run = put_run(project, "1-77", update_run([MS] * 5))
    done = project.piano("view", run, "-o", "/dev/full", check=False)
    assert done.status == 1 and "No space left" in done.err
    done = project.piano("view", run, "-o", project.root / "no" / "such" / "page.html", check=False)
    assert done.status == 1 and "No such file" in done.err


@tool
@pytest.mark.parametrize("words,status,said", [
    (["a", "b", "c"], 2, "two runs at most"), (["--port", "70000"], 2, "65535"), (["--prot", "1"], 2, "--port"),
    (["-o", "x.html", "--port", "80"], 2, "served"), (["no-such-run"], 1, "no file, tag or run"),
    (["--port"], 2, "--port")])
def test_wrong_options_are_usage_errors(project: Project, words: list[str], status: int, said: str) -> None:
    done = project.piano("view", *words, check=False)
    assert done.status == status and said in done.err, repr(done)


@tool
def test_help_has_options_and_examples(project: Project) -> None:
    text = project.piano("view", "--help").out
    assert "Examples:" in text and "--port" in text and text == project.piano("help", "view").out


# A real page --------------------------------------------------------------------------------------

def test_page_of_the_bundled_game_matches_the_reports(project: Project) -> None:
    """Builds and records a program with all instruments: the page agrees with the reports."""
    for source in (ROOT / "examples" / "game").iterdir():
        if source.is_file():
            shutil.copy(source, project.root)
    game = project.build("--fn", "run_frame", "--fn", "physics_step", "--fn", "render")
    project.piano("record", "--", game)
    run, path = project.only_run(), next(project.runs.glob("*.rec"))
    page = view(project)
    checked(page)
    assert {"spans", "heap"} <= set(page.meta["kinds"]) and page.meta["program"] == str(game)
    report = project.report(run)
    rows = by_name(page, "functions")
    for name in ("run_frame", "physics_step"):
        assert rows[name]["calls"] == report.row(name)["calls"] and rows[name]["self"] == report.row(name)["self_ns"]
    frames = page.rows("frames")
    assert len(frames) == report.frame_count == 300
    heap = project.json("report", path, "--heap")
    assert whole(sum(s["allocated_bytes"] for s in page.rows("sites"))) == heap["allocated_bytes"]
    assert any("run_frame" in page.stack(s["node"]) for s in page.rows("sites"))
    if "samples" in page:  # perf may be refused
        cpu = project.json("report", path, "--cpu")
        samples = [s for s in page.rows("samples") if s["kind"] == 0]
        assert sum(s["value"] for s in samples) == cpu["cpu"]["cpu_ns"]
        first, last = frames[0]["start"], frames[-1]["start"] + frames[-1]["wall"]
        inside = [s for s in samples if first <= s["at"] < last]
        in_frame = [s for s in inside if "run_frame" in page.stack(s["node"])]
        assert len(in_frame) >= len(inside) * 0.8, "one clock: what was sampled during frames was in frames"
