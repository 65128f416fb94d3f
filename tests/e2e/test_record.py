"""`piano record`: refused commands with reasons; the program does not notice it."""
from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import stat
import struct
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from conftest import LIB, LIMIT_S, PIANO, PIANO_WORD, Done, Project, need

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
NOBODY = 65534
OURS = {"LD_PRELOAD", "PIANO_RECORD", "PIANO_RECORD_PID", "PIANO_HEAP"}
OF_CHILDREN = {"PIANO_FAMILY_MOST", "PIANO_FAMILY_SIZE"}

HOLDER = r"""
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <unistd.h>
    static char *held[4096];
    int main(int argc, char **argv)
    {
        int status = argc > 1 ? atoi(argv[1]) : 0;
        for (int i = 0; i < 4096; i++)
            held[i] = malloc(4096);
        %s
        puts(held[17] ? "held" : "nothing");
        return status;
    }
"""
# Memory that is never touched, so that programs earlier in the chain are small compared with it.
LARGE = HOLDER % "for (int i = 0; i < 1024; i++) held[i] = malloc(1 << 20);"
# Prints that it is ready, then waits for a line; SIGTERM and SIGINT have their default effect.
WAITING = HOLDER % 'printf("%d\\n", getpid()); fflush(stdout); (void)!getchar();'


class Header:
    """The fields of a recording that the tool itself fills in."""

    def __init__(self, path: Path):
        data = path.read_bytes()
        assert data[:8] == b"PIANOREC", path
        self.pid, self.flags = struct.unpack_from("<I", data, 24)[0], struct.unpack_from("<I", data, 32)[0]
        self.rate, self.exit_status, self.snapshots = struct.unpack_from("<3Q", data, 72)
        self.samples = struct.unpack_from("<Q", data, 176)[0]
        self.program = data[432:432 + 1024].split(b"\0")[0].decode()


def compiled(project: Project, source: str, name: str = "prog", *flags: str) -> Path:
    project.write({name + ".c": source})
    project.command("gcc", "-O1", "-fno-builtin", "-w", name + ".c", "-o", name, *flags)
    return project.root / name


def recordings(project: Project, folder: Path | None = None) -> list[Path]:
    where = folder or project.runs
    return sorted(where.glob("*.rec*")) if where.is_dir() else []


def only(project: Project) -> Path:
    found = recordings(project)
    assert len(found) == 1, found
    return found[0]


def record(project: Project, *words: Any, flags: tuple = ("--heap=64K",), **options: Any) -> Done:
    return project.piano("record", *flags, "--", *words, **options)


class Running:
    """Runs `piano record` with a program that has printed its process id."""

    def __init__(self, project: Project, program: Path, *flags: str, env: dict[str, str] | None = None):
        ours, self.input = os.pipe()  # not Popen's own pipe, which it closes when it waits, so that the program would continue
        self.tool = subprocess.Popen([PIANO, "record", "--heap=64K", *flags, "--", str(program)],
                                     cwd=project.root, env={**project.env, **(env or {})}, stdin=ours,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        os.close(ours)
        self.pid = int(self.tool.stdout.readline())

    def end(self) -> tuple[int, str, str]:
        """Lets the program continue; returns (status, out, err)."""
        try:
            os.write(self.input, b"\n")
            out, err = self.tool.communicate(timeout=LIMIT_S)
        finally:
            self.kill()
        return self.tool.returncode, out.decode(), err.decode()

    def wait(self) -> tuple[int, str]:
        try:
            _, err = self.tool.communicate(timeout=LIMIT_S)
        finally:
            self.kill()
        return self.tool.returncode, err.decode()

    def kill(self) -> None:
        try:
            os.killpg(self.tool.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.tool.wait()
        if self.input >= 0:
            os.close(self.input)
            self.input = -1


@pytest.fixture
def running(project: Project) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def start(*flags: str, source: str = WAITING, **options: Any) -> Running:
        one = Running(project, compiled(project, source), *flags, **options)
        started.append(one)
        return one

    yield start
    for one in started:
        one.kill()


# Command lines --------------------------------------------------------------------------------------


@pytest.mark.tool
@pytest.mark.parametrize("words", [
    [], ["--"], ["--heap=0", "--", "true"], ["--heap=", "--", "true"], ["--heap=64Q", "--", "true"],
    ["--heap=64BB", "--", "true"], ["--heap=1.5.5K", "--", "true"], ["--heap=0x10", "--", "true"],
    ["--heap=0.5", "--", "true"], ["--heap=-1", "--", "true"], ["--heap=99999999999999999999", "--", "true"],
    ["--heap=999999999G", "--", "true"], ["--heap", "64K", "--", "true"], ["-o"], ["-o", "--", "true"],
    ["--snapshot-every", "-1", "--", "true"], ["--snapshot-every", "0.001", "--", "true"],
    ["--snapshot-every", "often", "--", "true"], ["--duration", "0", "--", "true"],
], ids=" ".join)
def test_usage_errors(project: Project, words: list[str]) -> None:
    done = project.piano("record", *words, check=False)
    assert done.status == 2 and done.out == "" and done.err.startswith("piano: "), done
    assert "piano record --help" in done.err
    assert not project.runs.exists()


@pytest.mark.tool
@pytest.mark.parametrize("command,word,near", [
    ("record", "--chlidren", "--children"), ("record", "--snapshots-every", "--snapshot-every"),
    ("record", "--map", "--maps"), ("snapshot", "--hlep", "--help")])
def test_typos_get_suggestions(project: Project, command: str, word: str, near: str) -> None:
    done = project.piano(command, word, check=False)
    assert done.status == 2 and f"did you mean `{near}`" in done.err


@pytest.mark.tool
@pytest.mark.parametrize("words,better", [
    (["--heap", "64K", "--", "true"], "try: --heap=64K"), (["--heap", "1.5MB", "--", "x"], "try: --heap=1.5MB")])
def test_words_in_the_wrong_place(project: Project, words: list[str], better: str) -> None:
    done = project.piano("record", *words, check=False)
    assert done.status == 2 and done.out == "" and better in done.err, done
    assert "\x1b" not in done.err and not project.runs.exists()


@pytest.mark.tool
def test_a_missing_program_without_dashes(project: Project) -> None:
    done = project.piano("record", "a\x1b[1m", "--heap", check=False)
    assert done.status == 1 and "there is no program `a\\x1b[1m` in PATH" in done.err and "\x1b" not in done.err, done


@pytest.mark.tool
@pytest.mark.parametrize("words", [[], ["x"], ["1", "2"], ["0"], ["-7"], ["7x"], ["99999999999999999999"]],
                         ids=" ".join)
def test_snapshot_usage_errors(project: Project, words: list[str]) -> None:
    done = project.piano("snapshot", *words, check=False)
    assert done.status == 2 and done.out == "" and "piano snapshot --help" in done.err, done


@pytest.mark.tool
@pytest.mark.parametrize("command", ["record", "snapshot"])
def test_help_fits_a_terminal(project: Project, command: str) -> None:
    done = project.piano(command, "--help")
    assert f"piano {command}" in done.out and "Example" in done.out
    assert max(map(len, done.out.splitlines())) <= 80


@pytest.mark.parametrize("word,rate", [("--heap", 524288), ("--heap=1000", 1000), ("--heap=64K", 65536),
                                       ("--heap=2m", 2097152), ("--heap=1G", 1 << 30), ("--maps", 524288),
                                       ("--heap=64KB", 65536), ("--heap=64KiB", 65536), ("--heap=1.5M", 3 << 19),
                                       ("--heap=4096B", 4096)])
def test_every_form_of_a_rate_is_understood(project: Project, word: str, rate: int) -> None:
    record(project, "true", flags=(word,))
    assert Header(only(project)).rate == rate


# Programs that cannot be recorded --------------------------------------------------------------------


def refused(project: Project, *words: Any, says: str, flags: tuple = (), **options: Any) -> Done:
    """Nothing ran, no file was left, and the message has the reason."""
    done = record(project, *words, flags=flags, check=False, **options)
    assert done.status == 1 and done.out == "", done
    assert re.search(says, done.err), done
    assert done.err.startswith("piano: ") and "left no recording" not in done.err
    assert recordings(project) == []
    return done


@pytest.mark.tool
def test_missing_program_is_an_error(project: Project) -> None:
    refused(project, "no-such-program", says="no program `no-such-program` in PATH")
    refused(project, "./no-such-program", says="no-such-program: No such file")
    refused(project, "", says="no program")
    refused(project, "/etc/passwd", says="Permission denied\n.*try: .*chmod")
    refused(project, project.root, says="(?i)is a directory")
    refused(project, "/etc/passwd/x", says="Not a directory")


@pytest.mark.tool
def test_program_in_the_working_directory_gets_a_hint(project: Project) -> None:
    shutil.copy("/bin/true", project.root / "here")
    refused(project, "here", says=r"try: piano record -- \./here")


@pytest.mark.tool
@pytest.mark.skipif(os.geteuid() == 0, reason="root may search every directory")
def test_a_closed_directory_in_path_hides_nothing(project: Project) -> None:
    """As after `su`: PATH still has the previous user's directories."""
    closed = project.root / "closed"
    closed.mkdir(mode=0)
    path = {"PATH": f"{closed}:/usr/bin:/bin"}
    done = project.piano("record", "--", "no-such-program", check=False, env=path)
    assert "no program `no-such-program` in PATH" in done.err, done
    project.piano("record", "--", "true", env=path)
    closed.chmod(0o700)


@pytest.mark.tool
def test_names_are_made_safe(project: Project) -> None:
    done = refused(project, "\x1b[31mred\n", says=r"\\x1b\[31mred")
    assert "\x1b" not in done.err


def test_path_is_searched_as_execvp_does(project: Project) -> None:
    """A file without execute permission does not hide one that has it; an empty part is the working directory."""
    folders = [project.root / name for name in ("not_run", "a_folder", "good")]
    for folder in folders:
        folder.mkdir()
    (folders[0] / "thing").write_text("#!/bin/sh\necho wrong\n")
    (folders[1] / "thing").mkdir()
    (folders[2] / "thing").write_text("#!/bin/sh\necho right\n")
    (folders[2] / "thing").chmod(0o755)
    path = ":".join(str(folder) for folder in folders)
    assert record(project, "thing", env={"PATH": path}).out == "right\n"
    shutil.copy(folders[2] / "thing", project.root / "local")
    assert record(project, "local", env={"PATH": "/nowhere:"}).out == "right\n"
    refused_env = {"PATH": str(folders[0])}
    done = record(project, "thing", env=refused_env, check=False)
    assert done.status == 1 and "Permission denied" in done.err


@pytest.mark.parametrize("flags", [["-static"], ["-static-pie"]], ids=" ".join)
def test_static_program(project: Project, flags: list[str]) -> None:
    program = compiled(project, "#include <stdio.h>\nint main(void) { puts(\"ran\"); return 0; }\n", "prog", *flags)
    refused(project, program, says="statically linked, so nothing can be loaded into it\n.*try: piano build")


def patched(project: Project, change: Callable[[bytearray], None]) -> Path:
    data = bytearray(Path("/bin/true").read_bytes())
    change(data)
    path = project.root / "patched"
    path.write_bytes(data)
    path.chmod(0o755)
    return path


def set_loader(data: bytearray, name: bytes) -> None:
    match = re.search(rb"/lib[0-9]*/ld-linux[^\0]*\0", data)
    assert match
    data[match.start():match.end()] = name.ljust(match.end() - match.start(), b"\0")


@pytest.mark.tool
@pytest.mark.parametrize("change,says", [
    (lambda d: d.__setitem__(slice(18, 20), b"\xf3\x00"), "is for RISC-V"),
    (lambda d: d.__setitem__(slice(18, 20), b"\xfe\x7f"), "another kind of machine"),
    (lambda d: d.__setitem__(4, 1), "32-bit program"),
    (lambda d: set_loader(d, b"/lib/ld-musl-x86_64.so.1"), "linked with musl"),
    (lambda d: set_loader(d, b"/lib/ld-linux-gone.so"), "loader /lib/ld-linux-gone.so: No such"),
    (lambda d: d.__setitem__(slice(16, 18), b"\x01\x00"), "not a program"),
    (lambda d: d.__setitem__(slice(54, 56), b"\x01\x00"), "not a program"),
    (lambda d: d.__setitem__(slice(32, 40), b"\xff" * 8), "not a program"),
    (lambda d: d.__delitem__(slice(100, None)), "not a program"),
], ids=["riscv", "unknown", "32-bit", "musl", "no loader", "object", "odd headers", "wild headers", "cut"])
def test_program_of_another_kind(project: Project, change: Callable[[bytearray], None], says: str) -> None:
    refused(project, patched(project, change), says=says)


@AS_ROOT
@pytest.mark.tool
@pytest.mark.parametrize("mode,says", [(0o4755, "is setuid"), (0o2755, "is setgid")])
def test_program_that_gains_rights(project: Project, mode: int, says: str) -> None:
    if os.statvfs(project.root).f_flag & os.ST_NOSUID:
        pytest.skip("the disk of the tests gives no rights (nosuid)")
    path = project.root / "prog"
    shutil.copy("/bin/true", path)
    os.chown(path, NOBODY, NOBODY)
    path.chmod(mode)
    refused(project, path, says=says + ", so the loader lets nothing be loaded")
    os.chown(path, os.getuid(), os.getgid())  # allowed, because the user gains no privileges
    path.chmod(mode)
    assert record(project, path).status == 0
    assert Header(only(project)).pid > 0


@AS_ROOT
@pytest.mark.tool
def test_program_with_file_capabilities(project: Project) -> None:
    """Root has these privileges already; other users would gain them."""
    path = project.root / "prog"
    shutil.copy("/bin/true", path)
    if subprocess.run([need("setcap"), "cap_net_raw+ep", str(path)], capture_output=True).returncode != 0:
        pytest.skip("no file can be given capabilities here")
    for folder in (project.root, *project.root.parents):
        if folder.stat().st_uid == os.getuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o755)
    done = project.command(need("setpriv"), "--reuid", NOBODY, "--clear-groups", PIANO, "record", "-o", "/tmp/none.rec",
                           "--", path, check=False)
    if "Permission denied" in done.err and str(path) not in done.err:
        pytest.skip("another user cannot reach the tool here")
    assert done.status == 1 and "has file capabilities" in done.err, done


@pytest.mark.tool
def test_script_whose_interpreter_is_missing(project: Project) -> None:
    script = project.write({"script": "#! /no/such/sh -e\necho ran\n"}).root / "script"
    script.chmod(0o755)
    refused(project, script, says="script for /no/such/sh: No such file")


def test_script_of_a_static_interpreter(project: Project) -> None:
    by = compiled(project, "int main(void) { return 0; }\n", "by", "-static")
    script = project.write({"script": f"#!{by}\n"}).root / "script"
    script.chmod(0o755)
    refused(project, script, says=f"{by} is statically linked")


def test_libpiano_missing_is_named(project: Project) -> None:
    alone = project.root / "bin"
    alone.mkdir()
    shutil.copy(PIANO, alone / "piano")
    done = project.command(alone / "piano", "record", "--", "echo", "ran", check=False)
    assert done.status == 1 and done.out == "" and f"libpiano.so is neither in {alone}/lib" in done.err


# Place of the recording -------------------------------------------------------------------------------


def test_default_place_and_name(project: Project) -> None:
    done = record(project, compiled(project, HOLDER % ""))
    path = only(project)
    assert re.fullmatch(rf"\d{{13}}-{Header(path).pid}\.rec", path.name)
    assert f"recording: .piano/runs/{path.name} (" in done.err and "next: piano report" in done.err
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_runs_dir_of_the_environment(project: Project) -> None:
    record(project, "true", env={"PIANO_RUNS_DIR": "made/of/these"})
    assert len(recordings(project, project.root / "made/of/these")) == 1


def test_named_file_is_relative_to_the_user(project: Project) -> None:
    """Even if the program changes its directory before the library is loaded."""
    (project.root / "sub").mkdir()
    done = record(project, "env", "-C", "/", compiled(project, LARGE), flags=("--heap=64M", "--output", "sub/x.rec"))
    assert [p.name for p in (project.root / "sub").iterdir()] == ["x.rec"]
    assert "next: piano report sub/x.rec" in done.err
    assert not project.runs.exists()


@pytest.mark.tool
def test_nothing_is_overwritten(project: Project) -> None:
    (project.root / "x.rec").write_text("precious")
    refused(project, "echo", "ran", says="x.rec is there already", flags=("-o", "x.rec"))
    assert (project.root / "x.rec").read_text() == "precious"
    (project.root / "link").symlink_to("nowhere")
    refused(project, "echo", "ran", says="link is there already", flags=("-o", "link"))
    assert not (project.root / "nowhere").exists()
    (project.root / "dir").mkdir()
    refused(project, "echo", "ran", says="dir is a directory\n.*try: -o .*dir/NAME.rec", flags=("-o", "dir"))


@pytest.mark.tool
def test_directory_that_is_missing(project: Project) -> None:
    refused(project, "echo", "ran", says="No such file or directory\n.*try: mkdir -p .*no/such",
            flags=("-o", "no/such/x.rec"))
    assert not (project.root / "no").exists()


@pytest.mark.tool
def test_runs_directory_that_cannot_be_made(project: Project) -> None:
    (project.root / "file").write_text("")
    refused(project, "echo", "ran", says="cannot make the directory .*file/runs: Not a directory",
            env={"PIANO_RUNS_DIR": "file/runs"})


@pytest.mark.tool
def test_name_that_is_too_long(project: Project) -> None:
    refused(project, "echo", "ran", says="name too long", flags=("-o", "x" * 250))


@pytest.mark.tool
def test_read_only_directory(project: Project) -> None:
    folder = project.root / "locked"
    folder.mkdir()
    folder.chmod(0o555)
    words = (PIANO, "record", "-o", folder / "x.rec", "--", "echo", "ran")
    if os.geteuid() == 0:  # no mode stops root
        need("chattr")
        project.command("chattr", "+i", folder, check=False)
        if os.access(folder, os.W_OK) and subprocess.run(["touch", folder / "t"], capture_output=True).returncode == 0:
            pytest.skip("nothing is read-only for root here")
    try:
        done = project.command(*words, check=False)
    finally:
        if os.geteuid() == 0:
            project.command("chattr", "-i", folder, check=False)
        folder.chmod(0o755)
    assert done.status == 1 and done.out == "", done
    assert "try: -o FILE, in a directory that can be written to" in done.err
    assert list(folder.iterdir()) == []


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """at most 2 MB"""
    place = Path(tempfile.mkdtemp(prefix="piano-disk-"))
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "piano-test", str(place)], capture_output=True)
    if made.returncode != 0:
        place.rmdir()
        pytest.skip("no small disk can be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
        place.rmdir()


@pytest.mark.tool
def test_disk_that_is_full_before(project: Project, small_disk: Path) -> None:
    (small_disk / "filler").write_bytes(b"x" * 1900 * 1024)
    refused(project, "echo", "ran", says="No space left on device\n.*try: -o FILE, on a disk with room",
            flags=("-o", small_disk / "x.rec"))
    assert [p.name for p in small_disk.iterdir()] == ["filler"]


def test_disk_that_gets_full_meanwhile(project: Project, small_disk: Path) -> None:
    """The program is unharmed, its recording is kept, and losses are reported."""
    program = compiled(project, r"""
        #include <stdio.h>
        #include <stdlib.h>
        static void *held[60000];
        static void *deep(int n, int bits) { return n == 0 ? malloc(100) : bits & 1 ? deep(n - 1, bits >> 1)
                                                                     : (void *)((char *)deep(n - 1, bits >> 1) + 0); }
        int main(void)
        {
            for (int i = 0; i < 60000; i++) held[i] = deep(16, i);
            puts("whole");
            return 3;
        }
    """)
    done = record(project, program, flags=("--heap=1", "-o", small_disk / "x.rec"), check=False)
    assert done.status == 3 and done.out == "whole\n", done
    assert "the disk is full" in done.err
    assert Header(small_disk / "x.rec").samples > 0


@pytest.mark.tool
def test_limit_on_file_sizes(project: Project) -> None:
    done = project.command("sh", "-c", f"ulimit -f 100; exec {PIANO_WORD} record -- echo ran", check=False)
    assert done.status == 1 and done.out == "" and "File too large" in done.err, done


# Side effects on the program ---------------------------------------------------------------------------


@pytest.mark.parametrize("how,status", [("return 7", 7), ("abort()", 134), ("raise(SIGKILL)", 137), ("_exit(3)", 3),
                                        ("*(volatile int *)0 = 1", 139), ("raise(SIGTERM)", 143)])
def test_status_is_passed_on_and_written(project: Project, how: str, status: int) -> None:
    program = compiled(project, "#include <signal.h>\n#include <sys/resource.h>\n" + HOLDER %
                       f"struct rlimit none = {{0, 0}}; setrlimit(RLIMIT_CORE, &none); {how};")
    done = record(project, program, check=False)
    assert done.status == status, done
    header = Header(only(project))
    wanted = status << 8 if status < 128 else status - 128
    assert header.exit_status - 1 == wanted
    assert header.samples > 0


def test_output_stdin_and_arguments(project: Project) -> None:
    words = ["sh", "-c", 'cat; echo "$0|$1|$#"; echo err >&2; exit 5', "a b", ""]
    plain = project.command(*words, stdin="in\n", check=False)
    done = record(project, *words, stdin="in\n", check=False)
    assert (done.out, done.status) == (plain.out, plain.status)
    assert [line for line in done.err.splitlines() if not line.startswith("piano: ")] == ["err"]


def environment(text: str) -> dict[str, str]:
    return dict(entry.split("=", 1) for entry in text.split("\0") if entry)


def test_environment_is_unchanged_but_for_what_is_documented(project: Project) -> None:
    around = {"ODD": "a b\nc", "PIANO_MAPS": "1", "PIANO_CHILDREN": "1", "LD_PRELOAD": "libm.so.6", "EMPTY": ""}
    plain = environment(project.command("env", "-0", env=around).out)
    seen = environment(record(project, "env", "-0", env=around, flags=("--heap=64K", "--no-children")).out)
    changed = {name for name in plain | seen if plain.get(name) != seen.get(name)}
    assert changed == OURS | {"PIANO_MAPS", "PIANO_CHILDREN"}
    assert "PIANO_MAPS" not in seen and "PIANO_CHILDREN" not in seen
    library, own = seen["LD_PRELOAD"].split(":")
    assert os.path.realpath(library) == str(LIB / "libpiano.so") and own == "libm.so.6"
    assert seen["PIANO_HEAP"] == "65536"
    assert seen["PIANO_RECORD"] == str(only(project))
    assert int(seen["PIANO_RECORD_PID"]) == Header(only(project)).pid
    more = environment(record(project, "env", "-0", flags=("--maps", "--children")).out)
    assert more["PIANO_MAPS"] == more["PIANO_CHILDREN"] == "1"
    assert {name: more[name] for name in OF_CHILDREN} == {"PIANO_FAMILY_MOST": "128", "PIANO_FAMILY_SIZE": str(4 << 30)}


def test_signals_descriptors_and_directory_are_inherited(project: Project) -> None:
    """Blocked and ignored signals, open files and umask are as without piano."""
    around = ("bash", "-c", 'umask 027; exec 7</dev/null; exec "$@"', "bash", "env", "--ignore-signal=CHLD",
              "--ignore-signal=USR2", "--block-signal=USR1")
    tool = (PIANO, "record", "--")
    words = ("grep", "-E", "^(Sig(Blk|Ign)|Umask|NoNewPrivs)", "/proc/self/status")
    plain = project.command(*around, *words).out
    assert project.command(*around, *tool, *words).out == plain
    for name in ("CHLD", "USR2"):
        assert int(re.search(r"SigIgn:\s*(\w+)", plain)[1], 16) & 1 << getattr(signal, "SIG" + name) - 1, name
    words = ("ls", "/proc/self/fd")
    low = [line for line in project.command(*around, *tool, *words).out.split() if int(line) < 100]
    assert low == project.command(*around, *words).out.split() and "7" in low, "the runtime keeps one, high up"
    assert record(project, "pwd").out == project.command("pwd").out


def test_stdin_may_be_closed(project: Project) -> None:
    done = project.command("sh", "-c", f"exec {PIANO_WORD} record -- true <&- >&- 2>&-", check=False)
    assert done.status == 0
    assert Header(only(project)).exit_status == 1


def test_reader_of_stderr_that_ends_does_not_change_the_status(project: Project) -> None:
    done = project.command("bash", "-c", f"{PIANO_WORD} record -- sh -c 'exit 6' 2> >(exec 0<&-); exit $?", check=False)
    assert done.status == 6


@pytest.mark.parametrize("words", [("true",), ("./missing",), ("--cpu", "--pid", str(os.getpid()), "--duration", "0.1")],
                         ids=["runs", "missing", "pid"])
def test_record_works_without_a_reader_of_stderr(project: Project, words: tuple[str, ...]) -> None:
    """SIGPIPE must not end piano, not even at its first message before the program starts."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run([PIANO, "record", *words], cwd=project.root, env=project.env, stdin=subprocess.DEVNULL, stderr=writer,
                              timeout=LIMIT_S, check=False)
    finally:
        os.close(writer)
    assert done.returncode == project.piano("record", *words, check=False).status


def test_scripts_are_recorded_by_their_interpreter(project: Project) -> None:
    script = project.write({"script": "#!/bin/sh\necho ran $1\n", "bare": "echo bare\n"}).root / "script"
    script.chmod(0o755)
    (project.root / "bare").chmod(0o755)
    assert record(project, script, "it").out == "ran it\n"
    assert Path(Header(only(project)).program).name == os.path.basename(os.path.realpath("/bin/sh"))
    assert record(project, "./bare").out == "bare\n"


def test_the_loader_as_a_program(project: Project) -> None:
    loader = re.search(r"(/lib\S*/ld-linux\S*) ", project.command("ldd", "/bin/true").out)
    assert record(project, loader[1], "/bin/echo", "by hand").out == "by hand\n"
    assert only(project)


def test_program_that_may_be_run_but_not_read(project: Project) -> None:
    path = project.root / "prog"
    shutil.copy("/bin/true", path)
    path.chmod(0o111)
    assert record(project, path).status == 0


# Signals -----------------------------------------------------------------------------------------------


TIDY = r"""
    #include <signal.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <unistd.h>
    static volatile int got;
    static void on_signal(int s) { got = s; }
    int main(void)
    {
        int all[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
        for (int i = 0; i < 4; i++) signal(all[i], on_signal);
        for (int i = 0; i < 1000; i++) malloc(4096);
        printf("%d\n", getpid());
        fflush(stdout);
        while (!got) pause();
        printf("tidy %d\n", got);
        return 4;
    }
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"])
def test_signals_to_the_tool_are_passed_on(project: Project, running: Callable[..., Running], name: str) -> None:
    number = getattr(signal, name)
    one = running(source=TIDY)
    os.kill(one.tool.pid, number)
    status, out, err = one.end()
    assert (status, out) == (4, f"tidy {int(number)}\n"), err
    assert Header(only(project)).exit_status == (4 << 8) + 1


def test_program_ended_by_a_signal_to_the_tool(project: Project, running: Callable[..., Running]) -> None:
    one = running()
    one.tool.terminate()
    status, err = one.wait()
    assert status == 143 and "recording: " in err
    assert Header(only(project)).exit_status == 15 + 1


def type_in_terminal(project: Project, key: bytes, *command: Any) -> tuple[int, str]:
    """Runs COMMAND on a terminal and types KEY after it prints `ready`; returns (status, output)."""
    try:
        pid, master = pty.fork()
    except OSError as error:
        pytest.skip(f"no terminal can be had here: {error}")
    if pid == 0:
        try:
            os.chdir(project.root)
            os.execvpe(str(command[0]), [str(word) for word in command], project.env)
        finally:
            os._exit(127)
    seen, typed, end = b"", False, time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        if not select.select([master], [], [], 1)[0]:
            continue
        try:
            chunk = os.read(master, 65536)
        except OSError:
            break
        seen += chunk
        if not chunk:
            break
        if b"ready" in seen and not typed:
            os.write(master, key)
            typed = True
    else:
        os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(master)
    return status, seen.decode("utf-8", "replace")


@pytest.mark.parametrize("key,name", [(b"\x03", "INT"), (b"\x1c", "QUIT")])
def test_keys_go_to_the_program_once(project: Project, key: bytes, name: str) -> None:
    """The program is interrupted once, not a second time by piano; then piano finishes the recording."""
    script = project.write({"counts.sh": f"""
        trap 'n=$((n+1))' {name}
        echo ready
        while [ -z "$n" ]; do sleep 0.05; done
        sleep 0.3
        echo "interrupted $n times"
        exit 9
    """}).root / "counts.sh"
    status, seen = type_in_terminal(project, key, PIANO, "record", "--", "sh", script)
    assert status == 9 and "interrupted 1 times" in seen, seen
    assert "recording: " in seen
    assert Header(only(project)).exit_status == (9 << 8) + 1


def test_ctrl_c_ends_a_program_that_does_not_handle_it(project: Project) -> None:
    program = compiled(project, HOLDER % 'puts("ready"); fflush(stdout); pause();')
    status, seen = type_in_terminal(project, b"\x03", PIANO, "record", "--heap=64K", "--", program)
    assert status == 130 and "recording: " in seen
    assert Header(only(project)).exit_status == 2 + 1


def test_kill_9_keeps_the_recording(project: Project, running: Callable[..., Running]) -> None:
    one = running()
    os.kill(one.pid, signal.SIGKILL)
    status, err = one.wait()
    header = Header(only(project))
    assert status == 137 and header.exit_status == 9 + 1 and header.samples > 0
    assert f"{header.samples} sample" in err


def test_kill_9_of_the_tool_leaves_program_and_recording(project: Project, running: Callable[..., Running]) -> None:
    one = running()
    one.tool.kill()
    one.tool.wait()
    os.kill(one.pid, 0)
    assert re.match(r"snapshot \d+: ", project.piano("snapshot", one.pid).out)
    os.kill(one.pid, signal.SIGKILL)
    assert Header(only(project)).samples > 0


def test_duration(project: Project) -> None:
    program = compiled(project, HOLDER % "pause();")
    done = record(project, program, flags=("--duration", "0.3", "--heap=64K"), limit=30)
    assert "recording: " in done.err
    done = record(project, "sh", "-c", "trap '' TERM; while :; do sleep 0.05; done", limit=30,
                  flags=("--duration", "0.3", "--kill-timeout", "0.3"))
    assert "recording: " in done.err


def test_duration_of_a_program_that_ends_sooner(project: Project) -> None:
    assert record(project, "sh", "-c", "exit 5", flags=("--duration", "60"), limit=30, check=False).status == 5


# One process, several programs -------------------------------------------------------------------------


@pytest.mark.parametrize("before", [["env", "X=1"], ["sh", "-c", 'exec "$@"', "sh"],
                                    ["env", "A=1", "sh", "-c", 'exec env "$@"', "sh"], ["nice", "-n", "1"]],
                         ids=" ".join)
def test_exec_chains_leave_the_last_program(project: Project, before: list[str]) -> None:
    program = compiled(project, LARGE)
    done = record(project, *before, program, "6", flags=("-o", "x.rec", "--heap=64M"), check=False)
    assert (done.status, done.out) == (6, "held\n")
    header = Header(project.root / "x.rec")
    assert header.program == str(program) and header.samples > 0 and header.exit_status == (6 << 8) + 1
    assert [p.name for p in sorted(project.root.glob("x.rec*"))] == ["x.rec"]


def test_exec_chain_keeps_what_has_samples(project: Project) -> None:
    first = compiled(project, HOLDER % 'execl("./second", "second", "8", (char *)0);', "first")
    compiled(project, HOLDER % "", "second")
    done = record(project, first, flags=("-o", "x.rec", "--heap=64K"), check=False)
    assert done.status == 8
    kept = {p.name: Path(Header(p).program).name for p in project.root.glob("x.rec*")}
    assert kept == {"x.rec": "second", "x.rec.1": "first"}
    assert "recording: x.rec (" in done.err and "also: x.rec.1 (first, " in done.err


def test_older_files_of_similar_names_are_left_alone(project: Project) -> None:
    for name in ("x.rec.1", "x.rec.2", "x.rec-1", "x.rec-2.2"):
        (project.root / name).write_text("old")
    program = compiled(project, LARGE)
    done = record(project, "env", "X=1", program, flags=("-o", "x.rec", "--heap=64M", "--children"))
    assert Header(project.root / "x.rec").program == str(program), done
    for name in ("x.rec.1", "x.rec.2", "x.rec-1", "x.rec-2.2"):
        assert (project.root / name).read_text() == "old"
    assert len(list(project.root.glob("x.rec*"))) == 5 and "x.rec-" not in done.err
    # A complete recording with a matching name is not ours either.
    os.rename(project.root / "x.rec", project.root / "x.rec-7")
    done = record(project, "true", flags=("-o", "x.rec", "--children"))
    assert "x.rec-7" not in done.err and "recording: x.rec (" in done.err


def test_children_are_recorded_unless_refused(project: Project) -> None:
    program = compiled(project, HOLDER % "")
    record(project, "sh", "-c", f"{program}; {program}; true", flags=("--no-children", "--heap=64K"))
    assert len(recordings(project)) == 1
    record(project, "sh", "-c", f"{program}; {program}; true")
    assert len(recordings(project)) == 4


def test_children_have_recordings_with_children(project: Project) -> None:
    program = compiled(project, LARGE)
    done = record(project, "sh", "-c", f"{program}; env X=1 {program}; exit 3", check=False,
                  flags=("--children", "--heap=64M"))
    assert (done.status, done.out) == (3, "held\nheld\n")
    found = recordings(project)
    main = [p for p in found if p.name.endswith(".rec")]
    others = [p for p in found if re.fullmatch(r".*\.rec-\d+", p.name)]
    assert len(main) == 1 and len(others) == 2 and len(found) == 3, found
    assert Header(main[0]).exit_status == (3 << 8) + 1
    for path in others:
        header = Header(path)
        assert header.program == str(program) and header.samples > 0 and header.exit_status == 0
        assert path.name.endswith(f"-{header.pid}") and path.name in done.err
        assert f"(prog, process {header.pid}: {header.samples} samples" in done.err


def test_forks_without_exec(project: Project) -> None:
    program = compiled(project, r"""
        #include <stdlib.h>
        #include <sys/wait.h>
        #include <unistd.h>
        static void work(int n) { for (int i = 0; i < n; i++) malloc(4096); }
        int main(void)
        {
            work(1000);
            for (int i = 0; i < 4; i++) { if (fork() == 0) { work(2000); _exit(0); } }
            while (wait(0) > 0) ;
            return 0;
        }
    """)
    record(project, program, flags=("--children", "--heap=64K"))
    headers = [Header(p) for p in recordings(project)]
    assert len(headers) == 5 and len({h.pid for h in headers}) == 5
    assert all(h.samples > 0 for h in headers)
    for path in recordings(project):
        path.unlink()
    record(project, program, flags=("--no-children", "--heap=64K"))
    assert len(recordings(project)) == 1


def test_children_in_which_nothing_was_sampled(project: Project) -> None:
    """Their recordings are empty, so they are removed and counted."""
    done = record(project, "sh", "-c", "for i in 1 2 3 4 5 6; do for k in 1 2 3 4 5; do /bin/true; done; done; :",
                  flags=("--children", "--heap=64M"))
    assert len(recordings(project)) == 1 and "also: " not in done.err
    assert "30 processes in which nothing was sampled: no recording is kept of them" in done.err


def test_many_children_are_not_all_listed(project: Project) -> None:
    small, large = compiled(project, HOLDER % "", "small"), compiled(project, LARGE, "large")
    done = record(project, "sh", "-c", f"for i in 1 2 3 4 5; do {small}; done; {large}; {small}; /bin/true; :",
                  flags=("--children", "--heap=64K"))
    assert len([p for p in recordings(project) if re.search(r"\.rec-\d+$", p.name)]) >= 7
    assert re.search(r"and \d+ recordings of other processes beside it; the largest:\n", done.err), done
    assert done.err.count("also: ") == 1 and "(large, process " in done.err, done


def test_program_that_is_never_reached(project: Project) -> None:
    """env -i removes the library from the program's environment; only its own recording exists."""
    done = record(project, "env", "-i", compiled(project, HOLDER % ""), flags=("--heap=64M",))
    assert done.out == "held\n" and "nothing was sampled" in done.err and "cannot be recorded" in done.err


def test_record_without_samples_suggests_a_smaller_rate(project: Project) -> None:
    done = record(project, "true", flags=("--heap=1G",))
    assert "nothing was sampled" in done.err and "--heap=" in done.err and "cannot be recorded" not in done.err


def test_program_that_leaves_no_recording(project: Project) -> None:
    """The loader does not load a library that the process may not read; here the file is missing."""
    alone = project.root / "bin"
    alone.mkdir()
    shutil.copy(PIANO, alone / "piano")
    (alone / "lib").mkdir()
    (alone / "lib" / "libpiano.so").write_text("not a library")
    done = project.command(alone / "piano", "record", "--", "sh", "-c", "echo ran; exit 5", check=False)
    assert (done.status, done.out) == (5, "ran\n")
    assert "sh left no recording: libpiano.so was not loaded into it" in done.err


def test_doctor_tries_to_record(project: Project) -> None:
    assert re.search(r"ok +recording: libpiano.so can be loaded", project.piano("doctor").out)
