"""Compares docs/recording-format.md, byte by byte, with the structures in the programs."""
from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from conftest import ROOT

tool = pytest.mark.tool
HEADERS = "".join((ROOT / "src/common" / name).read_text() for name in ("recording.h", "events.h"))

# The structure that each heading of the document, or line before a table, describes.
STRUCTURES = {"## Header": "piano__rec_header", "An entry of `fires`": "piano__fired", "`stats`, all u64": "piano__heap_stats",
              "## Chunk header": "piano__chunk", "## 1: module": "piano__module",
              "## 2: stack": "piano__stack", "## 3: totals": "piano__totals", "## 4: live": "piano__live",
              "## 5: snapshot": "piano__snapshot", "An entry, of a stack": "piano__snapshot_entry",
              "`trace`, of events": "piano__trace", "`family`, counted": "piano__rec_family", "## 6: thread": "piano__thread_record",
              "## 7: events": "piano__events_head", "## 8: sample": "piano__sample", "## 9: name": "piano__name",
              "### Kind 1: a text": "piano__symbol_text", "### Kind 2: a module": "piano__symbol_module",
              "### Kind 3: an address": "piano__symbol_address", "A frame:": "piano__symbol_frame"}


def documented() -> dict[str, list[tuple[str, int, str]]]:
    """{structure: [(field, byte, type)]} of the tables in the document."""
    found: dict[str, list[tuple[str, int, str]]] = {}
    now = None
    for line in (ROOT / "docs/recording-format.md").read_text().splitlines():
        now = next((s for start, s in STRUCTURES.items() if line.startswith(start)),
                   None if line.startswith("#") else now)
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        name = next((re.fullmatch(r"`(\w+)`", cell) for cell in cells[1:3]
                     if re.fullmatch(r"`(\w+)`", cell)), None)
        if now and line.startswith("|") and cells[0].isdigit() and name:
            kind = "u64" if now == "piano__heap_stats" else cells[1]
            found.setdefault(now, []).append((name.group(1), int(cells[0]), kind))
    return found


SIZES = {"u16": 2, "u32": 4, "u64": 8, "i64": 8, "f64": 8}


def size_of(kind: str) -> int | None:
    """The size of a documented type; None if it has no fixed size."""
    if kind in SIZES:
        return SIZES[kind]
    array = re.fullmatch(r"(\d+) (bytes|u32)", kind)
    return int(array.group(1)) * (1 if array.group(2) == "bytes" else 4) if array else None


@tool
def test_every_field_is_where_the_document_says(tmp_path: Path) -> None:
    tables = documented()
    assert set(tables) == set(STRUCTURES.values())
    checks = []
    for structure, rows in tables.items():
        for field, byte, kind in rows:
            checks.append(f"_Static_assert(offsetof(struct {structure}, {field}) == {byte}, "
                          f'"{structure}.{field}");')
            if size_of(kind):
                checks.append(f"_Static_assert(sizeof(((struct {structure} *)0)->{field}) == "
                              f'{size_of(kind)}, "size of {structure}.{field}");')
    assert len(checks) > 150
    source = tmp_path / "check.c"
    source.write_text('#include "common/recording.h"\n#include "common/events.h"\n' + "\n".join(checks) + "\n")
    done = subprocess.run(["gcc", "-std=gnu11", "-fsyntax-only", f"-I{ROOT}/src", str(source)],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@tool
def test_no_field_is_left_out() -> None:
    header = re.sub(r"/\*.*?\*/", "", HEADERS, flags=re.S)
    tables = documented()
    for structure, rows in tables.items():
        body = re.search(r"struct " + structure + r" \{(.*?)\n\};", header, re.S).group(1)
        fields = {f for f in re.findall(r"(\w+)(?:\[\w*\])?;", body)} - {"reserved", "entries"}
        assert fields == {field for field, _, _ in rows} - {"reserved"}, structure


@tool
def test_numbers_of_the_document() -> None:
    text = (ROOT / "docs/recording-format.md").read_text()
    header = (ROOT / "src/common/recording.h").read_text() + (ROOT / "src/tool/load/rec.h").read_text()
    for name, value in {"PIANO_REC_VERSION": 1, "PIANO_REC_HEADER_BYTES": 4096,
                        "PIANO_MAX_FRAMES": 128}.items():
        assert re.search(rf"{name} = {value}\b", header), name
    per = (65536 - 64) // 256, (65536 - 64) // 48
    assert f"a table of {per[0]} records" in text and f"a table of {per[1]} records" in text
    for name, shift in re.findall(r"(REC_MAX_\w+) = 1 << (\d+)", header):
        assert f"{1 << int(shift):,}".replace(",", " ") in text, name


@tool
def test_every_event_is_documented() -> None:
    """Codes and kinds of parks by name and number; fails if the enum has one that no row has."""
    text = (ROOT / "docs/recording-format.md").read_text()
    events = {(number, name, ", ".join(re.findall(r"F\(\w+, (\w+)\)", fields)))
              for name, number, fields in re.findall(r"^    X\((\w+), (\d+), \w+, (.*)\)", HEADERS, re.M)}
    rows = {(number, name, fields.strip())
            for number, name, fields in re.findall(r"^\| (\d+) \| ([A-Z_]+) \|([^|]*)\|", text, re.M)}
    assert len(events) >= 13 and rows == events
    parks = dict(re.findall(r"PIANO_PARK_(\w+) = (\d+)", HEADERS))
    words = {"API": "by the API", "EPOLL": "epoll", "POLL": "poll", "SELECT": "select", "URING": "io_uring",
             "CONDITION": "a condition variable", "SEMAPHORE": "a semaphore", "BARRIER": "a barrier",
             "TASKS": "taskwait", "IDLE": "a worker between two regions"}
    assert set(words) == set(parks)
    for name, number in parks.items():
        assert f"{number} {words[name]}" in text, name
