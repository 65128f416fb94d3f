"""What a snapshot holds: samples, their stacks, and what they add up to."""
from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Callable, Optional

from . import _formats

# What lies between a program and its memory: never the one to blame.
PLUMBING_FILES = ("libc.so", "libc-", "ld-linux", "libstdc++.so", "libgcc_s", "libpthread", "libpiano.so",
                  "libjemalloc", "libtcmalloc", "libmimalloc")
PLUMBING_NAMES = ("malloc", "calloc", "realloc", "PyMem_", "_PyMem_", "PyObject_Malloc", "PyObject_Calloc",
                  "PyObject_Realloc", "_PyObject_Malloc", "_PyObject_Calloc", "_PyObject_Realloc")

INTERPRETER = re.compile(r"libpython|python$|python[2-9](?!.*\.so)")

# The amount of which no byte is sampled 2.5 times in 100, by the mean distance of samples.
UNSEEN_RATES = 3.7


# A process has few files, and snapshots many frames.
@lru_cache(maxsize=1024)
def _is_interpreter(file: str) -> bool:
    return INTERPRETER.match(os.path.basename(file)) is not None


@lru_cache(maxsize=1024)
def _is_plumbing(file: str) -> bool:
    return os.path.basename(file).startswith(PLUMBING_FILES)


@dataclass(slots=True)
class StackFrame:
    """A frame of the stack an allocation was made from."""

    address: int
    """Where the call returns to; of a Python frame, a number that stands for its code and instruction."""
    function: str = ""
    """Empty until it is resolved."""
    file: str = ""
    """Source file of a Python function; of a native one, the program or library it is in."""
    line: int = 0
    """0: not known."""
    is_python: bool = False

    @property
    def is_interpreter(self) -> bool:
        """Whether it is native code of CPython itself."""
        return not self.is_python and _is_interpreter(self.file)

    @property
    def is_plumbing(self) -> bool:
        """Whether it only asks for memory on behalf of its caller."""
        return not self.is_python and (_is_plumbing(self.file) or self.function.startswith(PLUMBING_NAMES))


@dataclass(slots=True)
class AllocationSample:
    """A sampled allocation."""

    address: int
    size: int
    """Bytes that were asked for; a request for none counts as one."""
    weight: int
    """Bytes it stands for: size / (1 - exp(-size / rate)), rounded."""
    estimated_bytes: int
    """The same: what this sample adds to an estimate."""
    timestamp_ns: int
    """When it was allocated, by time.monotonic_ns()."""
    lifetime_ns: Optional[int]
    """None: it is live."""
    stack: list[StackFrame]
    """Innermost first. Samples of one stack share the list, and stacks the frames they have in common."""
    gc_epoch: int = 0
    """Full garbage collections before it, counted from the start of tracking them; 0 without."""
    estimated_objects: float = 1.0
    """Allocations it stands for."""
    thread_id: int = 0
    """Native id of the thread that allocated it."""


@dataclass
class FramePointerHealth:
    """How good the native stacks are. (They are walked by unwind tables; frame pointers are what is left where a program
    has none.)"""

    shallow_stack_warnings: int
    """Stacks that are cut short: they could not be followed to their end, or are too deep."""
    total_native_stacks: int
    avg_native_depth: float
    min_native_depth: int
    truncation_rate: float

    @property
    def confidence(self) -> str:
        """'high' below 5 % of stacks cut short, 'medium' up to 20 %, 'low' above."""
        if self.truncation_rate < 0.05:
            return "high"
        return "medium" if self.truncation_rate <= 0.20 else "low"


@dataclass
class MemProfStats:
    """What the profiler did so far."""

    total_samples: int
    live_samples: int
    freed_samples: int
    unique_stacks: int
    estimated_heap_bytes: int
    heap_map_load_percent: float
    collisions: int
    sampling_rate_bytes: int
    dropped_samples: int = 0
    """Samples that are not, or not wholly, in the figures."""


@dataclass
class HeapSnapshot:
    """The sampled allocations that were live at one moment."""

    samples: list[AllocationSample]
    total_samples: int
    live_samples: int
    estimated_heap_bytes: int
    timestamp_ns: int
    frame_pointer_health: FramePointerHealth
    sampling_rate_bytes: int = 0
    gc_epoch: int = 0
    """Full garbage collections so far, counted as those of samples are."""
    _resolve: Optional[Callable[[StackFrame], None]] = field(default=None, repr=False, compare=False)

    @property
    def estimated_heap_bytes_ci95(self) -> tuple[int, int]:
        """The 95 % interval of `estimated_heap_bytes`; never below what was seen with certainty."""
        if not self.samples:
            return 0, round(UNSEEN_RATES * self.sampling_rate_bytes) if self.sampling_rate_bytes > 1 else 0
        variance = sum(s.weight**2 * (1 - 1 / max(s.estimated_objects, 1.0)) for s in self.samples)
        half = 1.96 * math.sqrt(variance)
        seen = sum(s.size for s in self.samples)
        return max(seen, round(self.estimated_heap_bytes - half)), round(self.estimated_heap_bytes + half)

    def resolve(self) -> HeapSnapshot:
        """Gives frames their names, where `get_snapshot(resolve=False)` left them out; returns the snapshot."""
        if self._resolve is not None:
            resolve, self._resolve = self._resolve, None
            stacks = list({id(s.stack): s.stack for s in self.samples}.values())
            for frame in {id(frame): frame for stack in stacks for frame in stack}.values():
                resolve(frame)
            for stack in stacks:
                _trim(stack)
        return self

    def top_allocators(self, n: int = 10) -> list[dict[str, Any]]:
        """The N sites with most live bytes: dicts of function, file, line, estimated_bytes and sample_count.

        A site is the innermost Python function of a stack, and where it has none, the innermost native one that is not
        plumbing.
        """
        self.resolve()
        sites: dict[tuple[str, str, int], list[int]] = {}
        for sample in self.samples:
            total = sites.setdefault(_site(sample.stack), [0, 0])
            total[0] += sample.estimated_bytes
            total[1] += 1
        ranked = sorted(sites.items(), key=lambda item: (-item[1][0], item[0]))
        return [
            {"function": site[0], "file": site[1], "line": site[2], "estimated_bytes": total[0],
             "sample_count": total[1]}
            for site, total in ranked[: max(n, 0)]
        ]

    def allocations_surviving_gc(self, min_epochs: int = 1) -> list[AllocationSample]:
        """Samples that were live during MIN_EPOCHS full garbage collections or more. Collections have to be tracked for it
        (`MemoryProfiler(gc_tracking=True)`); else there are none."""
        if min_epochs < 1:
            raise ValueError(f"min_epochs has to be 1 or more, not {min_epochs}")
        return [s for s in self.samples if self.gc_epoch - s.gc_epoch >= min_epochs]

    def save(self, path: str | os.PathLike[str], format: str = "speedscope") -> None:
        """Writes the snapshot to PATH. Formats: "speedscope" (JSON for www.speedscope.app) and "collapsed" (a line a stack,
        for flame graphs). ValueError for others, and then nothing is written."""
        writers = {"speedscope": _formats.speedscope, "collapsed": _formats.collapsed}
        if format not in writers:
            raise ValueError(f"no format {format!r}; there are {', '.join(sorted(writers))}")
        self.resolve()
        stacks: dict[int, tuple[list[StackFrame], int]] = {}
        for sample in self.samples:
            before = stacks.get(id(sample.stack), (sample.stack, 0))
            stacks[id(sample.stack)] = (sample.stack, before[1] + sample.estimated_bytes)
        text = writers[format](
            [([_formats.frame(f.function, f.file, f.line, f.is_python) for f in reversed(stack)], weight)
             for stack, weight in stacks.values()]
        )
        Path(path).write_text(text, encoding="utf-8")


def _trim(stack: list[StackFrame]) -> None:
    """As `piano report` does: in a stack with Python functions, the interpreter's own code around them says nothing, and so it
    stays only inside of the innermost one. Nor do the first frames of the process or thread, when they are all there is
    outside of the outermost."""
    first = next((i for i, f in enumerate(stack) if f.is_python), len(stack))
    outer = [f for f in stack[first:] if not f.is_interpreter]
    last = max((i + 1 for i, f in enumerate(outer) if f.is_python), default=len(outer))
    if all(f.is_plumbing for f in outer[last:]):
        del outer[last:]
    stack[first:] = outer


def _site(stack: list[StackFrame]) -> tuple[str, str, int]:
    if not stack:
        return "(no stack)", "", 0
    native = next((f for f in stack if not f.is_plumbing), stack[0])
    found = next((f for f in stack if f.is_python), native)
    return found.function, found.file, found.line
