"""Hostile, broken, huge and missing input: a clear error that names the file, exit status 1, no crash."""
from __future__ import annotations

import json
import os
import random
import re
import shutil

import pytest

from conftest import (PIANO_WORD, BURN, PIANO, Project, fingerprint, fn, frame, header, ndjson, put_run,
                      update_run)

GOOD = update_run([16_000_000] * 12)
HEAD = ndjson(header(["f", "g"]))
tool = pytest.mark.tool
FOREIGN = [
    ("empty", b""), ("newline", b"\n"), ("blank", b"   \n\n\n"), ("text", b"hello world\n"),
    ("html", b"<!doctype html><html></html>\n"), ("elf", b"\x7fELF\x02\x01\x01" + bytes(500)),
    ("zeros", bytes(100_000)), ("ff", b"\xff" * 5000), ("array", b"[1,2,3]\n"), ("null", b"null\n"),
    ("number", b"42\n"), ("string", b'"format_version"\n'), ("other-object", b'{"a":1}\n'),
    ("no-functions", b'{"format_version":2}\n'),
    ("version-3", b'{"format_version":3,"functions":[]}\n'),
    ("version-huge", b'{"format_version":99999999999999999999,"functions":["f"]}\n'),
    ("functions-not-a-list", b'{"format_version":2,"functions":{"f":1}}\n'),
    ("functions-of-numbers", b'{"format_version":2,"functions":[1,2]}\n'),
    ("half-a-header", HEAD.encode()[:40]), ("deep", b"[" * 200_000 + b"]" * 200_000 + b"\n"),
    ("deep-objects", b'{"a":' * 100_000), ("gz", b"\x1f\x8b\x08\x00" + bytes(range(256))),
    ("utf16", HEAD.encode("utf-16")),
]


@tool
@pytest.mark.parametrize("name,content", FOREIGN, ids=[name for name, _ in FOREIGN])
@pytest.mark.parametrize("suffix", [".ndjson", ".json"])
def test_foreign_files(project: Project, name: str, content: bytes, suffix: str) -> None:
    path = project.root / f"bad-{name}{suffix}"
    path.write_bytes(content)
    for words in (["report", path], ["report", "--frames", path], ["diff", path, path]):
        done = project.piano(*words, check=False, limit=20)
        assert done.status == 1, done
        assert done.out == "" and path.name in done.err, done
        assert "\x1b" not in done.err and len(done.err) < 2000
    assert path.read_bytes() == content


@tool
@pytest.mark.parametrize("line", [
    '{"frame":1,"fns":[{"id":7,"calls":1,"self_ns":1}]}', '{"frame":1,"fns":[{"id":-1,"calls":1}]}',
    '{"frame":1,"fns":[{"id":1e30,"calls":1}]}',
    '{"frame":1,"fns":[{"id":0,"calls":-5,"self_ns":1}]}',
    '{"frame":1,"fns":"none"}', '{"frame":1,"fns":[[]]}', '{"frame":1', "}{", "garbage", '"x"',
    '{"frame":1,"fns":[{"id":0,"calls":1,"self_ns":"many"}]}', '{"frame":1,"root":99,"fns":[]}',
    '{"merged":-4,"root":0,"fns":[]}', '{"merged":3,"root":0,"hist":[[99999999,1]],"fns":[]}',
    '{"merged":3,"root":0,"hist":[[-1,1]],"fns":[]}', '{"functions_add":5}', '{"thread":"one"}',
    '{"thread":99999999999,"name":"x"}', '{"demoted":50}', '{"part":true,"depth":-1,"fns":[]}',
    '{"frame":1,"depth":99999999999,"fns":[{"id":0,"calls":1,"self_ns":1}]}',
    '{"frame":1,"fns":[{"id":0,"calls":1,"self_ns":1}]} trailing',
    '{"frame":1,"fns":[{"id":0,"calls":1,"calls":2,"self_ns":1}]}', "\\u0000", "\x00\x00\x00",
], ids=lambda line: re.sub(r"[^\w{}:,-]", "", line)[:60])
def test_a_broken_line_in_the_middle_does_not_lose_the_rest(project: Project, line: str) -> None:
    good = ndjson(frame(0, [fn(0, 1, 500)], 1000))
    put_run(project, "1740000000000-1", HEAD + good * 5 + line + "\n" + good * 5)
    report = project.report()
    assert report.row("f")["calls"] in (10, 11, 12)


@tool
def test_broken_lines_are_reported(project: Project) -> None:
    good = ndjson(frame(0, [fn(0, 1, 500)], 1000))
    path = put_run(project, "1740000000000-1", HEAD + good * 5 + "garbage\n" + good * 5)
    done = project.piano("report")
    assert path.name in done.err and "7" in done.err, "the file and the line"
    assert project.json("report")["run"]["unreadable_lines"] == 1


@tool
def test_numbers_beyond_64_bits_do_not_crash_the_report(project: Project) -> None:
    huge = "9" * 400
    put_run(project, "1740000000000-1", HEAD + f'{{"frame":0,"wall_ns":{huge},"fns":[{{"id":0,'
            f'"calls":{huge},"self_ns":-{huge},"ac":1e400,"ab":18446744073709551616}}]}}\n' * 3)
    done = project.piano("report", check=False)
    assert done.status in (0, 1) and done.err
    put_run(project, "1740000000001-1", HEAD + ndjson(
        frame(0, [fn(0, 2**63 - 1, 2**63 - 1, 2**63 - 1, 2**63 - 1)], 2**63 - 1)) * 4)
    data = project.json("report")
    assert data["functions"][0]["calls"] > 0, "sums stop at the top, they do not wrap"


@tool
@pytest.mark.parametrize("seed", range(4))
def test_mutated_files_never_crash(project: Project, seed: int) -> None:
    """Bytes changed, cut, doubled at random: an answer, exit status 0 or 1, no signal."""
    rng = random.Random(seed)
    base = bytearray(GOOD.encode())
    for _ in range(25):
        data = bytearray(base)
        for _ in range(rng.randint(1, 30)):
            at = rng.randrange(len(data))
            kind = rng.randrange(4)
            if kind == 0:
                data[at] = rng.randrange(256)
            elif kind == 1:
                del data[at:at + rng.randint(1, 50)]
            elif kind == 2:
                data[at:at] = data[at:at + rng.randint(1, 200)]
            else:
                data[at:at] = rng.choice([b'"', b"{", b"}", b"[", b"]", b"\\", b"\n", b"-", b"1e9"])
            data = data or bytearray(b"x")
        path = project.root / "mutant.ndjson"
        path.write_bytes(data)
        option = rng.choice(["--json", "--frames", "--threads", "--all"])
        done = project.piano("report", path, option, check=False, limit=20)
        assert done.status in (0, 1), (bytes(data), done)


@tool
def test_huge_line(project: Project) -> None:
    """One frame with 200 000 functions in it, and one name of 1 MB."""
    names = [f"f{i}" for i in range(200_000)]
    names[0] = "n" * (1 << 20)
    put_run(project, "1740000000000-1", ndjson(
        header(names), *[frame(n, [fn(i, 1, 10) for i in range(0, 200_000, 4)], 9999)
                         for n in range(2)]))
    data = project.json("report", "--top", "3", limit=30)
    assert len(data["functions"]) == 3
    project.piano("report", limit=30)


@tool
def test_missing_files_tags_and_directories_are_named(project: Project) -> None:
    for words, name in ((["report", "no/such/file.ndjson"], "no/such/file.ndjson"),
                        (["diff", "no-a", "no-b"], "no-a"), (["tag", "x", "no-run"], "no-run")):
        done = project.piano(*words, check=False)
        assert done.status == 1 and name in done.err and done.out == "", words
    done = project.piano("report", env={"PIANO_RUNS_DIR": str(project.root / "nowhere")},
                         check=False)
    assert done.status == 1 and "nowhere" in done.err
    assert not (project.root / "nowhere").exists(), "a reader makes no directories"


@tool
def test_pipes_directories_and_link_loops_are_refused(project: Project) -> None:
    os.mkfifo(project.root / "pipe.ndjson")
    (project.root / "loop.ndjson").symlink_to("loop.ndjson")
    (project.root / "dir.ndjson").mkdir()
    for name in ("pipe.ndjson", "loop.ndjson", "dir.ndjson", "/dev/null"):
        done = project.piano("report", name, check=False, limit=10)
        assert done.status == 1 and name in done.err, name


@tool
def test_foreign_files_in_the_runs_directory_are_no_hindrance(project: Project) -> None:
    put_run(project, "1740000000123-77", GOOD)
    for name in ("notes.txt", "zzz.ndjson.swp", "README", ".hidden.ndjson"):
        (project.runs / name).write_text("x")
    (project.runs / "9999999999999-1.ndjson").mkdir()
    assert project.report().frame_count == 12
    project.piano("list")


@tool
def test_the_newest_run_is_broken(project: Project) -> None:
    """An error about that run, not a report of an older one."""
    put_run(project, "1740000000123-77", GOOD)
    broken = put_run(project, "1750000000123-77", "garbage\n")
    done = project.piano("report", check=False)
    assert done.status == 1 and broken.name in done.err


@tool
@pytest.mark.parametrize("content", [b"", b"x", bytes(4096), b"\xff" * 10_000, os.urandom(20_000)],
                         ids=["empty", "byte", "zeros", "ones", "random"])
def test_hostile_live_files(project: Project, content: bytes) -> None:
    path = put_run(project, "1740000000123-77", GOOD.rsplit('{"end"', 1)[0])
    path.with_suffix(".live").write_bytes(content)
    report = project.report()
    assert report.row("update")["calls"] == 12


def test_mutated_live_files(project: Project) -> None:
    """The files of a killed program, damaged at random: no crash."""
    program = project.cc("""
        #include <signal.h>
        static volatile unsigned sink;
        static void tiny(void) { sink++; }
        static void update(void) { for (int i = 0; i < 100; i++) tiny(); }
        int main(void) { for (int i = 0; i < 300; i++) update(); raise(SIGKILL); }
    """, "-w")
    assert project.command(program, check=False).status == -9
    live = next(project.runs.glob("*.live"))
    whole = live.read_bytes()
    rng = random.Random(5)
    for turn in range(60):
        data = bytearray(whole[:rng.randrange(len(whole))] if turn % 4 == 0 else whole)
        for _ in range(rng.randint(1, 40)):
            if data:
                at = rng.randrange(min(len(data), 70_000 if turn % 2 else len(data)))
                data[at:at + 8] = rng.choice([b"\xff" * 8, bytes(8), rng.randbytes(8)])
        live.write_bytes(data)
        done = project.piano("report", "--json", check=False, limit=20)
        assert done.status in (0, 1), (turn, done)
        json.loads(done.out or "{}")


# Places that are not writable -------------------------------------------------------------------

PROGRAM = BURN + """
    #include <stdio.h>
    #include <stdlib.h>
    void update(void) { BURN(200); free(malloc(10)); }
    int main(void) { for (int i = 0; i < 20000; i++) update(); puts("done"); return 3; }
"""


@pytest.mark.parametrize("place", ["file/runs", "/proc/no/runs", "/dev/null"])
def test_runs_directory_that_cannot_be_made(project: Project, place: str) -> None:
    """The program runs even if its profile cannot be written."""
    (project.root / "file").write_text("")
    program = project.cc(PROGRAM)
    where = place if place.startswith("/") else str(project.root / place)
    done = project.command(program, check=False, env={"PIANO_RUNS_DIR": where})
    assert (done.status, done.out) == (3, "done\n")
    assert done.err == "" or where in done.err


def in_tmpfs(project: Project, size: str, script: str):
    """Runs SCRIPT in a new mount namespace with a small tmpfs on ./mnt."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("mounting a small file system needs root and unshare")
    (project.root / "mnt").mkdir(exist_ok=True)
    probe = project.command("unshare", "-m", "sh", "-c", f"mount -t tmpfs -o size={size} t mnt",
                            check=False)
    if probe.status != 0:
        pytest.skip(f"mount is refused here: {probe.err.strip()}")
    return project.command("unshare", "-m", "sh", "-c",
                           f"mount -t tmpfs -o size={size} t mnt && {script}", check=False)


@pytest.mark.parametrize("size", ["4k", "64k", "1m"])
def test_full_disk_does_not_hurt_the_program(project: Project, size: str) -> None:
    program = project.cc(PROGRAM)
    done = in_tmpfs(project, size, f"PIANO_RUNS_DIR=$PWD/mnt/runs {program}; s=$?; "
                                   f"PIANO_RUNS_DIR=$PWD/mnt/runs {PIANO_WORD} report >&2; "
                                   "echo report $? >&2; exit $s")
    assert (done.status, done.out) == (3, "done\n"), done
    assert "report 0" in done.err or "report 1" in done.err, done


def test_full_disk_during_a_build_is_reported(project: Project) -> None:
    project.write({"mnt/a.c": PROGRAM})
    text = (project.root / "mnt/a.c").read_text()
    (project.root / "a.c").write_text(text)
    done = in_tmpfs(project, "24k", f"cp a.c mnt/ && cd mnt && {PIANO_WORD} build -- gcc a.c -o a")
    assert done.status == 1, done
    assert done.err and done.status < 128


def test_read_only_project_builds_nothing_and_says_so(project: Project) -> None:
    project.write({"ro/a.c": PROGRAM})
    before = fingerprint(project.root)
    done = in_tmpfs(project, "1m", "mount --bind ro mnt && mount -o remount,ro,bind mnt && "
                                   f"cd mnt && {PIANO_WORD} build -- gcc a.c -o a")
    assert done.status == 1 and ".piano" in done.err and "ead-only" in done.err, done
    after = fingerprint(project.root)
    after.pop("mnt", None)
    assert after == before


def test_read_only_runs_directory(project: Project) -> None:
    program = project.cc(PROGRAM)
    (project.root / "ro").mkdir()
    done = in_tmpfs(project, "1m", "mount --bind ro mnt && mount -o remount,ro,bind mnt && "
                                   f"PIANO_RUNS_DIR=$PWD/mnt {program}")
    assert (done.status, done.out) == (3, "done\n"), done
    assert list((project.root / "ro").iterdir()) == []


@tool
def test_tag_in_a_read_only_directory(project: Project) -> None:
    put_run(project, "1740000000123-77", GOOD)
    done = in_tmpfs(project, "1m", "mount --bind .piano .piano && "
                                   f"mount -o remount,ro,bind .piano && {PIANO_WORD} tag before")
    assert done.status == 1 and "ead-only" in done.err, done


def test_existing_run_files_are_never_overwritten(project: Project) -> None:
    """A runs directory with foreign files that have the names that the runtime would choose."""
    program = project.cc(PROGRAM)
    project.runs.mkdir(parents=True, exist_ok=True)
    keep = put_run(project, "1740000000123-77", GOOD)
    before = keep.read_bytes()
    for _ in range(3):
        assert project.command(program, check=False).status == 3
    assert keep.read_bytes() == before
    assert len(project.run_files()) == 4


def test_unreadable_selection_state_is_rebuilt(project: Project) -> None:
    """.piano/build is damaged: the next build repairs it or says what to delete."""
    project.cc(PROGRAM)
    for path in (project.root / ".piano" / "build").rglob("*"):
        if path.is_file() and path.suffix in (".unit", ".link", "") and path.name != "prog":
            path.write_bytes(b"\xff\x00garbage")
    done = project.piano("build", "--", "gcc", "-O1", "prog.c", "-o", "prog", check=False)
    assert done.status == 0 or ".piano" in done.err, done
