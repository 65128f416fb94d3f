"""Reads the CPU samples of a recording byte by byte, without piano's reader. Also programs to sample, and a launcher that
makes the kernel refuse perf events."""
from __future__ import annotations

import struct
import subprocess
from collections import Counter
from pathlib import Path

from conftest import BURN, OLD_LIBC, Project

CPU, OFF = 1, 2
PREEMPTED = 1
LOST, FULL, BY_FP = 1, 2, 4
HAS_HEAP, HAS_CPU = 1, 8
KERNEL = 0xffff800000000000
TOOL_STACK = 0x80000000
TRACE_AT = 432 + 2048


class Recording:
    def __init__(self, path: Path):
        data = path.read_bytes()
        assert data[:8] == b"PIANOREC", path
        self.pid, _, self.flags, self.state = struct.unpack_from("<4I", data, 24)
        self.chunks, self.start_ns = struct.unpack_from("<2Q", data, 40)
        self.end_ns = struct.unpack_from("<Q", data, 64)[0]
        self.exit_status = struct.unpack_from("<Q", data, 80)[0]
        self.program = data[432:432 + 1024].split(b"\0")[0].decode()
        self.command = data[432 + 1024:432 + 2048].rstrip(b"\0").split(b"\0")
        trace = struct.unpack_from("<3QII10Q", data, TRACE_AT)
        self.source, self.hz = trace[4], trace[5]
        self.samples_said, self.lost, self.unwound, self.switches = trace[11:15]
        self.modules: list[tuple] = []
        self.stacks: dict[int, tuple[int, int, tuple[int, ...]]] = {}
        self.threads: dict[int, tuple[int, str]] = {}
        self.samples: list[Sample] = []
        self.symbols: dict[str, list[tuple[int, int, str]]] = {}
        for number in range(self.chunks):
            self.read_chunk(data, 4096 + number * 65536)

    def read_chunk(self, data: bytes, at: int) -> None:
        kind, ready, _, used = struct.unpack_from("<IIQQ", data, at)
        at, end = at + 64, at + 64 + used
        while ready and kind in (1, 2, 6, 8) and at < end:
            size = struct.unpack_from("<I", data, at)[0]
            assert size % 8 == 0 and 0 < size <= end - at
            if kind == 1:
                _, since, until, _, start, stop, bias = struct.unpack_from("<4I3Q", data, at)
                path = data[at + 72:at + size].split(b"\0")[0].decode()
                self.modules.append((since, until, start, stop, bias, path))
            elif kind == 2:
                _, number, flags, depth, generation, _ = struct.unpack_from("<4IQQ", data, at)
                self.stacks[number] = flags, generation, struct.unpack_from(f"<{depth}Q", data, at + 32)
            elif kind == 6:
                _, tid, pid = struct.unpack_from("<3I", data, at)
                self.threads[tid] = pid, data[at + 24:at + 40].split(b"\0")[0].decode()
            else:
                self.samples.append(Sample(self, *struct.unpack_from("<IHHIIQQII", data, at)))
            at += size

    def kind(self, kind: int) -> list["Sample"]:
        return [s for s in self.samples if s.kind == kind]

    def module(self, pc: int, generation: int) -> tuple | None:
        for m in self.modules:
            if m[0] <= generation < m[1] and m[2] <= pc < m[3]:
                return m
        return None

    def name(self, pc: int, generation: int) -> str:
        """The function of the call before PC, or `module` if that has no symbols."""
        if pc >= KERNEL:
            return "kernel"
        m = self.module(pc - 1, generation)
        if m is None:
            return "?"
        path = m[5]
        if path not in self.symbols:
            done = subprocess.run(["nm", "-S", path], capture_output=True, text=True)
            rows = [line.split() for line in done.stdout.splitlines()]
            self.symbols[path] = [(int(r[0], 16), int(r[1], 16), r[3]) for r in rows if len(r) == 4]
        address = pc - 1 - m[4]
        for start, size, name in self.symbols[path]:
            if start <= address < start + size:
                return name
        return Path(path).name


class Sample:
    def __init__(self, rec: Recording, size: int, kind: int, flags: int, tid: int, pid: int, at_ns: int, value: int,
                 stack: int, cpu: int):
        assert size == 40
        self.rec, self.kind, self.flags, self.tid, self.pid = rec, kind, flags, tid, pid
        self.at_ns, self.value, self.stack, self.cpu = at_ns, value, stack, cpu

    @property
    def names(self) -> list[str]:
        if not self.stack:
            return []
        assert self.stack & TOOL_STACK
        _, generation, pcs = self.rec.stacks[self.stack]
        return [self.rec.name(pc, generation) for pc in pcs]

    @property
    def stack_flags(self) -> int:
        return self.rec.stacks[self.stack][0] if self.stack else LOST


WORK = BURN + r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((noinline)) long burn(long n) { BURN(n); return n; }
__attribute__((noinline)) long a(long n) { long r = burn(3 * n); __asm__ volatile(""); return r + 1; }
__attribute__((noinline)) long b(long n) { long r = burn(n); __asm__ volatile(""); return r + 2; }
"""
# Works for a third of a second, or for the given number of turns. Their lengths are random: turns of equal length can run in step
# with the kernel's ticks, or with the samples.
SHARES = WORK + r"""
int main(int argc, char **argv)
{
    long sum = 0, turns = argc > 1 ? atol(argv[1]) : 60;
    for (long i = 0; i < turns; i++) {
        long n = 500000 + rand() % 1000000;
        sum += a(n) + b(n);
    }
    return sum == 0;
}
"""
LONG = 200  # number of turns, for comparisons
SMALL = ("-O2", "-fomit-frame-pointer")


def compiled(project: Project, source: str, *flags: str, name: str = "prog") -> Path:
    project.write({name + ".c": source})
    project.command("gcc", "-w", "-D_GNU_SOURCE", "-fno-optimize-sibling-calls", *(flags or SMALL), name + ".c", "-o", name, "-pthread",
                    *OLD_LIBC)
    return project.root / name


def shares(rec: Recording, *functions: str) -> dict[str, float]:
    """The shares of FUNCTIONS in the CPU time of all samples with one of them on their stack."""
    time_of: Counter[str] = Counter()
    for s in rec.kind(CPU):
        for name in functions:
            if name in s.names:
                time_of[name] += s.value
    total = sum(time_of.values())
    assert total, "no sample has any of " + " ".join(functions)
    return {name: time_of[name] / total for name in functions}


# Runs what follows without perf events, as in a container. tests/run no-perf runs all tests this way.
DENY = Path(__file__).with_name("deny.c").read_text()

# Refuses only events of whole CPUs (pid -1), as for a user who may sample only his own programs.
DENY_CPUS = DENY.replace("""SYS_perf_event_open, 0, 1),""", """SYS_perf_event_open, 0, 3),
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0xffffffff, 0, 1),""").replace("{4, code}", "{6, code}")

# Refuses all events but those of the calling process (pid 0), with which piano checks what it may sample.
DENY_LATER = DENY.replace("""SYS_perf_event_open, 0, 1),""", """SYS_perf_event_open, 0, 3),
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),""").replace("{4, code}", "{6, code}").replace("| EPERM", "| EMFILE")
