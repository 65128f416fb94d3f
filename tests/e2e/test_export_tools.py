"""`piano export` in the tools it is for: each loads a file with its own importer, and its totals by function are those of
`piano report`."""
from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tarfile
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Iterator

import pytest

from conftest import ROOT, Done, Project, fn, frame, header, ndjson, need, npm_pack, put_run
from made import make, put
from test_export import SPEEDSCOPE, go_pprof

MS = 10**6
FIREFOX = "@firefox-devtools/profiler-cli@0.10.0"
BROWSER = ROOT / "tests" / "browser"
NOT_FETCHED = 77  # of tests/browser/setup


# What is exported --------------------------------------------------------------------------------

def everything() -> Any:
    """Samples of two threads on many lines of few functions, one of which calls itself, one of which is in two modules; waits;
    polls; memory at two snapshots. The samples stand for different times."""
    rec = make.Recording(program="/tmp/demo", rate=1)
    pcs = {}
    for path, start in (("/tmp/demo", 0x400000), ("/tmp/lib.so", 0x600000)):
        rec.module(path, start, start + 0x10000, bias=start)
        for number, name in enumerate(("main", "parse", "burn", "wait_for", "grow", "work")):
            for line in range(4):
                at = 0x100 * (number + 1) + line
                name_there = f"lib_{name}" if start == 0x600000 and name != "work" else name
                rec.symbol(path, at, [("inlined", "x.h", 3, True)] * (name == "work" and line == 3) +
                           [(name_there, f"{path[5:8]}.c", 10 * number + line, False)])
                pcs[name if start == 0x400000 else f"lib_{name}", line] = start + at + 1
    def stack(*calls: tuple[str, int]) -> int:
        return rec.stack([pcs[call] for call in calls])
    rec.thread(4711, "main"), rec.thread(12, "worker")
    base = [("main", 0)]
    for i in range(40):
        line = i % 4
        rec.cpu(4711, 20 + 12 * i, stack(("burn", line), ("parse", line), ("parse", 0), *base), ms=10)
        rec.cpu(4711, 600 + 12.3 * i, stack(("work", line), ("lib_work", i % 3), *base), ms=7.5)
        rec.cpu(12, 50 + 11 * i, stack(("lib_burn", line), ("work", 1), *base), ms=10)
        rec.cpu(12, 700 + 3 * i, stack(("lib_work", line), *base), ms=1.25)
    for i in range(5):
        rec.off(4711, 1200 + 50 * i, stack(("wait_for", i % 4), ("parse", 1), *base), ms=30)
        rec.off(12, 1200 + 50 * i, stack(("lib_wait_for", i % 2), ("work", 1), *base), ms=2, preempted=i % 2 == 0)
        rec.poll(12, 100 + 20 * i, 15, task=i, name=rec.name("job"))
        rec.turn(4711, 1600 + 20 * i, 10)
    for i in range(6):
        rec.sample(stack(("grow", i % 4), ("parse", 2), *base), 1000 + i)
        rec.sample(stack(("lib_grow", i % 2), ("work", 2), *base), 300, lived_us=50)
        if i % 3 == 2:
            rec.snapshot(at_ms=500 * i)
    return rec


@pytest.fixture
def path(project: Project) -> Path:
    return put(project, everything())


def a_run(project: Project) -> Path:
    """Functions and frames of an instrumented program."""
    return put_run(project, "1740000000123-77", ndjson(
        header(["update", "physics"], places=["a.c:1", "b.c:2"]), {"thread": 1, "tid": 77, "name": "main", "start_ns": 0},
        *[frame(i, [fn(0, 1, 3 * MS, total_ns=5 * MS), fn(1, 4, 2 * MS, total_ns=2 * MS)], 5 * MS) for i in range(9)],
        {"end": True, "wall_ns": 200 * MS, "dropped": {}}))


def exported(project: Project, path: Path, form: str, *flags: str) -> Path:
    out = project.root / f"export.{form}"
    project.piano("export", path, "--format", form, "-o", out, "--force", *flags)
    return out


def threads(project: Project, path: Path) -> dict[str, Any]:
    return {t["name"]: t for t in project.json("report", path, "--cpu", "--threads", "--all")["threads"]}


def totals(rows: list[dict[str, Any]], self_key: str = "self_ns", total_key: str = "total_ns", unit: float = 1) -> Counter:
    return Counter((row["name"], row[self_key] / unit, row[total_key] / unit) for row in rows if row[total_key])


def memory(project: Project, path: Path, key: str) -> Counter:
    """(function, own bytes, bytes below it), from the stacks of the report."""
    own: Counter = Counter()
    below: Counter = Counter()
    for site in project.json("report", path, "--heap", "--all")["sites"]:
        names = [f["function"] for f in site["stack"]]
        own[names[0]] += site[key]
        for name in set(names):
            below[name] += site[key]
    return Counter((name, own[name], below[name]) for name in below if below[name])


# In a browser ------------------------------------------------------------------------------------

@pytest.fixture(scope="session")
def browser() -> None:
    """Chromium and what drives it, as for the tests of the page."""
    need("node")
    if not os.environ.get("CHROMIUM") and not any(map(shutil.which, ("chromium-headless-shell", "chromium"))):
        pytest.skip("chromium is not installed")
    done = subprocess.run([BROWSER / "setup"], capture_output=True, text=True, timeout=180)
    if done.returncode == NOT_FETCHED:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done


def unpacked(package: str, folder: Path) -> Path:
    with tarfile.open(npm_pack(package, folder)) as files:
        for member in files:
            if member.isfile() and member.name.startswith("package/") and ".." not in Path(member.name).parts:
                files.extract(member, folder)
    return folder / "package"


def load(project: Project, name: str, directory: Path, file: Path) -> dict[str, Any]:
    return json.loads(project.command("node", BROWSER / "imports.mjs", name, directory, file, limit=120).out)


@pytest.fixture(scope="session")
def speedscope(browser: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(SPEEDSCOPE, tmp_path_factory.mktemp("speedscope")) / "dist" / "release"


def functions(profile: dict[str, Any]) -> Counter:
    return Counter((name, own, total) for name, own, total in profile["functions"] if total)


def single(found: Counter) -> Counter:
    """Without those functions whose name is in two modules, which some tools do not tell apart."""
    return Counter({row: count for row, count in found.items() if row[0] not in ("work", "inlined")})


def test_speedscope_has_the_totals_of_the_report(project: Project, path: Path, speedscope: Path) -> None:
    loaded = load(project, "speedscope", speedscope, exported(project, path, "speedscope", "--by", "cpu"))
    profiles = {p["name"]: p for p in loaded["profiles"]}
    assert loaded["profiles"][loaded["shown"]]["name"] == "main (4711): CPU time"
    report = project.json("report", path, "--cpu", "--all")
    for name, thread in threads(project, path).items():
        full = f"{name} ({thread['tid']})"
        cpu = profiles[f"{full}: CPU time"]
        assert cpu["total"] == thread["cpu_ns"] and functions(cpu) == totals(thread["functions"])
        away = {f["name"]: f["off_cpu_ns"] for f in thread["functions"] if f["off_cpu_ns"]}
        assert {n: total for n, _, total in profiles[f"{full}: blocked"]["functions"]} == away
    assert functions(profiles["worker (12): waiting for a CPU"]) == Counter([
        ("lib_wait_for", 6 * MS, 6 * MS), ("work", 0, 6 * MS), ("main", 0, 6 * MS)])
    assert functions(profiles["all threads: CPU time"]) == totals(report["functions"])
    for name, key in (("live bytes", "live_bytes"), ("allocated bytes", "allocated_bytes"), ("bytes live at the peak", "peak_bytes")):
        assert functions(profiles[name]) == memory(project, path, key)


def test_collapsed_and_trace_have_the_totals_of_the_report(project: Project, path: Path, speedscope: Path) -> None:
    """Speedscope reads these formats too, and counts the time of the samples in a trace, as Chrome does."""
    loaded = load(project, "speedscope", speedscope, exported(project, path, "collapsed", "--by", "cpu"))
    profile, = loaded["profiles"]
    known = totals(project.json("report", path, "--cpu", "--all")["functions"])
    assert single(functions(profile)) == single(known) != Counter()
    loaded = load(project, "speedscope", speedscope, exported(project, path, "chrome"))
    by_name = {p["name"].split(" - ")[1].split(" (")[0]: p for p in loaded["profiles"]}
    for name, thread in threads(project, path).items():
        assert by_name[name]["unit"] == "microseconds"
        assert functions(by_name[name]) == totals(thread["functions"], unit=1000)


def test_run_in_speedscope_has_the_self_times_of_the_report(project: Project, speedscope: Path) -> None:
    path = a_run(project)
    known = {(f["name"], f["self_ns"], f["self_ns"]) for f in project.json("report", path, "--all")["functions"]}
    for form in ("speedscope", "collapsed"):
        profile, = load(project, "speedscope", speedscope, exported(project, path, form))["profiles"]
        assert set(functions(profile)) == known


def test_catapult_reads_the_trace(project: Project, path: Path, browser: None) -> None:
    """The trace viewer of chrome://tracing, as Go carries it for `go tool trace`."""
    go = shutil.which("go") or "/usr/local/go/bin/go"
    root = subprocess.run([go, "env", "GOROOT"], capture_output=True, text=True, timeout=60).stdout.strip() if os.path.exists(go) else ""
    found = [p.parent for p in Path(root, "src").rglob("trace_viewer_full.html")] if root else []
    if not found:
        pytest.skip("Go with the trace viewer is not installed")
    seen = load(project, "catapult", found[0], exported(project, path, "chrome"))
    assert seen["warnings"] == []
    for thread in threads(project, path).values():
        mine = [s["stack"] for s in seen["samples"] if s["tid"] == thread["tid"] and s["stack"] != ["(idle)"]]
        assert len(mine) == thread["samples"]
        found = Counter((row["name"], sum(stack[0] == row["name"] for stack in mine), sum(row["name"] in stack for stack in mine))
                        for row in thread["functions"] if row["total_samples"])
        assert single(found) == single(totals(thread["functions"], "samples", "total_samples")) != Counter()
    slices = {category: [s for s in seen["slices"] if s["category"] == category] for category in
              ("poll", "park", "blocked", "preempted")}
    polls = project.json("report", path, "--polls", "--all")
    assert len(slices["poll"]) == polls["polls"] > 0
    assert sum(s["length"] for s in slices["blocked"]) == pytest.approx(
        sum(t["off_cpu_ns"] for t in threads(project, path).values()) / MS)
    assert sum(s["length"] for s in slices["preempted"]) == pytest.approx(6)
    assert {tuple(s["stack"]) for s in slices["blocked"] if s["tid"] == 4711} == {("wait_for", "parse", "main")}
    names = {(t["pid"], t["tid"]): (t["process"], t["name"]) for t in seen["threads"]}
    assert names[4711, 4711] == ("demo", "main (4711)") and names[1_000_004_711, 12] == ("demo: off the CPU", "worker (12)")
    heap, = [c for c in seen["counters"] if c["name"].endswith("heap: live bytes")]
    assert heap["values"] == [[3003, 6015]]


# Firefox -----------------------------------------------------------------------------------------

class Firefox:
    """The importer of the Firefox Profiler. It keeps a profile in a process of its own, which the fixture ends."""

    def __init__(self, project: Project, program: Path):
        self.project, self.program = project, program
        self.env = {"PROFILER_CLI_SESSION_DIR": str(project.home / "profiler")}

    def command(self, *words: Any, check: bool = True) -> Done:
        return self.project.command("node", self.program, *words, env=self.env, check=check)

    def open(self, file: Path) -> dict[tuple[str, str], str]:
        """The threads: {(process, thread): handle}."""
        self.command("load", file, check=False)  # it does not wait for long on a busy machine
        for _ in range(100):
            done = self.command("thread", "list", "--json", check=False)
            if done.status == 0:
                break
        assert done.status == 0, done
        return {(t["processName"], t["name"]): t["threadHandle"] for t in json.loads(done.out)["threads"]}

    def json(self, *words: Any) -> Any:
        return json.loads(self.command(*words, "--json").out)

    def functions(self, thread: str) -> list[dict[str, Any]]:
        return self.json("thread", "functions", "--limit", 0, "--thread", thread)["functions"]


@pytest.fixture(scope="session")
def firefox_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("node")
    return unpacked(FIREFOX, tmp_path_factory.mktemp("firefox")) / "dist" / "profiler-cli.js"


@pytest.fixture
def firefox(project: Project, firefox_program: Path) -> Iterator[Firefox]:
    cli = Firefox(project, firefox_program)
    yield cli
    cli.command("stop", "--all", check=False)


def rounded(rows: Counter) -> list[tuple[str, float, float]]:
    return sorted((name, round(own, 3), round(total, 3)) for name, own, total in rows.elements())


def test_firefox_profile_has_the_times_of_the_report(project: Project, path: Path, firefox: Firefox) -> None:
    handles = firefox.open(exported(project, path, "firefox"))
    for name, thread in threads(project, path).items():
        found = firefox.functions(handles["demo", name])
        assert rounded(totals(found, "selfSamples", "totalSamples")) == rounded(totals(thread["functions"], unit=MS))
    assert list(handles) == [("demo", "main"), ("demo", "worker")]
    markers = firefox.json("thread", "markers", "--thread", handles["demo", "worker"])
    found = {m["markerName"]: m["count"] for m in markers["byType"]}
    assert found == {"job": 5, "blocked": 2, "waiting for a CPU": 3}
    away = next(m for m in markers["byType"] if m["markerName"] == "blocked")
    assert away["topMarkers"][0]["hasStack"] and away["durationStats"]["avg"] == pytest.approx(2)
    main = firefox.json("thread", "markers", "--thread", handles["demo", "main"])
    assert {m["markerName"] for m in main["byType"]} >= {"blocked", "epoll"}


def test_firefox_counts_the_samples_of_a_trace(project: Project, path: Path, firefox: Firefox) -> None:
    handles = firefox.open(exported(project, path, "chrome"))
    for name, thread in threads(project, path).items():
        found = [row for row in firefox.functions(handles["demo", f"{name} ({thread['tid']})"]) if row["name"] != "(root)"]
        assert totals(found, "selfSamples", "totalSamples") == totals(thread["functions"], "samples", "total_samples")


# Go and flame graphs -----------------------------------------------------------------------------

@pytest.fixture
def pprof(project: Project) -> Any:
    command, cache = go_pprof()
    env = {"GOFLAGS": "-mod=mod", "GOCACHE": cache or str(project.home / "go"), "PPROF_TMPDIR": str(project.home)}
    probe = project.command(*command, "-h", check=False, env=env, limit=300)
    if "usage" not in (probe.out + probe.err).lower():
        pytest.skip(f"`go tool pprof` does not start here: {probe.err.strip()[:200]}")
    return SimpleNamespace(run=lambda *words: project.command(*command, *words, env=env, limit=300))


def top(pprof: Any, file: Path, series: str, unit: str, *flags: str) -> dict[str, tuple[int, int]]:
    """{function: (flat, cum)}"""
    out = pprof.run("-top", f"-unit={unit}", "-nodefraction=0", "-nodecount=9999", f"-sample_index={series}", *flags, file).out
    rows = re.findall(r"^ *([\d.]+)\w* +[\d.]+% +[\d.]+% +([\d.]+)\w* +[\d.]+% +(.*?)(?: \(inline\))?$", out, re.M)
    return {name: (int(flat), int(cum)) for flat, cum, name in rows if int(cum)}


def test_go_pprof_has_the_totals_of_the_report(project: Project, path: Path, pprof: Any) -> None:
    file = exported(project, path, "pprof")
    report = project.json("report", path, "--cpu", "--all")["functions"]
    once = lambda found: {name: values for name, values in found.items() if name not in ("work", "inlined")}
    rows = lambda functions: once({row["name"]: (row["self_ns"], row["total_ns"]) for row in functions if row["total_ns"]})
    assert once(top(pprof, file, "cpu", "ns")) == rows(report)
    away = {row["name"]: row["off_cpu_ns"] for row in report if row["off_cpu_ns"]}
    assert {name: cum for name, (_, cum) in top(pprof, file, "off_cpu", "ns").items()} == away
    assert top(pprof, file, "preempted", "ns")["main"] == (0, 6 * MS)
    assert top(pprof, file, "wait", "ns")["main"] == (0, 160 * MS)
    for series, key in (("inuse_space", "live_bytes"), ("alloc_space", "allocated_bytes")):
        found = {(name, own, total) for name, (own, total) in top(pprof, file, series, "B").items()}
        assert found == set(memory(project, path, key))
    for name, thread in threads(project, path).items():
        assert once(top(pprof, file, "cpu", "ns", f"-tagfocus=thread=^{name}$")) == rows(thread["functions"])
    assert sum(flat for flat, _ in top(pprof, file, "cpu", "ns", "-tagfocus=task=job").values()) > 0
    assert "Duration" not in pprof.run("-top", file).out and "Duration: 10s" in pprof.run(
        "-top", exported(project, path, "pprof", "--by", "cpu")).out


def test_go_pprof_has_the_self_times_of_a_run(project: Project, pprof: Any) -> None:
    path = a_run(project)
    known = {f["name"]: f for f in project.json("report", path, "--all")["functions"]}
    file = exported(project, path, "pprof")
    for series, unit, key in (("wall", "ns", "self_ns"), ("calls", "count", "calls")):
        assert top(pprof, file, series, unit) == {name: (f[key], f[key]) for name, f in known.items()}


def test_inferno_draws_the_collapsed_stacks(project: Project, path: Path) -> None:
    """Titles in the picture have the totals of each function below its caller."""
    file = exported(project, path, "collapsed", "--by", "cpu")
    picture = project.command(need("inferno-flamegraph"), file).out
    found: Counter = Counter()
    for name, count in re.findall(r"<title>([^<]*?) \(([\d,]+) samples", picture):
        found[name] += int(count.replace(",", ""))
    rows = {row["name"]: row["total_ns"] for row in project.json("report", path, "--cpu", "--all")["functions"]}
    assert found["main"] == rows["main"] and found["lib_burn"] == rows["lib_burn"]
