"""A snapshot: samples, their stacks and their sums."""
from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Callable, Optional

from . import _formats

# Allocators and runtime libraries: never reported as the site of an allocation.
PLUMBING_FILES = ("libc.so", "libc-", "ld-linux", "libstdc++.so", "libgcc_s", "libpthread", "libpiano.so",
                  "libjemalloc", "libtcmalloc", "libmimalloc")
PLUMBING_NAMES = ("malloc", "calloc", "realloc", "PyMem_", "_PyMem_", "PyObject_Malloc", "PyObject_Calloc",
                  "PyObject_Realloc", "_PyObject_Malloc", "_PyObject_Calloc", "_PyObject_Realloc")

INTERPRETER = re.compile(r"libpython|python$|python[2-9](?!.*\.so)")

# An amount of memory of this many mean sample distances has no sample with a probability of 2.5 %.
UNSEEN_RATES = 3.7


# Cached because a snapshot has many frames in few files.
@lru_cache(maxsize=1024)
def _is_interpreter(file: str) -> bool:
    return INTERPRETER.match(os.path.basename(file)) is not None


@lru_cache(maxsize=1024)
def _is_plumbing(file: str) -> bool:
    return os.path.basename(file).startswith(PLUMBING_FILES)


@dataclass(slots=True)
class StackFrame:
    """One frame of an allocation's stack."""

    address: int
    """The return address. For a Python frame, a number that stands for its code object and instruction."""
    function: str = ""
    """Empty until the frame is resolved."""
    file: str = ""
    """The source file of a Python function, or the program or library of a native function."""
    line: int = 0
    """0 if unknown."""
    is_python: bool = False

    @property
    def is_interpreter(self) -> bool:
        """Whether this is native code of CPython."""
        return not self.is_python and _is_interpreter(self.file)

    @property
    def is_plumbing(self) -> bool:
        """Whether this function only allocates on behalf of its caller."""
        return not self.is_python and (_is_plumbing(self.file) or self.function.startswith(PLUMBING_NAMES))


@dataclass(slots=True)
class AllocationSample:
    """A sampled allocation."""

    address: int
    size: int
    """Requested bytes; a request for 0 counts as 1."""
    weight: int
    """The bytes that this sample stands for: size / (1 - exp(-size / rate)), rounded."""
    estimated_bytes: int
    """The same as `weight`."""
    timestamp_ns: int
    """The time of the allocation, in terms of time.monotonic_ns()."""
    lifetime_ns: Optional[int]
    """None if the block is live."""
    stack: list[StackFrame]
    """Innermost frame first. Samples of one stack share the list, and stacks share equal frames."""
    gc_epoch: int = 0
    """Full garbage collections before the allocation, counted since tracking began; 0 without tracking."""
    estimated_objects: float = 1.0
    """The allocations that this sample stands for."""
    thread_id: int = 0
    """The native id of the allocating thread."""


@dataclass
class FramePointerHealth:
    """The quality of the native stacks. (piano walks stacks with unwind tables, and with frame pointers where a program has
    no tables.)"""

    shallow_stack_warnings: int
    """Truncated stacks: the walk failed before the outermost frame, or the stack is too deep."""
    total_native_stacks: int
    avg_native_depth: float
    min_native_depth: int
    truncation_rate: float

    @property
    def confidence(self) -> str:
        """'high' below 5 % truncated stacks, 'medium' up to 20 %, 'low' above."""
        if self.truncation_rate < 0.05:
            return "high"
        return "medium" if self.truncation_rate <= 0.20 else "low"


@dataclass
class MemProfStats:
    """Counters of the profiler."""

    total_samples: int
    live_samples: int
    freed_samples: int
    unique_stacks: int
    estimated_heap_bytes: int
    heap_map_load_percent: float
    collisions: int
    sampling_rate_bytes: int
    dropped_samples: int = 0
    """Samples that are missing in the figures, in part or as a whole."""


@dataclass
class HeapSnapshot:
    """The sampled allocations that were live at one time."""

    samples: list[AllocationSample]
    total_samples: int
    live_samples: int
    estimated_heap_bytes: int
    timestamp_ns: int
    frame_pointer_health: FramePointerHealth
    sampling_rate_bytes: int = 0
    gc_epoch: int = 0
    """Full garbage collections so far, counted like those of samples."""
    _resolve: Optional[Callable[[StackFrame], None]] = field(default=None, repr=False, compare=False)

    @property
    def estimated_heap_bytes_ci95(self) -> tuple[int, int]:
        """The 95 % interval of `estimated_heap_bytes`, never below the bytes of the sampled blocks."""
        if not self.samples:
            return 0, round(UNSEEN_RATES * self.sampling_rate_bytes) if self.sampling_rate_bytes > 1 else 0
        variance = sum(s.weight**2 * (1 - 1 / max(s.estimated_objects, 1.0)) for s in self.samples)
        half = 1.96 * math.sqrt(variance)
        seen = sum(s.size for s in self.samples)
        return max(seen, round(self.estimated_heap_bytes - half)), round(self.estimated_heap_bytes + half)

    def resolve(self) -> HeapSnapshot:
        """Names the frames if `get_snapshot(resolve=False)` did not. Returns the snapshot."""
        if self._resolve is not None:
            resolve, self._resolve = self._resolve, None
            stacks = list({id(s.stack): s.stack for s in self.samples}.values())
            for frame in {id(frame): frame for stack in stacks for frame in stack}.values():
                resolve(frame)
            for stack in stacks:
                _trim(stack)
        return self

    def top_allocators(self, n: int = 10) -> list[dict[str, Any]]:
        """The N sites with the most live bytes: dicts of function, file, line, estimated_bytes and sample_count.

        A site is the innermost Python function of a stack. If the stack has none, it is the innermost native function that
        is not plumbing.
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
        """Samples that survived at least MIN_EPOCHS full garbage collections. Empty without tracking of collections
        (`MemoryProfiler(gc_tracking=True)`)."""
        if min_epochs < 1:
            raise ValueError(f"min_epochs has to be 1 or more, not {min_epochs}")
        return [s for s in self.samples if self.gc_epoch - s.gc_epoch >= min_epochs]

    def save(self, path: str | os.PathLike[str], format: str = "speedscope") -> None:
        """Writes the snapshot to PATH. Formats: "speedscope" (JSON for www.speedscope.app) and "collapsed" (one line per
        stack, for flame graphs). For other formats, raises ValueError and writes nothing."""
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
    """Removes frames of the interpreter, as `piano report` does. In a stack with Python functions, frames of CPython stay only
    if the innermost Python function calls them. The first frames of the process or thread are removed if no other frames are
    outside the outermost Python function."""
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
