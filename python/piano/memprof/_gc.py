"""Counts full garbage collections, so that a sample can report how many it has survived.

Only collections of the oldest generation count. They visit all objects, so an object that survives several is still referenced.
"""
from __future__ import annotations

import bisect
import gc
import threading
import time

MOST = 65536


class Epochs:
    """The times at which full collections ended. Drops the oldest beyond MOST; older samples count from the oldest kept one."""

    def __init__(self) -> None:
        self._ends: list[int] = []
        self._forgotten = 0
        self._users = 0
        self._lock = threading.Lock()

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if phase != "stop" or info.get("generation") != 2:
            return
        self._ends.append(time.monotonic_ns())
        if len(self._ends) > MOST:
            del self._ends[: MOST // 2]
            self._forgotten += MOST // 2

    def track(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                gc.callbacks.append(self._collected)

    def untrack(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                gc.callbacks.remove(self._collected)

    def at(self, timestamp_ns: int) -> int:
        """The number of collections that had ended at that time."""
        return self._forgotten + bisect.bisect_right(self._ends, timestamp_ns)
