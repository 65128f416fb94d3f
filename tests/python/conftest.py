"""Helpers of the tests of the Python package: run a script in a separate interpreter with piano's library loaded, and read the
JSON that it prints.

PIANO_PYTHON names the package to test (build/python), PIANO the tool. Nothing is written outside pytest's tmp_path, but the
package's own __pycache__.
"""
from __future__ import annotations

import atexit
import compileall
import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any, Optional

import pytest

ROOT = Path(__file__).resolve().parents[2]
PIANO = os.environ.get("PIANO", str(ROOT / "build" / "piano"))


def without(marks: str, path: Path) -> Path:
    """PATH, or a link to it if it has one of MARKS in it: for lists that are split there."""
    if not set(str(path)) & set(marks):
        return path
    place = tempfile.mkdtemp(prefix="piano-lib-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    link = Path(place, path.name)
    link.symlink_to(path)
    return link


PACKAGE = without(":", Path(os.environ.get("PIANO_PYTHON", str(ROOT / "build" / "python"))))  # for PYTHONPATH
LIBRARY = PACKAGE / "piano" / "libpiano.so"
PRELOAD = str(without(" :$", LIBRARY))
LIMIT_S = max(120.0, float(os.environ.get("TEST_LIMIT_S", "0")) / 2)
NEW_ENOUGH = sys.version_info >= (3, 11)
needs_frames = pytest.mark.skipif(not NEW_ENOUGH, reason="needs Python 3.11 or later: piano cannot read the frames of older ones")
needs_package = pytest.mark.skipif(not NEW_ENOUGH, reason="needs Python 3.11 or later: `python3 -m piano.memprof` does")
FOREIGN = ("PIANO_RUNS_DIR", "LD_PRELOAD", "PYTHONMALLOC", "PYTHONDEVMODE", "PYTHONTRACEMALLOC", "PYTHONPATH",
           "PIANO_RECORD", "PIANO_HEAP", "PYTHONHASHSEED")


def pytest_configure(config: pytest.Config) -> None:
    if not (PACKAGE / "piano" / "_memprof.abi3.so").exists():
        raise pytest.UsageError(f"{PACKAGE} has no package; type `make python` first")
    if not hasattr(config, "workerinput"):  # once, instead of in each of hundreds of interpreters
        compileall.compile_dir(PACKAGE, quiet=1)


class Done:
    """A finished script: status (negative: signal), out, err."""

    def __init__(self, status: int, out: str, err: str):
        self.status, self.out, self.err = status, out, err

    def __repr__(self) -> str:
        return f"status {self.status}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"

    @property
    def json(self) -> Any:
        return json.loads(self.out.strip().splitlines()[-1])


class Python:
    """Runs scripts in a separate directory."""

    def __init__(self, root: Path):
        self.root = root

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    def environment(self, preload: bool, more: dict[str, str]) -> dict[str, str]:
        env = {k: v for k, v in os.environ.items() if k not in FOREIGN}
        env["PYTHONPATH"] = str(PACKAGE)
        env["PYTHONDONTWRITEBYTECODE"] = "1"
        if preload:
            env["LD_PRELOAD"] = PRELOAD
        env.update(more)
        return env

    def command(self, words: list[str], preload: bool = False, check: bool = True, stdin: Optional[str] = None,
                **more: str) -> Done:
        done = subprocess.run(words, cwd=self.root, env=self.environment(preload, more), timeout=LIMIT_S,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, input=stdin,
                              stdin=subprocess.DEVNULL if stdin is None else None)
        result = Done(done.returncode, done.stdout, done.stderr)
        assert not check or result.status == 0, result
        return result

    def run(self, text: str, *arguments: str, flags: tuple[str, ...] = (), preload: bool = True, check: bool = True,
            **more: str) -> Done:
        """Runs the script TEXT with the library loaded, but not sampling unless the script starts it."""
        path = self.write("script.py", text)
        return self.command([sys.executable, *flags, str(path), *arguments], preload, check, **more)

    def sampled(self, text: str, rate: int = 1, **more: str) -> Done:
        """The same, with every allocation sampled from the interpreter's start (or one in RATE bytes)."""
        path = self.write("script.py", text)
        start = ("import os,sys; os.environ['PIANO_RECORD_PID'] = str(os.getpid()); "
                 "os.environ['LD_PRELOAD'] = sys.argv[1]; os.execv(sys.executable, [sys.executable] + sys.argv[2:])")
        recording = str(self.root / "sampled.rec")
        (self.root / "sampled.rec").unlink(missing_ok=True)
        return self.command([sys.executable, "-c", start, PRELOAD, str(path)], PIANO_RECORD=recording,
                            PIANO_HEAP=str(rate), **more)

    def piano(self, *words: str) -> Done:
        return self.command([PIANO, *words])


@pytest.fixture
def python(tmp_path: Path) -> Python:
    return Python(tmp_path)
