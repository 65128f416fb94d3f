"""piano: what a Python process does with its memory, native code included. See `piano.memprof`."""
from __future__ import annotations

__version__ = "0.1.0"
