"""Names of functions stay in the recording, whatever happens to the program's files; damaged names do not stop readers."""
from __future__ import annotations

import os
import shutil
import signal
import struct
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from conftest import LIMIT_S, PIANO, Project
from heaps import compile
from made import make, names, program, put, recording

tool = pytest.mark.tool
__all__ = ["program"]
HEAD, CHUNK = make.HEADER, make.CHUNK

SOURCE = """
    static inline __attribute__((always_inline)) void *inlined_%(v)s(size_t n) { return malloc(n); }
    __attribute__((noinline)) void *maker_%(v)s(size_t n) { char *volatile p = inlined_%(v)s(n); *p = 1; return p; }
    __attribute__((noinline)) unsigned spin_%(v)s(unsigned n)
    {
        volatile unsigned x = %(more)s;
        for (unsigned i = 0; i < n; i++) x = x * 3 + i;
        return x;
    }
    int main(void) { void *volatile p = maker_%(v)s(123456); return spin_%(v)s(100 * 1000 * 1000) == 1 && p; }
"""
OLD = SOURCE % {"v": "old", "more": "1"}
NEW = "static int before(int x) { return x * 7; }\n" + SOURCE % {"v": "new", "more": "before(rand())"}


def chunks_of(path: Path) -> int:
    return struct.unpack_from("<Q", path.read_bytes(), 40)[0]


def types_of(path: Path) -> list[int]:
    data = path.read_bytes()
    return [struct.unpack_from("<I", data, HEAD + i * CHUNK)[0] for i in range(chunks_of(path))]


def strip_names(path: Path) -> None:
    """A recording as older versions made it, or one that was not finished."""
    data = bytearray(path.read_bytes())
    kept = [i for i, kind in enumerate(types_of(path)) if kind != make.SYMBOLS]
    struct.pack_into("<Q", data, 40, len(kept))
    path.write_bytes(bytes(data[:HEAD]) + b"".join(bytes(data[HEAD + i * CHUNK:HEAD + (i + 1) * CHUNK]) for i in kept))


def seen(project: Project, path: Path) -> dict[str, Any]:
    """All outputs with names for a recording."""
    heap = project.json("report", "--heap", "--all", path)
    cpu = project.json("report", "--cpu", "--all", path)
    return {"sites": [site["stack"] for site in heap["sites"]],
            "cpu": [(row["name"], row.get("file")) for row in cpu["functions"]],
            "tree": project.piano("report", "--heap", "--tree", path).out,
            "folded": project.piano("export", "--format", "collapsed", path).out}


def silent(project: Project, path: Path) -> None:
    for flags in (["--heap"], []):
        said = project.piano("report", *flags, path).err
        assert "no names" not in said and "replaced" not in said and "gone" not in said, said


def rebuilt(project: Project, prog: Path, flags: list[str]) -> None:
    compile(project, NEW, *flags)


def deleted(project: Project, prog: Path, flags: list[str]) -> None:
    prog.unlink()


def stripped(project: Project, prog: Path, flags: list[str]) -> None:
    project.command("strip", prog)


@pytest.mark.parametrize("flags", [["-g"], ["-g0"], ["-g0", "-s"], ["-g", "-Wl,--build-id=none"]], ids=" ".join)
@pytest.mark.parametrize("becomes", [rebuilt, deleted, stripped])
def test_names_survive_a_rebuild_of_the_program(project: Project, becomes: Any, flags: list[str]) -> None:
    prog = compile(project, OLD, *flags)
    path = project.root / "out.rec"
    project.piano("record", "--heap=1", "--cpu=999", "-o", path, "--", prog)
    before = seen(project, path)
    if "-s" not in flags:
        assert "maker_old" in before["folded"] and "spin_old" in str(before["cpu"])
    assert ("inlined_old" in before["folded"]) == ("-g" in flags)
    becomes(project, prog, flags)
    assert seen(project, path) == before
    silent(project, path)


def test_two_builds_at_one_path_are_compared(project: Project) -> None:
    """The steps of a CI job: record, build, record, compare."""
    for version in ("a", "b"):
        prog = compile(project, """
            __attribute__((noinline)) void *keeps(size_t n) { char *volatile p = malloc(n); *p = 1; return p; }
            int main(void) { void *volatile p = keeps(%d); return !p; }
        """ % (100_000 if version == "a" else 300_000))
        project.piano("record", "--heap=1", "-o", f"{version}.rec", "--", prog)
    done = project.piano("diff", "a.rec", "b.rec", "--fail-above", "10", check=False)
    assert done.status == 1 and "keeps < main: live bytes +200.0%" in done.err, done
    assert "no names" not in done.err


def test_names_survive_on_another_machine(project: Project, tmp_path: Path) -> None:
    """Only the recording is moved; the paths of its modules have no files or different ones."""
    prog = compile(project, OLD, "-g")
    project.piano("record", "--heap=1", "--cpu", "-o", "out.rec", "--", prog)
    before = seen(project, project.root / "out.rec")
    elsewhere = Project(tmp_path / "elsewhere", project.home)
    elsewhere.root.mkdir()
    shutil.move(project.root / "out.rec", elsewhere.root / "out.rec")
    shutil.rmtree(project.root)
    after = seen(elsewhere, elsewhere.root / "out.rec")
    del before["tree"], after["tree"]  # paths below the working directory are shorter
    assert after == before


def test_recording_stays_readable_by_its_owner_only(project: Project) -> None:
    prog = compile(project, OLD)
    project.piano("record", "--heap=1", "-o", "out.rec", "--", prog)
    path = project.root / "out.rec"
    assert types_of(path).count(make.SYMBOLS) >= 1
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.stat().st_size == HEAD + chunks_of(path) * CHUNK


def test_recordings_of_children_have_names(project: Project) -> None:
    prog = compile(project, OLD)
    project.piano("record", "--heap=1", "--children", "-o", "out.rec", "--", "sh", "-c", f"{prog}; {prog}; true")
    files = [f for f in project.root.glob("out.rec-*") if "maker_old" in project.piano("report", "--heap", f).out]
    assert len(files) == 2 and all(make.SYMBOLS in types_of(f) for f in files)


@pytest.mark.parametrize("ends", ["exec", "killed"])
def test_names_are_kept_however_the_program_ends(project: Project, ends: str) -> None:
    prog = compile(project, OLD.replace("return spin", "if (getenv(\"KILL\")) raise(9); return spin").replace(
        "static inline", "#include <signal.h>\nstatic inline", 1), "-g")
    path = project.root / "out.rec"
    project.piano("record", "--heap=1", "-o", path, "--", *(["env", "X=1"] if ends == "exec" else []), prog,
                  check=False, env={"KILL": "1"} if ends == "killed" else {})
    prog.unlink()
    assert "maker_old" in project.piano("report", "--heap", path).out


# Preloaded before libdw; stops the tool when it begins to look for names.
SLOW = """
    #define _GNU_SOURCE
    #include <dlfcn.h>
    #include <fcntl.h>
    #include <signal.h>
    #include <stdlib.h>
    #include <unistd.h>
    void *dwfl_begin(const void *callbacks)
    {
        const char *word = getenv("STOP_AT_NAMES");
        sigset_t told, before;
        sigemptyset(&told);
        sigaddset(&told, SIGINT);
        sigprocmask(SIG_BLOCK, &told, &before);
        close(open("naming", O_CREAT | O_WRONLY, 0600));
        do sigsuspend(&before); while (word && *word == 'f');
        sigprocmask(SIG_SETMASK, &before, NULL);
        return ((void *(*)(const void *))dlsym(RTLD_NEXT, "dwfl_begin"))(callbacks);
    }
"""


@pytest.mark.parametrize("stops", ["once", "for good"])
def test_ctrl_c_skips_only_the_names(project: Project, stops: str) -> None:
    """Ctrl-C ends the search for names and skips the rest; a second one does so even while files are read. The exit status
    is the program's."""
    prog = compile(project, OLD)
    project.write({"slow.c": SLOW})
    project.command("gcc", "-shared", "-fPIC", "slow.c", "-o", "slow.so", "-ldl")
    path = project.root / "out.rec"
    recorder = subprocess.Popen([PIANO, "record", "--heap=1", "-o", path, "--", prog],
                                cwd=project.root, stderr=subprocess.PIPE, text=True,
                                env={**project.env, "LD_PRELOAD": str(project.root / "slow.so"), "STOP_AT_NAMES": stops})
    until = time.monotonic() + LIMIT_S
    while not (project.root / "naming").exists() and recorder.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    recorder.send_signal(signal.SIGINT)
    if stops == "for good":
        while recorder.poll() is None and time.monotonic() < until:  # the first may not have arrived yet
            recorder.send_signal(signal.SIGINT)
            time.sleep(0.01)
    said = recorder.communicate(timeout=LIMIT_S)[1]
    assert recorder.returncode == 0, said
    assert "recording: out.rec" in said
    assert "interrupted: function names" in said and "next: piano report" in said, said
    assert make.SYMBOLS not in types_of(path)
    assert "maker_old" in project.piano("report", "--heap", path).out


# Recordings without names ---------------------------------------------------------------------------------


@tool
@pytest.mark.parametrize("command", [["report"], ["report", "--cpu"], ["diff"], ["view", "-o", "page.html"],
                                     ["export", "--format", "pprof", "-o", "out.pb"]], ids=" ".join)
def test_readers_write_nothing(project: Project, program: Path, command: list[str]) -> None:
    rec, s = recording(program, rate=1)
    rec.sample(s.parse, 100).cpu(1, 10, s.load)
    path = put(project, rec)
    data, times = path.read_bytes(), path.stat().st_mtime_ns
    project.piano(command[0], path, *([path] if command[0] == "diff" else []), *command[1:])
    assert path.read_bytes() == data and path.stat().st_mtime_ns == times


@tool
def test_bytes_after_the_last_chunk_are_ignored(project: Project, program: Path) -> None:
    """A tool that was killed while it kept names leaves temporary files."""
    rec, s = recording(program, rate=1)
    rec.sample(s.parse, 100)
    path = put(project, rec)
    with path.open("ab") as out:
        out.write(b"\xff" * 70_000)
    first = project.piano("report", "--heap", path)
    assert "make_node" in first.out and "missing" not in first.err


def test_names_beyond_the_size_limit_are_left_out(project: Project) -> None:
    prog = compile(project, """
        __attribute__((noinline)) void *leaks(void) { return malloc(64); }
        int main(void) { for (int i = 0; i < 200000; i++) if (!leaks()) return 1; return 0; }
    """)
    path = project.root / "small.rec"
    done = project.piano("record", "--heap=1", "--max-size", "1M", "-o", path, "--", prog)
    assert "no room for all function names" in done.err and path.stat().st_size <= 1 << 20
    assert "leaks" in project.piano("report", "--heap", path).out


# Names in the file -----------------------------------------------------------------------------------------


def made_up(**options: Any) -> tuple[Any, int]:
    """Names of a program that does not exist: leaf (inlined) < outer, and main."""
    rec = make.Recording(program="/nowhere/app", rate=1, **options)
    rec.module("/nowhere/app", 0x400000, 0x500000, 0x400000, b"\x12\x34")
    rec.symbol("/nowhere/app", 0x100F, [("leaf", "a.c", 3, True), ("outer", "a.c", 9, False)], b"\x12\x34")
    rec.symbol("/nowhere/app", 0x201F, [("main", "a.c", 20, False)], b"\x12\x34")
    stack = rec.stack([0x401010, 0x402020])
    rec.sample(stack, 100)
    return rec, stack


@tool
def test_names_of_a_missing_program_are_read_from_the_recording(project: Project) -> None:
    rec, _ = made_up()
    path = put(project, rec)
    stack = project.json("report", "--heap", path)["sites"][0]["stack"]
    assert [(f["function"], f["file"], f["line"], f["inlined"], f["module"]) for f in stack] == [
        ("leaf", "a.c", 3, True, "app"), ("outer", "a.c", 9, False, "app"), ("main", "a.c", 20, False, "app")]
    silent(project, path)


@tool
def test_names_of_another_build_are_not_used(project: Project) -> None:
    rec, _ = made_up()
    rec.modules = [("/nowhere/app", 0x400000, 0x500000, 0x400000, b"\x12\x35", 0, 0xFFFFFFFF)]
    done = project.piano("report", "--heap", put(project, rec))
    assert "leaf" not in done.out and "no names for /nowhere/app" in done.err


@tool
def test_kernel_names_of_another_boot_are_kept(project: Project) -> None:
    rec, _ = made_up()
    rec.cpu(1, 10, rec.stack([0xFFFFFFFF81000011, 0x401010], number=make.TOOL_STACK | 1))
    rec.symbol(None, 0xFFFFFFFF81000010, [("do_something_else", None, 0, False)])
    assert "do_something_else" in project.piano("report", "--cpu", put(project, rec)).out


@tool
def test_callbacks_are_named_by_address(project: Project) -> None:
    rec, _ = made_up()
    rec.symbol("/nowhere/app", 0x3000, [("on_tick", "a.c", 30, False)], b"\x12\x34")
    rec.thread(1, "main")
    rec.poll(1, 10, 5, 7, rec.name("timer@0x403000"))
    assert "timer on_tick" in project.piano("report", "--polls", put(project, rec)).out


def test_names_of_callbacks_are_kept(project: Project) -> None:
    project.write({"tick.c": """
        #include <uv.h>
        static void on_tick(uv_timer_t *t) { uv_timer_stop(t); }
        int main(void)
        {
            uv_timer_t t;
            uv_timer_init(uv_default_loop(), &t);
            uv_timer_start(&t, on_tick, 1, 0);
            return uv_run(uv_default_loop(), UV_RUN_DEFAULT);
        }
    """})
    project.command("gcc", "-O1", "tick.c", "-o", "tick", "-luv")
    path = project.root / "out.rec"
    project.piano("record", "--events", "-o", path, "--", project.root / "tick")
    (project.root / "tick").unlink()
    assert "timer on_tick" in project.piano("report", "--polls", path).out


@tool
def test_hostile_names_are_not_printed(project: Project) -> None:
    """Control characters in names are not printed to the terminal."""
    rec, _ = made_up()
    rec.symbol_texts = [b"\x1b[31mleaf\x07" if t == "leaf" else b"\xff\xfe<b>" if t == "outer" else t
                        for t in rec.symbol_texts]
    path = put(project, rec)
    for command in (["report", "--heap"], ["report", "--heap", "--tree"], ["export", "--format", "collapsed"]):
        out = project.piano(*command, path).out
        assert "\x1b" not in out and "\x07" not in out
    assert project.json("report", "--heap", path)["sites"][0]["stack"][0]["function"] == "\x1b[31mleaf\x07"


def symbols_at(rec: Any) -> int:
    """The offset of the payload of the symbols chunk."""
    kinds = [chunk[0] for chunk in rec.chunks()]
    return HEAD + kinds.index(make.SYMBOLS) * CHUNK + make.CHUNK_HEAD


@tool
@pytest.mark.parametrize("offset, value, said", [
    (0, 0, "a stored name that cannot be read: the rest of its chunk is left out"),
    (0, 0xFFFFFFF8, "a stored name that cannot be read"),
    (0, 20, "a stored name that cannot be read"),
    (0, 60000, "a stored name that cannot be read"),
    (8, 0, "an invalid stored name"),
    (16, 0x41414141, None),
])
def test_damaged_names_are_reported_by_byte(project: Project, offset: int, value: int, said: str | None) -> None:
    rec, _ = made_up()
    path = put(project, rec)
    data = bytearray(path.read_bytes())
    struct.pack_into("<I", data, symbols_at(rec) + offset, value)
    path.write_bytes(data)
    done = project.piano("report", "--heap", path)
    if said:
        assert f"byte{'s' if 'invalid' in said else ''} {symbols_at(rec)}" in done.err and said in done.err, done.err
        assert "app+0x100f" in done.out
    assert project.json("report", "--heap", path)["live_bytes"] == 100


@tool
@pytest.mark.parametrize("what", ["text", "file", "no frames", "many frames", "module", "build-id", "kind", "type"])
def test_symbols_that_do_not_fit_together(project: Project, what: str) -> None:
    rec, _ = made_up()
    module, address, frames = rec.symbols[0]
    if what == "text":
        frames[1] = (99, 0, 0, 0)
    elif what == "file":
        frames[0] = (frames[0][0], 99, 3, 1)
    elif what == "no frames":
        rec.symbols[0] = (module, address, [])
    elif what == "module":
        rec.symbols[0] = (77, address, frames)
    path = put(project, rec)
    data, at = bytearray(path.read_bytes()), symbols_at(rec)
    if what == "many frames":
        struct.pack_into("<I", data, data.index(struct.pack("<I", 3) + struct.pack("<II", 1, 2), at) + 8, 4000)
    elif what == "build-id":
        struct.pack_into("<I", data, data.index(b"/nowhere/app", at) - 36, 33)
    elif what == "kind":
        struct.pack_into("<I", data, at + 4, 9)
    elif what == "type":
        struct.pack_into("<I", data, at - make.CHUNK_HEAD, 99)
    path.write_bytes(data)
    done = project.piano("report", "--heap", "--all", path)
    if what == "file":
        assert "leaf" in done.out
    else:
        assert "app+0x100f" in done.out and "leaf" not in done.out
    if what in ("text", "file", "module", "kind"):
        assert "piano: " + str(path) not in done.err
    elif what == "type":
        assert "1 chunk of a kind this piano does not know" in done.err
    else:
        assert "invalid" in done.err
