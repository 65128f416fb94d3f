"""Files that are not recordings, or truncated, hostile or huge ones; and the choice of the recording."""
from __future__ import annotations

import json
import math
import random
import re
import resource
import struct
import subprocess
from pathlib import Path

import pytest

from conftest import PIANO, ROOT, Project, put_run, update_run
from made import MB, grown, make, names, program, put, recording, tool  # noqa: F401 (program is a fixture)

# Damaged files ----------------------------------------------------------------------------------

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
def test_file_that_is_no_recording_is_refused_by_byte(project: Project, content: bytes, byte: int, words: str) -> None:
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
    for command in (["report", "--heap", path], ["export", "--format", "pprof", "--by", "live", path]):
        done = project.piano(*command, check=False)
        assert done.status == 1 and done.out == "" and "is not a recording" in done.err, done


@tool
@pytest.mark.parametrize("keep", [HEAD, HEAD + 10, HEAD + 64, HEAD + 100, HEAD + make.CHUNK,
                                  HEAD + make.CHUNK + 64 + 40, HEAD + 2 * make.CHUNK + 300,
                                  HEAD + 3 * make.CHUNK + 100, -1])
def test_truncated_recording_is_shown_up_to_the_damage(project: Project, program: Path, keep: int) -> None:
    """Shows the intact part, and reports the damaged byte."""
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
        assert not re.search(r"\b1 sample", done.out) and "allocated are in missing parts" in done.err
    for command in (["report", "--tree"], ["report", "--leaks"], ["diff", path]):
        project.piano(*command, path)


@tool
def test_equal_stacks_are_merged(project: Project, program: Path) -> None:
    rec, s = recording(program, rate=1)
    twin = rec.stack(s.elf.pcs("make_node", "parse", "main"))
    other = rec.stack(s.elf.pcs("make_node", "parse", "main"), flags=make.MMAP)
    rec.sample(s.parse, 100).sample(twin, 11).sample(other, 7)
    data = project.json("report", put(project, rec))
    assert [(x["live_bytes"], x["kind"]) for x in data["sites"]] == [(111, "malloc"), (7, "mmap")]
    assert "make_node (mmap)" in project.piano("report", "--heap").out


@tool
def test_samples_without_a_stack_are_shown_as_such(project: Project, program: Path) -> None:
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
def test_numbers_that_are_not_finite_do_not_reach_totals(project: Project, program: Path, value: float,
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
def test_hostile_names_are_not_printed(project: Project) -> None:
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
def test_mutated_recordings_never_crash_the_report(project: Project, program: Path, seed: int) -> None:
    """Bytes of headers, lengths and tables changed at random: an answer, no signal, bounded memory."""
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
def test_wrong_sizes_do_not_allocate_much_memory(project: Project, program: Path) -> None:
    """Chunks and sizes beyond the file, and a sparse terabyte, cost neither memory nor time."""
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
def test_many_stacks_are_read(project: Project) -> None:
    path = project.root / "big.rec"
    subprocess.run(["python3", str(ROOT / "tools/make-recording.py"), "--stacks", "20000", "--snapshots",
                    "3", "-o", str(path)], check=True)
    data = project.json("report", path, "--top", "5", limit=60)
    assert len(data["sites"]) == 5 and data["samples"] == 60_000
    project.piano("report", path, "--growth", limit=60)


# Choice of the recording -------------------------------------------------------------------------

@tool
def test_report_chooses_the_latest_run_that_has_what_is_asked_for(project: Project, program: Path) -> None:
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
def test_list_and_tag_work_with_recordings(project: Project, program: Path) -> None:
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
    assert not any("rec-99" in line for line in listing), "files of one recording are one line"
    runs = project.json("list")["runs"]
    assert [r["kind"] for r in runs] == ["recording"] * 2 + ["run"]
    assert (runs[1]["samples"], runs[1]["rate"], runs[1]["wall_ns"]) == (1, 1, 10 * make.SECOND)
    assert "error" in runs[0] and runs[1]["more_processes"] == 1
    assert project.json("report", "before")["live_bytes"] == 4242


@tool
def test_contradicting_options_are_usage_errors(project: Project, program: Path) -> None:
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
def test_tables_fit_the_terminal(project: Project, program: Path, columns: int) -> None:
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
