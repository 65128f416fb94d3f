"""`piano report --heap` of recordings with known numbers."""
from __future__ import annotations

import math
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conftest import PIANO, Project
from made import MB, SOURCE, make, names, program, put, recording, tool  # noqa: F401 (program is a fixture)

# Numbers -----------------------------------------------------------------------------------------

@tool
def test_figures_at_rate_1_are_exact(project: Project, program: Path) -> None:
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
def test_estimates_have_an_interval(project: Project, program: Path, size: int, n: int) -> None:
    """The last two cases: the interval never goes below what was sampled."""
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
def test_report_without_live_samples_gives_an_upper_bound(project: Project, program: Path) -> None:
    rec, s = recording(program, rate=512 * 1024)
    rec.sample(s.parse, 64, count=200, lived_us=10)
    data = project.json("report", put(project, rec))
    assert data["live_bytes"] == 0
    assert data["live_bytes_ci95"] == [0, round(-math.log(0.025) * 512 * 1024)]


@tool
def test_negative_rounding_errors_are_shown_as_zero(project: Project, program: Path) -> None:
    rec, s = recording(program, rate=1)
    rec.sample(s.parse, 100, count=3, lived_us=1)
    rec.sums[s.parse].released[0] += 0.25
    rec.sample(s.load, 10)
    data = project.json("report", put(project, rec))
    assert data["live_bytes"] == 10 and data["live_objects"] == 1
    assert min(site["live_bytes"] for site in data["sites"]) == 0


@tool
def test_peak_shows_the_holders_at_that_time(project: Project, program: Path) -> None:
    """The holders at the peak differ from those at the end."""
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
def test_first_line_names_program_duration_status_and_rate(project: Project, program: Path) -> None:
    rec, s = recording(program, pid=77)
    rec.sample(s.parse, 64 * 1024, count=120)
    text = project.piano("report", put(project, rec)).out
    first = text.splitlines()[0]
    assert first == "prog (pid 77) | 10.0s | exit status 0 | a sample every 512.0KB | 120 samples"


@tool
@pytest.mark.parametrize("status,state,end,words", [
    (1 + (3 << 8), make.ENDED, 15, "exit status 3"), (1 + 9, make.ACTIVE, 0, "ended by signal 9 (Killed)"),
    (0, make.ENDED, 15, "| ended |"), (0, make.ACTIVE, 0, "no exit record"),
])
def test_first_line_says_how_the_program_ended(project: Project, program: Path, status: int, state: int, end: int,
                      words: str) -> None:
    rec, s = recording(program, exit_status=status, state=state, end_ns=end * make.SECOND, pid=0x3FFFFFFF)
    rec.sample(s.parse, 64 * 1024, at_ms=1500)
    text = project.piano("report", put(project, rec)).out
    assert words in text.splitlines()[0]
    assert ("10.0s" if end else "at least 1.5s") in text.splitlines()[0]


@tool
def test_running_program_is_recognised_by_its_mapping(project: Project, program: Path) -> None:
    """The process that maps the file is its writer."""
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
    assert "no exit record" in project.piano("report", path).out


@tool
@pytest.mark.parametrize("lost,full,confidence", [(4, 0, "high"), (5, 0, "medium"), (10, 10, "medium"),
                                                  (21, 0, "low")])
def test_stack_health_is_reported(project: Project, program: Path, lost: int, full: int, confidence: str) -> None:
    rec, s = recording(program, walked=100, walked_frames=1450, walked_lost=lost, walked_full=full)
    rec.sample(s.parse, 64 * 1024, count=100)
    path = put(project, rec)
    health = project.json("report", path)["stack_health"]
    assert health["confidence"] == confidence and health["mean_depth"] == 14.5
    assert health["truncated_share"] == (lost + full) / 100
    assert f"{lost + full}.0% cut short (confidence {confidence}), 14.5 frames" in \
        project.piano("report", path).out


@tool
def test_only_dropped_samples_are_reported(project: Project, program: Path) -> None:
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
def test_the_hint_keeps_what_else_was_recorded(project: Project, program: Path) -> None:
    rec, s = recording(program)
    rec.sample(s.parse, 64 * 1024, count=9)
    rec.cpu(11, 0, s.parse)
    assert "`piano record --heap=64K --cpu` takes more" in project.piano("report", "--heap", put(project, rec)).err
    rec.poll(11, 100, 50, task=1, name=rec.name("slow"))
    assert "`piano record --heap=64K --cpu --events` takes more" in project.piano("report", "--heap", put(project, rec)).err


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


# Uncertain figures -------------------------------------------------------------------------------

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
def test_interval_of_the_peak_is_bounded(project: Project, program: Path) -> None:
    """At most the bytes allocated there, and the rate; exact if nothing changed since."""
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
def test_modules_without_symbols_are_named(project: Project, program: Path) -> None:
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
def test_changed_rate_is_reported(project: Project, program: Path) -> None:
    rec, s = recording(program, rate=64 * 1024)
    rec.sample(s.parse, 4096, count=60, rate=512 * 1024).sample(s.parse, 4096, count=60)
    path = put(project, rec)
    assert "a sample every 64.0KB to 512.0KB, as it was changed" in project.piano("report", path).out
    assert project.json("report", path)["run"]["rates"] == [64 * 1024, 512 * 1024]


@tool
def test_shut_down_recording_is_not_called_gone(project: Project, program: Path) -> None:
    rec, s = recording(program, exit_status=0, state=make.TERMINATED, pid=0x3FFFFFFF)
    rec.sample(s.parse, 1000)
    first = project.piano("report", put(project, rec)).out.splitlines()[0]
    assert "shut down by the program" in first and "gone" not in first and "| 10.0s |" in first
