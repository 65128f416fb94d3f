"""Recordings that tests write byte by byte, of a program with known lines."""
from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conftest import ROOT, Project

spec = importlib.util.spec_from_file_location("make_recording", ROOT / "tools" / "make-recording.py")
make = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make)

tool = pytest.mark.tool
MB = 1 << 20

# One function per line, so that the line of every address is known.
SOURCE = """\
extern void *malloc(unsigned long); char *sink;
__attribute__((noinline)) char *make_node(int n) { sink = malloc(n); return sink; }
static inline __attribute__((always_inline)) char *inner(int n) { char *p = make_node(n); p[0] = 1; return p; }
__attribute__((noinline)) char *parse(int n) { char *p = inner(n); p[1] = 2; return p; }
__attribute__((noinline)) char *load(int n) { char *p = make_node(n); p[1] = 3; return p; }
int main(int argc, char **argv) { parse(argc); load(argc); return sink == argv[0]; }
"""


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    (folder / "prog.c").write_text(SOURCE)
    subprocess.run(["gcc", "-O1", "-g", "-fno-builtin", "prog.c", "-o", "prog"], cwd=folder, check=True)
    return folder / "prog"


def recording(program: Path, **options: Any) -> tuple[Any, SimpleNamespace]:
    """A recording with two stacks: make_node < inner < parse < main, and make_node < load < main."""
    rec = make.Recording(program=str(program), **options)
    elf = make.Program(rec, program)
    stacks = SimpleNamespace(elf=elf, parse=rec.stack(elf.pcs("make_node", "parse", "main")),
                             load=rec.stack(elf.pcs("make_node", "load", "main")))
    return rec, stacks


def put(project: Project, rec: Any, name: str = "1740000000000-7.rec") -> Path:
    project.runs.mkdir(parents=True, exist_ok=True)
    return Path(rec.write(project.runs / name))


def names(stack: list[dict[str, Any]]) -> list[str]:
    return [frame["function"] for frame in stack]


def grown(program: Path) -> Any:
    rec, s = recording(program, rate=1)
    rec.sample(s.load, 50_000)
    for turn in range(5):
        rec.sample(s.parse, 10_000)
        rec.snapshot(at_ms=1000 * (turn + 1), resident=(turn + 1) * MB)
    rec.sample(s.parse, 777)
    return rec
