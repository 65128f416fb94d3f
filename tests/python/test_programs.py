"""Programs with the library in them, and without: they must not notice."""
from __future__ import annotations

import json
import sys

import pytest
from conftest import PACKAGE, Python

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
def test_same_output(python: Python, name: str) -> None:
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
def test_same_output_under_the_tool(python: Python, name: str) -> None:
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


@pytest.mark.parametrize("save", [(), ("--save", "out.json")])
def test_arguments_are_the_scripts(python: Python, save: tuple[str, ...]) -> None:
    python.write("echo.py", ECHO)
    for words in (["echo.py", "-o", "x", "--save", "--", "y"], ["-m", "echo", "-q"], ["-c", ECHO, "-r"]):
        expected = python.command([sys.executable, *words])
        assert run(python, "-q", *save, *words).out == expected.out
        assert run(python, "-q", *save, *words, flags=("-O",)).out == \
            python.command([sys.executable, "-O", *words]).out


def test_status_and_standard_input(python: Python) -> None:
    python.write("leave.py", "import sys; print(sys.stdin.read()); sys.exit(7)")
    for save in ([], ["--save", "out.json"]):
        done = run(python, *save, "leave.py", check=False, stdin="hello")
        assert (done.status, done.out) == (7, "hello\n")
        assert done.err.startswith("piano: recording to ")
    session = run(python, "-q", stdin="print(6 * 7)\n")
    assert session.out == "42\n"


def test_the_snapshot_at_the_end_has_what_the_script_held(python: Python) -> None:
    python.write("hold.py", "import sys; kept = [bytes(10000) for _ in range(1000)]\nif len(sys.argv) > 1: sys.exit(3)")
    for words, status in ((["hold.py"], 0), (["hold.py", "x"], 3)):
        assert run(python, "-r", "16", "--save", "out.json", *words, check=False).status == status
        profile = json.loads((python.root / "out.json").read_text())["profiles"][0]
        assert 8_000_000 < profile["endValue"] < 16_000_000
    run(python, "-r", "16", "--save", "out.txt", "--format", "collapsed", "hold.py")
    lines = (python.root / "out.txt").read_text().splitlines()
    assert sum(int(line.rsplit(" ", 1)[1]) for line in lines) > 8_000_000


def test_wrong_command_lines(python: Python) -> None:
    (python.root / "there").write_text("")
    for words, text in ((["-r", "0", "x.py"], "1 or more"), (["-o", "there", "x.py"], "nothing is overwritten"),
                        (["-o", "no/where", "x.py"], "no directory"), (["-m"], "wants an argument"),
                        (["--save", "x"], "wants a script"), (["--nonsense", "x.py"], "--nonsense"),
                        (["--save", "x", "--format", "svg", "y.py"], "speedscope")):
        done = run(python, *words, check=False)
        assert done.status == 2 and text in done.err, (words, done)
    assert not (python.root / ".piano").exists()


def test_output_goes_where_it_is_told(python: Python) -> None:
    python.write("x.py", "kept = bytearray(1 << 20)")
    run(python, "-q", "-o", "mine.rec", "x.py")
    assert json.loads(python.piano("report", "--heap", "--json", "mine.rec").out)["samples"] > 0
    assert not (python.root / ".piano").exists()


def test_the_package_installs(python: Python) -> None:
    """`pip install ./python`, into an environment of its own; nothing is fetched, so what builds it has to be here."""
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
