"""Compares how piano decodes x86-64 code, before it replaces a function's entry, with objdump."""
from __future__ import annotations

import platform
import re
import subprocess
from pathlib import Path

import pytest

from conftest import LIB, PIANO, ROOT, Project, need
from heaps import archive


def functions(path: Path, *flags: str) -> list[tuple[int, int]]:
    """Addresses and sizes, by address, without functions inside others."""
    done = subprocess.run(["nm", "-S", "--defined-only", *flags, path], capture_output=True, text=True, check=True)
    found = sorted({(int(a, 16), int(b, 16)) for a, b, kind, *_ in
                    (line.split() for line in done.stdout.splitlines() if len(line.split()) >= 4) if kind in "tTwW"})
    kept: list[tuple[int, int]] = []
    for at, size in found:
        if size > 0 and (not kept or at >= sum(kept[-1])):
            kept.append((at, size))
    return kept


def code_section(path: Path) -> tuple[int, int, int]:
    """(address, size, offset in the file) of .text."""
    done = subprocess.run(["objdump", "-h", path], capture_output=True, text=True, check=True)
    size, address, _, offset = re.search(r" \.text +(\w+) +(\w+) +(\w+) +(\w+)", done.stdout).groups()
    return int(address, 16), int(size, 16), int(offset, 16)


def compare(project: Project, helper: Path, path: Path, *flags: str) -> int:
    low, length, offset = code_section(path)
    wanted = [(at, size) for at, size in functions(path, *flags) if low <= at and at + size <= low + length]
    listing = subprocess.run(["objdump", "-d", "-j", ".text", "--no-show-raw-insn", path], capture_output=True, text=True, check=True)
    starts = {int(line.split(":")[0], 16): line.split("\t", 1)[1] for line in listing.stdout.splitlines()
              if re.match(r" +[0-9a-f]+:\t", line)}
    asked = "".join(f"{at - low + offset:x} {size:x}\n" for at, size in wanted)
    read = subprocess.run([helper, path], input=asked, capture_output=True, text=True, check=True)
    compared = 0
    for (at, size), line in zip(wanted, read.stdout.splitlines(), strict=True):
        words = line.split()
        ours = [int(word.lstrip("-"), 16) - offset + low for word in words]
        theirs = sorted(start for start in range(at, at + size) if start in starts)
        if words[-1].startswith("-"):
            continue
        assert ours == theirs, (path, hex(at), hex(min(set(ours) ^ set(theirs))))
        compared += 1
    assert compared >= 0.999 * len(wanted)
    return compared


def make_helper(project: Project) -> Path:
    if platform.machine() != "x86_64":
        pytest.skip("the code is for x86-64")
    need("objdump")
    helper, source = project.root / "instructions", ROOT / "src"
    project.command("gcc", "-O1", f"-I{source}", ROOT / "tests/e2e/instructions.c", source / "target/entry/x86_read.c", "-o", helper)
    return helper


def test_instructions_are_read_like_objdump_does(project: Project) -> None:
    helper = make_helper(project)
    assert compare(project, helper, LIB / "libpiano.so") > 500
    assert compare(project, helper, Path(PIANO)) > 500
    ldd = subprocess.run(["ldd", PIANO], capture_output=True, text=True, check=True).stdout
    for name in ("libc.so.6", "libstdc++.so.6"):
        found = re.search(rf"{re.escape(name)} => (\S+)", ldd)
        if found:
            assert compare(project, helper, Path(found.group(1)), "-D") > 500


def test_instructions_of_jemalloc(project: Project) -> None:
    helper = make_helper(project)
    project.write({"main.c": "#include <stdlib.h>\nint main(void) { free(malloc(1)); return 0; }\n"})
    project.command("gcc", "-fno-builtin", "main.c", archive("jemalloc_pic"), "-lm", "-ldl", "-pthread", "-o", "prog")
    assert compare(project, helper, project.root / "prog") > 500
