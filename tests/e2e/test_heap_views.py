"""Sites, tree, leaks and growth of `piano report --heap`, of recordings with known numbers."""
from __future__ import annotations

import math
import re
import struct
from pathlib import Path
from typing import Any

import pytest

from conftest import Project
from made import MB, grown, make, names, program, put, recording, tool  # noqa: F401 (program is a fixture)

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
def test_allocator_functions_are_skipped(project: Project) -> None:
    """Memory of a growing vector is attributed to the function that grew it."""
    project.write({"p.cc": CPP})
    project.command("g++", "-O0", "-g", "p.cc", "-o", "p")
    rec = make.Recording(program=str(project.root / "p"), rate=1)
    elf = make.Program(rec, project.root / "p")
    grow = next(n for n in elf.functions if "Cache4grow" in n)
    inside = [n for n in elf.functions if "push_back" in n or "allocate" in n][:2]  # with the functions inlined into them
    assert len(inside) == 2
    rec.sample(rec.stack(elf.pcs(*inside, grow, "main")), 4096)
    (place,) = project.json("report", put(project, rec))["places"]
    assert place["function"].startswith("Cache::grow") and place["caller"] == "main"
    (site,) = project.json("report", "--heap")["sites"]
    names = [frame["function"] for frame in site["stack"]]
    assert len(names) >= 4 and names[site["site_frame"]].startswith("Cache::grow") and names[site["site_frame"] + 1] == "main"


WRAPPED = """\
extern void *malloc(unsigned long); char *sink;
__attribute__((noinline)) char *xmalloc(int n) { sink = malloc(n); return sink; }
__attribute__((noinline)) char *pool_get(int n) { char *p = xmalloc(n); p[0] = 1; return p; }
__attribute__((noinline)) char *parse(int n) { char *p = pool_get(n); p[1] = 2; return p; }
__attribute__((noinline)) char *load(int n) { char *p = pool_get(n); p[1] = 3; return p; }
int main(int argc, char **argv) { parse(argc); load(argc); return sink == argv[0]; }
"""


@tool
def test_known_wrappers_are_skipped(project: Project) -> None:
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
    assert "sites are the callers of xmalloc and other wrappers: --no-skip" in text
    assert "other wrappers" not in project.piano("report", paths[0], "--no-skip").out
    changes = project.json("diff", *paths, "--skip", "pool_get")["functions"]
    assert [c["name"] for c in changes] == ["load", "parse"]
    out = project.piano("export", paths[0], "--format", "collapsed", "--skip", "pool_get").out
    assert sorted(out.splitlines()) == ["main;load 30", "main;parse 100"]
    assert "pool_get;xmalloc" in project.piano("export", paths[0], "--format", "collapsed").out
    assert project.piano("report", paths[0], "--skip", check=False).status == 2


@tool
def test_tree_shows_bytes_from_the_root(project: Project, program: Path) -> None:
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
def test_by_chooses_the_figure_of_the_first_table(project: Project, program: Path, by: str, first: str) -> None:
    rec, s = recording(program, rate=1)
    rec.sample(s.parse, 1000, count=50, lived_us=2).sample(s.load, 5000)
    path = put(project, rec)
    assert names(project.json("report", path, "--by", by)["sites"][0]["stack"])[1] == first
    table = project.piano("report", path, "--by", by).out.split("\n\n")[2]
    assert f" {first}" in table.splitlines()[3], table
    assert project.json("report", path, "--tree", "--by", by)["tree_by"] == by


@tool
def test_top_and_all_limit_the_sites(project: Project, program: Path) -> None:
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
def test_leaks_shows_blocks_that_were_not_freed(project: Project, program: Path) -> None:
    rec, s = recording(program, rate=1)
    rec.sample(s.parse, 100, at_ms=1000).sample(s.parse, 4096, at_ms=9000).sample(s.load, 7, lived_us=1)
    text = project.piano("report", put(project, rec), "--leaks").out
    assert "1. 4.1KB in 2 objects | 100B to 4.0KB each | oldest 9.0s | 2 samples\n" in text, text
    assert "2." not in text, "what was freed is no leak"
    assert "load" not in text


@tool
def test_leaks_with_equal_names_are_merged(project: Project, program: Path) -> None:
    rec, s = recording(program, rate=1)
    again = rec.stack([s.elf.pc("make_node", 5), s.elf.pc("load", 8), s.elf.pc("main")])
    rec.sample(s.load, 100).sample(again, 60).sample(s.parse, 7)
    path = put(project, rec)
    assert len(project.json("report", path)["sites"]) == 3
    text = project.piano("report", path, "--leaks").out
    assert "1. 160B in 2 objects | 60B to 100B each" in text and "2 stacks that look alike" in text, text
    assert "2. 7B in 1 object" in text and "\n3. " not in text


# Snapshots ---------------------------------------------------------------------------------------

@tool
def test_growth_compares_the_first_and_the_last_snapshot(project: Project, program: Path) -> None:
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
    assert project.piano("report", path, "--growth", "--from", "1", "--to", "x", check=False).status == 2


def ramp(program: Path, values: list[int], rate: int = 1) -> Any:
    """A recording in which `parse` holds VALUES blocks of 10 000 bytes, with one snapshot per second."""
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
def test_trend_is_shown_from_4_snapshots_on(project: Project, program: Path, values: list[int], trend: str | None) -> None:
    path = put(project, ramp(program, values))
    (site,) = project.json("report", path, "--growth")["growth"]["sites"]
    assert site["trend"] == trend, site
    text = project.piano("report", path, "--growth").out
    assert f" {trend or '-'} " in text and ("a trend needs 4 snapshots" in text) == (trend is None), text


@tool
def test_a_last_snapshot_of_the_end_is_named(project: Project, program: Path) -> None:
    """A program that frees its memory while it ends: the last snapshot shows no growth."""
    path = put(project, ramp(program, [1, 10, 20, 30, 2]))
    assert "293.0KB were live at snapshot 4, before most was freed: --to 4\n" in project.piano("report", path, "--growth").out
    assert "before most" not in project.piano("report", path, "--growth", "--to", 4).out
    path = put(project, ramp(program, [1, 10, 20, 30, 16]), "9-9.rec")
    assert "before most" not in project.piano("report", path, "--growth").out


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
    """Three more samples in a straight line could have been none; thirty could not."""
    for values, trend in (([1, 2, 3, 4], "varies"), ([1, 11, 21, 31], "grows")):
        path = put(project, ramp(program, values, rate=512 * 1024))
        (site,) = project.json("report", path, "--growth")["growth"]["sites"]
        assert site["correlation"] > 0.99 and site["trend"] == trend, site
        assert (site["delta_bytes"] > site["delta_ci95"]) == (trend == "grows")


@tool
def test_blocks_in_both_snapshots_add_no_error(project: Project, program: Path) -> None:
    """A block that is live at both times adds nothing to the error of their difference."""
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

    # Six blocks were allocated or freed. Three allocated and three freed at once would look the same, so the error is bounded by the bytes.
    swapped = change(swap)
    assert swapped["delta_bytes"] == 0
    assert half(6).expected <= swapped["delta_ci95"] <= 1.959964 * math.sqrt(2 * 3 * w[0] * rate) * 1.001
    assert swapped["delta_ci95"] < half(100).expected / 2, "far less than two independent moments"
    text = project.piano("report", put(project, ramp(program, [5] * 5, rate=rate)), "--growth").out
    assert re.search(r"make_node +\S+ +\S+ +0B +0B/min +flat", text), text


@tool
def test_growth_without_snapshots_is_an_error(project: Project, program: Path) -> None:
    rec, s = recording(program)
    rec.sample(s.parse, 64 * 1024)
    done = project.piano("report", put(project, rec), "--growth", check=False)
    assert done.status == 1 and "no snapshots" in done.err and "--snapshot-every" in done.err


@tool
def test_large_snapshots_are_read_from_several_chunks(project: Project, program: Path) -> None:
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
    raw[part + 8:part + 12] = struct.pack("<I", 1)  # part 2 of snapshot 2 claims to be part 1
    path.write_bytes(raw)
    damaged = project.json("report", path)
    assert [s["number"] for s in damaged["snapshots"]] == [1]
    assert damaged["missing"]["partial_snapshots"] == 1
    assert "a snapshot that is not whole" in project.piano("report", path).err
