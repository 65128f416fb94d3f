"""Sampling heap profiler: shows which code holds the memory of this process, Python and native.

    from piano import memprof

    memprof.start(sampling_rate_kb=512)
    ...
    for site in memprof.get_snapshot().top_allocators():
        print(site["estimated_bytes"], site["function"], site["file"], site["line"])
    memprof.stop()

piano's library must be loaded when the process starts:

    python3 -m piano.memprof script.py      without a change to the script; read the recording with `piano report --heap`
    piano record --heap -- python3 script.py
    LD_PRELOAD=$(python3 -m piano.memprof --library) python3 script.py     for programs that call start() themselves

The profiler has these states: not started, running, stopped, running again, ..., shut down. While it is stopped, it takes no new
samples, but still records frees.
"""
from __future__ import annotations

import atexit
import errno
import os
import threading
import time
from types import TracebackType
from typing import Optional

from .. import _memprof
from ._gc import Epochs
from ._snapshot import AllocationSample, FramePointerHealth, HeapSnapshot, MemProfStats, StackFrame

__all__ = [
    "AllocationSample",
    "FramePointerHealth",
    "HeapSnapshot",
    "MemProfStats",
    "MemoryProfiler",
    "StackFrame",
    "get_snapshot",
    "get_stats",
    "is_active",
    "library_path",
    "recording_path",
    "shutdown",
    "start",
    "stop",
]

_lock = threading.RLock()
_is_terminated = False
_is_registered = False
_epochs = Epochs()


def library_path() -> str:
    """The path of the library that must be preloaded into a process."""
    return os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "libpiano.so")


def _need_hooks() -> None:
    if _memprof.is_loaded():
        return
    raise RuntimeError(
        "piano's library is not loaded into this process, so its allocations cannot be seen. Start it with\n"
        "    python3 -m piano.memprof script.py\n"
        "or, when the program calls piano.memprof.start() itself, with\n"
        "    LD_PRELOAD=$(python3 -m piano.memprof --library) python3 script.py"
    )


def _why(error: int) -> str:
    if error == -errno.EALREADY:
        return "the memory profiler is running already"
    if error == -errno.ESHUTDOWN:
        return "the memory profiler was shut down, and cannot be started again in this process"
    if error == -errno.ENOTSUP:
        return "this program has a malloc of its own in its executable, which cannot be seen"
    if error == -errno.EBUSY:
        return "another thread is starting or stopping the memory profiler"
    runs = os.environ.get("PIANO_RUNS_DIR") or ".piano/runs"
    return f"the memory profiler could not create its recording in {runs}: {os.strerror(-error)}"


def start(sampling_rate_kb: int = 512) -> None:
    """Starts sampling: one sample per SAMPLING_RATE_KB kilobytes on average. After `stop`, continues, with any rate.

    ValueError for a rate below 1. RuntimeError while it runs, after `shutdown`, and when piano's library is not loaded.
    """
    if isinstance(sampling_rate_kb, bool) or not isinstance(sampling_rate_kb, int):
        raise TypeError(f"sampling_rate_kb has to be an int, not {type(sampling_rate_kb).__name__}")
    if not 1 <= sampling_rate_kb < 1 << 40:
        raise ValueError(f"sampling_rate_kb has to be 1 or more, not {sampling_rate_kb}")
    with _lock:
        if _is_terminated:
            raise RuntimeError(_why(-errno.ESHUTDOWN))
        _need_hooks()
        error = _memprof.start(sampling_rate_kb * 1024)
        if error < 0:
            raise RuntimeError(_why(error))
        _register()


def _register() -> None:
    global _is_registered
    if not _is_registered:
        _is_registered = True
        # The profile should show what the script holds at its end, before the interpreter frees its objects.
        atexit.register(shutdown)


def stop() -> None:
    """Stops taking samples; frees are still recorded. RuntimeError if the profiler is not running."""
    with _lock:
        error = -errno.ENOTCONN if _is_terminated or not _memprof.is_loaded() else _memprof.stop()
        if error == -errno.ENOTCONN:
            raise RuntimeError("the memory profiler is not running")
        if error < 0:
            raise RuntimeError(_why(error))


def shutdown() -> None:
    """Ends profiling for the rest of the process. The recording stays. A second call does nothing."""
    global _is_terminated
    with _lock:
        if not _is_terminated:
            _is_terminated = True
            _memprof.shutdown()


def _after_fork() -> None:
    """A forked child is not profiled, and may start its own profile."""
    global _is_terminated, _lock
    _is_terminated = False
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


def _stats() -> dict[str, float]:
    stats = None if _is_terminated else _memprof.stats()
    if stats is not None:
        return stats
    if _is_terminated:
        raise RuntimeError("the memory profiler was shut down")
    _need_hooks()
    raise RuntimeError("the memory profiler was not started")


def is_active() -> bool:
    """Whether a profile of this process exists, started here or by `piano record`, and is not shut down."""
    return not _is_terminated and _memprof.stats() is not None


def recording_path() -> Optional[str]:
    """The path of this process's recording, for `piano report --heap`, or None."""
    path = _memprof.recording()
    return path if path is None else os.path.abspath(path)


def get_stats() -> MemProfStats:
    """The profiler's counters. RuntimeError before the first `start` and after `shutdown`."""
    stats = _stats()
    return MemProfStats(
        total_samples=int(stats["samples"]),
        live_samples=int(stats["live_samples"]),
        freed_samples=int(stats["freed_samples"]),
        unique_stacks=int(stats["stacks"]),
        estimated_heap_bytes=round(stats["live_bytes"]),
        heap_map_load_percent=100.0 * stats["live_samples"] / max(stats["room"], 1),
        collisions=int(stats["collisions"]),
        sampling_rate_bytes=int(stats["mean_bytes"]),
        dropped_samples=int(stats["dropped"]),
    )


def _health(stats: dict[str, float]) -> FramePointerHealth:
    walks, cut = int(stats["walks"]), int(stats["walks_cut"])
    return FramePointerHealth(
        shallow_stack_warnings=cut,
        total_native_stacks=walks,
        avg_native_depth=stats["walked_frames"] / walks if walks else 0.0,
        min_native_depth=int(stats["least_depth"]),
        truncation_rate=cut / walks if walks else 0.0,
    )


def _resolve(frame: StackFrame) -> None:
    function, file, where, frame.is_python = _memprof.resolve(frame.address)
    frame.file = file or ""
    frame.line = where if frame.is_python else 0
    if frame.is_python:
        frame.function = function or "?"
    else:
        frame.function = function or f"{os.path.basename(file) if file else '[unknown]'}+{where:#x}"


def get_snapshot(resolve: bool = True) -> HeapSnapshot:
    """The sampled allocations that are live now. Without RESOLVE, frames have only addresses until `HeapSnapshot.resolve`. This
    is faster, but names of a library that is unloaded before then are lost.

    RuntimeError before the first `start` and after `shutdown`.
    """
    try:
        _memprof.ignore(True)  # inside `try`: Ctrl-C may interrupt right after this call
        stats = _stats()
        now = time.monotonic_ns()
        found = _memprof.blocks()
        if found is None:
            raise RuntimeError("the memory profiler was shut down")
        return _snapshot(stats, found[0], found[1], now, resolve)
    finally:
        _memprof.ignore(False)


def _snapshot(
    stats: dict[str, float],
    blocks: list[tuple[int, int, float, float, int, int, int]],
    addresses: dict[int, tuple[int, ...]],
    now: int,
    resolve: bool,
) -> HeapSnapshot:
    frames = {pc: StackFrame(pc) for pc in set().union(*addresses.values())}
    stacks = {number: [frames[pc] for pc in pcs] for number, pcs in addresses.items()}
    samples = [
        AllocationSample(
            address=address,
            size=max(size, 1),
            weight=max(round(weight), 1),
            estimated_bytes=max(round(weight), 1),
            timestamp_ns=birth,
            lifetime_ns=None,
            stack=stacks[stack],
            gc_epoch=_epochs.at(birth),
            estimated_objects=objects,
            thread_id=thread,
        )
        for address, size, weight, objects, birth, thread, stack in blocks
    ]
    snapshot = HeapSnapshot(
        samples=samples,
        total_samples=max(int(stats["samples"]), len(samples)),
        live_samples=len(samples),
        estimated_heap_bytes=sum(s.weight for s in samples),
        timestamp_ns=now,
        frame_pointer_health=_health(stats),
        sampling_rate_bytes=int(stats["mean_bytes"]),
        gc_epoch=_epochs.at(now),
        _resolve=_resolve,
    )
    return snapshot.resolve() if resolve else snapshot


class MemoryProfiler:
    """Profiles a block of code. `snapshot` is what was live at its end, also if an exception ended it.

        with memprof.MemoryProfiler(sampling_rate_kb=64) as profiler:
            work()
        profiler.snapshot.save("profile.json")

    With GC_TRACKING, counts full garbage collections, for `HeapSnapshot.allocations_surviving_gc`.
    """

    def __init__(self, sampling_rate_kb: int = 512, gc_tracking: bool = False) -> None:
        self.sampling_rate_kb = sampling_rate_kb
        self.gc_tracking = gc_tracking
        self._snapshot: Optional[HeapSnapshot] = None

    @property
    def snapshot(self) -> HeapSnapshot:
        if self._snapshot is None:
            raise RuntimeError("there is no snapshot before the end of the block")
        return self._snapshot

    def __enter__(self) -> MemoryProfiler:
        self._snapshot = None
        start(self.sampling_rate_kb)
        if self.gc_tracking:
            _epochs.track()
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        try:
            try:
                self._snapshot = get_snapshot()
            finally:
                stop()
        except RuntimeError:
            if kind is None:  # the block stopped the profiler; an exception of the block takes precedence
                raise
        finally:
            if self.gc_tracking:
                _epochs.untrack()
