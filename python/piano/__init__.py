"""piano: what a Python process does with its memory, native code included. See `piano.memprof`."""
from __future__ import annotations

from piano._memprof import __version__

__all__ = ["__version__"]
