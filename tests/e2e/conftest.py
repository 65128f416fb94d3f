"""Helpers of the end-to-end tests: a temporary project, the tool, and its JSON output.

A test writes a few source files into a `project`, builds them with `piano build`, runs the result
and looks at the report. Nothing is written outside pytest's tmp_path. PIANO in the environment
names another tool to test (a sanitized one). Tests marked `tool` need only the tool itself.
"""
from __future__ import annotations

import atexit
import hashlib
import json
import os
import pty
import select
import shlex
import shutil
import signal
import struct
import subprocess
import tempfile
import textwrap
import time
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ
from typing import Any, Iterable

import pytest

ROOT = Path(__file__).resolve().parents[2]
OLD_LIBC = ["-ldl", "-lrt"]  # parts of libc since glibc 2.34
PIANO = os.environ.get("PIANO", str(ROOT / "build" / "piano"))
PIANO_WORD = shlex.quote(PIANO)  # for a shell


def without(marks: str, path: Path) -> Path:
    """PATH, or a link to it if it has one of MARKS in it: for lists that are split there."""
    if not set(str(path)) & set(marks):
        return path
    place = tempfile.mkdtemp(prefix="piano-lib-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    link = Path(place, path.name)
    link.symlink_to(path)
    return link


def preload_path(library: Path) -> str:
    """LIBRARY for LD_PRELOAD, which is split at blanks and colons."""
    return str(without(" :$", library))


# For run paths and PATH, which are split at colons.
LIB = without(":", Path(PIANO).resolve().parent) / "lib"
PRELOAD = preload_path(LIB / "libpiano.so")
# Limit of one command, which then counts as hanging: half of a test's limit (tests/run --limit).
LIMIT_S = max(60.0, float(os.environ.get("TEST_LIMIT_S", "0")) / 2)

TIMING_TRIES = 3


def copy_tool(place: Path) -> None:
    """The tool and its libraries in PLACE, a new directory, for other users."""
    place.mkdir()
    shutil.copy2(PIANO, place / "piano")
    shutil.copytree(LIB, place / "lib")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Other programs can disturb a clock, which is not piano's fault, but hardly three times in a row.
    A wrong number is wrong each time. tests/run reports each retry. If the machine is busy all the time, the test is skipped."""
    if not pyfuncitem.get_closest_marker("timing"):
        return None
    arguments = {n: pyfuncitem.funcargs[n] for n in pyfuncitem._fixtureinfo.argnames}
    most = 0.0
    for left in reversed(range(TIMING_TRIES)):
        try:
            pyfuncitem.obj(**arguments)
            return True
        except AssertionError:
            most = max(most, share_of_a_cpu())
            if left == 0 and most < IDLE:
                pytest.skip(f"the machine is busy: a loop beside the test had {100 * most:.0f} % of a CPU, so times say nothing")
            if left == 0:
                raise
            pyfuncitem.user_properties.append(("retried", str(TIMING_TRIES - left)))  # tests/run says so
    return True


IDLE = 0.9


def share_of_a_cpu() -> float:
    """The share of time that a thread that wants a CPU gets, measured for a fifth of a second."""
    wall, used = time.perf_counter(), time.thread_time()
    while time.perf_counter() - wall < 0.2:
        pass
    return (time.thread_time() - used) / (time.perf_counter() - wall)


# Work for C programs: N steps of a dependent multiply and add, so that 2 N steps take twice as long.
BURN = """
#define BURN(n) do { unsigned long x_ = 1; for (long k_ = 0; k_ < (long)(n); k_++) { \\
    x_ = x_ * 6364136223846793005UL + 1442695040888963407UL; \\
    __asm__ volatile("" : "+r"(x_)); } } while (0)
"""

# Variables of this machine's environment that would change the behaviour of piano or a compiler.
FOREIGN = ("PIANO_RUNS_DIR", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "MAKEFLAGS",
           "MFLAGS", "MAKELEVEL", "CFLAGS", "CXXFLAGS", "LDFLAGS", "CC", "CXX", "LD_PRELOAD",
           "PIANO_STATE", "PIANO_TOOL", "PIANO", "CCACHE_DISABLE", "GCC_COLORS", "XDG_STATE_HOME")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "tool: needs only the tool, no instrumented program")
    config.addinivalue_line("markers", "projects: compiles programs of others, for minutes; the group rust-projects of tests/run")
    config.addinivalue_line("markers", "timing: compares times; other programs can only disturb it")
    if not os.access(PIANO, os.X_OK):
        raise pytest.UsageError(f"{PIANO} is not built; type `make` first")
    # `make test &` in a script, and nohup, ignore these signals, and all programs started here would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for ignored in (signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_DFL)


def need(program: str) -> str:
    """The path of PROGRAM, or a skip that names it."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


def nginx_log(path: Path) -> list[Any]:
    """nginx's option for its first messages; it exists since 1.19.5."""
    said = subprocess.run([need("nginx"), "-h"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False).stdout
    return ["-e", path] if b"-e filename" in said else []


def npm_pack(package: str, place: Path) -> Path:
    """Downloads the archive of an npm package to PLACE, or skips with a reason."""
    try:
        subprocess.run([need("npm"), "pack", "--silent", package], cwd=place, capture_output=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        pass
    found = sorted(place.glob("*.tgz"))
    if not found:
        pytest.skip(f"the npm package {package} cannot be had here")
    return found[-1]


def fingerprint(root: Path) -> dict[str, tuple]:
    """All paths below ROOT except .piano/: kind, mode, and link target or hash of the content."""
    seen: dict[str, tuple] = {}
    for folder, folders, files in os.walk(root):
        if ".piano" in folders:
            folders.remove(".piano")
        for name in folders + files:
            path = Path(folder, name)
            status = path.lstat()
            if path.is_symlink():
                what: Any = os.readlink(path)
            elif path.is_file():
                what = (hashlib.sha256(path.read_bytes()).hexdigest(), status.st_mtime_ns)
            else:
                what = "dir"
            seen[str(path.relative_to(root))] = (status.st_mode, what)
    return seen


class Done:
    """A finished command: status (negative: signal), out, err."""

    def __init__(self, command: list[str], status: int, out: str, err: str):
        self.command, self.status, self.out, self.err = command, status, out, err

    def __repr__(self) -> str:
        return (f"{' '.join(self.command)}\nstatus {self.status}\n--- stdout\n{self.out}"
                f"\n--- stderr\n{self.err}")


class Report:
    """`piano report --json`, with its functions by name."""

    def __init__(self, data: dict[str, Any]):
        self.data = data
        self.functions: list[dict[str, Any]] = data["functions"]

    def rows(self, name: str) -> list[dict[str, Any]]:
        return [row for row in self.functions if row["name"] == name]

    def row(self, name: str) -> dict[str, Any]:
        found = self.rows(name)
        assert len(found) == 1, f"{len(found)} rows named {name} among {sorted(self.names())}"
        return found[0]

    def names(self) -> set[str]:
        return {row["name"] for row in self.functions}

    def calls(self, *names: str) -> dict[str, int]:
        """The number of calls by function: of the named ones, or of all."""
        wanted = names or sorted(self.names())
        return {name: self.row(name)["calls"] if self.rows(name) else 0 for name in wanted}

    def called(self) -> dict[str, int]:
        """Like calls(), without functions that were never called."""
        return {name: count for name, count in self.calls().items() if count}

    @property
    def frame_count(self) -> int:
        frames = self.data.get("frames")
        return frames["count"] if frames else 0


class Project:
    """A directory with sources, in which piano runs."""

    def __init__(self, root: Path, home: Path):
        self.root, self.home = root, home
        self.env = {k: v for k, v in os.environ.items() if k not in FOREIGN}
        # Compilers must not inherit the sanitizer options of the tool.
        self.env.update(HOME=str(home), LC_ALL="C.UTF-8", TERM="xterm-256color",
                        CCACHE_DIR=str(home / "ccache"))

    @property
    def runs(self) -> Path:
        return self.root / ".piano" / "runs"

    def write(self, files: dict[str, str] | None = None, **more: str) -> "Project":
        for name, text in {**(files or {}), **more}.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text).lstrip("\n"))
        return self

    def command(self, *command: Any, check: bool = True, env: dict[str, str] | None = None,
                cwd: Path | None = None, stdin: str | None = None, limit: float = LIMIT_S,
                unset: Iterable[str] = ()) -> Done:
        """Runs COMMAND to its end; fails after a time limit (a hang)."""
        limit = max(limit, LIMIT_S)
        words = [str(word) for word in command]
        around = {k: v for k, v in self.env.items() if k not in unset}
        process = subprocess.Popen(words, cwd=cwd or self.root, env={**around, **(env or {})},
                                   stdin=subprocess.PIPE if stdin is not None else
                                   subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True)
        try:
            out, err = process.communicate(stdin.encode() if stdin is not None else None, limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            done = Done(words, -9, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))
            raise AssertionError(f"no end after {limit} s: {done}") from None
        done = Done(words, process.returncode, out.decode("utf-8", "replace"),
                    err.decode("utf-8", "replace"))
        if check:
            assert done.status == 0, repr(done)
        return done

    def piano(self, *arguments: Any, **options: Any) -> Done:
        return self.command(PIANO, *arguments, **options)

    def build(self, *arguments: Any, **options: Any) -> Path:
        """Runs `piano build` and returns the program, whose path it reads from stdout, as a script would."""
        done = self.piano("build", *arguments, **options)
        lines = done.out.strip().splitlines()
        assert lines, f"no program on stdout: {done!r}"
        program = Path(lines[-1])
        assert program.is_absolute() and os.access(program, os.X_OK), repr(done)
        return program

    def cc(self, source: str, *flags: str, select: Iterable[str] = (), compiler: str = "gcc",
           name: str = "prog.c") -> Path:
        """Builds one file; SELECT are options of `piano build`."""
        need(compiler)
        self.write({name: source})
        # Compilers remove pairs of malloc and free; these tests count them.
        return self.build(*select, "--", compiler, "-O1", "-fno-builtin", name, "-o", "prog",
                          *flags)

    def run_files(self, folder: Path | None = None) -> list[Path]:
        where = folder or self.runs
        return sorted(where.glob("*.ndjson")) if where.is_dir() else []

    def only_run(self) -> Path:
        files = self.run_files()
        assert len(files) == 1, [str(f) for f in sorted(self.runs.glob("*"))]
        return files[0]

    def lines(self) -> list[dict[str, Any]]:
        """The lines of the only run, each of which must be valid JSON."""
        return [json.loads(line) for line in self.only_run().read_text().splitlines()]

    def json(self, *arguments: Any, **options: Any) -> Any:
        done = self.piano(*arguments, "--json", **options)
        try:
            return json.loads(done.out)
        except ValueError:
            raise AssertionError(f"not JSON: {done!r}") from None

    def report(self, *arguments: Any, **options: Any) -> Report:
        return Report(self.json("report", *arguments, "--all", **options))

    def frames(self, *arguments: Any) -> list[dict[str, Any]]:
        return self.json("report", "--frames", "--all", *arguments)["frames"]

    def profile_c(self, source: str, *flags: str, arguments: Iterable[str] = (),
                  status: int = 0, env: dict[str, str] | None = None, stdin: str | None = None,
                  **options: Any) -> Report:
        """Builds one file, runs it (it must end with STATUS) and reports."""
        program = self.cc(source, *flags, **options)
        done = self.command(program, *arguments, check=False, env=env, stdin=stdin)
        assert done.status == status, repr(done)
        self.out = done.out
        return self.report()

    def run_in_pty(self, *command: Any, columns: int = 80, env: dict[str, str] | None = None,
                   limit: float = LIMIT_S) -> tuple[int, str]:
        """Runs COMMAND with a terminal of COLUMNS as all of its streams. Returns (status, output)."""
        try:
            pid, master = pty.fork()
        except OSError as error:
            pytest.skip(f"no terminal can be had here: {error}")
        if pid == 0:
            try:
                ioctl(0, TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
                os.chdir(self.root)
                words = [str(word) for word in command]
                os.execvpe(words[0], words, {**self.env, **(env or {})})
            finally:
                os._exit(127)
        ioctl(master, TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        seen, until = b"", time.monotonic() + limit
        while time.monotonic() < until:
            if not select.select([master], [], [], 1)[0]:
                continue
            try:
                chunk = os.read(master, 65536)
            except OSError:
                break
            if not chunk:
                break
            seen += chunk
        else:
            os.kill(pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.close(master)
        return status, seen.decode("utf-8", "replace")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    root, home = tmp_path / "project", tmp_path / "home"
    root.mkdir()
    home.mkdir()
    return Project(root, home)


def header(functions: list[str], **more: Any) -> dict[str, Any]:
    """The first line of the smallest v2 run file that readers must accept."""
    return {"format_version": 2, "run_id": "77_1740000000123", "timestamp_ms": 1740000000123,
            "functions": functions, **more}


def fn(number: int, calls: int = 1, self_ns: int = 1000, ac: int = 0, ab: int = 0,
       **more: int) -> dict[str, int]:
    return {"id": number, "calls": calls, "self_ns": self_ns, "ac": ac, "ab": ab, **more}


def frame(number: int, fns: list[dict[str, int]], wall_ns: int, thread: int = 1, depth: int = 0,
          **more: Any) -> dict[str, Any]:
    return {"frame": number, "thread": thread, "depth": depth, "root": fns[0]["id"],
            "start_ns": number * 20_000_000, "wall_ns": wall_ns, "fns": fns, **more}


def ndjson(*lines: dict[str, Any]) -> str:
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


def update_run(walls_ns: list[int], allocs: int = 10) -> str:
    """A finished run with one frame of `update` + `physics` for each of WALLS_NS."""
    lines = [header(["update", "physics"], places=["src/world.c:89", "src/physics.c:58"]),
             {"thread": 1, "tid": 77, "name": "main", "start_ns": 0}]
    for number, wall in enumerate(walls_ns):
        lines.append(frame(number, [fn(0, 1, wall * 3 // 4, allocs, allocs * 100, total_ns=wall),
                                    fn(1, 2, wall // 4, total_ns=wall // 4)], wall))
    lines.append({"end": True, "wall_ns": sum(walls_ns) + 1,
                  "dropped": {"frames": 0, "threads": 0, "functions": 0, "depth": 0, "write": 0}})
    return ndjson(*lines)


def put_run(project: Project, stem: str, text: str, suffix: str = ".ndjson") -> Path:
    """A run file in the project's runs directory."""
    project.runs.mkdir(parents=True, exist_ok=True)
    path = project.runs / (stem + suffix)
    path.write_text(text)
    return path
