"""`piano diff` of recordings with known numbers."""
from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from conftest import Project, put_run, update_run
from made import make, program, put, recording, tool  # noqa: F401 (program is a fixture)

# diff --------------------------------------------------------------------------------------------

def pair(project: Project, program: Path, more: int) -> tuple[Path, Path]:
    sides = []
    for n, base in ((0, 0x555555554000), (more, 0x7F1234560000)):
        rec = make.Recording(program=str(program), rate=512 * 1024)
        elf = make.Program(rec, program, base=base)  # loaded at another address the second time
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
        assert "is a recording and" in done.err and a.name in done.err and run.name in done.err
    assert os.path.exists(a)


def held(project: Project, program: Path, name: str, kept: int, peak: int) -> Path:
    """Allocates the same at all times, but differs in the live memory at the end and at the peak."""
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
def test_diff_of_two_builds_with_names_of_their_own(project: Project, program: Path) -> None:
    """app-old and app-new, with symbols and stripped: sites match, also those that are only an address in the program."""
    for stripped in (False, True):
        sides = []
        for name, size in (("app-old", 100), ("app-new", 300)):
            shutil.copy(program, project.root / name)
            elf_of = program  # addresses are resolved in the one with symbols
            if stripped:
                project.command("strip", project.root / name)
            rec = make.Recording(program=str(project.root / name), rate=1)
            elf = make.Program(rec, elf_of)
            rec.modules = [(str(project.root / name) if m[0] == str(elf_of) else m[0], *m[1:]) for m in rec.modules]
            rec.sample(rec.stack(elf.pcs("make_node", "load", "main")), size)
            sides.append(put(project, rec, f"{name}.rec"))
        done = project.piano("diff", *sides, "--json")
        (row,) = json.loads(done.out)["functions"]
        assert row["present"] == [True, True] and row["live_bytes"] == [100, 300]
        assert row["name"].startswith("app-new+0x" if stripped else "make_node")
        assert "recordings of different programs: app-old and app-new" in done.err


@tool
def test_diff_of_several_recordings_a_side(project: Project, program: Path) -> None:
    held(project, program, "fixed.rec", 10, 30), held(project, program, "leak.rec", 10, 30)
    done = project.piano("diff", "fixed.rec,leak.rec", "leak.rec", check=False, cwd=project.runs)
    assert done.status == 1 and "`fixed.rec,leak.rec` names 2 recordings" in done.err
    assert "piano diff A B" in done.err
