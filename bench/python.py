"""Python: slowdown of programs under the heap and the CPU profiler, memray and tracemalloc."""
import glob
import os
import re
import shutil
import subprocess

from common import PIANO, Failed, Missing, Run, fresh, median, sources

SIZE, QUICK_SIZE = 3_000_000, 150_000
PEER_RUNS = 1  # peers take ten times as long, and the third digit does not matter
HEAP, CPU = 1.05, 1.02  # heap: relative to hooks that do nothing
EMPTY = "hooks of pymalloc that do nothing"
LIBRARY = os.path.join(os.path.dirname(os.path.realpath(PIANO)), "lib", "libpiano.so")
INTERPRETER = "/usr/bin/python3"
LOADS = {"objects": "small objects", "text": "JSON", "calls": "calls of functions", "arrays": "NumPy arrays"}


def interpreter():
    found = INTERPRETER if os.access(INTERPRETER, os.X_OK) else shutil.which("python3")
    if found is None:
        raise Missing("python3 is not installed")
    return os.path.realpath(found)


def has(python, module):
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0


def memray(python, folder):
    """A virtual environment of the same interpreter with memray from PyPI."""
    if has(python, "memray"):
        return python
    place = os.path.join(folder, "peers")
    try:
        Run([python, "-m", "venv", "--system-site-packages", place], limit=120)
        Run([os.path.join(place, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check", "--timeout", "15",
             "--retries", "1", "memray"], limit=180)
    except Failed as failed:
        raise Missing(f"cannot install memray from PyPI: {str(failed).strip().splitlines()[-1]}") from failed
    return os.path.join(place, "bin", "python")


class Load:
    def __init__(self, theme):
        self.python = interpreter()
        self.folder = fresh("python")
        self.size = QUICK_SIZE if theme.quick else SIZE
        sources(self.folder, "python_load.py", "forward_python.c")
        Run(["gcc", "-O2", "-fPIC", "-shared", "forward_python.c", "-o", "forward_python.so"], cwd=self.folder)
        self.expected = {}

    def run(self, kind, interpreter=None, flags=(), env=None):
        run = Run([interpreter or self.python, *flags, "python_load.py", kind, self.size], cwd=self.folder,
                  env={"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "1", **(env or {})})
        out = run.out.strip().splitlines()
        if self.expected.setdefault(kind, self.result(out)) != self.result(out):
            raise Failed(f"{kind} gave another result: {run.out}")
        return run

    @staticmethod
    def result(lines):
        """Skips what peers print to stdout."""
        return next((line for line in lines if re.fullmatch(r"[0-9.]+", line)), None)

    def clear(self):
        for old in glob.glob(os.path.join(self.folder, "*.rec*")) + glob.glob(os.path.join(self.folder, "memray.bin")):
            os.unlink(old)

    def recorded(self, **asked):
        """The environment of `piano record`, without the recorder."""
        self.clear()
        return {"LD_PRELOAD": LIBRARY, "PIANO_RECORD": os.path.join(self.folder, "bench.rec"), "PIANO_CHILDREN": "1",
                **{k: str(v) for k, v in asked.items()}}


def variants(load, peer):
    found = {
        EMPTY: lambda kind: load.run(kind, env={"LD_PRELOAD": os.path.join(load.folder, "forward_python.so")}),
        "piano --heap (512 KB)": lambda kind: load.run(kind, env=load.recorded(PIANO_HEAP=512 * 1024)),
        "piano --heap=64K": lambda kind: load.run(kind, env=load.recorded(PIANO_HEAP=64 * 1024)),
        "piano --cpu (99 Hz)": lambda kind: load.run(kind, env=load.recorded(PIANO_CPU=99)),
        "piano, all of it": lambda kind: load.run(kind, env=load.recorded(PIANO_HEAP=512 * 1024, PIANO_CPU=99, PIANO_EVENTS=1)),
        "tracemalloc": lambda kind: load.run(kind, flags=("-X", "tracemalloc")),
    }
    if peer:
        def beside(kind, *more):
            load.clear()
            return load.run(kind, interpreter=peer, flags=("-m", "memray", "run", "--quiet", *more, "--output", "memray.bin"))

        found["memray"] = beside
        found["memray, pymalloc too"] = lambda kind: beside(kind, "--trace-python-allocators")
        found["memray, native frames too"] = lambda kind: beside(kind, "--trace-python-allocators", "--native")
    return found


def slowdown(theme, load, peer):
    rows, ratios = [], {}
    kinds = {k: v for k, v in LOADS.items() if k != "arrays" or has(load.python, "numpy")}
    watched = variants(load, peer)
    for kind, what in kinds.items():
        theme.say(what)
        plain, seen = [], {name: [] for name in watched}
        for turn in range(theme.repetitions):
            for name, run in watched.items():
                if turn >= PEER_RUNS and not name.startswith("piano") and name != EMPTY:
                    continue
                plain.append(load.run(kind).cpu)
                seen[name].append(run(kind).cpu)
        for name in watched:
            ratios[kind, name] = median(seen[name]) / median(plain)
            rows.append([what, name, median(plain), f"{ratios[kind, name]:.3f}x"])
    theme.table("A program", ["", "under", "plain, s of CPU", "times that"], rows)
    theme.note(f"Medians of {theme.repetitions} runs ({PEER_RUNS} of the peers), a plain one right before each; the interpreter's start is in all of "
               "them. "
               "memray and tracemalloc record every allocation; piano samples them. CPython inlines its allocator into "
               "its callers. Any hook of small objects prevents that, as the row of hooks that do nothing shows.")
    for kind, what in kinds.items():
        theme.budget(f"{what} under piano --heap, against empty hooks", ratios[kind, "piano --heap (512 KB)"] / max(ratios[kind, EMPTY], 1.0),
                     HEAP, "x")
        theme.budget(f"{what} under piano --cpu", ratios[kind, "piano --cpu (99 Hz)"], CPU, "x")
        if peer:
            theme.require(f"{what}: less than memray with pymalloc",
                          ratios[kind, "piano --heap (512 KB)"] <= ratios[kind, "memray, pymalloc too"],
                          f"{ratios[kind, 'piano --heap (512 KB)']:.2f}x against {ratios[kind, 'memray, pymalloc too']:.2f}x")


def samples_of(path):
    """Heap samples and their frames, from the header."""
    with open(path, "rb") as file:
        header = file.read(4096)
    return [int.from_bytes(header[at : at + 8], "little") for at in (176, 176 + 12 * 8)]


def one_sample(theme, load):
    """Nanoseconds per sample, including Python's functions, of a program in which every allocation is a sample."""
    theme.say("one sample")
    plain, every = [], []
    for _ in range(theme.repetitions):
        plain.append(load.run("text").cpu)
        every.append(load.run("text", env=load.recorded(PIANO_HEAP=4096)).cpu)
    path, = glob.glob(os.path.join(load.folder, "bench.rec*"))
    samples, frames = samples_of(path)
    cost = (median(every) - median(plain)) / samples * 1e9
    theme.table("One sample", ["", "samples", "native frames a stack", "ns, at most"],
                [["JSON, one in 4 KB", samples, f"{frames / samples:.1f}", cost]])
    theme.note("The difference of medians, divided by the number of samples. It includes the countdown in each allocation.")


def run(theme):
    load = Load(theme)
    peer = None
    try:
        peer = memray(load.python, load.folder)
    except Missing as missing:
        theme.skip("memray", str(missing))
    slowdown(theme, load, peer)
    one_sample(theme, load)
