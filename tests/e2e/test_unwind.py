"""Compares unwinding with other unwinders: rows of tables with readelf's, walks with libgcc's."""
from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Iterator

import pytest

from conftest import ROOT, need

HERE = Path(__file__).resolve().parent
FLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-g", "-fwrapv", f"-I{ROOT}/src"]
CFI = sorted(ROOT.glob("src/common/cfi*.c"))
WALK = CFI + sorted(ROOT.glob("src/target/unwind/*.c")) + [
    ROOT / "src/target/sys/stack.c", ROOT / "src/target/sys/maps.c", ROOT / "src/target/sys/file.c",
    ROOT / "src/common/owner.c"]
ARM = {"cc": "aarch64-linux-gnu-gcc", "run": "qemu-aarch64", "root": "/usr/aarch64-linux-gnu"}



def readelf_version() -> tuple[int, ...]:
    """(2, 40) of "GNU readelf (GNU Binutils for Debian) 2.40"."""
    said = subprocess.run(["readelf", "--version"], stdout=subprocess.PIPE, check=False).stdout.decode() if shutil.which("readelf") else ""
    found = re.search(r" (\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found else (0, 0)


READELF = readelf_version()
LIBRARIES = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2", "/bin/bash",
             "/lib/x86_64-linux-gnu/libstdc++.so.6", "/lib/x86_64-linux-gnu/libcrypto.so.3",
             f"{ARM['root']}/lib/libc.so.6", f"{ARM['root']}/lib/ld-linux-aarch64.so.1"]


def compile_to(output: Path, compiler: str, *words: object) -> Path:
    subprocess.run([compiler, *map(str, words), "-o", str(output)], check=True)
    return output


def objects(folder: Path, compiler: str) -> list[Path]:
    """The walker, compiled as for libpiano.so."""
    folder.mkdir(exist_ok=True)
    flags = ["-fPIC", "-fvisibility=hidden", "-ftls-model=initial-exec", "-fno-omit-frame-pointer"]
    return [compile_to(folder / f"{source.stem}.o", compiler, *FLAGS, *flags, "-c", source)
            for source in WALK]


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return objects(tmp_path_factory.mktemp("walker"), need("cc"))


# Rows of tables ---------------------------------------------------------------------------------

NUMBERS = {"rax": 0, "rdx": 1, "rcx": 2, "rbx": 3, "rsi": 4, "rdi": 5, "rbp": 6, "rsp": 7, "sp": 31,
           **{f"r{n}": n for n in range(8, 16)}, **{f"x{n}": n for n in range(31)}}


def readelf_rows(path: str) -> Iterator[tuple[int, int, dict[str, str]]]:
    """(start, end, {column: value}) of each row that covers addresses."""
    listing = subprocess.run([need("readelf"), "-wF", path], stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL).stdout.decode()
    columns: list[str] = []
    rows: list[tuple[int, dict[str, str]]] = []
    end = 0

    def flush() -> Iterator[tuple[int, int, dict[str, str]]]:
        for (start, row), following in zip(rows, [r[0] for r in rows[1:]] + [end]):
            if following > start:
                yield start, following, row
        rows.clear()

    in_function = False
    for line in listing.splitlines():
        header = re.search(r" (FDE|CIE) ", line)
        if header:
            yield from flush()
            in_function = header.group(1) == "FDE"
            bounds = re.search(r"pc=([0-9a-f]+)\.\.([0-9a-f]+)", line)
            end = int(bounds.group(2), 16) if bounds else 0
        elif line.strip().startswith("LOC"):
            columns = line.split()
        elif in_function and re.match(r"[0-9a-f]{16} ", line):
            values = re.sub(r" \(\w+\)", "", line).split()
            rows.append((int(values[0], 16), dict(zip(columns[1:], values[1:]))))
    yield from flush()


def piano_rows(program: Path, path: str) -> dict[int, list[str]]:
    listing = subprocess.run([program, path], stdout=subprocess.PIPE, check=True).stdout.decode()
    return {int(words[0], 16): words[1:] for words in map(str.split, listing.splitlines())}


def agrees(ours: list[str], theirs: dict[str, str], frame_pointer: str) -> bool:
    """False if the two contradict each other; an unknown value is not a contradiction."""
    kind, number, offset, ra, fp = ours[1:]
    if theirs.get("ra") == "u" and frame_pointer == "rbp":
        return ra.startswith("none") or READELF < (2, 39)  # which states this before the first instruction for a register too
    if kind == "none" or ra.startswith("none"):
        return True  # counted by the caller, or outermost
    cfa = re.fullmatch(r"(\w+)([+-]\d+)", theirs["CFA"])
    if cfa and (kind, int(number), int(offset)) != ("reg", NUMBERS[cfa[1]], int(cfa[2])):
        return False
    if not cfa and theirs["CFA"] != "exp":
        return False
    for value, found in ((theirs.get("ra"), ra), (theirs.get(frame_pointer), fp)):
        saved = re.fullmatch(r"c([+-]\d+)", value or "")
        if saved and found != f"cfa{int(saved[1]):+d}":
            return False
        if value == "exp" and not re.match(r"sp|fp|cfa|none", found):
            return False
        if value in (None, "s") and not found.startswith("same"):
            return False
    return True


@pytest.mark.parametrize("path", LIBRARIES)
def test_rows_are_those_of_readelf(path: str, tmp_path: Path) -> None:
    if not os.path.exists(path):
        pytest.skip(f"{path} is not installed")
    program = compile_to(tmp_path / "rows", need("cc"), *FLAGS, HERE / "rows.c", *CFI)
    found = piano_rows(program, path)
    frame_pointer = "x29" if "aarch64" in path else "rbp"
    compared, refused, wrong = 0, 0, []
    starts = sorted(found)
    for start, end, theirs in readelf_rows(path):
        ours = found.get(start)
        compared += 1
        refused += ours is not None and ours[1] == "none"
        if ours is None or int(ours[0], 16) != end or not agrees(ours, theirs, frame_pointer):
            wrong.append((hex(start), hex(end), theirs, ours))
    assert compared > 300 and starts
    assert wrong == []
    assert refused <= max(3, compared // 1000)


# Walks ------------------------------------------------------------------------------------------

def run_walks(program: Path, *command: str) -> str:
    done = subprocess.run([*command, program], stdout=subprocess.PIPE, timeout=120)
    assert done.returncode == 0, done.stdout.decode()
    return done.stdout.decode()


@pytest.mark.parametrize("flags", [["-O2"], ["-O0"], ["-O3", "-fomit-frame-pointer"],
                                   ["-O2", "-fno-omit-frame-pointer", "-fcf-protection"]])
def test_walks_are_those_of_libgcc(flags: list[str], parts: list[Path], tmp_path: Path) -> None:
    program = compile_to(tmp_path / "walks", need("cc"), *FLAGS, *flags, HERE / "walks.c", *parts,
                         "-pthread")
    assert "refused" not in run_walks(program)


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_walks_of_cxx_with_exceptions(compiler: str, parts: list[Path], tmp_path: Path) -> None:
    program = compile_to(tmp_path / "walks", need(compiler), "-x", "c++", "-O2", "-D_GNU_SOURCE",
                         "-D_Static_assert=static_assert",
                         f"-I{ROOT}/src", HERE / "walks.c", "-x", "none", *parts, "-pthread")
    assert int(re.search(r"(\d+) walks", run_walks(program))[1]) > 200


def has_find_object(loader: str) -> bool:
    return b"_dl_find_object" in Path(loader).read_bytes()


def refuses_reads(place: Path, compiler: str, command: list[str]) -> bool:
    (place / "reads.c").write_text("""
        #include <sys/uio.h>
        #include <unistd.h>
        int main(void)
        {
            int from = 1, to = 0;
            struct iovec local = {&to, sizeof to}, remote = {&from, sizeof from};
            return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) != sizeof to;
        }
    """)
    program = compile_to(place / "reads", compiler, "-D_GNU_SOURCE", place / "reads.c")
    return subprocess.run([*command, program]).returncode != 0


def test_walks_on_aarch64(tmp_path: Path) -> None:
    compiler, emulator = need(ARM["cc"]), need(ARM["run"])
    parts = objects(tmp_path / "o", compiler)
    for name, flags in (("plain", []), ("signed", ["-mbranch-protection=standard"]),
                        ("frameless", ["-fomit-frame-pointer"])):
        program = compile_to(tmp_path / name, compiler, *FLAGS, *flags, HERE / "walks.c", *parts,
                             "-pthread")
        command = [emulator, "-cpu", "max", "-L", ARM["root"]]
        if not has_find_object(f"{ARM['root']}/lib/ld-linux-aarch64.so.1") and refuses_reads(tmp_path, compiler, command):
            pytest.skip("this emulator has no process_vm_readv, and this glibc for aarch64 has no _dl_find_object")
        run_walks(program, *command)


# The frames that start a program: _start, __libc_start_main, and since glibc 2.34 __libc_start_call_main.
START = 2 if tuple(map(int, os.confstr("CS_GNU_LIBC_VERSION").split()[1].split("."))) < (2, 34) else 3

OWN_C = """
    #include "target/unwind/walk.h"
    static __thread struct piano__walker walker;
    static struct piano__walk out;
    static __attribute__((noinline)) void deeper(int n)
    {
        if (n) deeper(n - 1); else piano__walk_here(&walker, &out);
        __asm__ volatile("");
    }
    __attribute__((visibility("default"))) struct piano__walk *sample(int n)
    {
        deeper(n);
        return &out;
    }
"""
OWN_MAIN_C = """
    #include <stdio.h>
    #include "target/unwind/walk.h"
    struct piano__walk *sample(int);
    static __attribute__((noinline)) struct piano__walk *here(void)
    {
        struct piano__walk *w = sample(5);
        __asm__ volatile("");
        return w;
    }
    int main(void)
    {
        struct piano__walk *w = here();
        unsigned long first = w->pcs[0], at = (unsigned long)here;
        printf("%d %u %u\\n", first - at < 64, w->depth, w->flags);
        return 0;
    }
"""


@pytest.mark.parametrize("name", ["libpiano.so", "libother.so"])
def test_own_frames_are_left_out(name: str, parts: list[Path], tmp_path: Path) -> None:
    """Only in libpiano.so; a walker linked into another library belongs to that library."""
    compiler = need("cc")
    (tmp_path / "own.c").write_text(OWN_C)
    (tmp_path / "main.c").write_text(OWN_MAIN_C)
    library = compile_to(tmp_path / name, compiler, *FLAGS, "-shared", "-fPIC",
                         tmp_path / "own.c", *parts)
    program = compile_to(tmp_path / "main", compiler, *FLAGS, tmp_path / "main.c", library,
                         f"-Wl,-rpath,{tmp_path}")
    is_first, depth, flags = map(int, run_walks(program).split())
    assert flags == 0
    assert (is_first, depth) == ((1, 2 + START) if name == "libpiano.so" else (0, 9 + START))


def test_a_program_without_tables_is_walked_by_frame_pointer(parts: list[Path],
                                                             tmp_path: Path) -> None:
    """And reports that; without either, it is lost and reports that."""
    compiler = need("cc")
    bare = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-exceptions"]
    (tmp_path / "own.c").write_text(OWN_C)
    (tmp_path / "main.c").write_text(OWN_MAIN_C)
    seen = {}
    for flag in ("-fno-omit-frame-pointer", "-fomit-frame-pointer"):
        program = compile_to(tmp_path / "main", compiler, *FLAGS, *bare, flag, tmp_path / "main.c",
                             tmp_path / "own.c", *parts)
        _, depth, flags = map(int, run_walks(program).split())
        seen[flag] = depth, flags
    assert seen["-fno-omit-frame-pointer"] == (9 + START, 4)  # BY_FP
    # LOST; or BY_FP without the frames of the program, if libc keeps frame pointers and rbp is still that of main's caller.
    depth, flags = seen["-fomit-frame-pointer"]
    assert flags & 1 or (flags == 4 and depth < seen["-fno-omit-frame-pointer"][0]), seen
