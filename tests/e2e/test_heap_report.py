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
    for words in ("12 samples are counted but not followed", "3 samples have no stack",
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
