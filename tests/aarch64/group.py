"""The group `aarch64` of tests/run: whether it can run here, its environment, and its end-to-end tests."""
from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CROSS = "aarch64-linux-gnu-"
SYSROOT = ROOT / ".sysroot" / "aarch64-linux-gnu"
EMULATED = str(ROOT / "tests" / "aarch64" / "emulated")
BUILD = ROOT / "build" / "aarch64"


def missing() -> str | None:
    """The reason why the group cannot run here."""
    for program in (f"{CROSS}gcc", f"{CROSS}g++", "qemu-aarch64-static"):
        if not shutil.which(program):
            return f"{program} is not installed (tools/setup cross)"
    if not SYSROOT.is_dir():
        return f"{SYSROOT.relative_to(ROOT)} is not there (tools/setup cross)"
    done = subprocess.run([EMULATED, "true"], stderr=subprocess.PIPE, check=False)
    return done.stderr.decode().strip() or "no emulation" if done.returncode else None


def prepare() -> dict[str, str]:
    """The environment of the tests. PATH begins with the cross compilers, for end-to-end tests. There are two tools: one for
    aarch64, which qemu runs, and a copy of this machine's beside the libraries for aarch64, because the compilers are this
    machine's."""
    place = subprocess.run([str(ROOT / "tests" / "aarch64" / "place")], stdout=subprocess.PIPE, check=True)
    link_temporary_directory()
    lib = BUILD / "tests" / "mixed" / "lib"
    lib.mkdir(parents=True, exist_ok=True)
    for source, target in [(ROOT / "build" / "piano", lib.parent), (ROOT / "build" / "lib" / "libpiano_exec.so", lib),
                           *((BUILD / "lib" / name, lib) for name in ("libpiano.so", "libpiano.a", "piano_wrap.o"))]:
        shutil.copy2(source, target)
    bin = place.stdout.decode().strip()
    return {"QEMU_LD_PREFIX": str(SYSROOT), "PATH": f"{bin}:{os.environ['PATH']}", "CC": f"{bin}/gcc"}


def link_temporary_directory() -> None:
    """qemu looks for every path below SYSROOT first, also for "/". A program that makes the parents of a directory from there, one by one
    relative to the last, would make a second /tmp in SYSROOT, where it then finds its files, and this machine's programs do not."""
    top = Path(tempfile.gettempdir()).resolve().parts[1]
    link = SYSROOT / top
    if top in ("usr", "lib", "etc") or link.is_symlink():
        return
    if link.is_dir():
        shutil.rmtree(link)  # made by programs of an earlier run
    link.symlink_to(Path("/", top))


def end_to_end() -> list[tuple[str, list[str], list[tuple[str, str]]]]:
    """(tool, files, omitted tests with the reason), from e2e.txt."""
    tools = {"build": str(BUILD / "tests" / "mixed" / "piano"), "record": str(BUILD / "piano")}
    files: dict[str, list[str]] = {kind: [] for kind in tools}
    left_out = []
    for line in (ROOT / "tests" / "aarch64" / "e2e.txt").read_text().splitlines():
        kind, _, rest = line.partition(" ")
        if kind in tools:
            files[kind] += [f"tests/e2e/{name}" for name in rest.split()]
        elif kind == "not":
            name, _, reason = rest.strip().partition(" ")
            left_out.append((f"tests/e2e/{name}", reason.strip()))
    return [(tools[kind], files[kind], [(n, r) for n, r in left_out if n.split("::")[0] in files[kind]]) for kind in tools]
