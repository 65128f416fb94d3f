"""`piano report`: tables for people, JSON for programs, from run files with known contents."""
from __future__ import annotations

import json
import re
import unicodedata

import pytest

from conftest import PIANO, Project, fn, frame, header, ndjson, put_run, update_run

pytestmark = pytest.mark.tool
SPIKY = [16_000_000] * 19 + [50_000_000]


@pytest.fixture
def game(project: Project) -> Project:
    put_run(project, "1740000000123-77", update_run(SPIKY))
    return project


def width(line: str) -> int:
    clean = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", line).rstrip("\r\n")
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 0 if unicodedata.combining(c)
               else 1 for c in clean)


def test_columns_and_footer(game: Project) -> None:
    out = game.piano("report").out
    head = out.splitlines()[0].split()
    assert head[0] == "Function"
    for column in ("Calls", "Self", "p50", "p99", "Allocs", "Bytes"):
        assert column in head, head
    update = next(line for line in out.splitlines() if line.startswith("update"))
    assert "20" in update.split() and "200" in update.split()
    footer = out.rstrip().splitlines()[-1]
    assert re.match(r"20 frames of update \| 17\.7ms avg \| 50\.0ms p99 \| 1 spike", footer), footer


def test_sorted_by_self_time(game: Project) -> None:
    lines = game.piano("report").out.splitlines()
    order = [line.split()[0] for line in lines if line.startswith(("update", "physics"))]
    assert order == ["update", "physics"]


def test_columns_only_where_there_is_data(project: Project) -> None:
    put_run(project, "1740000000123-77", update_run([1_000_000] * 5, allocs=0))
    head = project.piano("report").out.splitlines()[0]
    assert "Allocs" not in head and "Bytes" not in head and "p50" in head
    row = {"name": "f", "calls": 1, "self_ms": 1.0, "total_ms": 1.0}
    put_run(project, "1750000000123-77",
            json.dumps({"run_id": "1", "timestamp_ms": 1, "functions": [row]}), ".json")
    out = project.piano("report").out
    assert "p50" not in out and "Allocs" not in out and "frames" not in out


def test_json_names(game: Project) -> None:
    data = game.json("report")
    row = data["functions"][0]
    for name in ("name", "file", "line", "calls", "self_ns", "total_ns", "p50_ns", "p99_ns",
                 "alloc_count", "alloc_bytes", "free_count", "free_bytes"):
        assert name in row, name
    for name in ("count", "avg_ns", "p50_ns", "p99_ns", "spikes"):
        assert name in data["frames"], name
    assert isinstance(data["dropped"], dict)
    assert (row["name"], row["file"], row["line"]) == ("update", "src/world.c", 89)
    assert row["p50_ns"] == 12_000_000 and row["p99_ns"] == 37_500_000
    frames = data["frames"]
    assert frames["count"] == 20 and frames["avg_ns"] == sum(SPIKY) // 20
    assert frames["p50_ns"] == 16_000_000 and frames["p99_ns"] == 50_000_000
    assert frames["spikes"] == 1


def test_frames_json_names(game: Project) -> None:
    frames = game.json("report", "--frames")["frames"]
    assert len(frames) == 20
    for name in ("frame", "thread", "start_ns", "wall_ns", "alloc_count", "alloc_bytes", "spike",
                 "functions"):
        assert name in frames[0], name
    assert [f["frame"] for f in frames if f["spike"]] == [19]
    assert frames[19]["wall_ns"] == 50_000_000 and frames[3]["alloc_bytes"] == 1000


def test_frames_table(game: Project) -> None:
    out = game.piano("report", "--frames").out
    lines = out.splitlines()
    assert lines[0].split()[0] == "Frame" and "update" in lines[0] and "physics" in lines[0]
    marked = [line for line in lines if "spike" in line and " frames " not in line]
    assert len(marked) == 1 and marked[0].split()[0] == "20", "frames count from 1 in tables"
    assert "50.0ms" in marked[0]
    assert len([line for line in lines if line.lstrip()[:1].isdigit()]) >= 20


@pytest.mark.tool
def test_columns_of_methods_tell_their_classes(project: Project) -> None:
    run = update_run([1_000_000] * 5).replace('"physics"', '"ui::Box::step"').replace('"update"', '"ui::Pen::step"')
    head = project.piano("report", "--frames", put_run(project, "1-77", run)).out.splitlines()[0]
    assert head.split()[2:4] == ["Pen::step", "Box::step"]
    run = update_run([1_000_000] * 5).replace('"physics"', '"ui::Box::step"').replace('"update"', '"ui::Pen::draw"')
    head = project.piano("report", "--frames", put_run(project, "2-77", run)).out.splitlines()[0]
    assert head.split()[2:4] == ["draw", "step"]


def test_long_runs_show_the_worst_frames_and_their_neighbours(project: Project) -> None:
    walls = [10_000_000] * 500
    walls[123], walls[400] = 90_000_000, 80_000_000
    put_run(project, "1740000000123-77", update_run(walls))

    def numbers(*options: str) -> list[int]:
        lines = project.piano("report", "--frames", *options).out.splitlines()
        return [int(line.split()[0]) for line in lines
                if re.match(r"\s*\d+\s+\d", line)]

    shown = numbers()
    assert {123, 124, 125, 400, 401, 402} <= set(shown), shown
    assert len(shown) < 60
    assert numbers("--all") == list(range(1, 501))
    top = numbers("--top", "1")
    assert set(top) >= {123, 124, 125} and 401 not in top


def test_top(game: Project) -> None:
    out = game.piano("report", "--top", "1").out
    assert "update" in out and not re.search(r"^physics", out, re.M)
    assert len(game.json("report", "--top", "1")["functions"]) == 1


def test_many_functions_are_cut_and_said(project: Project) -> None:
    names = [f"function_{i:03d}" for i in range(100)]
    put_run(project, "1740000000123-77", ndjson(
        header(names), *[frame(n, [fn(i, 1, 1000 * (i + 1)) for i in range(100)], 6_000_000)
                         for n in range(3)]))
    out = project.piano("report").out
    shown = re.findall(r"^function_\d+", out, re.M)
    assert 5 <= len(shown) < 100 and shown[0] == "function_099"
    assert "--all" in out + project.piano("report").err, "the footer names the flag"
    assert len(re.findall(r"^function_\d+", project.piano("report", "--all").out, re.M)) == 100


def test_places_on_request(game: Project) -> None:
    assert "src/world.c:89" not in game.piano("report").out
    assert "src/world.c:89" in game.piano("report", "--places").out


def test_same_names_are_told_apart(project: Project) -> None:
    put_run(project, "1740000000123-77", ndjson(
        header(["helper", "helper"], places=["a.c:1", "b.c:9"]),
        *[frame(i, [fn(0, 1, 500), fn(1, 2, 100)], 1000) for i in range(3)]))
    report = project.report()
    assert {(r["file"], r["calls"]) for r in report.rows("helper")} == {("a.c", 3), ("b.c", 6)}
    out = project.piano("report").out
    assert "a.c" in out and "b.c" in out


def test_same_name_and_place_are_one_row(project: Project) -> None:
    put_run(project, "1740000000123-77", ndjson(
        header(["dot", "dot"], places=["vec.h:1", "vec.h:1"]),
        *[frame(i, [fn(0, 1, 500), fn(1, 2, 100)], 1000) for i in range(3)]))
    assert project.report().row("dot")["calls"] == 9


def test_sampled_rows_are_marked(project: Project) -> None:
    put_run(project, "1740000000123-77", ndjson(
        header(["update", "tiny"]),
        *[frame(i, [fn(0, 1, 10_000), fn(1, 5000, 9_000, timed=40)], 20_000) for i in range(4)]))
    rows = {r["name"]: r for r in project.json("report")["functions"]}
    assert rows["tiny"]["sampled"] is True and rows["update"]["sampled"] is False
    assert rows["tiny"]["timed_calls"] == 160
    out = project.piano("report").out
    tiny = next(line for line in out.splitlines() if line.startswith("tiny"))
    assert "~" in tiny and "~ estimate: 160 of 20000 calls were timed" in out
    lines = [line.split() for line in project.piano("report", "--frames").out.splitlines()]
    title = next(line for line in lines if "tiny" in line)
    cells = [line for line in lines if len(line) == len(title) and line[0].isdigit()]
    assert [row[title.index("tiny")] for row in cells] == ["~9.0us"] * 4
    assert [row[title.index("update")] for row in cells] == ["10.0us"] * 4


def test_uncorrected(project: Project) -> None:
    put_run(project, "1740000000123-77", ndjson(
        header(["f"]), *[frame(i, [fn(0, 1, 1000, raw_ns=1500)], 2000) for i in range(2)]))
    assert project.report().row("f")["self_ns"] == 2000
    assert project.report("--uncorrected").row("f")["self_ns"] == 3000


@pytest.mark.parametrize("raw_ns, share", [(1500, "33 %"), (1052, None)])
def test_the_cost_of_the_probes_is_said(project: Project, raw_ns: int, share: str | None) -> None:
    """If it is much: 5 % of the time and more."""
    put_run(project, "1740000000123-77", ndjson(
        header(["f"]), *[frame(i, [fn(0, 1, 1000, raw_ns=raw_ns)], 2000) for i in range(2)]))
    said = re.search(r"measuring took (\d+ %) of the time, which is subtracted", project.piano("report").out)
    assert (said and said[1]) == share
    assert project.json("report")["run"]["probes_ns"] == 2 * (raw_ns - 1000)
    assert project.json("report", "--uncorrected")["run"]["probes_ns"] is None


def test_threads_table_and_json(project: Project) -> None:
    put_run(project, "1740000000123-77", ndjson(
        header(["main", "job", "start"]),
        {"thread": 1, "tid": 10, "name": "game", "start_ns": 0},
        {"thread": 2, "tid": 11, "name": "worker", "start_ns": 5, "parent_thread": 1,
         "parent_fn": 2},
        *[frame(i, [fn(1, 1, 700)], 800, thread=2) for i in range(3)],
        *[frame(i, [fn(0, 1, 900), fn(2, 1, 10)], 1000, thread=1) for i in range(3)],
        {"thread": 2, "name": "renamed", "end_ns": 99}))
    threads = {t["thread"]: t for t in project.json("report", "--threads")["threads"]}
    assert threads[2]["name"] == "renamed" and threads[2]["end_ns"] == 99
    assert (threads[2]["parent_thread"], threads[2]["parent_fn"]) == (1, "start")
    assert threads[1]["parent_fn"] is None
    assert [f["name"] for f in threads[2]["functions"]] == ["job"]
    out = project.piano("report", "--threads").out
    for word in ("game", "renamed", "start", "job"):
        assert word in out


def test_units_a_person_reads(project: Project) -> None:
    put_run(project, "1740000000123-77", ndjson(
        header(["ns", "us", "ms", "s"]),
        *[frame(i, [fn(3, 1, 2_500_000_000, 1, 3 << 30), fn(2, 1, 4_500_000, 1, 5 << 20),
                    fn(1, 1, 6_500, 1, 7 << 10), fn(0, 1, 25, 1, 9)], 3_000_000_000)
          for i in range(2)]))
    text = {line.split()[0]: line for line in project.piano("report").out.splitlines()
            if line.split()[:1] and line.split()[0] in ("ns", "us", "ms", "s")}
    assert re.search(r"\b5\.0+ ?s\b", text["s"]) and "6.0GB" in text["s"]
    assert re.search(r"\b9\.0+ ?ms\b", text["ms"]) and "10.0MB" in text["ms"]
    assert re.search(r"\b13\.0+ ?us\b", text["us"]) and "14.0KB" in text["us"]
    assert re.search(r"\b50(\.0+)? ?ns\b", text["ns"]) and "18B" in text["ns"]


# Terminals --------------------------------------------------------------------------------------

LONG = "namespace_one::VeryLongClassName<std::string, int>::a_method_with_a_long_name_" + "x" * 60


@pytest.fixture
def wide(project: Project) -> Project:
    put_run(project, "1740000000123-77", ndjson(
        header([LONG, "update", "größe::名前"],
               places=["src/" + "d/" * 40 + "x.c:1", "a.c:1", "b.c:2"]),
        *[frame(i, [fn(1, 123456, 9_999_999, 12345, 99_999_999, total_ns=12_000_000),
                    fn(0, 1, 7_000_000, 3, 100, total_ns=8_000_000),
                    fn(2, 1, 7_000, 3, 100, total_ns=8_000)], 16_000_000 * (1 + 3 * (i == 5)))
          for i in range(12)]))
    return project


@pytest.mark.parametrize("columns", [80, 100, 60])
@pytest.mark.parametrize("options", [[], ["--frames"], ["--threads"], ["--places"], ["--all"]],
                         ids=" ".join)
def test_width_of_the_terminal_is_respected(wide: Project, options: list[str],
                                            columns: int) -> None:
    status, out = wide.run_in_pty(PIANO, "report", *options, columns=columns)
    assert status == 0
    lines = [line for line in out.splitlines() if line.strip()]
    assert len(lines) > 3
    for line in lines:
        assert width(line) <= columns, line
    assert "update" in out


def test_pipe_has_whole_names_and_no_colour(wide: Project) -> None:
    out = wide.piano("report").out
    assert LONG in out
    assert "\x1b" not in out and "\r" not in out


def test_no_color(wide: Project) -> None:
    _, plain = wide.run_in_pty(PIANO, "report", "--frames", env={"NO_COLOR": "1"})
    assert not re.search(r"\x1b\[[0-9;]*m", plain)
    _, dumb = wide.run_in_pty(PIANO, "report", "--frames", env={"TERM": "dumb"})
    assert "\x1b[" not in dumb
    _, coloured = wide.run_in_pty(PIANO, "report", "--frames")
    assert re.search(r"\x1b\[[0-9;]*m", coloured), "on a terminal a spike stands out"


EVIL = ["\x1b]0;owned\x07f", "\x1b[2J\x1b[31mred", "a\rb", "a\nb", "tab\there", "\x9b31mcsi",
        "nul\x00x", "\u202egnp.exe", "del\x7f", "\u2028line"]


@pytest.mark.parametrize("options", [[], ["--frames"], ["--threads"], ["--places", "--all"]],
                         ids=" ".join)
def test_names_cannot_carry_terminal_escapes(project: Project, options: list[str]) -> None:
    put_run(project, "1740000000123-77", ndjson(
        header(EVIL, places=[f"{name}.c:1" for name in EVIL], program="\x1b]2;x\x07",
               clock="\x1b[5m"),
        {"thread": 1, "tid": 1, "name": "\x1b[7mthread", "start_ns": 0},
        *[frame(i, [fn(n, 1, 1000 + n) for n in range(len(EVIL))], 20_000) for i in range(3)]))
    done = project.piano("report", *options)
    said = done.out + done.err
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029]",
                         said.replace("\n", "")), repr(said)
    if not options:
        assert "red" in said, "the rest of the name is shown"
    assert not re.search(r"^b\b", done.out, re.M), "a newline in a name makes no row"
    listing = project.piano("list")
    assert "\x1b" not in listing.out + listing.err


def test_json_escapes_hostile_names(project: Project) -> None:
    put_run(project, "1740000000123-77", ndjson(
        header(EVIL), *[frame(i, [fn(n) for n in range(len(EVIL))], 20_000) for i in range(2)]))
    done = project.piano("report", "--json")
    assert set(f["name"] for f in json.loads(done.out)["functions"]) >= {EVIL[0], "a\rb", "a\nb"}
    assert not re.search(r"[\x00-\x08\x0b-\x1f]", done.out.replace("\n", "").replace("\t", ""))


# Which run --------------------------------------------------------------------------------------


def test_latest_run_is_the_default(project: Project) -> None:
    put_run(project, "1740000000123-77", update_run([1_000_000] * 3))
    put_run(project, "1740000099999-12", update_run([1_000_000] * 7))
    assert project.report().frame_count == 7
    put_run(project, "1739999999999-99999", update_run([1_000_000] * 5))
    assert project.report().frame_count == 7, "latest by the time of the run, not of the file"


def test_run_by_path_name_id_and_directory(project: Project) -> None:
    path = put_run(project, "1740000000123-77", update_run([1_000_000] * 3))
    put_run(project, "1750000000000-78", update_run([1_000_000] * 7))
    for name in (path, path.name, "77_1740000000123", path.relative_to(project.root)):
        assert project.report(str(name)).frame_count == 3, name
    assert project.report(str(project.runs)).frame_count == 7


def test_from_a_subdirectory(game: Project) -> None:
    below = game.root / "src" / "deep"
    below.mkdir(parents=True)
    assert json.loads(game.piano("report", "--json", cwd=below).out)["frames"]["count"] == 20


def test_unknown_run_is_an_error_with_a_suggestion(game: Project) -> None:
    game.piano("tag", "before")
    done = game.piano("report", "befroe", check=False)
    assert done.status == 1 and done.out == ""
    assert "befroe" in done.err and "before" in done.err


def test_no_runs_says_what_to_do(project: Project) -> None:
    done = project.piano("report", check=False)
    assert done.status == 1 and done.out == ""
    assert "piano" in done.err and ("run" in done.err or "profile" in done.err)


def test_million_frames_is_bounded(project: Project) -> None:
    """Does not measure time: a report of 200 000 frames fits into an address space of 1 GB."""
    line = ndjson(frame(0, [fn(0, 1, 1000), fn(1, 2, 200)], 1500))
    put_run(project, "1740000000123-77", ndjson(header(["update", "physics"])) + line * 200_000)
    done = project.command("sh", "-c", 'ulimit -v 1048576; exec "$0" report --json', PIANO) \
        if "san-" not in PIANO else project.piano("report", "--json")
    assert json.loads(done.out)["frames"]["count"] == 200_000


def test_a_tag_with_several_runs_shows_the_newest(project: Project) -> None:
    for stem, frames in (("1750000000123-77", 7), ("1740000000123-77", 5)):
        put_run(project, stem, update_run([1_000_000] * frames))
        project.piano("tag", "mine", stem, "--add")
    done = project.piano("report", "mine", "--json")
    assert json.loads(done.out)["run"]["id"] == "1750000000123-77"
    assert "2 runs" in done.err and "1750000000123-77" in done.err


def test_failed_writes_are_told_first(project: Project) -> None:
    lines = update_run([1_000_000] * 5).splitlines()
    lines = [line for line in lines if '"end"' not in line]
    lines += ['{"recovered":true,"dropped":{"frames":2,"write":3}}']
    put_run(project, "1740000000123-77", "\n".join(lines) + "\n")
    first = project.piano("report").err.splitlines()[0]
    assert "3 writes to the run file failed" in first and "incomplete" in first


def test_the_worst_call_of_each_function(project: Project) -> None:
    put_run(project, "1740000000123-77", ndjson(
        header(["update", "get", "old"]),
        *[frame(i, [fn(0, 1, 1000, total_ns=3000), fn(1, 5, 1000, total_ns=1000, max_ns=200 + i),
                    fn(2, 2, 1000, total_ns=1000)], 3000) for i in range(4)]))
    data = project.report()
    assert (data.row("get")["worst_ns"], data.row("get")["worst_frame"]) == (203, 3)
    assert (data.row("update")["worst_ns"], data.row("update")["worst_frame"]) == (3000, 0)
    assert (data.row("old")["worst_ns"], data.row("old")["worst_frame"]) == (None, None)
    wide = [line.split() for line in project.piano("report").out.splitlines()]
    at = wide[0].index("Worst")
    assert wide[0][at + 1] == "Frame"
    rows = {line[0]: line[at:at + 2] for line in wide[2:5]}
    assert rows == {"get": ["203ns", "4"], "update": ["3.0us", "1"], "old": ["-", "-"]}
    assert "Worst: its longest single call" in project.piano("report").out
    narrow = project.piano("report", env={"COLUMNS": "55"}).out
    assert "Worst" not in narrow and "Total" in narrow.splitlines()[0]
