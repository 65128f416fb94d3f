"""Python functions in the stacks of allocations: the right functions and lines, in the right places among native frames."""
from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Python, needs_frames

# The beginning of each script: `stack(SIZE)` is the stack of the only live block of SIZE bytes (a bytearray has one byte more),
# innermost first, as [function, line, is_python].
HEAD = """
import json, os, sys, threading
from piano import memprof
HERE = os.path.abspath(__file__)
def samples(size):
    return [s for s in memprof.get_snapshot().samples if s.size in (size, size + 1)]
def stack(size):
    found = samples(size)
    assert len(found) == 1, (size, len(found))
    return [[f.function, f.line, f.is_python] for f in found[0].stack]
memprof.start(1)
"""
AT = HEAD.strip("\n").count("\n") + 1  # the number of lines before the script's first line


def run(python: Python, text: str, **more: Any) -> Any:
    import textwrap

    return python.run(HEAD.lstrip("\n") + textwrap.dedent(text).lstrip("\n"), **more).json


def functions(stack: list[list[Any]]) -> list[str]:
    return [name for name, _, is_python in stack if is_python]


@needs_frames
def test_stacks_have_function_file_and_line(python: Python) -> None:
    """Two methods with the same native stack are two sites, each at its own line."""
    said = run(python, """
    class Cache:
        def fill(self):
            return bytearray(700_001)
        def grow(self):
            a = 1
            return bytearray(
                700_003
            )
    kept = Cache().fill(), Cache().grow()
    s = samples(700_001)[0].stack
    print(json.dumps([stack(700_001), stack(700_003), [f.file == HERE for f in s if f.is_python],
                      memprof.get_snapshot().top_allocators(2)]))
    """)
    assert [f[:2] for f in said[0] if f[2]] == [["Cache.fill", AT + 3], ["<module>", AT + 9]]
    assert [f[:2] for f in said[1] if f[2]] == [["Cache.grow", AT + 6], ["<module>", AT + 9]]
    assert said[2] == [True, True]
    assert {(t["function"], t["line"]) for t in said[3]} == {("Cache.fill", AT + 3), ("Cache.grow", AT + 6)}
    assert not said[0][0][2], "the innermost frames are the interpreter's: it made the object"


@needs_frames
def test_line_numbers_equal_those_of_python(python: Python) -> None:
    """Loops, jumps back, statements of several lines, comprehensions, handlers: the line of a sample is the frame's f_lineno,
    read in the same expression."""
    said = run(python, """
    lines = {}
    kept = []
    def note(size):
        lines[size] = sys._getframe(1).f_lineno
        return size
    def many():
        for i in range(3):
            kept.append(bytearray(note(300_000 + 10 * i)))
        try:
            kept.append([bytearray(note(310_000 + 10 * i))
                         for i in range(3)]); raise KeyError
        except KeyError:
            kept.append(bytearray(note(320_000)))
        finally:
            kept.append(
                (bytearray(note(330_000)),
                 bytearray(note(330_010)))
            )
        kept.append((lambda: bytearray(note(340_000)))())
        x = (bytearray(note(350_000)) if kept else
             bytearray(1))
        kept.append(x); kept.append(bytearray(note(360_000)))
        with open("/dev/null") as _, memprof_like() as _:
            kept.append(bytearray(note(370_000)))
    class memprof_like:
        def __enter__(self): kept.append(bytearray(note(380_000)))
        def __exit__(self, *_): kept.append(bytearray(note(390_000)))
    exec("\\n" * 70_000 + "def far():\\n    kept.append(bytearray(note(395_000)))\\n")
    many(); far()
    print(json.dumps([[size, line, stack(size)] for size, line in lines.items()]))
    """)
    assert len(said) == 16
    for size, line, stack in said:
        assert next(f[1] for f in stack if f[2]) == line, (size, line, stack)


@needs_frames
def test_stacks_pass_through_generators_and_recursion(python: Python) -> None:
    said = run(python, """
    def inner():
        yield bytearray(700_001)
    def outer():
        yield from inner()
    def down(n):
        if n == 0:
            return bytearray(700_003)
        return down(n - 1)
    kept = [x for x in outer()], down(20)
    print(json.dumps([stack(700_001), stack(700_003)]))
    """)
    assert functions(said[0])[:2] == ["inner", "outer"] and functions(said[0])[-1] == "<module>"
    assert functions(said[1]) == ["down"] * 21 + ["<module>"]
    assert [f[1] for f in said[1] if f[2]] == [AT + 7] + [AT + 8] * 20 + [AT + 9]


@needs_frames
def test_deep_recursion_keeps_the_innermost(python: Python) -> None:
    said = run(python, """
    def down(n):
        return bytearray(700_003) if n == 0 else down(n - 1)
    kept = down(800)
    print(json.dumps(stack(700_003)))
    """)
    assert 100 < len(said) <= 128 and set(functions(said)) == {"down"}


@needs_frames
def test_stacks_pass_through_callbacks_from_c(python: Python) -> None:
    """Native frames, at least those of other modules, stand between a callback and the function that called C."""
    said = run(python, """
    import ctypes
    kept = []
    def by_key(x):
        kept.append(bytearray(700_001)) if x == 1 else None
        return -x
    def sorts():
        sorted([1, 2, 3], key=by_key)
    compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    def compared(a, b):
        if len(kept) == 1:
            kept.append(bytearray(700_003))
        return 0
    def quick():
        numbers = (ctypes.c_int * 4)(4, 3, 2, 1)
        ctypes.CDLL(None).qsort(numbers, 4, 4, compare(compared))
    sorts(); quick()
    frames = samples(700_003)[0].stack
    print(json.dumps([stack(700_001), stack(700_003),
                      [os.path.basename(f.file) for f in frames if not f.is_python]]))
    """)
    assert functions(said[0]) == ["by_key", "sorts", "<module>"]
    assert functions(said[1]) == ["compared", "quick", "<module>"]
    places = [i for i, f in enumerate(said[1]) if f[2]]
    between = said[1][places[0] + 1 : places[1]]
    assert between and any("qsort" in f[0] or "msort" in f[0] for f in between), said[1]
    assert said[1][places[1] + 1 :] == said[1][places[2] :], "nothing between a function and its Python caller"
    assert any(name.startswith("libffi") for name in said[2]) and any("_ctypes" in name for name in said[2])


@needs_frames
def test_threads_that_released_the_gil_have_their_stacks(python: Python) -> None:
    """ctypes releases the GIL during a call: four threads are in malloc at once, each below its own Python function."""
    said = run(python, """
    import ctypes
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.malloc.argtypes = [ctypes.c_size_t]
    got = {}
    def make(n):
        names = {}
        exec(f"def take_{n}():\\n  for i in range(2000): libc.free(libc.malloc(100))\\n"
             f"  got[{n}] = libc.malloc({500_000 + 10 * n})", dict(libc=libc, got=got), names)
        return names[f"take_{n}"]
    libc.free.argtypes = [ctypes.c_void_p]
    threads = [threading.Thread(target=make(n)) for n in range(4)]
    [t.start() for t in threads]; [t.join() for t in threads]
    print(json.dumps([stack(500_000 + 10 * n) for n in range(4)]))
    """)
    for n, frames in enumerate(said):
        names = functions(frames)
        assert names[0] == f"take_{n}" and "Thread.run" in names and names[-1] == "Thread._bootstrap", frames
        assert frames[-1][2], "what starts a thread is left out"


def test_stacks_of_numpy_have_native_and_python_frames(python: Python) -> None:
    pytest.importorskip("numpy")
    said = run(python, """
    import numpy as np
    def matrix():
        return np.zeros((1000, 1001), dtype=np.float64)
    kept = matrix()
    s = samples(8_008_000)[0].stack
    print(json.dumps([stack(8_008_000), [os.path.basename(f.file) for f in s if not f.is_python],
                      memprof.get_snapshot().top_allocators(1)]))
    """)
    assert [f[:2] for f in said[0] if f[2]] == [["matrix", AT + 3], ["<module>", AT + 4]]
    assert any("multiarray" in file for file in said[1]), said
    assert (said[2][0]["function"], said[2][0]["line"]) == ("matrix", AT + 3)


@needs_frames
def test_code_objects_at_a_reused_address_are_told_apart(python: Python) -> None:
    """Functions are created, run and destroyed in a loop, so that new ones reuse their addresses, with the same name and other lines:
    every sample has the function that allocated it."""
    said = run(python, """
    import gc
    kept, made = [], set()
    def once(n):
        names = {}
        exec("def f():" + "\\n" * (n % 17 + 1) + f" return bytearray({400_000 + n})", names)
        kept.append(names["f"]())
        made.add(id(names["f"].__code__))
    for n in range(500):
        once(n)
    gc.collect()
    ballast = [compile(f"x = {i}", f"other {i}", "exec") for i in range(2000)]
    wrong = []
    for s in memprof.get_snapshot().samples:
        n = s.size - 1 - 400_000
        if 0 <= n < 500:
            top = next(f for f in s.stack if f.is_python)
            if (top.function, top.file, top.line) != ("f", "<string>", 1 + n % 17 + 1):
                wrong.append([n, top.function, top.file, top.line])
    print(json.dumps([len(made), wrong]))
    """)
    assert said[0] <= 450, "of 500 addresses, fewer than 50 were used again: the test shows nothing"
    assert said[1] == []


def test_samples_during_destruction_of_code_objects_do_not_crash(python: Python) -> None:
    """A callback of a weak reference allocates while the code object of the frame that is being left is destroyed."""
    said = run(python, """
    import weakref
    kept, seen = [], []
    def callback(_):
        kept.append(bytearray(300_000 + len(kept)))
    for n in range(200):
        names = {}
        exec(f"def gone_{n}(watch): watch()", names)
        f = names.pop(f"gone_{n}")
        weak = weakref.ref(f.__code__, callback)
        def last(): 
            global f
            del f
        f(last)
    print(json.dumps([len(kept), len([s for s in memprof.get_snapshot().samples if 300_000 < s.size <= 300_201])]))
    """)
    assert said == [200, 200]


@needs_frames
def test_stacks_of_coroutines_are_complete(python: Python) -> None:
    said = run(python, """
    import asyncio
    kept = []
    async def fetch(n):
        await asyncio.sleep(0)
        kept.append(bytearray(700_000 + 10 * n))
    async def handle(n):
        await fetch(n)
    async def main():
        await asyncio.gather(*(handle(n) for n in range(3)))
    asyncio.run(main())
    print(json.dumps([stack(700_000 + 10 * n) for n in range(3)]))
    """)
    for stack in said:
        names = functions(stack)
        assert names[:2] == ["fetch", "handle"] and [f[1] for f in stack if f[2]][:2] == [AT + 5, AT + 7]
        assert "BaseEventLoop.run_until_complete" in names and names[-1] == "<module>"


@needs_frames
def test_names_that_are_not_ascii(python: Python) -> None:
    said = run(python, """
    import importlib, importlib.util
    os.makedirs("größe", exist_ok=True)
    texts = {"größe/alt.py": ("größe", 700_001), "größe/日本.py": ("数据", 700_003), "größe/x\\U0001f40d.py": ("ħ", 700_005)}
    kept = []
    for path, (name, size) in texts.items():
        with open(path, "w") as f:
            f.write(f"def {name}(): return bytearray({size})\\n")
        spec = importlib.util.spec_from_file_location("m", os.path.abspath(path))
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        kept.append(getattr(module, name)())
    with open(b"r\\xff.py", "w") as f:
        f.write("kept.append(bytearray(700_007))")
    exec(compile(open(b"r\\xff.py").read(), os.fsdecode(b"r\\xff.py"), "exec"))
    out = []
    for size in (700_001, 700_003, 700_005, 700_007):
        top = next(f for f in samples(size)[0].stack if f.is_python)
        out.append([top.function, os.path.basename(top.file)])
    print(json.dumps(out))
    """, PYTHONUTF8="1")
    assert said == [["größe", "alt.py"], ["数据", "日本.py"], ["ħ", "x\U0001f40d.py"], ["<module>", "r\udcff.py"]]


@needs_frames
def test_names_are_correct_in_the_c_locale(python: Python) -> None:
    """Names are UTF-8 in the recording and text in the report, in every locale; a name may be empty."""
    said = run(python, """
    def größe():
        return bytearray(700_001)
    def other():
        return bytearray(700_003)
    other.__code__ = other.__code__.replace(co_qualname="")
    kept = [größe(), other()]
    out = []
    for size in (700_001, 700_003):
        out.append(next(f for f in samples(size)[0].stack if f.is_python).function)
    print(json.dumps(out + [sys.getfilesystemencoding()]))
    """, PYTHONUTF8="0", PYTHONCOERCECLOCALE="0", LC_ALL="C")
    assert said == ["größe", "?", "ascii"] or said == ["größe", "?", "iso8859-1"]


@needs_frames
def test_records_of_code_have_a_bound(python: Python) -> None:
    """An endless series of large functions, each in one sample: the recording does not grow without limit."""
    said = run(python, """
    lines = ";".join(["x=a"] * 50) + "\\n "
    text = "def f(a):\\n " + lines * 120 + "\\n return bytearray(500_000)"
    made = compile(text, "made", "exec").co_consts[0]
    table = len(made.co_linetable)
    def f(a): pass
    def after():
        return bytearray(700_001)
    def grow(count):
        for n in range(1, count + 1):
            f.__code__ = made.replace(co_firstlineno=n)
            f(1)
    path = memprof.recording_path()
    grow(4000)
    late = after()
    print(json.dumps([table, os.stat(path).st_size, stack(700_001)]))
    """)
    assert said[0] > 20_000, "the functions are too small: the test shows nothing"
    assert said[1] < 80 << 20  # it was 190 MB
    assert said[2][-1] == ["<module>", AT + 14, True]  # functions that were known before are still known


@needs_frames
def test_children_have_stacks_of_their_own(python: Python) -> None:
    """fork, multiprocessing and preforked workers: each knows the code that it runs, independent of its parent."""
    said = run(python, """
    import multiprocessing
    def worker(n, out):
        memprof.start(1)
        def serve():
            return bytearray(600_000 + n)
        kept = serve()
        top = next(f for f in samples(600_000 + n)[0].stack if f.is_python)
        out.put([top.function, top.line])
        memprof.shutdown()
    def before():
        return bytearray(700_001)
    kept = before()
    context = multiprocessing.get_context("fork")
    out = context.Queue()
    workers = [context.Process(target=worker, args=(n, out)) for n in range(4)]
    [w.start() for w in workers]
    seen = [out.get() for _ in workers]
    [w.join() for w in workers]
    after = bytearray(700_003)
    print(json.dumps([seen, [w.exitcode for w in workers], stack(700_001), stack(700_003)]))
    """)
    assert said[0] == [["worker.<locals>.serve", AT + 5]] * 4 and said[1] == [0] * 4
    assert functions(said[2]) == ["before", "<module>"] and functions(said[3]) == ["<module>"]


def test_daemon_threads_outlive_the_interpreter(python: Python) -> None:
    """The interpreter destroys their thread state while they are in C code that allocates."""
    for _ in range(3):
        done = python.run("""
        import ctypes, threading
        from piano import memprof
        memprof.start(1)
        libc = ctypes.CDLL(None)
        lib = ctypes.CDLL(None)
        class Held(ctypes.Structure): pass
        def load():
            while True:
                libc.free(ctypes.c_void_p(lib.malloc(3000)))
                libc.usleep(50)
        lib.malloc.restype = ctypes.c_void_p
        for _ in range(4):
            threading.Thread(target=load, daemon=True).start()
        libc.usleep(30000)
        print("end")
        """)
        assert done.out == "end\n" and done.err == ""


# ---- in the tool ----

PROGRAM = """
import sys
kept = []
class Cache:
    def fill(self, n):
        for i in range(n):
            kept.append(bytearray(40_000))
def grow(n):
    for i in range(n):
        kept.append(bytes(20_000))
def main():
    Cache().fill(200)
    sorted(range(100), key=lambda n: grow(1) or n)
main()
print(len(kept))
"""


def record(python: Python, *flags: str) -> Path:
    script = python.write("program.py", PROGRAM)
    rec = python.root / "p.rec"
    rec.unlink(missing_ok=True)
    python.piano("record", "--heap=1K", *flags, "-o", str(rec), "--", sys.executable, str(script))
    return rec


def report(python: Python, rec: Path, *flags: str) -> Any:
    import json

    return json.loads(python.piano("report", "--heap", "--json", *flags, str(rec)).out)


@needs_frames
def test_recorded_program_has_python_functions(python: Python) -> None:
    rec = record(python)
    sites = report(python, rec)["sites"]
    top = max(sites, key=lambda s: float(s["peak_bytes"]))
    frames = [(f["function"], f["line"]) for f in top["stack"] if f["python"]]
    assert frames == [("Cache.fill", 7), ("main", 12), ("<module>", 14)]
    assert all(f["file"].endswith("/program.py") and f["module"] == "[python]" for f in top["stack"] if f["python"])
    text = python.piano("report", "--heap", str(rec)).out
    assert "Cache.fill" in text and "program.py:7" in text and "program.py:10" in text
    tree = python.piano("report", "--heap", "--tree", "--by", "allocated", str(rec)).out
    assert tree.index("main") < tree.index("Cache.fill")
    for stack in (s["stack"] for s in sites):
        inner = next((i for i, f in enumerate(stack) if f["python"]), len(stack))
        outer = stack[inner:]
        assert not [f for f in outer if f["module"].startswith(("python3", "libpython", "libpiano"))], stack


@needs_frames
def test_wrappers_of_python_are_passed_over(python: Python) -> None:
    rec = record(python)
    text = python.piano("report", "--heap", "--skip", "grow", "--skip", "*<lambda>", str(rec)).out
    assert "program.py:13" in text and "program.py:10" not in text


def code_of(path: Path) -> set[tuple[str, int]]:
    """The functions and lines in a page of `piano view`."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
    from pages import Page

    page = Page(path.read_text(encoding="utf-8"))
    names = page.strings
    return {(names[row["function"]], row["line"]) for row in page.rows("code")}


@needs_frames
def test_exports_and_the_page_have_python_functions(python: Python) -> None:
    import gzip

    rec = record(python)
    collapsed = python.piano("export", str(rec), "--format", "collapsed", "--by", "allocated").out
    assert any(line.startswith("<module>;main;Cache.fill;") for line in collapsed.splitlines()), collapsed[:2000]
    scope = json.loads(python.piano("export", str(rec), "--format", "speedscope", "--by", "allocated").out)
    frame = next(f for f in scope["shared"]["frames"] if f["name"] == "Cache.fill")
    assert frame["file"].endswith("/program.py")
    out = python.root / "p.pb.gz"
    python.piano("export", str(rec), "--format", "pprof", "-o", str(out))
    data = out.read_bytes()
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    assert b"Cache.fill" in data and b"program.py" in data
    page = python.root / "p.html"
    python.piano("view", str(rec), "-o", str(page))
    assert {("Cache.fill", 7), ("main", 12), ("<module>", 14)} <= code_of(page)


@needs_frames
def test_damaged_code_objects_do_not_crash_the_report(python: Python) -> None:
    """With any damage in the part of the file that has names and lines, the tool makes the report or refuses with a message."""
    import random

    rec = record(python)
    whole = rec.read_bytes()
    chunks = [at for at in range(4096, len(whole), 65536) if whole[at : at + 8] == bytes((10, 0, 0, 0, 1, 0, 0, 0))]
    assert chunks
    random.seed(5)
    for turn in range(40):
        data = bytearray(whole)
        for at in chunks:
            used = int.from_bytes(data[at + 16 : at + 24], "little")
            for _ in range(random.choice((1, 5, 200))):
                where = at + 64 + random.randrange(min(used, 400 if turn % 2 else used))
                data[where] = random.choice((0, 1, 127, 128, 255, random.randrange(256)))
        rec.write_bytes(data)
        done = python.command([conf_piano(), "report", "--heap", "--json", str(rec)], check=False)
        assert done.status in (0, 1), (turn, done)


@needs_frames
def test_children_of_a_recorded_program(python: Python) -> None:
    script = python.write("forks.py", """
    import os
    def child_work(): return [bytearray(50_000) for _ in range(50)]
    def parent_work(): return [bytearray(50_000) for _ in range(50)]
    pid = os.fork()
    kept = child_work() if pid == 0 else parent_work()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    """)
    python.piano("record", "--heap=1K", "-o", str(python.root / "f.rec"), "--", sys.executable, str(script))
    whole, child = sorted(python.root.glob("f.rec*"))
    both = python.piano("report", "--heap", str(whole)).out
    assert "parent_work" in both and "child_work" in both
    pids = [p["pid"] for p in json.loads(python.piano("report", str(whole), "--json").out)["processes"]]
    number = int(child.name.removeprefix("f.rec-"))
    pids.sort(key=lambda pid: pid == number)
    texts = [python.piano("report", "--heap", str(whole), "--process", str(pid)).out for pid in pids]
    assert "parent_work" in texts[0] and "child_work" not in texts[0]
    assert "child_work" in texts[1] and "parent_work" not in texts[1]


def test_programs_print_the_same_when_recorded(python: Python) -> None:
    script = python.write("work.py", """
    import asyncio, json, sys, threading, traceback, hashlib
    def gen(n):
        for i in range(n):
            yield {"n": i, "text": str(i) * (i % 9)}
    def deep(n): return 1 if n == 0 else 1 + deep(n - 1)
    async def add(a, b):
        await asyncio.sleep(0)
        return a + b
    async def main(): return await asyncio.gather(*(add(i, i) for i in range(200)))
    out = []
    threads = [threading.Thread(target=lambda: out.append(sum(len(json.dumps(x)) for x in gen(3000)))) for _ in range(3)]
    [t.start() for t in threads]; [t.join() for t in threads]
    print(out, deep(700), sum(asyncio.run(main())), hashlib.sha256(json.dumps(list(gen(500))).encode()).hexdigest())
    try: deep(10**6)
    except RecursionError as e: print(len(traceback.format_exc()) > 0, e)
    sys.exit(7)
    """)
    plain = python.command([sys.executable, str(script)], check=False)
    for flags in (["--heap=1"], ["--heap=4K", "--cpu=997"], ["--cpu=997"]):
        rec = python.root / "w.rec"
        rec.unlink(missing_ok=True)
        done = python.command([conf_piano(), "record", *flags, "-o", str(rec), "--", sys.executable, str(script)], check=False)
        assert (done.status, done.out) == (plain.status, plain.out) == (7, plain.out), flags


def conf_piano() -> str:
    from conftest import PIANO

    return PIANO


@needs_frames
def test_program_with_embedded_python_has_python_functions(python: Python) -> None:
    """Native functions of the program stay outside the Python functions that they call."""
    source = python.write("host.c", r"""
    #include <Python.h>
    #include <stdlib.h>
    static __attribute__((noinline)) PyObject *native_take(PyObject *self, PyObject *arg)
    {
        (void)self;
        void *volatile kept = malloc(PyLong_AsSize_t(arg));
        (void)kept;
        Py_RETURN_NONE;
    }
    static PyMethodDef methods[] = {{"take", native_take, METH_O, ""}, {0}};
    static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "host", "", -1, methods, 0, 0, 0, 0};
    static PyObject *make(void) { return PyModule_Create(&module); }
    static __attribute__((noinline)) int run_script(const char *text)
    {
        int status = PyRun_SimpleString(text);
        __asm__ volatile("" ::: "memory");
        return status;
    }
    int main(void)
    {
        PyImport_AppendInittab("host", make);
        Py_Initialize();
        int status = run_script("import host\ndef script():\n    host.take(900001)\nscript()\n");
        __asm__ volatile("" ::: "memory");
        Py_Finalize();
        return status;
    }
    """)
    config = Path(sys.executable).resolve()
    flags = subprocess.run([f"{config}-config", "--includes", "--ldflags", "--embed"], capture_output=True, text=True)
    build = subprocess.run(["gcc", "-g", "-O1", "-rdynamic", "-o", str(python.root / "host"), str(source), *flags.stdout.split()],
                           capture_output=True, text=True)
    if flags.returncode or build.returncode:
        pytest.skip(f"a program with {config.name} in it cannot be linked here: {build.stderr[-200:]}")
    rec = python.root / "h.rec"
    python.piano("record", "--heap=1", "-o", str(rec), "--", str(python.root / "host"))
    sites = report(python, rec, "--top", "100000")["sites"]
    site = next(s for s in sites if s["size_max"] == 900001 or any(f["function"] == "script" for f in s["stack"]))
    names = [f["function"] for f in site["stack"]]
    wanted = ["native_take", "script", "<module>", "run_script", "main"]
    assert [n for n in names if n in wanted] == wanted, names
