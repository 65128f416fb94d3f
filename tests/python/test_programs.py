"""Programs with and without the library behave the same."""
from __future__ import annotations

import json
import os
import shutil
import sys

import pytest
from conftest import PACKAGE, Python, needs_package

PROGRAMS = {
    "text": """
        import json, re, collections
        words = re.findall(r"\\w+", open(__file__).read() * 200)
        print(json.dumps(sorted(collections.Counter(words).items())))
    """,
    "threads": """
        import threading, queue
        q, out = queue.Queue(), []
        def work():
            while (n := q.get()) is not None:
                out.append(sum(i * i for i in range(n)))
        threads = [threading.Thread(target=work) for _ in range(8)]
        [t.start() for t in threads]
        [q.put(n) for n in range(300)]
        [q.put(None) for _ in threads]
        [t.join() for t in threads]
        print(sorted(out))
    """,
    "asyncio": """
        import asyncio
        async def echo(reader, writer):
            while data := await reader.readline():
                writer.write(data.upper())
                await writer.drain()
            writer.close()
        async def client(port, n):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            lines = []
            for i in range(20):
                writer.write(f"{n} line {i}\\n".encode())
                lines.append(await reader.readline())
            writer.close()
            return lines
        async def main():
            server = await asyncio.start_server(echo, "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            print(await asyncio.gather(*(client(port, n) for n in range(20))))
            server.close()
        asyncio.run(main())
    """,
    "generators": """
        def tree(depth):
            if depth:
                yield from tree(depth - 1)
                yield depth
                yield from tree(depth - 1)
        def deep(n):
            return 0 if n == 0 else 1 + deep(n - 1)
        try:
            deep(100000)
        except RecursionError as e:
            print(type(e).__name__, e)
        print(sum(tree(14)), deep(900))
    """,
    "callbacks": """
        import ctypes, functools
        compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
        values = (ctypes.c_int * 2000)(*((i * 7919) % 10007 for i in range(2000)))
        ctypes.CDLL(None).qsort(values, 2000, 4, compare(lambda a, b: a[0] - b[0]))
        print(list(values), sorted(range(500), key=functools.cmp_to_key(lambda a, b: b - a)))
    """,
    "multiprocessing": """
        import multiprocessing as mp
        def square(n):
            return [n * n] * 100
        if __name__ == "__main__":
            for method in ("fork", "spawn", "forkserver"):
                with mp.get_context(method).Pool(2) as pool:
                    print(method, sum(map(len, pool.map(square, range(200)))))
    """,
    "subprocess": """
        import subprocess, sys, os
        for n in range(10):
            print(subprocess.run([sys.executable, "-c", f"print({n} ** 50)"], capture_output=True, text=True).stdout)
        print(os.waitstatus_to_exitcode(os.waitpid(os.posix_spawn("/bin/true", ["true"], os.environ), 0)[1]))
        print(os.system("exit 3"))
    """,
    "weakrefs": """
        import gc, weakref
        class Node: pass
        log = []
        def make(i):
            a, b = Node(), Node()
            a.other, b.other = b, a
            weakref.finalize(a, log.append, i)
        for i in range(2000):
            make(i)
        gc.collect()
        code = [weakref.ref(compile(f"x{i} = {i}", f"made{i}", "exec"), lambda r: log.append(-1)) for i in range(100)]
        print(len(log), sum(log))
    """,
    "failing": """
        import sys
        print("before")
        def fail(n):
            return 1 / n
        fail(0)
    """,
}


def plain(text: str) -> str:
    return text.replace("piano: recording to", "").strip()


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_print_the_same_with_the_library(python: Python, name: str) -> None:
    script = python.write("program.py", PROGRAMS[name])
    expected = python.command([sys.executable, str(script)], check=False)
    profiled = python.command([sys.executable, "-m", "piano.memprof", "-q", "-r", "1", str(script)], check=False)
    assert (profiled.status, profiled.out, profiled.err) == (expected.status, expected.out, expected.err)
    recorded = list((python.root / ".piano" / "runs").iterdir())
    assert len(recorded) == 1
    report = json.loads(python.piano("report", "--heap", "--json", str(recorded[0])).out)
    assert report["samples"] > 100
    assert report["stats"]["walked_lost"] == 0 if "walked_lost" in report.get("stats", {}) else True


@pytest.mark.parametrize("name", ["text", "threads", "failing"])
def test_programs_print_the_same_under_the_tool(python: Python, name: str) -> None:
    script = python.write("program.py", PROGRAMS[name])
    expected = python.command([sys.executable, str(script)], check=False)
    profiled = python.command(
        [str(__import__("conftest").PIANO), "record", "--heap=1K", "-o", "it.rec", "--", sys.executable, str(script)],
        check=False)
    assert (profiled.status, profiled.out) == (expected.status, expected.out)
    assert expected.err in profiled.err or expected.err == ""


# ---- python3 -m piano.memprof ----

ECHO = "import sys; print(sys.argv, sys.flags.optimize, __name__, __file__ if '__file__' in dir() else None)\n"


def run(python: Python, *words: str, check: bool = True, stdin: str | None = None, flags: tuple[str, ...] = ()):  # type: ignore[no-untyped-def]
    return python.command([sys.executable, *flags, "-m", "piano.memprof", *words], check=check, stdin=stdin)


@needs_package
@pytest.mark.parametrize("save", [(), ("--save", "out.json")])
def test_arguments_are_passed_to_the_script(python: Python, save: tuple[str, ...]) -> None:
    python.write("echo.py", ECHO)
    for words in (["echo.py", "-o", "x", "--save", "--", "y"], ["-m", "echo", "-q"], ["-c", ECHO, "-r"]):
        expected = python.command([sys.executable, *words])
        assert run(python, "-q", *save, *words).out == expected.out
        assert run(python, "-q", *save, *words, flags=("-O",)).out == \
            python.command([sys.executable, "-O", *words]).out


@needs_package
def test_exit_status_and_stdin_are_those_of_the_script(python: Python) -> None:
    python.write("leave.py", "import sys; print(sys.stdin.read()); sys.exit(7)")
    for save in ([], ["--save", "out.json"]):
        done = run(python, *save, "leave.py", check=False, stdin="hello")
        assert (done.status, done.out) == (7, "hello\n")
        assert done.err.startswith("piano: recording to ")
    session = run(python, "-q", stdin="print(6 * 7)\n")
    assert session.out == "42\n"


@needs_package
def test_the_snapshot_at_the_end_has_what_the_script_held(python: Python) -> None:
    python.write("hold.py", "import sys; kept = [bytes(10000) for _ in range(1000)]\nif len(sys.argv) > 1: sys.exit(3)")
    for words, status in ((["hold.py"], 0), (["hold.py", "x"], 3)):
        assert run(python, "-r", "16", "--save", "out.json", *words, check=False).status == status
        profile = json.loads((python.root / "out.json").read_text())["profiles"][0]
        assert 8_000_000 < profile["endValue"] < 16_000_000
    run(python, "-r", "16", "--save", "out.txt", "--format", "collapsed", "hold.py")
    lines = (python.root / "out.txt").read_text().splitlines()
    assert sum(int(line.rsplit(" ", 1)[1]) for line in lines) > 8_000_000


AS_IT_IS = {
    "main.py": """
        import __main__, atexit, inspect, pickle, sys
        class Kept: pass
        def f(x: int) -> str: ...
        print(f.__annotations__, sorted(globals()), __name__, __file__, type(__loader__), type(__spec__), sys.argv, sys.path[0])
        print(type(pickle.loads(pickle.dumps(Kept()))), __main__.Kept is Kept, len(inspect.getsource(__main__)))
        atexit.register(lambda: print(sorted(vars(__main__))[-3:]))
    """,
    "fails.py": "def f():\n    return 1 / 0\ntry:\n    f()\nexcept ArithmeticError as e:\n    raise KeyError('k') from e\n",
    "syntax.py": "def f(:\n",
    "hook.py": """
        import sys
        def hook(kind, error, trace):
            lines = []
            while trace:
                lines.append(trace.tb_lineno)
                trace = trace.tb_next
            print(kind, error, lines)
        sys.excepthook = hook
        def f():
            raise ValueError(3)
        f()
    """,
    "interrupted.py": "import signal\nsignal.raise_signal(signal.SIGINT)\n",
    "says.py": "raise SystemExit('bye')\n",
    "pool.py": """
        import multiprocessing as mp
        def square(n):
            return n * n
        if __name__ == "__main__":
            for method in ("fork", "spawn"):
                with mp.get_context(method).Pool(2) as pool:
                    print(pool.map(square, range(5)))
    """,
    "folder/__main__.py": "import sys, beside\nprint(__name__, __package__, __file__, sys.argv, sys.path[0])\n1 / 0\n",
    "folder/beside.py": "",
    "folder/__init__.py": "",
}


@needs_package
@pytest.mark.parametrize("words", [
    ["main.py", "x"], ["./main.py"], ["fails.py"], ["syntax.py"], ["hook.py"], ["interrupted.py"], ["says.py"], ["pool.py"],
    ["folder", "x"], ["-m", "main", "x"], ["-m", "folder"], ["-m", "nothing.there"], ["nothing.py"],
    ["-c", "import pickle, sys\ndef f(x: int): pass\nprint(pickle.dumps(f), f.__annotations__, sys.argv, sys.path[0])", "x"],
    ["-c", "1 / 0"]], ids=lambda words: "-".join(w for w in words if w.isalnum() or "." in w and " " not in w))
@pytest.mark.parametrize("flags", [(), ("-P",)])
def test_script_behaves_the_same_with_save(python: Python, words: list[str], flags: tuple[str, ...]) -> None:
    """With --save the script runs inside a module of piano, and must not notice it."""
    (python.root / "folder").mkdir()
    for name, text in AS_IT_IS.items():
        python.write(name, text)
    expected = python.command([sys.executable, *flags, *words], check=False)
    done = run(python, "-q", "--save", "out.json", *words, check=False, flags=flags)
    assert (done.status, done.out, done.err) == (expected.status, expected.out, expected.err)
    assert json.loads((python.root / "out.json").read_text())["profiles"]


@needs_package
def test_unsaved_snapshot_is_reported_and_keeps_the_status(python: Python) -> None:
    """piano reports the failure, and the exit status stays that of the script."""
    python.write("off.py", "from piano import memprof; import sys; memprof.shutdown(); print(1); sys.exit(int(sys.argv[1]))")
    python.write("stopped.py", "from piano import memprof; memprof.stop()")
    for status in (0, 3):
        done = run(python, "-q", "--save", "out.json", "off.py", str(status), check=False)
        assert (done.status, done.out) == (status, "1\n")
        assert done.err == "piano: no snapshot is saved: the memory profiler was shut down\n"
    assert not (python.root / "out.json").exists()
    run(python, "-q", "--save", "out.json", "stopped.py")
    assert (python.root / "out.json").exists()
    for place in ("no/where", "."):
        done = run(python, "-q", "--save", place, "off.py", "0", check=False)
        assert (done.status, done.out) == (2, "") and "no place for a file" in done.err


@needs_package
def test_children_of_a_saved_script_have_recordings(python: Python) -> None:
    python.write("fork.py", """
    import os
    if os.fork() == 0:
        kept = [bytes(1000) for _ in range(1000)]
        os._exit(0)
    os.wait()
    """)
    run(python, "-q", "-r", "1", "--children", "--save", "out.json", "-o", "it.rec", "fork.py")
    children = [p for p in python.root.iterdir() if p.name.startswith("it.rec-")]
    assert len(children) == 1
    assert json.loads(python.piano("report", "--heap", "--json", str(children[0])).out)["samples"] > 500


def test_wrong_command_lines_are_usage_errors(python: Python) -> None:
    (python.root / "there").write_text("")
    for words, text in ((["-r", "0", "x.py"], "1 or more"), (["-o", "there", "x.py"], "nothing is overwritten"),
                        (["-o", "no/where", "x.py"], "no directory"), (["-m"], "wants an argument"),
                        (["--save", "x"], "wants a script"), (["--nonsense", "x.py"], "--nonsense"),
                        (["--save", "x", "--format", "svg", "y.py"], "speedscope")):
        done = run(python, *words, check=False)
        assert done.status == 2 and text in done.err, (words, done)
    assert not (python.root / ".piano").exists()


def test_output_goes_to_the_file_named(python: Python) -> None:
    python.write("x.py", "kept = bytearray(1 << 20)")
    run(python, "-q", "-o", "mine.rec", "x.py")
    assert json.loads(python.piano("report", "--heap", "--json", "mine.rec").out)["samples"] > 0
    assert not (python.root / ".piano").exists()


@needs_package
def test_the_package_installs(python: Python) -> None:
    """`pip install ./python` into a new environment, without downloads, so the build dependencies must be installed."""
    root = __import__("conftest").ROOT
    pytest.importorskip("setuptools")
    made = python.command([sys.executable, "-m", "venv", "--system-site-packages", "env"], check=False)
    if made.status != 0:
        pytest.skip("python3-venv is not installed")
    inside = str(python.root / "env" / "bin" / "python")
    installed = python.command([inside, "-m", "pip", "install", "--no-build-isolation", "--no-deps", "--no-index",
                                str(root / "python")], check=False, PYTHONPATH="", PIP_NO_CACHE_DIR="1")
    assert installed.status == 0, installed
    python.write("x.py", "from piano import memprof; import json; print(json.dumps(memprof.get_stats().total_samples))")
    done = python.command([inside, "-m", "piano.memprof", "-q", "-r", "1", "x.py"], PYTHONPATH="")
    assert done.json > 100
    where = python.command([inside, "-c", "import piano; print(piano.__file__)"], PYTHONPATH="").out
    assert str(python.root) in where and str(PACKAGE) not in where
    tool = str(python.root / "env" / "bin" / "piano")
    assert python.command([tool, "--version"]).out == f"piano {(root / 'VERSION').read_text()}"
    recorded = python.command([tool, "record", "--heap=1K", "-o", "tool.rec", "--", inside, "-c", "bytearray(9999)"])
    assert "samples" in recorded.err, "the tool does not find its library"


@pytest.mark.parametrize("name", ["a b", "co:lon", "do$x", "näme it's"])
def test_package_in_an_awkward_path_works(python: Python, name: str) -> None:
    """LD_PRELOAD is split at blanks and colons, and PYTHONPATH at colons, so both use links."""
    links = python.root / "links"
    links.mkdir()
    place = python.root / name
    shutil.copytree(PACKAGE / "piano", place / "piano")
    start = python.write("start.py", f"""
        import runpy, sys
        sys.path.insert(0, {str(place)!r})
        sys.argv = ["memprof", "--library"]
        runpy.run_module("piano.memprof", run_name="__main__")
    """)
    library = python.command([sys.executable, str(start)], TMPDIR=str(links)).out.strip()
    assert not set(library) & set(" :$") and os.path.realpath(library) == str(place / "piano" / "libpiano.so")
    python.write("script.py", "kept = [bytearray(100000) for _ in range(100)]")
    if ":" in name:
        return
    done = python.command([sys.executable, "-m", "piano.memprof", "-o", "x.rec", "script.py"], PYTHONPATH=str(place), TMPDIR=str(links))
    assert (python.root / "x.rec").stat().st_size > 0 and "preload" not in done.err, done
