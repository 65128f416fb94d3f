"""`piano report --heap` and `piano diff` on recordings whose every number is known beforehand."""
from __future__ import annotations

import importlib.util
import json
import math
import os
import random
import re
import resource
import struct
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conftest import PIANO, ROOT, Project, put_run, update_run

spec = importlib.util.spec_from_file_location("make_recording", ROOT / "tools" / "make-recording.py")
make = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make)

tool = pytest.mark.tool
MB = 1 << 20

# One function a line, so that an address anywhere in it has a line that is known.
SOURCE = """\
extern void *malloc(unsigned long); char *sink;
__attribute__((noinline)) char *make_node(int n) { sink = malloc(n); return sink; }
static inline __attribute__((always_inline)) char *inner(int n) { char *p = make_node(n); p[0] = 1; return p; }
__attribute__((noinline)) char *parse(int n) { char *p = inner(n); p[1] = 2; return p; }
__attribute__((noinline)) char *load(int n) { char *p = make_node(n); p[1] = 3; return p; }
int main(int argc, char **argv) { parse(argc); load(argc); return sink == argv[0]; }
"""


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    (folder / "prog.c").write_text(SOURCE)
    subprocess.run(["gcc", "-O1", "-g", "-fno-builtin", "prog.c", "-o", "prog"], cwd=folder, check=True)
    return folder / "prog"


def recording(program: Path, **options: Any) -> tuple[Any, SimpleNamespace]:
    """A recording with two stacks: make_node < inner < parse < main, and make_node < load < main."""
    rec = make.Recording(program=str(program), **options)
    elf = make.Program(rec, program)
    stacks = SimpleNamespace(elf=elf, parse=rec.stack(elf.pcs("make_node", "parse", "main")),
                             load=rec.stack(elf.pcs("make_node", "load", "main")))
    return rec, stacks


def put(project: Project, rec: Any, name: str = "1740000000000-7.rec") -> Path:
    project.runs.mkdir(parents=True, exist_ok=True)
    return Path(rec.write(project.runs / name))


def names(stack: list[dict[str, Any]]) -> list[str]:
    return [frame["function"] for frame in stack]


# Numbers -----------------------------------------------------------------------------------------

@tool
def test_every_allocation(project: Project, program: Path) -> None:
    """At rate 1 figures are exact, and there is no interval."""
    rec, s = recording(program, rate=1)
    rec.sample(s.parse, 1000, count=30).sample(s.load, 50, count=4, lived_us=3)
    rec.sample(s.load, 70, lived_us=5_000_000)
    data = project.json("report", put(project, rec))
    assert (data["live_bytes"], data["live_objects"]) == (30_000, 30)
    assert data["live_bytes_ci95"] == [30_000, 30_000]
    assert (data["allocated_bytes"], data["allocated_objects"]) == (30_270, 35)
    assert (data["freed_bytes"], data["freed_objects"], data["samples"]) == (270, 5, 35)
    parse, load = data["sites"]
    assert (parse["live_bytes"], parse["size_min"], parse["size_max"]) == (30_000, 1000, 1000)
    assert (load["live_bytes"], load["allocated_bytes"], load["freed_bytes"]) == (0, 270, 270)
    assert load["lifetimes"][2] == 4 and sum(load["lifetimes"]) == 5
    assert load["churn_bytes"] == 270 * 4 // 5
    text = project.piano("report", "--heap").out
    assert "every allocation" in text and "95 %" not in text and "35 samples" in text
    assert re.search(r"Live at exit +29\.3KB in 30 objects\n", text), text
    assert re.search(r"Freed +270B in 5 objects\n", text), text


@tool
@pytest.mark.parametrize("size,n", [(16, 200), (4096, 200), (512 * 1024, 200), (100 * MB, 200),
                                    (512 * 1024, 1), (64 * 1024, 2)])
def test_estimate_and_interval(project: Project, program: Path, size: int, n: int) -> None:
    """The last two: never below what was really seen."""
    rate = 512 * 1024
    rec, s = recording(program, rate=rate)
    rec.sample(s.parse, size, count=n)
    data = project.json("report", put(project, rec))
    p = -math.expm1(-size / rate)
    half = 1.959964 * math.sqrt(n * (size / p) ** 2 * (1 - p))
    assert data["live_bytes"] == pytest.approx(n * size / p, abs=1)
    assert data["live_objects"] == pytest.approx(n / p, abs=1)
    low, high = data["live_bytes_ci95"]
    assert high == pytest.approx(n * size / p + half, rel=1e-6, abs=1)
    assert low == pytest.approx(max(n * size / p - half, n * size), rel=1e-6, abs=1)


@tool
def test_nothing_sampled_may_still_be_something(project: Project, program: Path) -> None:
    rec, s = recording(program, rate=512 * 1024)
    rec.sample(s.parse, 64, count=200, lived_us=10)
    data = project.json("report", put(project, rec))
    assert data["live_bytes"] == 0
    assert data["live_bytes_ci95"] == [0, round(-math.log(0.025) * 512 * 1024)]


@tool
def test_rounding_below_zero_is_nothing(project: Project, program: Path) -> None:
    rec, s = recording(program, rate=1)
    rec.sample(s.parse, 100, count=3, lived_us=1)
    rec.sums[s.parse].released[0] += 0.25
    rec.sample(s.load, 10)
    data = project.json("report", put(project, rec))
    assert data["live_bytes"] == 10 and data["live_objects"] == 1
    assert min(site["live_bytes"] for site in data["sites"]) == 0


@tool
def test_peak(project: Project, program: Path) -> None:
    """Who held memory then is not who holds it now."""
    rec, s = recording(program, rate=1)
    rec.sample(s.load, 5 * MB, at_ms=100).sample(s.parse, MB, at_ms=250)
    rec.free(s.load, 5 * MB, lived_us=900_000)
    rec.sample(s.parse, MB, at_ms=500)
    data = project.json("report", put(project, rec), "--peak")
    assert (data["peak_bytes"], data["peak_at_ns"], data["live_bytes"]) == (6 * MB, 250_000_000, 2 * MB)
    by_name = {names(site["stack"])[1]: site["peak_bytes"] for site in data["sites"]}
    assert by_name == {"load": 5 * MB, "inner": MB}, "both changed since, one of them twice"
    assert names(data["sites"][0]["stack"])[1] == "load", "the order is that of the peak"
    text = project.piano("report", "--heap", "--peak").out
    assert re.search(r"Peak +6\.0MB in 2 objects, after 250\.0ms", text), text
    assert re.search(r"make_node +5\.0MB +83\.3% +1 +0B +.*load < main", text), text


@tool
def test_answer_in_words(project: Project, program: Path) -> None:
    rec, s = recording(program, pid=77)
    rec.sample(s.parse, 64 * 1024, count=120)
    text = project.piano("report", put(project, rec)).out
    first = text.splitlines()[0]
    assert first == "prog (pid 77) | 10.0s | exit status 0 | a sample every 512.0KB | 120 samples"


@tool
@pytest.mark.parametrize("status,state,end,words", [
    (1 + (3 << 8), make.ENDED, 15, "exit status 3"), (1 + 9, make.ACTIVE, 0, "ended by signal 9 (Killed)"),
    (0, make.ENDED, 15, "| ended |"), (0, make.ACTIVE, 0, "gone without a word"),
])
def test_how_it_ended(project: Project, program: Path, status: int, state: int, end: int,
                      words: str) -> None:
    rec, s = recording(program, exit_status=status, state=state, end_ns=end * make.SECOND, pid=0x3FFFFFFF)
    rec.sample(s.parse, 64 * 1024, at_ms=1500)
    text = project.piano("report", put(project, rec)).out
    assert words in text.splitlines()[0]
    assert ("10.0s" if end else "at least 1.5s") in text.splitlines()[0]


@tool
def test_still_running(project: Project, program: Path) -> None:
    """A process that has the file mapped is what wrote it."""
    rec, s = recording(program, exit_status=0, state=make.ACTIVE, end_ns=0, start_ns=1)
    rec.sample(s.parse, 64 * 1024)
    path = put(project, rec)
    holder = subprocess.Popen(["python3", "-c", """
import mmap, os, struct, sys
f = open(sys.argv[1], "r+b"); m = mmap.mmap(f.fileno(), 0); m[24:28] = struct.pack("<I", os.getpid())
print(flush=True); sys.stdin.read()""", str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        holder.stdout.readline()
        text = project.piano("report", path).out
        assert "still running" in text and "Live now" in text and "Who holds memory now" in text
        assert project.json("report", path)["run"]["end"] == "running"
    finally:
        holder.communicate()
    assert "gone without a word" in project.piano("report", path).out


@tool
@pytest.mark.parametrize("lost,full,confidence", [(4, 0, "high"), (5, 0, "medium"), (10, 10, "medium"),
                                                  (21, 0, "low")])
def test_stack_health(project: Project, program: Path, lost: int, full: int, confidence: str) -> None:
    rec, s = recording(program, walked=100, walked_frames=1450, walked_lost=lost, walked_full=full)
    rec.sample(s.parse, 64 * 1024, count=100)
    path = put(project, rec)
    health = project.json("report", path)["stack_health"]
    assert health["confidence"] == confidence and health["mean_depth"] == 14.5
    assert health["truncated_share"] == (lost + full) / 100
    assert f"{lost + full}.0% cut short (confidence {confidence}), 14.5 frames" in \
        project.piano("report", path).out


@tool
def test_what_was_dropped_is_said_and_nothing_else(project: Project, program: Path) -> None:
    rec, s = recording(program)
    rec.sample(s.parse, 64 * 1024, count=100)
    assert project.piano("report", put(project, rec)).err == ""
    rec.given = {"dropped_live": 12, "dropped_stacks": 3, "dropped_memory": 1, "dropped_busy": 9}
    path = put(project, rec)
    done = project.piano("report", path)
    for words in ("12 samples were not followed", "3 samples have no stack",
                  "1 times there was no room", "9 allocations were not sampled"):
        assert words in done.err, done
    assert project.json("report", path)["dropped"] == {"live": 12, "stacks": 3, "memory": 1, "busy": 9,
                                                       "stale": 0, "map_partial": 0}


@tool
def test_few_samples_are_a_warning(project: Project, program: Path) -> None:
    rec, s = recording(program)
    rec.sample(s.parse, 64 * 1024, count=99)
    said = project.piano("report", put(project, rec)).err
    assert "only 99 sampled blocks are live" in said and "--heap=64K` takes more" in said
    rec.sample(s.parse, 64 * 1024)
    assert "only" not in project.piano("report", put(project, rec)).err
    exact, s = recording(program, rate=1)
    exact.sample(s.parse, 64)
    assert project.piano("report", put(project, exact)).err == ""


# What the figures leave open ---------------------------------------------------------------------

@tool
def test_header_names_the_file_and_the_command(project: Project, program: Path) -> None:
    rec, s = recording(program, rate=1, command=["prog", "--port", "8080", "two words", "x" * 300])
    rec.sample(s.parse, 1000)
    path = put(project, rec)
    line = project.piano("report", path).out.splitlines()[1]
    assert line.startswith(".piano/runs/1740000000000-7.rec | prog --port 8080 'two words' x")
    assert len(line) <= 110 and "…" in line
    _, out = project.run_in_pty(PIANO, "report", path, columns=80)
    assert len(out.splitlines()[1]) <= 80


@tool
@pytest.mark.parametrize("resident,heap,flags,said", [
    (90, 5, None, True), (90, 44, None, True), (90, 46, None, False), (90, 5, make.HAS_HEAP | make.HAS_MAPS, False),
    (5, 1, None, False), (0, 5, None, False)])
def test_memory_that_the_heap_does_not_explain(project: Project, program: Path, resident: int, heap: int,
                                               flags: int | None, said: bool) -> None:
    rec, s = recording(program, rate=1, flags=flags)
    rec.sample(s.parse, heap * MB)
    rec.snapshot(at_ms=100, resident=resident * MB // 2)
    rec.snapshot(at_ms=200, resident=resident * MB)
    rec.snapshot(at_ms=300, resident=resident * MB // 3)
    text = project.piano("report", put(project, rec)).out
    assert ("Resident" in text) == said, text
    if said:
        assert re.search(rf"Resident +90\.0MB at most; the heap explains {heap / 90 * 100:.0f} % of it: "
                         r"try --maps", text), text
    assert project.json("report", "--heap")["resident_bytes_max"] == (resident * MB or None)


def past_peak(program: Path, rate: int = 1) -> Any:
    rec, s = recording(program, rate=rate)
    rec.sample(s.load, 5 * MB, at_ms=100, count=4).sample(s.parse, MB, at_ms=250)
    for _ in range(4):
        rec.free(s.load, 5 * MB, lived_us=900_000)
    return rec


@tool
def test_the_peak_comes_first_when_little_is_left(project: Project, program: Path) -> None:
    path = put(project, past_peak(program))
    tables = re.findall(r"^Who .*$", project.piano("report", path).out, re.M)
    assert tables[:2] == ["Who held memory at the peak", "Who held memory at the end"], tables
    assert re.findall(r"^Who .*$", project.piano("report", path, "--by", "live").out, re.M)[0] == tables[1]
    assert "21.0MB at the peak: piano report --peak" in project.piano("report", path, "--leaks").out
    assert "--tree --by peak" in project.piano("report", path, "--tree").out
    rec, s = recording(program, rate=1)
    rec.sample(s.parse, 3 * MB).sample(s.load, MB)
    rec.free(s.load, MB, lived_us=10)
    most = put(project, rec)
    assert "at the peak" not in project.piano("report", most).out
    assert "at the peak" not in project.piano("report", most, "--leaks").out


@tool
def test_error_of_the_peak(project: Project, program: Path) -> None:
    """At most that of all that was allocated there, and of the rate; exact where nothing changed since."""
    rate = 512 * 1024
    rec, s = recording(program, rate=rate)
    rec.sample(s.load, 64 * 1024, count=40).sample(s.parse, 64 * 1024, count=20)
    for _ in range(30):
        rec.free(s.load, 64 * 1024, lived_us=10)
    path = put(project, rec)
    inner, load = sorted(project.json("report", path, "--peak")["places"], key=lambda p: p["caller"])
    w = make.weight(64 * 1024, rate)
    for place, count in ((inner, 20), (load, 40)):
        assert place["peak_bytes"] == pytest.approx(count * w[0], abs=1)
        low, high = place["peak_bytes_ci95"]
        assert high - place["peak_bytes"] == pytest.approx(1.959964 * math.sqrt(count * w[2]), rel=1e-3)
        assert low < place["peak_bytes"]
    table = project.piano("report", path, "--peak").out
    assert re.search(r"^Site +At peak +% +\+- +Objects", table, re.M), table
    rec.sample(s.load, 64 * 1024, count=400, lived_us=3)
    wide = next(p for p in project.json("report", put(project, rec))["places"] if p["caller"] == "load")
    half = wide["peak_bytes_ci95"][1] - wide["peak_bytes"]
    assert half == pytest.approx(1.959964 * math.sqrt(rate * wide["peak_bytes"]), rel=1e-3)


@tool
def test_cut_stacks_say_what_to_do(project: Project, program: Path) -> None:
    for lost, full, words in ((30, 0, "-fno-omit-frame-pointer"), (10, 30, "deeper than 128 frames"),
                              (6, 0, "callers are missing in trees"), (4, 0, None)):
        rec, s = recording(program, walked=100, walked_frames=1450, walked_lost=lost, walked_full=full)
        rec.sample(s.parse, 64 * 1024, count=100)
        text = project.piano("report", put(project, rec)).out
        assert (words in text) if words else ("callers are missing" not in text), text


@tool
def test_modules_without_symbols(project: Project, program: Path) -> None:
    library, source = project.root / "libbare.so.0", project.root / "bare.c"
    source.write_text(SOURCE.replace("((noinline))", '((noinline, visibility("hidden")))'))
    subprocess.run(["gcc", "-O1", "-fno-builtin", "-shared", "-fPIC", source, "-o", library], check=True)
    rec, s = recording(program, rate=1)
    bare = make.Program(rec, library, base=0x7F0000000000)
    rec.sample(rec.stack([*bare.pcs("make_node", "load"), s.elf.pc("main")]), 800).sample(s.parse, 200)
    assert "no symbols" not in project.piano("report", put(project, rec)).err
    subprocess.run(["strip", library], check=True)
    path = put(project, rec)
    done = project.piano("report", path, unset=["DEBUGINFOD_URLS"])
    assert "no symbols for libbare.so.0 (80 % of the bytes): install its debug symbols, or set DEBUGINFOD_URLS" \
        in done.err, done


@tool
def test_allocated_is_never_less_than_live(project: Project, program: Path) -> None:
    rec, s = recording(program)
    rec.sample(s.parse, 512 * 1024, count=3)
    data = project.json("report", put(project, rec))
    assert data["allocated_bytes_ci95"][0] >= data["live_bytes_ci95"][0] >= 3 * 512 * 1024
    rec.sample(s.load, 100, count=2, lived_us=3)
    data = project.json("report", put(project, rec))
    assert data["allocated_bytes_ci95"][0] >= data["live_bytes_ci95"][0]


@tool
def test_several_rates(project: Project, program: Path) -> None:
    rec, s = recording(program, rate=64 * 1024)
    rec.sample(s.parse, 4096, count=60, rate=512 * 1024).sample(s.parse, 4096, count=60)
    path = put(project, rec)
    assert "a sample every 64.0KB to 512.0KB, as it was changed" in project.piano("report", path).out
    assert project.json("report", path)["run"]["rates"] == [64 * 1024, 512 * 1024]


@tool
def test_shut_down_is_not_gone(project: Project, program: Path) -> None:
    rec, s = recording(program, exit_status=0, state=make.TERMINATED, pid=0x3FFFFFFF)
    rec.sample(s.parse, 1000)
    first = project.piano("report", put(project, rec)).out.splitlines()[0]
    assert "shut down by the program" in first and "gone" not in first and "| 10.0s |" in first


# Sites and stacks --------------------------------------------------------------------------------

@tool
def test_stacks_are_full_and_named(project: Project, program: Path) -> None:
    rec, s = recording(program, rate=1)
    rec.sample(s.parse, 64)
    (site,) = project.json("report", put(project, rec))["sites"]
    assert [(f["function"], f["line"], f["inlined"]) for f in site["stack"]] == [
        ("make_node", 2, False), ("inner", 3, True), ("parse", 4, False), ("main", 6, False)]
    assert {f["module"] for f in site["stack"]} == {"prog"}
    assert all(f["file"].endswith("prog.c") for f in site["stack"])
    text = project.piano("report", "--heap", "--leaks").out
    assert re.search(r"make_node  \S*prog\.c:2\n +inner \(inlined\)  \S*prog\.c:3\n +parse  ", text), text


@tool
def test_a_site_is_told_apart_by_its_caller(project: Project, program: Path) -> None:
    rec, s = recording(program, rate=1)
    again = rec.stack([s.elf.pc("make_node"), s.elf.pc("load"), s.elf.pc("main", 8)])
    rec.sample(s.parse, 1000).sample(s.load, 300).sample(again, 200)
    data = project.json("report", put(project, rec))
    assert len(data["sites"]) == 3
    assert [(p["function"], p["caller"], p["live_bytes"], p["stacks"]) for p in data["places"]] == [
        ("make_node", "inner", 1000, 1), ("make_node", "load", 500, 2)]
    text = project.piano("report", "--heap").out
    assert "inner < parse\n" in text and "load < main (2 ways)\n" in text


CPP = """\
#include <vector>
#include <string>
#include <cstring>
#include <cstdlib>
struct Cache { std::vector<int> v; __attribute__((noinline)) void grow(int n) { v.push_back(n); } };
extern "C" __attribute__((noinline)) char *copy(const char *s) { return strdup(s); }
int main(int c, char **a) { Cache k; for (int i = 0; i < c; i++) k.grow(i); return copy(a[0]) == 0; }
"""


@tool
def test_plumbing_is_passed_over(project: Project) -> None:
    """A vector that grows is the fault of who makes it grow."""
    project.write({"p.cc": CPP})
    project.command("g++", "-O0", "-g", "p.cc", "-o", "p")
    rec = make.Recording(program=str(project.root / "p"), rate=1)
    elf = make.Program(rec, project.root / "p")
    grow = next(n for n in elf.functions if "Cache4grow" in n)
    inside = [n for n in elf.functions if "push_back" in n or "allocate" in n][:2]
    assert len(inside) == 2
    rec.sample(rec.stack(elf.pcs(*inside, grow, "main")), 4096)
    (place,) = project.json("report", put(project, rec))["places"]
    assert place["function"].startswith("Cache::grow") and place["caller"] == "main"
    (site,) = project.json("report", "--heap")["sites"]
    assert site["site_frame"] == 2 and len(site["stack"]) == 4


WRAPPED = """\
extern void *malloc(unsigned long); char *sink;
__attribute__((noinline)) char *xmalloc(int n) { sink = malloc(n); return sink; }
__attribute__((noinline)) char *pool_get(int n) { char *p = xmalloc(n); p[0] = 1; return p; }
__attribute__((noinline)) char *parse(int n) { char *p = pool_get(n); p[1] = 2; return p; }
__attribute__((noinline)) char *load(int n) { char *p = pool_get(n); p[1] = 3; return p; }
int main(int argc, char **argv) { parse(argc); load(argc); return sink == argv[0]; }
"""


@tool
def test_wrappers_are_passed_over(project: Project) -> None:
    project.write({"w.c": WRAPPED})
    project.command("gcc", "-O1", "-g", "-fno-builtin", "w.c", "-o", "w")
    paths = []
    for extra in (0, 5):
        rec = make.Recording(program=str(project.root / "w"), rate=1)
        elf = make.Program(rec, project.root / "w")
        rec.sample(rec.stack(elf.pcs("xmalloc", "pool_get", "parse", "main")), 100)
        rec.sample(rec.stack(elf.pcs("xmalloc", "pool_get", "load", "main")), 30 + extra)
        paths.append(put(project, rec, f"174000000000{extra}-7.rec"))

    def places(*flags: str) -> list[tuple[str, str]]:
        return [(p["function"], p["caller"]) for p in project.json("report", paths[0], *flags)["places"]]

    assert places() == [("pool_get", "parse"), ("pool_get", "load")], "xmalloc is known"
    assert places("--no-skip") == [("xmalloc", "pool_get")]
    for skip in (["--skip", "pool_get"], ["--skip=pool_*"], ["--skip", "none", "--skip", "p?ol_get"]):
        assert places(*skip) == [("parse", "main"), ("load", "main")], skip
    assert places("--no-skip", "--skip", "pool_get") == [("xmalloc", "parse"), ("xmalloc", "load")]
    assert places("--skip", "*") == [("xmalloc", None)], "when all are, the innermost"
    text = project.piano("report", paths[0]).out
    assert "sites are who called xmalloc and other wrappers: --no-skip" in text
    assert "wrappers" not in project.piano("report", paths[0], "--no-skip").out
    changes = project.json("diff", *paths, "--skip", "pool_get")["functions"]
    assert [c["name"] for c in changes] == ["load", "parse"]
    out = project.piano("export", paths[0], "--format", "collapsed", "--skip", "pool_get").out
    assert sorted(out.splitlines()) == ["main;load 30", "main;parse 100"]
    assert "pool_get;xmalloc" in project.piano("export", paths[0], "--format", "collapsed").out
    assert project.piano("report", paths[0], "--skip", check=False).status == 2


@tool
def test_tree(project: Project, program: Path) -> None:
    rec, s = recording(program, rate=1)
    rec.sample(s.parse, 9_000).sample(s.load, 990).sample(rec.stack(s.elf.pcs("load", "main")), 10)
    path = put(project, rec)
    lines = project.piano("report", path, "--tree").out.splitlines()
    at = next(i for i, line in enumerate(lines) if line.endswith("Function"))
    shown = [re.sub(r"\s+\S*prog\.c:\d+$", "", line).rstrip() for line in lines[at + 1:]]
    assert shown == ["    9.8KB  100.0%  main", "    8.8KB   90.0%    parse",
                     "    8.8KB   90.0%    inner (inlined)", "    8.8KB   90.0%    make_node",
                     "    1000B   10.0%    load", "     990B    9.9%      make_node",
                     "branches below 1 % are folded: --all"]
    tree = project.json("report", path, "--tree")["tree"]
    (main,) = tree["children"]
    assert (main["function"], main["bytes"]) == ("main", 10_000)
    assert {c["function"]: c["bytes"] for c in main["children"]} == {"parse": 9_000, "load": 1_000}
    load = next(c for c in main["children"] if c["function"] == "load")
    assert load["own_bytes"] == 10


@tool
def test_small_branches_are_folded_with_their_sum(project: Project, program: Path) -> None:
    rec = make.Recording(program="/x", rate=1)
    rec.module("/no/such/module", 0x400000, 0x500000)
    rec.sample(rec.stack([0x400010, 0x4FFFF0]), 100_000)
    for i in range(7):
        rec.sample(rec.stack([0x410000 + 16 * i, 0x4FFFF0]), 100)
    path = put(project, rec)
    assert re.search(r" 700B +0\.7% +\(7 smaller branches\)\n", project.piano("report", path, "--tree").out)
    everything = project.piano("report", path, "--tree", "--all").out
    assert "smaller" not in everything and everything.count("100B") == 7


@tool
@pytest.mark.parametrize("by,first", [("live", "load"), ("allocated", "inner"), ("peak", "load"),
                                      ("churn", "inner")])
def test_by(project: Project, program: Path, by: str, first: str) -> None:
    rec, s = recording(program, rate=1)
    rec.sample(s.parse, 1000, count=50, lived_us=2).sample(s.load, 5000)
    path = put(project, rec)
    assert names(project.json("report", path, "--by", by)["sites"][0]["stack"])[1] == first
    table = project.piano("report", path, "--by", by).out.split("\n\n")[2]
    assert f" {first}" in table.splitlines()[3], table
    assert project.json("report", path, "--tree", "--by", by)["tree_by"] == by


@tool
def test_top_and_all(project: Project, program: Path) -> None:
    rec = make.Recording(program="/x", rate=1)
    rec.module("/no/such/module", 0x400000, 0x500000)
    for i in range(30):
        rec.sample(rec.stack([0x400010 + 64 * i]), 1000 + i)
    path = put(project, rec)
    text = project.piano("report", path).out
    assert "20 more sites with 19.7KB: --all" in text
    assert project.piano("report", path, "--top", "3").out.count("module+0x") == 6
    assert project.piano("report", path, "--all").out.count("module+0x") == 60
    assert len(project.json("report", path, "--top", "3")["sites"]) == 3
    assert project.piano("report", path, "--leaks").out.count("\n    ") == 10


@tool
def test_leaks(project: Project, program: Path) -> None:
    rec, s = recording(program, rate=1)
    rec.sample(s.parse, 100, at_ms=1000).sample(s.parse, 4096, at_ms=9000).sample(s.load, 7, lived_us=1)
    text = project.piano("report", put(project, rec), "--leaks").out
    assert "1. 4.1KB in 2 objects | 100B to 4.0KB each | oldest 9.0s | 2 samples\n" in text, text
    assert "2." not in text, "what was freed is no leak"
    assert "load" not in text


@tool
def test_leaks_that_print_alike_are_one(project: Project, program: Path) -> None:
    rec, s = recording(program, rate=1)
    again = rec.stack([s.elf.pc("make_node", 5), s.elf.pc("load", 8), s.elf.pc("main")])
    rec.sample(s.load, 100).sample(again, 60).sample(s.parse, 7)
    path = put(project, rec)
    assert len(project.json("report", path)["sites"]) == 3
    text = project.piano("report", path, "--leaks").out
    assert "1. 160B in 2 objects | 60B to 100B each" in text and "2 stacks that look alike" in text, text
    assert "2. 7B in 1 object" in text and "\n3. " not in text


# Snapshots ---------------------------------------------------------------------------------------

def grown(program: Path) -> Any:
    rec, s = recording(program, rate=1)
    rec.sample(s.load, 50_000)
    for turn in range(5):
        rec.sample(s.parse, 10_000)
        rec.snapshot(at_ms=1000 * (turn + 1), resident=(turn + 1) * MB)
    rec.sample(s.parse, 777)
    return rec


@tool
def test_growth(project: Project, program: Path) -> None:
    path = put(project, grown(program))
    data = project.json("report", path, "--growth")
    assert [(x["number"], x["at_ns"], x["live_bytes"], x["resident_bytes"]) for x in data["snapshots"]] == [
        (i, i * make.SECOND, 50_000 + 10_000 * i, i * MB) for i in range(1, 6)]
    growth = data["growth"]
    assert (growth["from"]["snapshot"], growth["to"]["snapshot"]) == (1, 5)
    parse, load = growth["sites"]
    assert (parse["live_bytes"], parse["delta_bytes"], parse["trend"]) == ([10_000, 50_000], 40_000, "grows")
    assert parse["bytes_per_second"] == pytest.approx(10_000) and parse["correlation"] == pytest.approx(1)
    assert (load["delta_bytes"], load["trend"], load["bytes_per_second"]) == (0, "flat", 0)
    text = project.piano("report", path, "--growth").out
    assert "From snapshot 1 (after 1.0s) to snapshot 5 (after 5.0s): live +39.1KB, 5 snapshots" in text
    assert re.search(r"make_node +9\.8KB +48\.8KB +\+39\.1KB +\+9\.8KB/s +grows", text), text


@tool
def test_growth_between_chosen_snapshots(project: Project, program: Path) -> None:
    path = put(project, grown(program))
    growth = project.json("report", path, "--growth", "--from", 2, "--to", 4)["growth"]
    assert growth["sites"][0]["live_bytes"] == [20_000, 40_000]
    to_end = project.json("report", path, "--growth", "--from=5", "--to=end")["growth"]
    assert to_end["sites"][0]["delta_bytes"] == 777 and to_end["to"]["snapshot"] is None
    done = project.piano("report", path, "--growth", "--to", "9", check=False)
    assert done.status == 1 and "no snapshot 9; there are 1 to 5" in done.err and done.out == ""
    assert project.piano("report", path, "--growth", "--to", "x", check=False).status == 2
    assert project.piano("report", path, "--from", "1", check=False).status == 2


def ramp(program: Path, values: list[int], rate: int = 1) -> Any:
    """A recording in which `parse` holds VALUES blocks of 10 000 bytes at one snapshot a second."""
    rec, s = recording(program, rate=rate)
    held = 0
    for turn, wanted in enumerate(values):
        while held < wanted:
            rec.sample(s.parse, 10_000)
            held += 1
        while held > wanted:
            rec.free(s.parse, 10_000, lived_us=10**6)
            held -= 1
        rec.snapshot(at_ms=1000 * (turn + 1))
    return rec


@tool
@pytest.mark.parametrize("values,trend", [
    ([1, 2, 3, 4, 5, 6, 7, 8], "grows"), ([8, 7, 6, 5, 4, 3, 2, 1], "shrinks"),
    ([1, 4, 8, 12, 12, 12, 12, 12, 12], "grew, then flat"),
    ([1, 3, 6, 9, 12, 12, 12, 12], "grew, then flat"), ([1, 12, 12, 12, 12, 12, 12, 12], "grew, then flat"),
    ([12, 9, 5, 2, 2, 2, 2, 2], "shrank, then flat"), ([5, 5, 5, 5, 5], "flat"),
    ([1, 9, 2, 8, 1, 9, 3, 2], "varies"), ([1, 2, 9, 3, 2, 1], "varies"), ([1, 2, 3, 3, 5, 5, 7, 8], "grows"),
    ([1, 2, 3], None), ([3, 3], None),
])
def test_trend(project: Project, program: Path, values: list[int], trend: str | None) -> None:
    path = put(project, ramp(program, values))
    (site,) = project.json("report", path, "--growth")["growth"]["sites"]
    assert site["trend"] == trend, site
    text = project.piano("report", path, "--growth").out
    assert f" {trend or '-'} " in text and ("a trend needs 4 snapshots" in text) == (trend is None), text


@tool
def test_the_trend_is_that_of_the_window(project: Project, program: Path) -> None:
    path = put(project, ramp(program, [1, 5, 10, 15, 20, 20, 20, 20, 20, 20, 20, 18, 16, 14]))
    for window, trend, snapshots in (([], "varies", 14), (["--to", 5], "grows", 5), (["--from", 11], "shrinks", 4),
                                     (["--to", 11], "grew, then flat", 11), (["--from", 5, "--to", 11], "flat", 7),
                                     (["--from", 13], None, 2)):
        growth = project.json("report", path, "--growth", *window)["growth"]
        assert (growth["sites"][0]["trend"], growth["snapshots"]) == (trend, snapshots), window
    assert ", 5 of 14 snapshots" in project.piano("report", path, "--growth", "--to", 5).out
    slope = project.json("report", path, "--growth", "--to", 5)["growth"]["sites"][0]["bytes_per_second"]
    assert slope == pytest.approx(48_000)


@tool
def test_no_trend_within_the_error(project: Project, program: Path) -> None:
    """Three samples more, in a straight line, could as well have been none; thirty could not."""
    for values, trend in (([1, 2, 3, 4], "varies"), ([1, 11, 21, 31], "grows")):
        path = put(project, ramp(program, values, rate=512 * 1024))
        (site,) = project.json("report", path, "--growth")["growth"]["sites"]
        assert site["correlation"] > 0.99 and site["trend"] == trend, site
        assert (site["delta_bytes"] > site["delta_ci95"]) == (trend == "grows")


@tool
def test_what_stays_is_certain(project: Project, program: Path) -> None:
    """A block that is there at both moments adds nothing to the error of their difference."""
    rate = 512 * 1024
    w = make.weight(64 * 1024, rate)

    def change(work: Any) -> dict[str, Any]:
        rec, s = recording(program, rate=rate)
        rec.sample(s.parse, 64 * 1024, count=50)
        rec.snapshot(at_ms=1000)
        work(rec, s.parse)
        rec.snapshot(at_ms=2000)
        return project.json("report", put(project, rec), "--growth")["growth"]["sites"][0]

    def half(samples: int) -> float:
        return pytest.approx(1.959964 * math.sqrt(samples * w[2]), rel=1e-3)

    same = change(lambda rec, stack: None)
    assert (same["delta_bytes"], same["delta_ci95"]) == (0, 0)
    assert change(lambda rec, stack: rec.sample(stack, 64 * 1024, count=8))["delta_ci95"] == half(8)
    assert change(lambda rec, stack: [rec.free(stack, 64 * 1024, 9) for _ in range(5)])["delta_ci95"] == half(5)

    def swap(rec: Any, stack: int) -> None:
        rec.sample(stack, 64 * 1024, count=3)
        for _ in range(3):
            rec.free(stack, 64 * 1024, 9)

    # Six came or went; that cannot be told from three that came and went at once, so it is bounded by the bytes.
    swapped = change(swap)
    assert swapped["delta_bytes"] == 0
    assert half(6).expected <= swapped["delta_ci95"] <= 1.959964 * math.sqrt(2 * 3 * w[0] * rate) * 1.001
    assert swapped["delta_ci95"] < half(100).expected / 2, "far less than two independent moments"
    text = project.piano("report", put(project, ramp(program, [5] * 5, rate=rate)), "--growth").out
    assert re.search(r"make_node +\S+ +\S+ +0B +0B/min +flat", text), text


@tool
def test_growth_without_snapshots(project: Project, program: Path) -> None:
    rec, s = recording(program)
    rec.sample(s.parse, 64 * 1024)
    done = project.piano("report", put(project, rec), "--growth", check=False)
    assert done.status == 1 and "no snapshots" in done.err and "--snapshot-every" in done.err


@tool
def test_snapshots_in_parts(project: Project, program: Path) -> None:
    rec = make.Recording(program="/x", rate=1)
    for i in range(3000):
        rec.sample(rec.stack([0x400010 + 64 * i]), 10)
    rec.snapshot(at_ms=10)
    rec.snapshot(at_ms=20)
    path = put(project, rec)
    data = project.json("report", path)
    assert [s["stacks"] for s in data["snapshots"]] == [3000, 3000]
    raw = bytearray(path.read_bytes())
    part = raw.index(struct.pack("<6I", 56 + 40 * 952, 2, 2, 3, 1, 952))
    raw[part + 8:part + 12] = struct.pack("<I", 1)  # part 2 of snapshot 2 says that it is part 1
    path.write_bytes(raw)
    damaged = project.json("report", path)
    assert [s["number"] for s in damaged["snapshots"]] == [1]
    assert damaged["missing"]["partial_snapshots"] == 1
    assert "a snapshot that is not whole" in project.piano("report", path).err


# Files that are not as they should be -----------------------------------------------------------

HEAD = make.HEADER


@tool
@pytest.mark.parametrize("content,byte,words", [
    (b"", 0, "empty"), (b"PIANO", 0, "not a recording"), (b"\x7fELF" + bytes(9000), 0, "not a recording"),
    (b'{"format_version":2,"functions":["f"]}\n', 0, "not a recording"),
    (b"PIANOREC" + bytes(100), 108, "ends inside its header"),
    (b"PIANOREC" + struct.pack("<3I", 2, 4096, 65536) + bytes(5000), 8, "version 2 of the format"),
    (b"PIANOREC" + struct.pack("<3I", 0, 4096, 65536) + bytes(5000), 8, "version 0 of the format"),
    (b"PIANOREC" + struct.pack("<3I", 1, 512, 65536) + bytes(5000), 12, "header of 512 bytes"),
    (b"PIANOREC" + struct.pack("<3I", 1, 4096, 4096) + bytes(5000), 16, "chunks of 4096 bytes"),
], ids=["empty", "short", "elf", "run", "cut", "newer", "zero", "header", "chunk"])
def test_no_recording(project: Project, content: bytes, byte: int, words: str) -> None:
    path = project.root / "bad.rec"
    path.write_bytes(content)
    good = project.root / "good.rec"
    make.Recording().write(good)
    for command in (["report", path], ["report", "--heap", "--json", path], ["diff", path, good],
                    ["diff", good, path], ["export", "--format", "collapsed", path]):
        done = project.piano(*command, check=False)
        assert done.status == 1 and done.out == "", done
        assert f"bad.rec: byte {byte}: " in done.err and words in done.err, done
    assert path.read_bytes() == content


@tool
def test_a_run_of_functions_is_no_recording(project: Project) -> None:
    path = put_run(project, "1740000000123-77", update_run([16_000_000] * 3))
    for command in (["report", "--heap", path], ["export", "--format", "pprof", path]):
        done = project.piano(*command, check=False)
        assert done.status == 1 and done.out == "" and "is not a recording" in done.err, done


@tool
@pytest.mark.parametrize("keep", [HEAD, HEAD + 10, HEAD + 64, HEAD + 100, HEAD + make.CHUNK,
                                  HEAD + make.CHUNK + 64 + 40, HEAD + 2 * make.CHUNK + 300,
                                  HEAD + 3 * make.CHUNK + 100, -1])
def test_truncated(project: Project, program: Path, keep: int) -> None:
    """What is whole is shown, and what is missing is said with its byte."""
    rec, s = recording(program, rate=1)
    rec.sample(s.parse, 1000, count=3).sample(s.load, 10)
    path = put(project, rec)
    path.write_bytes(path.read_bytes()[:keep])
    size = path.stat().st_size
    done = project.piano("report", path)
    assert re.search(rf"byte {size}: (chunks are missing|the file ends inside a chunk)", done.err), done
    data = project.json("report", path)
    assert data["missing"]["gaps"] >= 1 and data["missing"]["list"][-1]["byte"] <= size
    if keep > HEAD + 2 * make.CHUNK + 64 + 256:
        assert "prog" in done.out
    if keep == HEAD + 2 * make.CHUNK + 300:
        assert "1 sample" not in done.out and "allocated are of parts that are missing" in done.err
    for command in (["report", "--tree"], ["report", "--leaks"], ["diff", path]):
        project.piano(*command, path)


@tool
def test_equal_stacks_are_one(project: Project, program: Path) -> None:
    rec, s = recording(program, rate=1)
    twin = rec.stack(s.elf.pcs("make_node", "parse", "main"))
    other = rec.stack(s.elf.pcs("make_node", "parse", "main"), flags=make.MMAP)
    rec.sample(s.parse, 100).sample(twin, 11).sample(other, 7)
    data = project.json("report", put(project, rec))
    assert [(x["live_bytes"], x["kind"]) for x in data["sites"]] == [(111, "malloc"), (7, "mmap")]
    assert "make_node (mmap)" in project.piano("report", "--heap").out


@tool
def test_samples_without_a_stack(project: Project, program: Path) -> None:
    rec, s = recording(program, rate=1)
    rec.sample(0, 500).sample(s.parse, 100).sample(99, 30)
    data = project.json("report", put(project, rec))
    assert [(x["live_bytes"], names(x["stack"])[0]) for x in data["sites"]] == [(530, "(no stack)"),
                                                                                (100, "make_node")]
    assert data["missing"]["samples_without_stack"] == 1


@tool
def test_unknown_chunks_are_skipped(project: Project, program: Path) -> None:
    rec, s = recording(program, rate=1)
    rec.sample(s.parse, 100)
    rec.extra_chunks = [(77, 0, 8, b"whatever"), (0xFFFFFFFF, 0, 2**63, b"")]
    data = project.json("report", put(project, rec))
    assert data["live_bytes"] == 100 and data["missing"]["unknown_chunks"] == 2
    assert "2 chunks of a kind" in project.piano("report", "--heap").err


@tool
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1e9, 1e300, -1e300])
@pytest.mark.parametrize("field", range(8))
def test_numbers_that_are_none_do_not_spread(project: Project, program: Path, value: float,
                                             field: int) -> None:
    rec, s = recording(program, rate=1)
    rec.sample(s.load, 1000)
    rec.sample(s.parse, 10)
    sums = rec.sums[s.parse]
    lists = [sums.allocated] * 3 + [sums.released] * 3 + [sums.peak] * 2
    lists[field][[0, 1, 2, 0, 1, 2, 0, 1][field]] = value
    rec.sums = dict(rec.sums)
    raw = rec.chunks
    rec._live = lambda what: 1010.0
    path = put(project, rec)
    done = project.piano("report", path, "--json")
    data = json.loads(done.out, parse_constant=lambda text: pytest.fail(f"{text} in the JSON"))
    load = next(x for x in data["sites"] if names(x["stack"])[1] == "load")
    assert load["live_bytes"] == 1000
    assert 1000 <= data["live_bytes"] <= 1010 and 0 <= data["allocated_bytes"] <= 1010
    for text in (project.piano("report", path).out, project.piano("report", path, "--tree").out):
        assert "nan" not in text and "inf" not in text
    assert raw


@tool
def test_hostile_names_are_inert(project: Project) -> None:
    rec = make.Recording(program="/tmp/\x1b[31mred\n", rate=1)
    rec.module(b"/tmp/\x1b]0;title\x07\xff;evil module", 0x400000, 0x500000)
    rec.sample(rec.stack([0x400010]), 100)
    path = put(project, rec)
    for option in ([], ["--tree"], ["--leaks"], ["--json"]):
        done = project.piano("report", path, *option)
        assert "\x1b" not in done.out + done.err and "\x07" not in done.out + done.err
    line = project.piano("export", path, "--format", "collapsed").out
    assert re.fullmatch(r"[^ ;\n]+ 100\n", line), line


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))


@tool
@pytest.mark.parametrize("seed", range(6))
def test_mutated_recordings(project: Project, program: Path, seed: int) -> None:
    """Bytes of headers, lengths and tables changed at random: some answer, no signal, bounded memory."""
    rng = random.Random(seed)
    rec = grown(program)
    whole = rec.bytes()
    spots = [0, HEAD] + [HEAD + i * make.CHUNK for i in range(len(whole) // make.CHUNK)]
    path, other = project.root / "mutant.rec", project.root / "other.rec"
    other.write_bytes(whole)
    commands = [["report"], ["report", "--json"], ["report", "--tree"], ["report", "--leaks"],
                ["report", "--growth"], ["report", "--growth", "--json"], ["report", "--tree", "--json"],
                ["report", "--peak"], ["diff", other], ["export", "--format", "pprof"],
                ["export", "--format", "speedscope"], ["export", "--format", "collapsed"]]
    for turn in range(40):
        data = bytearray(whole if turn % 5 else whole[:rng.randrange(len(whole))])
        for _ in range(rng.randint(1, 12)):
            at = rng.choice(spots) + rng.randrange(rng.choice([64, 300, 2000]))
            bits = rng.choice([b"\xff" * 8, bytes(8), rng.randbytes(8), rng.randbytes(1),
                               struct.pack("<Q", 2**rng.randrange(64)), struct.pack("<d", math.nan),
                               struct.pack("<d", 1e308), struct.pack("<I", rng.randrange(70000))])
            data[at:at + len(bits)] = bits[:max(0, len(data) - at)]
        data[:20] = whole[:20] if turn % 7 else data[:20]
        path.write_bytes(data)
        command = rng.choice(commands)
        words = [PIANO, *map(str, command), str(path)]
        done = subprocess.run(words, cwd=project.root, env=project.env, capture_output=True, timeout=60,
                              preexec_fn=limited)
        assert done.returncode in (0, 1), (seed, turn, words, done.stderr.decode("utf-8", "replace"))
        if "--json" in command and done.returncode == 0:
            json.loads(done.stdout)


@tool
def test_a_file_that_claims_much_takes_little(project: Project, program: Path) -> None:
    """Claims of chunks and sizes beyond the file, and a sparse terabyte, cost neither memory nor time."""
    rec, s = recording(program, rate=1)
    rec.sample(s.parse, 100)
    raw = bytearray(rec.bytes())
    raw[40:48] = struct.pack("<Q", 2**63)
    path = project.root / "huge.rec"
    path.write_bytes(raw)
    with open(path, "r+b") as out:
        out.truncate(1 << 40)
    if "san-" not in PIANO:
        done = subprocess.run([PIANO, "report", str(path)], capture_output=True, text=True, timeout=60,
                              env=project.env, preexec_fn=lambda: resource.setrlimit(
                                  resource.RLIMIT_DATA, (256 * MB, 256 * MB)))
        assert done.returncode == 0 and "longer than can be read" in done.stderr, done
        assert "Live at exit" in done.stdout


@tool
def test_many_stacks(project: Project) -> None:
    path = project.root / "big.rec"
    subprocess.run(["python3", str(ROOT / "tools/make-recording.py"), "--stacks", "20000", "--snapshots",
                    "3", "-o", str(path)], check=True)
    data = project.json("report", path, "--top", "5", limit=60)
    assert len(data["sites"]) == 5 and data["samples"] == 60_000
    project.piano("report", path, "--growth", limit=60)


# Which recording ---------------------------------------------------------------------------------

@tool
def test_which_run_is_meant(project: Project, program: Path) -> None:
    rec, s = recording(program, rate=1)
    rec.sample(s.parse, 4242)
    put_run(project, "1740000000100-5", update_run([16_000_000] * 3))
    put(project, rec, "1740000000200-6.rec")
    put(project, make.Recording(rate=1), "1740000000200-6.rec-99")
    put(project, make.Recording(rate=1), "1740000000200-6.rec.2")
    for words in ([], ["--heap"], ["1740000000200-6"], ["1740000000200-6.rec"]):
        assert project.json("report", *words)["live_bytes"] == 4242, words
    assert project.json("report", "--frames")["run"]["id"] == "1740000000100-5"
    put_run(project, "1740000000300-5", update_run([16_000_000] * 3))
    assert "functions" in project.json("report"), "the latest is a run now"
    assert project.json("report", "--heap")["live_bytes"] == 4242
    assert project.json("report", "1740000000200-6.rec-99")["live_bytes"] == 0


@tool
def test_list_and_tag(project: Project, program: Path) -> None:
    rec, s = recording(program, rate=1)
    rec.sample(s.parse, 4242)
    put_run(project, "1740000000100-5", update_run([16_000_000] * 3))
    put(project, rec, "1740000000200-6.rec")
    put(project, make.Recording(rate=1), "1740000000200-6.rec-99")
    (project.runs / "1740000000400-6.rec").write_bytes(b"PIANOREC")
    project.piano("tag", "before", "1740000000200-6")
    listing = project.piano("list").out.splitlines()
    assert re.match(r"1740000000400-6 .*\(unreadable\)", listing[2])
    assert re.match(r"1740000000200-6 +.* prog +10\.0s +heap +- .* before$", listing[3]), listing
    assert listing[4].startswith("1740000000200-6.rec-99 ")
    runs = project.json("list")["runs"]
    assert [r["kind"] for r in runs] == ["recording"] * 3 + ["run"]
    assert (runs[1]["samples"], runs[1]["rate"], runs[1]["wall_ns"]) == (1, 1, 10 * make.SECOND)
    assert "error" in runs[0]
    assert project.json("report", "before")["live_bytes"] == 4242


@tool
def test_flags_that_make_no_sense(project: Project, program: Path) -> None:
    rec, s = recording(program, rate=1)
    rec.sample(s.parse, 1)
    path = put(project, rec)
    for words in (["--tree", "--leaks"], ["--heap", "--frames"], ["--by", "size"], ["--growth", "--peak"]):
        done = project.piano("report", path, *words, check=False)
        assert done.status == 2 and done.out == "", done
    for flag in ("--frames", "--threads", "--uncorrected", "--places"):
        done = project.piano("report", path, flag, check=False)
        assert done.status == 1 and "is a recording" in done.err, done
    done = project.piano("report", "--heap", check=False,
                         env={"PIANO_RUNS_DIR": str(project.root / "none")})
    assert done.status == 1 and "no recordings" in done.err and "piano record --heap" in done.err


@tool
@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_width_of_the_terminal(project: Project, program: Path, columns: int) -> None:
    rec, s = recording(program)
    rec.sample(s.parse, 64 * 1024, count=100).sample(s.load, 1000, count=5, lived_us=5)
    rec.snapshot(10)
    rec.snapshot(20)
    path = put(project, rec)
    for option in ([], ["--growth"]):
        _, out = project.run_in_pty(PIANO, "report", path, *option, columns=columns)
        text = re.sub(r"\x1b\[[0-9;]*m", "", out)
        tables = [line for line in text.splitlines() if line.startswith(("Site", "make_node", "---"))]
        assert tables and max(map(len, tables)) <= columns, (columns, tables)
    _, plain = project.run_in_pty(PIANO, "report", path, env={"NO_COLOR": "1"})
    assert "\x1b" not in plain


# diff --------------------------------------------------------------------------------------------

def pair(project: Project, program: Path, more: int) -> tuple[Path, Path]:
    sides = []
    for n, base in ((0, 0x555555554000), (more, 0x7F1234560000)):
        rec = make.Recording(program=str(program), rate=512 * 1024)
        elf = make.Program(rec, program, base=base)  # loaded elsewhere the second time
        rec.sample(rec.stack(elf.pcs("make_node", "parse", "main")), 64 * 1024, count=300)
        rec.sample(rec.stack(elf.pcs("make_node", "load", "main")), 64 * 1024, count=300 + n)
        sides.append(put(project, rec, f"174000000000{len(sides)}-7.rec"))
    return sides[0], sides[1]


@tool
def test_diff_of_recordings(project: Project, program: Path) -> None:
    a, b = pair(project, program, 200)
    data = project.json("diff", a, b)
    load, parse = data["functions"]
    assert (load["name"], load["caller"]) == ("make_node", "load")
    w = make.weight(64 * 1024, 512 * 1024)[0]
    assert load["alloc_bytes"] == [round(300 * w), round(500 * w)]
    assert load["live_bytes"] == load["alloc_bytes"]
    assert load["delta_pct"] == pytest.approx(200 / 3, abs=0.01)
    assert load["significant"] and load["live_bytes_significant"]
    assert (parse["delta_pct"], parse["significant"]) == (0, False)
    assert data["total"]["alloc_bytes"] == [round(600 * w), round(800 * w)]
    text = project.piano("diff", a, b).out
    assert re.search(r"make_node < load .* \+106\.4MB +\+66\.7% +more", text), text
    assert project.json("diff")["functions"][0]["name"] == "make_node", "the two latest"


@tool
def test_diff_within_the_interval_is_noise(project: Project, program: Path) -> None:
    a, b = pair(project, program, 10)
    assert not project.json("diff", a, b)["functions"][0]["significant"]
    assert "noise" in project.piano("diff", a, b).out
    assert project.piano("diff", a, b, "--fail-above", "1").status == 0


@tool
def test_diff_one_sample_from_nothing_proves_nothing(project: Project, program: Path) -> None:
    a, b = make.Recording(rate=512 * 1024), make.Recording(rate=512 * 1024)
    for rec, n in ((a, 1), (b, 2)):
        rec.module("/m", 0x400000, 0x500000)
        rec.sample(rec.stack([0x400010]), 64 * 1024, count=500)
        if n == 2:
            rec.sample(rec.stack([0x400800]), 64 * 1024)
    done = project.json("diff", put(project, a, "1-1.rec"), put(project, b, "2-1.rec"))
    new = next(f for f in done["functions"] if f["present"] == [False, True])
    assert not new["significant"] and not new["live_bytes_significant"]


@tool
def test_diff_fail_above(project: Project, program: Path) -> None:
    a, b = pair(project, program, 200)
    done = project.piano("diff", a, b, "--fail-above", "20", check=False)
    assert done.status == 1 and "make_node < load: allocated bytes +66.7%, above 20%" in done.err
    assert "in all: allocated bytes +33.3%, above 20%" in done.err
    assert "make_node < load: live bytes +66.7%, above 20%" in done.err
    assert "in all: peak bytes +33.3%, above 20%" in done.err
    assert project.piano("diff", a, b, "--fail-above", "70").status == 0
    assert project.piano("diff", b, a, "--fail-above", "0").status == 0, "less is no failure"
    failed = project.piano("diff", a, b, "--fail-above", "20", "--json", check=False)
    assert failed.status == 1 and json.loads(failed.out)["functions"][0]["failed"] is True


@tool
def test_diff_of_a_run_and_a_recording(project: Project, program: Path) -> None:
    a, _ = pair(project, program, 1)
    run = put_run(project, "1740000000900-1", update_run([16_000_000] * 3))
    for sides in ((a, run), (run, a)):
        done = project.piano("diff", *sides, check=False)
        assert done.status == 1 and done.out == "", done
        assert "is a heap recording and" in done.err and a.name in done.err and run.name in done.err
    assert os.path.exists(a)


def held(project: Project, program: Path, name: str, kept: int, peak: int) -> Path:
    """Allocates the same at all times; differs in what is live in the end, and at the peak."""
    rec, s = recording(program, rate=1)
    rec.sample(s.load, 1000, count=peak)
    for _ in range(peak - kept):
        rec.free(s.load, 1000, lived_us=5000)
    rec.sample(s.load, 1000, count=100 - peak, lived_us=5000)
    return put(project, rec, name)


@tool
@pytest.mark.parametrize("after,figures", [((10, 30), []), ((20, 30), ["live_bytes"]), ((10, 60), ["peak_bytes"]),
                                           ((20, 60), ["live_bytes", "peak_bytes"])])
def test_diff_fails_by_live_and_peak_bytes_too(project: Project, program: Path, after: tuple[int, int],
                                               figures: list[str]) -> None:
    a, b = held(project, program, "1-1.rec", 10, 30), held(project, program, "2-1.rec", *after)
    done = project.piano("diff", a, b, "--fail-above", "20", "--json", check=False)
    data = json.loads(done.out)
    assert done.status == bool(figures)
    assert data["functions"][0]["failed_by"] == data["total"]["failed_by"] == figures
    assert data["functions"][0]["failed"] == bool(figures)
    assert data["functions"][0]["peak_bytes"] == [30_000, after[1] * 1000]
    words = {"live_bytes": "make_node < load: live bytes +100%", "peak_bytes": "make_node < load: peak bytes +100%"}
    for figure, text in words.items():
        assert (text in done.err.replace(".0%", "%")) == (figure in figures), done.err
    assert "allocated" not in done.err
    assert re.search(r"^peak +29\.3KB -> ", project.piano("diff", a, b).out, re.M)


@tool
@pytest.mark.parametrize("columns", [60, 80, 100, 200])
def test_columns_of_a_diff_have_names(project: Project, program: Path, columns: int) -> None:
    a, b = pair(project, program, 200)
    text = project.piano("diff", a, b, env={"COLUMNS": str(columns)}).out
    title = text.splitlines()[0]
    assert "Live Delta" in title and "Alloc Delta" in title and len(title) <= columns
    assert not re.search(r"(?<!Live|Peak|lloc) Delta", title), title


@tool
def test_diff_of_different_programs_is_said(project: Project, program: Path) -> None:
    a = held(project, program, "1-1.rec", 10, 30)
    rec, s = recording(program, rate=1)
    rec.program = "/usr/bin/other\x1b"
    b = put(project, rec.sample(s.load, 5), "2-1.rec")
    assert "recordings of different programs: prog and other\\x1b" in project.piano("diff", a, b).err
    assert "different" not in project.piano("diff", a, a).err


@tool
def test_diff_of_several_recordings_a_side(project: Project, program: Path) -> None:
    held(project, program, "fixed.rec", 10, 30), held(project, program, "leak.rec", 10, 30)
    done = project.piano("diff", "fixed.rec,leak.rec", "leak.rec", check=False, cwd=project.runs)
    assert done.status == 1 and "`fixed.rec,leak.rec` names 2 recordings" in done.err
    assert "piano diff A B" in done.err
