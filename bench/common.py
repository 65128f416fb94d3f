"""Shared by all themes: runs and times programs; budgets, tables, the machine's description."""
import datetime
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

BENCH = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(BENCH)
WORK = os.path.join(BENCH, "work")
PROGRAMS = os.path.join(BENCH, "programs")
PIANO = os.environ.get("PIANO") or os.path.join(ROOT, "build", "piano")
# Variables of a calling make, or of the caller's project, that the measured programs must not get.
FOREIGN = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "PIANO_RUNS_DIR", "PIANO_TIMING", "CFLAGS", "RUSTFLAGS", "CARGO_TARGET_DIR")

median = statistics.median


class Failed(Exception):
    """A command failed that must succeed."""


class Missing(Exception):
    """A peer or another external program is not installed."""


class Run:
    """A finished process: its output, and the resources that it and its children used."""

    def __init__(self, command, env=None, cwd=None, limit=600, ahead=False):
        around = {k: v for k, v in os.environ.items() if k not in FOREIGN}
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            start = time.monotonic()
            process = subprocess.Popen([str(c) for c in command], cwd=cwd, stdout=out, stderr=err,
                                       stdin=subprocess.DEVNULL, env={**around, **(env or {})},
                                       preexec_fn=go_ahead if ahead else None)
            usage = wait(process, limit)
            self.wall = time.monotonic() - start
            self.out, self.err = text_of(out), text_of(err)
        self.cpu = usage.ru_utime + usage.ru_stime
        self.rss_mb = usage.ru_maxrss / 1024
        if process.returncode != 0:
            raise Failed(f"{' '.join(map(str, command))}: status {process.returncode}\n"
                         f"{(self.out + self.err)[-2000:]}")

    @property
    def waited(self):
        """The share of its time in which the program did not run, mostly because of other work on the machine."""
        return max(0.0, 1 - self.cpu / self.wall)


def go_ahead():
    """Gives this process real-time priority if permitted (root), so that measured wall time contains no other work. Only for
    runs of about a second."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError:
        pass


def favoured(command):
    """COMMAND with a greater share of the CPU than other sessions, if permitted (root). Unlike go_ahead(), all threads of the
    program can run even if there are few CPUs."""
    script = 'echo -15 2>/dev/null >/proc/self/autogroup; exec nice -n -15 "$@" 2>/dev/null'
    return ["setsid", "-w", "sh", "-c", script, "sh", *command]


def wait(process, limit):
    """The process's rusage, from os.wait4, because subprocess discards it."""
    timer = threading.Timer(limit, os.kill, (process.pid, signal.SIGKILL))
    timer.start()
    _, status, usage = os.wait4(process.pid, 0)
    timer.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage


def text_of(stream):
    stream.seek(0)
    return stream.read().decode("utf-8", "replace")


def need(program):
    found = shutil.which(program)
    if found is None:
        raise Missing(f"{program} is not installed")
    return found


def rust_missing():
    """Why `piano build` cannot build Rust programs here; None if it can."""
    if shutil.which("cargo") is None:
        return "cargo is not installed"
    if not os.access(os.path.join(os.path.dirname(PIANO), "lib", "piano-rust"), os.X_OK):
        return "piano-rust is not built"
    return None


def fresh(*names):
    """An empty directory below bench/work/."""
    path = os.path.join(WORK, *names)
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    return path


def sources(folder, *names):
    for name in names:
        shutil.copy(os.path.join(PROGRAMS, name), folder)


def scratch():
    """A temporary directory, because traces of peers are large and piano's runs are read at once."""
    return tempfile.TemporaryDirectory(prefix="piano-bench-")


def cargo_project(folder, source, name="program"):
    """Makes FOLDER a Cargo project of one file, SOURCE of bench/programs."""
    os.makedirs(os.path.join(folder, "src"))
    shutil.copy(os.path.join(PROGRAMS, source), os.path.join(folder, "src", "main.rs"))
    with open(os.path.join(folder, "Cargo.toml"), "w", encoding="utf-8") as manifest:
        manifest.write(f'[package]\nname = "{name}"\nversion = "0.1.0"\nedition = "2021"\n\n[workspace]\n')
    return folder


def piano_build(folder, select, command=()):
    """`piano build` in FOLDER, with COMMAND or piano's own choice: (path of the program, Run)."""
    # Marks FOLDER as a project. Otherwise piano would take the repository around it as the project.
    os.makedirs(os.path.join(folder, ".piano"), exist_ok=True)
    run = Run([PIANO, "build", *select, *(["--", *command] if command else [])], cwd=folder, limit=1800)
    lines = run.out.strip().splitlines()
    if not lines:
        raise Failed(f"piano build in {folder} named no program\n{run.err}")
    return lines[-1], run


def piano_rows(runs_dir):
    """{name: row} of the newest run in FOLDER."""
    run = Run([PIANO, "report", "--json", "--all"], env={"PIANO_RUNS_DIR": runs_dir})
    rows = {row["name"]: row for row in json.loads(run.out)["functions"]}
    if not any(row["calls"] for row in rows.values()):
        raise Failed(f"the run in {runs_dir} has no calls in it: nothing was measured")
    return rows


UNITS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}


def uftrace_rows(data_dir):
    """{name: (self_ns, calls)} of an uftrace recording."""
    run = Run(["uftrace", "report", "-d", data_dir, "-f", "self,call", "--no-pager", "--color=no"])
    rows = re.findall(r"^\s*([\d.]+)\s+(ns|us|ms|s)\s+(\d+)\s+(\S+)$", run.out, re.M)
    return {name: (float(value) * UNITS[unit], int(calls)) for value, unit, calls, name in rows}


def machine():
    """One line: processor, compilers, kernel, date."""
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        model = re.search(r"model name\s*:\s*(.*)", info.read())
    versions = []
    for tool in ("gcc", "clang-14", "uftrace"):
        if shutil.which(tool):
            first = Run([tool, "--version"]).out.splitlines()[0]
            versions.append(f"{tool} {re.search(r'[0-9]+[.][0-9.]*[0-9]', first).group()}")
    return (f"{model.group(1) if model else os.uname().machine}, {os.cpu_count()} CPUs, "
            f"Linux {os.uname().release}, {', '.join(versions)}; {datetime.date.today()}")


class Theme:
    """Collects the budgets, skips, tables and notes of one theme."""

    def __init__(self, name, quick):
        self.name, self.quick = name, quick
        self.repetitions = 3 if quick else 7
        self.text, self.verdicts = [], []
        self.excuse = None  # the reason why a missed budget proves nothing

    def say(self, what):
        print(f"   {self.name}: {what}", file=sys.stderr, flush=True)

    def budget(self, what, measured, limit, unit=""):
        """Fails if MEASURED is above LIMIT; prints one line."""
        self.require(what, measured <= limit,
                     f"{number(measured)}{unit} (budget {number(limit)}{unit})")

    def require(self, what, good, detail):
        if good or not self.excuse:
            self.verdict("PASS" if good else "FAIL", f"{what}: {detail}")
        else:
            self.skip(what, f"{detail}; undecided, {self.excuse}")

    def skip(self, what, why):
        self.verdict("SKIP", f"{what}: {why}")

    def verdict(self, word, line):
        self.verdicts.append((word, line))
        print(f"{word} {self.name}: {line}", flush=True)

    def note(self, text):
        self.text.append(text + "\n")

    def table(self, title, head, rows):
        self.text.append(f"## {title}\n")
        self.text.append("| " + " | ".join(head) + " |")
        self.text.append("| --- |" + " ---: |" * (len(head) - 1))
        for row in rows:
            cells = [number(c) if isinstance(c, float) else str(c) for c in row]
            self.text.append("| " + " | ".join(cells) + " |")
        self.text.append("")

    def write(self, folder):
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, self.name + ".md"), "w", encoding="utf-8") as out:
            out.write(f"# {self.name}\n\n{machine()}\n\n")
            if self.quick:
                out.write("Quick: small sizes, three repetitions. Not a measurement to quote.\n\n")
            out.write("\n".join(self.text))
            out.write("\n## Budgets\n\n")
            out.writelines(f"- {word} {line}\n" for word, line in self.verdicts)


def number(value):
    """Three significant digits, without an exponent."""
    if not isinstance(value, float):
        return str(value)
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:.{digits}f}"
