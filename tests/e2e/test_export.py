"""`piano export`: files for other tools, checked by decoding, by schema, and by the tools themselves."""
from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pytest

from conftest import PIANO, Project, npm_pack
from made import make, program, put, recording  # noqa: F401 (program is a fixture)

tool = pytest.mark.tool
MB = 1 << 20
SPEEDSCOPE = "speedscope@1.25.0"


def sample_recording(program: Path) -> Any:
    rec, s = recording(program, rate=512 * 1024)
    rec.sample(s.parse, 64 * 1024, count=37).sample(s.load, 100, count=11, lived_us=4)
    rec.sample(s.load, 3 * MB, count=5).sample(0, 4096)
    rec.free(s.load, 3 * MB, lived_us=10**6)
    return rec


def totals(project: Project, path: Path) -> dict[str, Any]:
    return project.json("report", path)


# Collapsed ---------------------------------------------------------------------------------------

@tool
@pytest.mark.parametrize("by,key", [("live", "live_bytes"), ("allocated", "allocated_bytes"),
                                    ("peak", "peak_bytes")])
def test_collapsed_has_one_line_per_stack(project: Project, program: Path, by: str, key: str) -> None:
    path = put(project, sample_recording(program))
    done = project.piano("export", path, "--format", "collapsed", "--by", by)
    lines = dict(line.rsplit(" ", 1) for line in done.out.splitlines())
    assert set(lines) == {"main;parse;inner;make_node", "main;load;make_node", "(no_stack)"}
    assert sum(map(int, lines.values())) == totals(project, path)[key]


@tool
def test_collapsed_merges_stacks_of_the_same_names(project: Project, program: Path) -> None:
    rec, s = recording(program, rate=1)
    again = rec.stack([s.elf.pc("make_node"), s.elf.pc("load"), s.elf.pc("main", 8)])
    rec.sample(s.load, 10).sample(again, 5)
    out = project.piano("export", put(project, rec), "--format", "collapsed").out
    assert out == "main;load;make_node 15\n"


@tool
def test_weights_add_up_to_the_estimate(project: Project) -> None:
    """A thousand fractions, rounded one by one, would add up to a wrong sum; the export's sum is right."""
    rec = make.Recording(rate=1000)
    rec.module("/m", 0x400000, 0x500000)
    for i in range(1000):
        rec.sample(rec.stack([0x400010 + 32 * i]), 1 + i % 7)
    path = put(project, rec)
    whole = totals(project, path)["live_bytes"]
    lines = project.piano("export", path, "--format", "collapsed").out.splitlines()
    assert sum(int(line.rsplit(" ", 1)[1]) for line in lines) == whole
    one_by_one = sum(round(make.weight(1 + i % 7, 1000)[0]) for i in range(1000))
    assert one_by_one != whole, "else this proves nothing"
    profile = json.loads(project.piano("export", path, "--format", "speedscope").out)["profiles"][0]
    assert sum(profile["weights"]) == whole == profile["endValue"]
    types, samples = decode(project, path)
    column = types.index(("inuse_space", "bytes"))
    assert sum(values[column] for _, values in samples) == whole


# Speedscope --------------------------------------------------------------------------------------

@tool
@pytest.mark.parametrize("by,key", [("live", "live_bytes"), ("allocated", "allocated_bytes"),
                                    ("peak", "peak_bytes")])
def test_speedscope_has_a_profile_per_figure(project: Project, program: Path, by: str, key: str) -> None:
    path = put(project, sample_recording(program))
    data = json.loads(project.piano("export", path, "--format", "speedscope", "--by", by).out)
    assert data["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = data["shared"]["frames"]
    assert len(data["profiles"]) == 3 and data["activeProfileIndex"] == 0
    for profile in data["profiles"]:
        assert profile["type"] == "sampled" and profile["unit"] == "bytes"
        assert len(profile["samples"]) == len(profile["weights"])
        assert all(0 <= i < len(frames) for stack in profile["samples"] for i in stack)
        assert sum(profile["weights"]) == profile["endValue"] and min(profile["weights"]) >= 0
    first = data["profiles"][0]
    assert first["endValue"] == totals(project, path)[key]
    named = [[frames[i]["name"] for i in stack] for stack in first["samples"]]
    assert ["main", "parse", "inner", "make_node"] in named, "root first"
    inner = next(f for f in frames if f["name"] == "inner")
    assert inner["file"].endswith("prog.c") and "line" not in inner, "a sample's line is not the function's"


def speedscope_schema() -> Any:
    with tempfile.TemporaryDirectory() as there:
        with tarfile.open(npm_pack(SPEEDSCOPE, Path(there))) as files:
            return json.load(files.extractfile(next(
                m for m in files if m.name.endswith("file-format-schema.json"))))


def test_speedscope_matches_its_schema(project: Project, program: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="python3-jsonschema is not installed")
    schema = speedscope_schema()
    for rec in (sample_recording(program), make.Recording()):
        path = put(project, rec)
        for by in ("live", "allocated", "peak"):
            data = json.loads(project.piano("export", path, "--format", "speedscope", "--by", by).out)
            jsonschema.validate(data, schema)
    broken = dict(data, profiles=[dict(data["profiles"][0], unit="bushels")])
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, schema)


# pprof -------------------------------------------------------------------------------------------

def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data: bytes) -> list[tuple[int, Any]]:
    out, at = [], 0
    while at < len(data):
        key, at = varint(data, at)
        assert key & 7 in (0, 2), "only varints and bytes are in a profile"
        value, at = varint(data, at)
        if key & 7 == 2:
            value, at = data[at:at + value], at + value
            assert len(value) == len(data[at - len(value):at])
        out.append((key >> 3, value))
    return out


def numbers(packed: bytes) -> list[int]:
    out, at = [], 0
    while at < len(packed):
        value, at = varint(packed, at)
        out.append(value)
    return out


class Profile:
    """A decoded profile.proto."""

    def __init__(self, data: bytes):
        self.fields = fields(data)
        self.strings = [v.decode() for f, v in self.fields if f == 6]
        self.types = [tuple(self.strings[v] for _, v in fields(t)) for t in self.all(1)]
        self.samples = [(numbers(dict(fields(s))[1]), numbers(dict(fields(s))[2])) for s in self.all(2)]
        self.labels = [dict(map(self.label, (v for f, v in fields(s) if f == 3))) for s in self.all(2)]
        self.mappings = [dict(fields(m)) for m in self.all(3)]
        self.functions = {dict(fields(f))[1]: dict(fields(f)) for f in self.all(5)}
        self.locations = {}
        for location in self.all(4):
            parts = fields(location)
            lines = [dict(fields(v)) for f, v in parts if f == 4]
            self.locations[dict(parts)[1]] = (dict(parts), lines)

    def label(self, data: bytes) -> tuple[str, Any]:
        parts = dict(fields(data))
        return self.strings[parts[1]], self.strings[parts[2]] if 2 in parts else parts[3]

    def all(self, number: int) -> list[bytes]:
        return [v for f, v in self.fields if f == number]

    def names(self, location: int) -> list[str]:
        return [self.strings[self.functions[line[1]][2]] for line in self.locations[location][1]]


def profile_of(project: Project, path: Path, *options: str) -> Profile:
    out = project.root / "heap.pb"
    project.piano("export", path, "--format", "pprof", "-o", out, "--force", *options)
    return Profile(out.read_bytes())


def decode(project: Project, path: Path) -> tuple[list[tuple[str, str]], list[Any]]:
    profile = profile_of(project, path)
    return profile.types, profile.samples


@tool
def test_pprof_has_types_and_unique_strings(project: Project, program: Path) -> None:
    rec = sample_recording(program)
    path = put(project, rec)
    profile = profile_of(project, path)
    known = totals(project, path)
    assert profile.strings[0] == "" and len(set(profile.strings)) == len(profile.strings)
    assert profile.types == [("alloc_objects", "count"), ("alloc_space", "bytes"),
                             ("inuse_objects", "count"), ("inuse_space", "bytes")]
    sums = [sum(values[i] for _, values in profile.samples) for i in range(4)]
    assert sums == [known["allocated_objects"], known["allocated_bytes"], known["live_objects"],
                    known["live_bytes"]]
    named = [[name for l in locations for name in profile.names(l)] for locations, _ in profile.samples]
    assert ["make_node", "inner", "parse", "main"] in named, "innermost first, inlined before its caller"
    stack = next(locations for locations, _ in profile.samples if len(locations) == 3)
    assert [len(profile.locations[l][1]) for l in stack] == [1, 2, 1], "inlined lines share a location"
    (mapping,) = profile.mappings
    assert profile.strings[mapping[5]] == str(program)
    assert profile.strings[mapping[6]] == make.build_id_of(program).hex()
    for location, lines in profile.locations.values():
        if 3 in location:
            assert mapping[2] <= location[3] < mapping[3]
            assert lines[-1][2] in (2, 4, 5, 6)
    fields_of = dict(profile.fields)
    assert fields_of[12] == 512 * 1024 and profile.strings[fields_of[14]] == "inuse_space"
    assert [profile.strings[v] for _, v in fields(fields_of[11])] == ["space", "bytes"]
    assert 10 not in fields_of, "memory at the end has no duration"


@tool
def test_pprof_of_the_peak_has_peak_bytes(project: Project, program: Path) -> None:
    path = put(project, sample_recording(program))
    profile = profile_of(project, path, "--by", "peak")
    assert profile.types[4:] == [("peak_objects", "count"), ("peak_space", "bytes")]
    assert sum(values[5] for _, values in profile.samples) == totals(project, path)["peak_bytes"]


@tool
def test_pprof_of_an_empty_recording_has_no_samples(project: Project) -> None:
    profile = profile_of(project, put(project, make.Recording()))
    assert profile.samples == [] and len(profile.types) == 4


@tool
def test_pprof_has_a_mapping_for_each_file(project: Project, program: Path) -> None:
    """Segments of a file, and the same file again in a later generation of the module map, are one mapping; the program
    comes first, as pprof expects."""
    rec = make.Recording(program=str(program), rate=1)
    for start in (0x400000, 0x410000):
        rec.module("/lib/below.so", start, start + 0x1000, bias=0x400000, build_id=b"\1\2")
    elf = make.Program(rec, program)
    for since in (3, 7):
        rec.module("/lib/a.so", 0x7F0000010000, 0x7F0000020000, bias=0x7F0000000000, build_id=b"\xab", since=since, until=since + 4)
    rec.module("/lib/a.so", 0x7E0000010000, 0x7E0000020000, bias=0x7E0000000000, build_id=b"\xab", since=9)
    rec.sample(rec.stack([0x7F0000010010, elf.pc("main")], generation=3), 5)
    rec.sample(rec.stack([0x7F0000010010, 0x410010], generation=8), 6)
    profile = profile_of(project, put(project, rec))
    found = [(profile.strings[m[5]], m[2], m[3], m.get(4, 0), profile.strings[m[6]]) for m in profile.mappings]
    assert found[0][0] == str(program)
    assert sorted(found[1:]) == [
        ("/lib/a.so", 0x7E0000010000, 0x7E0000020000, 0x10000, "ab"), ("/lib/a.so", 0x7F0000010000, 0x7F0000020000, 0x10000, "ab"),
        ("/lib/below.so", 0x400000, 0x411000, 0, "0102")]
    assert [m[1] for m in profile.mappings] == [1, 2, 3, 4]
    used = {parts.get(2) for parts, _ in profile.locations.values()}
    by_file = {profile.strings[profile.mappings[number - 1][5]] for number in used if number}
    assert by_file == {str(program), "/lib/a.so", "/lib/below.so"}


def go_pprof() -> tuple[list[str], str]:
    """The command, and the directory in which Go caches builds: newer versions build pprof at its first use."""
    go = shutil.which("go") or shutil.which("/usr/local/go/bin/go") or shutil.which("/usr/lib/go/bin/go")
    if go is None:
        pytest.skip("go is not installed, so there is no `go tool pprof`")
    cache = subprocess.run([go, "env", "GOCACHE"], stdout=subprocess.PIPE, text=True, timeout=60).stdout.strip()
    return [go, "tool", "pprof"], cache


@tool
def test_pprof_is_read_by_go_tool_pprof(project: Project, program: Path) -> None:
    path = put(project, sample_recording(program))
    out = project.root / "heap.pb"
    project.piano("export", path, "--format", "pprof", "-o", out)
    command, cache = go_pprof()
    env = {"GOFLAGS": "-mod=mod", "GOCACHE": cache or str(project.home / "go"), "PPROF_TMPDIR": str(project.home)}
    probe = project.command(*command, "-h", check=False, env=env, limit=300)
    if "usage" not in (probe.out + probe.err).lower():
        pytest.skip(f"`go tool pprof` does not start here: {probe.err.strip()[:200]}")
    known = totals(project, path)
    raw = project.command(*command, "-raw", out, env=env, limit=300).out
    assert "inuse_space/bytes" in raw, raw
    rows = re.findall(r"^ +(\d+) +(\d+) +(\d+) +(\d+): [\d ]+$", raw, re.M)
    assert [sum(int(row[i]) for row in rows) for i in range(4)] == [
        known["allocated_objects"], known["allocated_bytes"], known["live_objects"], known["live_bytes"]]
    top = project.command(*command, "-top", "-unit=B", "-sample_index=inuse_space", out, env=env,
                          limit=300).out
    assert re.search(rf"of {known['live_bytes']}B total", top), top
    assert re.search(r"inner \(inline\)", top) and "make_node" in top
    lines = project.command(*command, "-top", "-lines", "-sample_index=alloc_space", out, env=env,
                            limit=300).out
    assert re.search(r"make_node \S*prog\.c:2", lines), lines


# Output files ------------------------------------------------------------------------------------

@tool
def test_output_file_is_not_overwritten_without_force(project: Project, program: Path) -> None:
    path = put(project, sample_recording(program))
    out = project.root / "heap.txt"
    done = project.piano("export", path, "--format", "collapsed", "-o", out)
    assert done.out == "" and "heap.txt" in done.err
    before = out.read_bytes()
    assert before == project.piano("export", path, "--format", "collapsed").out.encode()
    out.write_text("mine")
    again = project.piano("export", path, "--format", "collapsed", "-o", out, check=False)
    assert again.status == 1 and "--force" in again.err and out.read_text() == "mine"
    project.piano("export", path, "--format", "collapsed", f"--output={out}", "--force")
    assert out.read_bytes() == before
    project.piano("export", path, "--format", "collapsed", "-o", "/dev/null")
    assert os.path.exists("/dev/null") and not os.path.isfile("/dev/null")
    assert sorted(p.name for p in project.root.iterdir()) == [".piano", "heap.txt"], "nothing is left behind"


@tool
@pytest.mark.parametrize("form", ["collapsed", "speedscope", "pprof"])
def test_empty_export_is_reported(project: Project, program: Path, form: str) -> None:
    rec, s = recording(program, rate=1)
    path = put(project, rec.sample(s.load, 3 * MB, lived_us=10**6))
    out = project.root / "out"
    done = project.piano("export", path, "--format", form, "-o", out)
    what = "the export" if form == "collapsed" else "what it opens with"  # the others have all figures in them
    assert f"{what} is empty: nothing is live, as far as sampled; 3.0MB with --by peak" in done.err
    for by in ("peak", "allocated"):
        assert "is empty" not in project.piano("export", path, "--format", form, "--by", by, "-o", out, "--force").err
    nothing = put(project, make.Recording(), "9-9.rec")
    assert "nothing was sampled" in project.piano("export", nothing, "--format", form, "-o", out, "--force").err


@tool
def test_unwritable_output_is_an_error(project: Project, program: Path) -> None:
    path = put(project, sample_recording(program))
    for where in ("no/such/dir/x.json", "/proc/x.json"):
        done = project.piano("export", path, "--format", "speedscope", "-o", where, check=False)
        assert done.status == 1 and where in done.err, done
    full = project.piano("export", path, "--format", "speedscope", "-o", "/dev/full", check=False)
    assert full.status == 1 and "/dev/full" in full.err and "No space" in full.err


@tool
def test_pprof_refuses_a_terminal(project: Project, program: Path) -> None:
    path = put(project, sample_recording(program))
    status, out = project.run_in_pty(PIANO, "export", path, "--format", "pprof")
    assert status == 1 and "not for a terminal" in out and len(out) < 400
    status, _ = project.run_in_pty(PIANO, "export", path, "--format", "collapsed")
    assert status == 0


@tool
def test_wrong_options_are_usage_errors(project: Project, program: Path) -> None:
    path = put(project, sample_recording(program))
    for words in ([path], [path, "--format", "svg"], [path, "--format", "pprof", "--by", "size"],
                  [path, path, "--format", "pprof"], [path, "--format"], [path, "--nonsense"]):
        done = project.piano("export", *words, check=False)
        assert done.status == 2 and done.out == "", done
    assert "did you mean `speedscope`?" in project.piano("export", "--format", "speedscop",
                                                         check=False).err
    assert "Usage: piano export" in project.piano("export", "--help").out
    assert "export" in project.piano("help").out


@tool
def test_latest_recording_is_the_default(project: Project, program: Path) -> None:
    put(project, make.Recording(rate=1), "1740000000000-1.rec")
    rec, s = recording(program, rate=1)
    put(project, rec.sample(s.load, 9), "1740000000009-1.rec")
    assert project.piano("export", "--format", "collapsed").out == "main;load;make_node 9\n"
    none = project.piano("export", "--format", "collapsed", check=False,
                         env={"PIANO_RUNS_DIR": str(project.root / "none")})
    assert none.status == 1 and "no recordings" in none.err


@tool
def test_hostile_names_do_not_break_the_formats(project: Project) -> None:
    rec = make.Recording(rate=1)
    rec.module(b"/tmp/a;b c\nd\x1b[1m\xff", 0x400000, 0x500000)
    rec.sample(rec.stack([0x400010, 0x400020]), 7)
    path = put(project, rec)
    line = project.piano("export", path, "--format", "collapsed").out
    stack, weight = line[:-1].rsplit(" ", 1)
    assert weight == "7" and stack.count(";") == 1 and not re.search(r"[\s\x1b]", stack), line
    speedscope = project.piano("export", path, "--format", "speedscope").out
    assert "\x1b" not in speedscope and len(json.loads(speedscope)["shared"]["frames"]) == 2
    out = project.root / "h.pb"
    project.piano("export", path, "--format", "pprof", "-o", out)
    raw = out.read_bytes()
    for number, value in fields(raw):
        if number == 6:
            value.decode("utf-8")  # profile.proto: strings are UTF-8
