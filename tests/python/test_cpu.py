"""CPU samples of Python programs by timers inside the program, with Python functions among native frames."""
from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Python, needs_frames
from test_stacks import code_of

BURN = """
import sys, threading, time
def burn(seconds):
    end = time.thread_time() + seconds
    n = 0
    while time.thread_time() < end:
        for i in range(300):
            n += i * i
    return n
"""


def record(python: Python, text: str, *flags: str) -> tuple[Path, str]:
    import textwrap

    script = python.write("burn.py", BURN + textwrap.dedent(text))
    rec = python.root / "c.rec"
    rec.unlink(missing_ok=True)
    done = python.piano("record", *(flags or ("--cpu",)), "-o", str(rec), "--", sys.executable, str(script))
    return rec, done.err


def times(python: Python, rec: Path) -> dict[str, tuple[int, int]]:
    """Self and total nanoseconds of each function of Python."""
    found = json.loads(python.piano("report", "--cpu", "--json", "--all", str(rec)).out)
    return {f["name"]: (f["self_ns"], f["total_ns"]) for f in found["functions"] if f["module"] == "[python]"}


@needs_frames
def test_shares_of_functions_match_the_work(python: Python) -> None:
    """One function takes three times as long as the other. Both have the same caller, which has no self time."""
    rec, said = record(python, """
    def three(): burn(1.2)
    def one(): burn(0.4)
    def both(): three(); one()
    both()
    """)
    assert "by timers in the program" in said and "it is Python" in said
    found = times(python, rec)
    ratio = found["three"][1] / found["one"][1]
    assert 2.2 < ratio < 4.1, found
    whole = found["both"][1]
    assert abs(whole - found["three"][1] - found["one"][1]) < whole * 0.02
    assert abs(found["burn"][1] - whole) < whole * 0.02 and found["burn"][0] > 0
    assert found["both"][0] < whole * 0.05


@needs_frames
def test_callbacks_threads_and_coroutines(python: Python) -> None:
    rec, _ = record(python, """
    import asyncio
    def by_key(x):
        burn(0.15); return x
    def sorts(): sorted([3, 1, 2], key=by_key)
    async def step(): burn(0.2); await asyncio.sleep(0); burn(0.2)
    async def flow(): await step()
    thread = threading.Thread(target=burn, args=(0.4,))
    thread.start(); sorts(); thread.join(); asyncio.run(flow())
    """)
    collapsed = python.piano("export", str(rec), "--format", "collapsed", "--by", "cpu").out.splitlines()
    stacks = [line.rsplit(" ", 1)[0].split(";") for line in collapsed]

    def chains(*names: str) -> int:
        return sum(1 for s in stacks if [n for n in s if n in names] == list(names))

    assert chains("<module>", "sorts", "by_key", "burn") > 0, collapsed
    assert any(s.index("flow") < s.index("step") < s.index("burn") for s in stacks if {"flow", "step", "burn"} <= set(s))
    assert any(s[0] == "Thread._bootstrap" and "burn" in s for s in stacks), collapsed


@needs_frames
def test_stacks_have_line_numbers(python: Python) -> None:
    rec, _ = record(python, """
    def first():
        burn(0.5)
    first()
    """)
    page = python.root / "p.html"
    python.piano("view", str(rec), "-o", str(page))
    places = code_of(page)
    top = BURN.count("\n") + 1
    assert ("first", top + 2) in places and ("<module>", top + 3) in places, places


@needs_frames
def test_heap_and_cpu_are_in_one_recording(python: Python) -> None:
    rec, _ = record(python, """
    kept = []
    def fill():
        for n in range(300):
            kept.append(bytearray(20_000))
        burn(0.4)
    fill()
    """, "--heap=4K", "--cpu=199")
    assert times(python, rec)["fill"][1] > 0
    heap = python.piano("report", "--heap", str(rec)).out
    assert "fill" in heap and f"burn.py:{BURN.count(chr(10)) + 5}" in heap


def test_kernel_option_uses_perf_without_python_functions(python: Python) -> None:
    """--kernel requires perf, which finds no Python functions."""
    try:
        rec, said = record(python, "burn(0.3)", "--cpu", "--kernel")
    except AssertionError:
        pytest.skip("perf is refused here")
    if "by timers in the program" in said:
        pytest.skip("perf is refused here")
    assert "burn" not in times(python, rec)


@needs_frames
def test_scripts_are_recognised_as_python(python: Python) -> None:
    for first in (f"#!{sys.executable}", f"#!/usr/bin/env -S {sys.executable}" if "/" not in sys.executable else
                  f"#!{sys.executable} -u"):
        script = python.write("tool", first + "\n" + BURN + "burn(0.1)\n")
        script.chmod(0o755)
        rec = python.root / "s.rec"
        rec.unlink(missing_ok=True)
        assert "it is Python" in python.piano("record", "--cpu", "-o", str(rec), "--", str(script)).err
    assert "it is Python" not in python.piano("record", "--cpu", "-o", str(python.root / "t.rec"), "--", "/bin/true").err


CHURN = """
import ctypes, faulthandler, gc, json, sys, threading, time
faulthandler.enable()  # an alternate stack for signals, and not a large one
class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("hz", ctypes.c_uint32), ("source", ctypes.c_uint32), ("kernel", ctypes.c_uint32)]
class Stats(ctypes.Structure):
    _fields_ = [(n, ctypes.c_uint32) for n in ("source", "hz", "on", "threads")] + [
        (n, ctypes.c_uint64) for n in ("samples", "unwound", "lost", "missed")]
from piano import memprof
lib = ctypes.CDLL(None)
options = Options(ctypes.sizeof(Options), 10000, 1, 0)  # perf: a timer comes with the kernel's tick at most
err = lib.piano_cpu_start(ctypes.byref(options))
if err:
    print(json.dumps(err)); sys.exit()
memprof.start(1)
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
def gen(n):
    for i in range(n):
        yield from (x for x in (i, i + 1))
def deep(n): return 0 if n == 0 else 1 + deep(n - 1)
def made(i):
    names = {}
    exec(f"def z{i % 7}(a):\\n  return [a] * {i % 5}\\nr = z{i % 7}(1)", names)
def work(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        fib(12); sum(gen(50)); deep(300); sorted(range(50), key=lambda x: -x)
        for i in range(5): made(i)
threads = [threading.Thread(target=work, args=(1.0,)) for _ in range(3)]
[t.start() for t in threads]; work(0.5); [t.join() for t in threads]
stats = Stats()
lib.piano_cpu_stats(ctypes.byref(stats))
lib.piano_cpu_stop()
print(json.dumps([stats.samples, memprof.recording_path()]))
"""


@needs_frames
def test_samples_at_any_instruction_do_not_crash_the_interpreter(python: Python) -> None:
    """Thousands of samples of threads that call functions and create and destroy code: no faults, and the functions of a
    stack call each other."""
    said: Any = python.run(CHURN).json
    if isinstance(said, int):
        pytest.skip(f"perf is refused here: {said}")
    assert said[0] > 3000
    callers = {"fib": {"fib", "work"}, "gen": {"work"}, "gen.<locals>.<genexpr>": {"gen"}, "deep": {"deep", "work"},
               "made": {"work"}, "<module>": {"made"}, "work.<locals>.<lambda>": {"work"}, "work": {"Thread.run"},
               **{f"z{n}": {"<module>"} for n in range(7)}}
    seen, wrong, all_ns = set(), 0, 0
    for line in python.piano("export", str(python.root / said[1]), "--format", "collapsed", "--by", "cpu").out.splitlines():
        text, ns = line.rsplit(" ", 1)
        names = [n for n in text.split(";") if n in callers or n == "Thread.run"]
        if "Thread.run" in names:
            all_ns += int(ns)
            seen |= set(names)
            wrong += int(ns) * any(b in callers and a not in callers[b] for a, b in zip(names, names[1:]))
    assert {"fib", "deep", "work", "gen", "made", "gen.<locals>.<genexpr>"} <= seen
    assert wrong <= all_ns / 1000, (wrong, all_ns)
