"""Shared by the tests of the heap profiler: small programs, compiled without frame pointers, recorded and read back.

`piano report --heap --json` must agree with what such a program prints; with --heap=1 every allocation is
sampled and all figures are exact.
"""
from __future__ import annotations

import re
import struct
import textwrap
from pathlib import Path
from typing import Any, Iterable

import pytest

from conftest import OLD_LIBC, Done, Project, need

# KEEP prevents the compiler from removing an allocation.
C = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline, noclone))
#define KEEP(p) __asm__ volatile("" : : "r"(p) : "memory")
"""

CXX = r"""
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#define NOINLINE __attribute__((noinline))
#define KEEP(p) __asm__ volatile("" : : "r"(p) : "memory")
"""

# A tail call leaves no frame, and these tests count frames.
PLAIN = ("-O2", "-g", "-fomit-frame-pointer", "-fno-builtin", "-fno-optimize-sibling-calls")
SUMS = ("live_bytes", "live_objects", "allocated_bytes", "allocated_objects", "freed_bytes", "freed_objects",
        "churn_bytes", "samples", "freed_samples", "live_samples", "peak_bytes", "peak_objects")


class Heap:
    """`piano report --heap --json`. A site is one stack, innermost frame first."""

    def __init__(self, data: dict[str, Any]):
        self.data = data
        self.sites: list[dict[str, Any]] = data["sites"]

    def __getitem__(self, key: str) -> Any:
        return self.data[key]

    def through(self, function: str, kind: str = "malloc") -> list[dict[str, Any]]:
        """The stacks with a frame of FUNCTION, or of a name that begins with `FUNCTION(` or `FUNCTION<`."""
        wanted = re.compile(rf"(.*[ :])?{re.escape(function)}([(<\[].*)?$")
        return [site for site in self.sites
                if site["kind"] == kind and any(wanted.match(f["function"]) for f in site["stack"])]

    def sum(self, function: str, kind: str = "malloc") -> dict[str, int]:
        return {key: sum(site[key] for site in self.through(function, kind)) for key in SUMS}

    def live(self, function: str, kind: str = "malloc") -> tuple[int, int]:
        """(objects, bytes) that the stacks through FUNCTION hold."""
        found = self.sum(function, kind)
        return found["live_objects"], found["live_bytes"]

    def made(self, function: str) -> tuple[int, int]:
        found = self.sum(function)
        return found["allocated_objects"], found["allocated_bytes"]

    @property
    def lost(self) -> dict[str, int]:
        """The losses of the recording, by cause; empty if nothing was lost."""
        return {cause: count for cause, count in self["dropped"].items() if count}

    def names(self) -> set[str]:
        return {frame["function"] for site in self.sites for frame in site["stack"]}


def names(site: dict[str, Any]) -> list[str]:
    return [frame["function"] for frame in site["stack"]]


def compile(project: Project, source: str, *flags: Any, name: str = "prog", cxx: bool = False) -> Path:
    """Compiles SOURCE to a program NAME, as C++ if requested. Lines count from 1 in `NAME.c`."""
    compiler, prelude, ending = ("g++", CXX, ".cc") if cxx else ("gcc", C, ".c")
    need(compiler)
    project.write({name + ending: prelude.lstrip("\n") + textwrap.dedent(source)})
    project.command(compiler, *PLAIN, "-w", name + ending, "-o", name, *flags, "-pthread", *OLD_LIBC)
    return project.root / name


def compile_library(project: Project, source: str, name: str, *flags: Any) -> Path:
    return compile(project, source, "-shared", "-fPIC", *flags, name=name)


def archive(name: str) -> Path:
    """The static library NAME, or a skip that names it."""
    found = [path for path in Path("/usr/lib").glob(f"*/lib{name}.a")] + list(Path("/usr/lib64").glob(f"lib{name}.a"))
    if not found:
        pytest.skip(f"lib{name}.a is not installed")
    return found[0]


def read(project: Project, path: Path | str, *arguments: Any) -> Heap:
    file = project.root / path
    pid, = struct.unpack_from("<I", file.read_bytes()[:32], 24)
    others = list(file.parent.glob(f"{file.name}-*"))  # the figures of the program alone
    return Heap(project.json("report", "--heap", *(["--process", pid] if others else []), *arguments, path))


def record(project: Project, *command: Any, rate: str | None = "1", flags: Iterable[Any] = (), status: int = 0,
           into: str = "out.rec", **options: Any) -> tuple[Done, Heap]:
    """Runs COMMAND under `piano record`; it must end with STATUS. Returns its output and the report."""
    path = project.root / into
    path.unlink(missing_ok=True)
    how = "--heap" if rate is None else f"--heap={rate}"
    done = project.piano("record", how, *flags, "-o", path, "--", *command, check=False, **options)
    assert done.status == status, repr(done)
    return done, read(project, path)


def figures(text: str) -> dict[str, tuple[int, ...]]:
    """The output of a program: lines of a name and numbers."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) > 1 and all(re.fullmatch(r"-?\d+", word) for word in words[1:]):
            found[words[0]] = tuple(int(word) for word in words[1:])
    return found


def same_with_and_without(project: Project, *command: Any, rates: Iterable[str] = ("1", "512K"),
                          **options: Any) -> tuple[Done, Heap]:
    """Runs COMMAND alone and recorded, and compares status and output."""
    alone = project.command(*command, check=False, **options)
    for rate in rates:
        done, heap = record(project, *command, rate=rate, status=alone.status, **options)
        assert done.out == alone.out, f"at --heap={rate}"
    return alone, heap


CHURN = r"""
    static atomic_int stop;
    static atomic_long turns;
    static _Atomic(void *) slots[512];
    static NOINLINE void *churner(void *arg)
    {
        uint64_t x = (uintptr_t)arg * 0x9e3779b97f4a7c15u + 1;
        while (!stop) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            size_t size = 8 + (x >> 40) % 500;
            void *p = malloc(size);
            *(size_t *)p = size;
            free(atomic_exchange(&slots[(x >> 8) % 512], p));
            turns++;
        }
        return NULL;
    }
    static pthread_t threads[4];
    static void churn_start(void)
    {
        for (uintptr_t i = 0; i < 4; i++) pthread_create(&threads[i], 0, churner, (void *)(i + 1));
    }
    static void churn_end(void)
    {
        stop = 1;
        for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
        long objects = 0, bytes = 0;
        for (int i = 0; i < 512; i++)
            if (slots[i]) objects++, bytes += *(size_t *)slots[i];
        printf("churner %ld %ld\n", objects, bytes);
    }
"""
