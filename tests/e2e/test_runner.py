"""tests/run itself, on a tree of a few tests: limits, no lost results, no remaining processes or files."""
from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from conftest import LIMIT_S, ROOT

GOOD = """
    def test_first(tmp_path):
        (tmp_path / "file").write_text("x" * 100000)
    def test_last(): pass
"""
HANGS = """
    import subprocess, time
    def test_before(): pass
    def test_hangs():
        subprocess.run(["sleep", "1000"])
    def test_catches_everything():
        try:
            subprocess.run(["sh", "-c", "sleep 1000 & wait"], start_new_session=True)
        except Exception:
            pass
    def test_after(): pass
"""
DEAF = """
    import signal, os
    def test_before(): pass
    def test_deaf():
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
        while True: signal.sigtimedwait([signal.SIGUSR1], 1000)
    def test_after(): pass
"""


class Tree:
    def __init__(self, root: Path):
        self.root, self.temp = root / "tree", root / "temp"
        (self.root / "tests" / "e2e").mkdir(parents=True)
        self.temp.mkdir()
        for name in ("run", "plugin.py"):
            shutil.copy(ROOT / "tests" / name, self.root / "tests" / name)
        shutil.copytree(ROOT / "tests" / "aarch64", self.root / "tests" / "aarch64")

    def write(self, **files: str) -> "Tree":
        for name, text in files.items():
            (self.root / "tests" / "e2e" / f"test_{name}.py").write_text(textwrap.dedent(text))
        return self

    @property
    def command(self) -> list[str]:
        return [sys.executable, str(self.root / "tests" / "run"), "e2e"]

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "TMPDIR": str(self.temp)}

    def run(self, *options: str) -> tuple[int, str]:
        done = subprocess.run([*self.command, *options], env=self.env, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        return done.returncode, done.stdout + done.stderr

    def left(self) -> list[str]:
        """The contents of the temporary directory, and the processes that use it."""
        found = [str(path) for path in self.temp.rglob("*")]
        for entry in Path("/proc").iterdir():
            try:
                if f"TMPDIR={self.temp}".encode() in (entry / "environ").read_bytes():
                    found.append((entry / "cmdline").read_text())
            except OSError:
                continue
        return found


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_passed_tests_are_counted(tree: Tree) -> None:
    status, out = tree.write(good=GOOD).run()
    assert status == 0 and out.rstrip().endswith("2 passed, 0 failed, 0 skipped"), out
    assert tree.left() == []


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_hanging_test_is_named_and_the_others_run(tree: Tree, jobs: str) -> None:
    status, out = tree.write(good=GOOD, hangs=HANGS).run("--limit", "3", "-j", jobs)
    assert status == 1 and out.rstrip().endswith("4 passed, 2 failed, 0 skipped"), out
    assert "no end after 3 s" in out
    assert re.search(r"== failed\n.*test_hangs.py::test_hangs\n.*test_hangs.py::test_catches_everything\n", out) or \
        re.search(r"== failed\n.*test_hangs.py::test_catches_everything\n.*test_hangs.py::test_hangs\n", out), out
    assert tree.left() == []


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_hanging_test_that_ignores_signals_is_named(tree: Tree, jobs: str) -> None:
    plugin = tree.root / "tests" / "plugin.py"
    plugin.write_text(plugin.read_text().replace("GRACE_S = 30", "GRACE_S = 1"))
    status, out = tree.write(good=GOOD, deaf=DEAF).run("--limit", "3", "-j", jobs)
    assert status == 1 and out.rstrip().endswith("4 passed, 1 failed, 0 skipped"), out
    assert "test_deaf.py::test_deaf" in out.split("== failed")[1]
    assert tree.left() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_reports_what_was_done(tree: Tree, number: int) -> None:
    begun = tree.root / "begun"
    tree.write(good=GOOD, hangs=f"""
        import pathlib, subprocess
        def test_bad(): assert False
        def test_odd():
            import pytest
            pytest.skip("for a reason")
        def test_hangs():
            child = subprocess.Popen(["sh", "-c", "sleep 1000 & wait"], start_new_session=True)
            pathlib.Path({str(begun)!r}).write_text("")
            child.wait()
        def test_never(): pass
    """)
    os.mkfifo(begun)
    run = subprocess.Popen([*tree.command, "-j", "1"], env=tree.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    begun.read_text()  # waits until the test has opened it
    run.send_signal(number)
    out, _ = run.communicate(timeout=LIMIT_S)
    assert run.returncode == 130 and out.rstrip().endswith("2 passed, 1 failed, 1 skipped"), out
    assert "test_hangs.py::test_hangs" in out.split("== stopped before their end")[1], out
    assert "for a reason" in out and "test_bad" in out.split("== failed")[1]
    assert tree.left() == []


def test_leftovers_of_a_killed_run_are_removed(tree: Tree) -> None:
    tree.write(good=GOOD)
    old = tree.temp / "piano-tests-old"
    (old / "closed").mkdir(parents=True)
    (old / "closed" / "file").write_text("x")
    (old / "closed").chmod(0)
    (old / "lock").write_text("")
    foreign = tree.temp / "piano-tests-without-a-lock"
    foreign.mkdir()
    assert tree.run()[0] == 0
    assert list(tree.temp.iterdir()) == [foreign]


def test_retries_are_reported(tree: Tree) -> None:
    shutil.copy(ROOT / "tests" / "e2e" / "conftest.py", tree.root / "tests" / "e2e" / "conftest.py")
    build = tree.root / "build"
    build.mkdir()
    shutil.copy("/bin/true", build / "piano")
    tree.write(times="""
        import pytest
        tries = []
        @pytest.mark.timing
        def test_second_time():
            tries.append(1)
            assert len(tries) == 2
    """)
    done = subprocess.run([sys.executable, str(tree.root / "tests" / "run"), "truth"], env=tree.env, capture_output=True, text=True,
                          timeout=LIMIT_S, check=False)
    assert done.returncode == 0 and re.search(r"== retried.*\n.*test_times.py::test_second_time: 1 time\n", done.stdout), done.stdout


def test_a_program_without_end_is_named(tree: Tree) -> None:
    """A unit test: its results until then count."""
    (tree.root / "tests" / "unit").mkdir()
    (tree.root / "tests" / "unit" / "test_slow.c").write_text("/* */\n")
    (tree.root / "Makefile").write_text("unit-tests:\n\tmkdir -p build/tests/unit\n"
                                        "\tprintf '#!/bin/sh\\necho ok 1 - quick\\nsleep 1000\\n' > build/tests/unit/test_slow\n"
                                        "\tchmod +x build/tests/unit/test_slow\n")
    done = subprocess.run([sys.executable, str(tree.root / "tests" / "run"), "unit", "--limit", "3"], env=tree.env, capture_output=True,
                          text=True, timeout=LIMIT_S, check=False)
    assert "FAILED unit: test_slow" in done.stdout and "no end after 3 s" in done.stdout
    assert done.stdout.rstrip().endswith("2 passed, 1 failed, 0 skipped"), done.stdout  # the build and `quick`
    assert tree.left() == []
