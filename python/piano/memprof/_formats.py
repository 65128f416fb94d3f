"""Writes stacks in the formats of other tools. A stack is a list of frames, root first, and a weight in bytes."""
from __future__ import annotations

import json
import re
from typing import Any, NamedTuple


class Frame(NamedTuple):
    function: str
    file: str
    line: int
    is_python: bool


Stack = tuple[list[Frame], int]


def frame(function: str, file: str, line: int, is_python: bool) -> Frame:
    """Returns a frame whose names are valid text: surrogates, which stand for invalid bytes, become escapes."""
    return Frame(_text(function), _text(file), line, is_python)


def _text(name: str) -> str:
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def speedscope(stacks: list[Stack]) -> str:
    """A file for www.speedscope.app: one profile in bytes. The weights add up to the estimate."""
    numbers: dict[Frame, int] = {}
    samples = [[numbers.setdefault(f, len(numbers)) for f in frames or [NO_STACK]] for frames, _ in stacks]
    weights = [weight for _, weight in stacks]
    return json.dumps(
        {
            "$schema": "https://www.speedscope.app/file-format-schema.json",
            "name": "piano memprof",
            "exporter": "piano",
            "activeProfileIndex": 0,
            "shared": {"frames": [_speedscope_frame(f) for f in numbers]},
            "profiles": [
                {
                    "type": "sampled",
                    "name": "live bytes",
                    "unit": "bytes",
                    "startValue": 0,
                    "endValue": sum(weights),
                    "samples": samples,
                    "weights": weights,
                }
            ],
        }
    )


NO_STACK = Frame("(no stack)", "", 0, False)


def _speedscope_frame(frame: Frame) -> dict[str, Any]:
    out: dict[str, Any] = {"name": frame.function or "?"}
    if frame.file:
        out["file"] = frame.file
    if frame.line > 0:
        out["line"] = frame.line
    return out


def collapsed(stacks: list[Stack]) -> str:
    """`root;caller;leaf BYTES`, one line per stack. Stacks with the same names share a line. Semicolons and blanks in names are
    replaced, because readers split at them."""
    lines: dict[str, int] = {}
    for frames, weight in stacks:
        text = ";".join(_collapsed_name(f) for f in frames or [NO_STACK])
        lines[text] = lines.get(text, 0) + weight
    return "".join(f"{text} {weight}\n" for text, weight in sorted(lines.items()))


def _collapsed_name(frame: Frame) -> str:
    name = frame.function if frame.is_python else frame.function or "?"
    return re.sub(r"[\s\x00-\x1f\x7f]", "_", name.replace(";", ":")) or "?"
