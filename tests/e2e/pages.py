"""An independent reader of pages (docs/page-format.md), for the tests of `piano view`."""
from __future__ import annotations

import base64
import hashlib
import json
import re
import struct
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

NONE = 0xFFFFFFFF
WIDTH = {"u8": 1, "u16": 2, "u32": 4, "i64": 8, "f64": 8}
LETTER = {"u8": "B", "u16": "H", "u32": "I", "i64": "q", "f64": "d"}
MOST_TEXT = 16 << 20


class Elements(HTMLParser):
    """Every element with its attributes and text; scripts and styles unchanged."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None], str]] = []
        self.open = False

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.found.append((tag, dict(attrs), ""))
        self.open = True

    def handle_endtag(self, tag: str) -> None:
        self.open = False

    def handle_data(self, data: str) -> None:
        if self.open:
            tag, attrs, text = self.found[-1]
            self.found[-1] = (tag, attrs, text + data)


class Page:
    def __init__(self, text: str):
        parser = Elements()
        parser.feed(text)
        parser.close()
        self.text, self.elements = text, parser.found
        self.meta: dict[str, Any] = json.loads(self.script("piano-meta"))
        self.data = b""
        for number, (_, attrs, body) in enumerate(self.scripts("application/octet-stream")):
            assert attrs["id"] == ("piano-data" if number == 0 else f"piano-data-{number}")
            assert len(body) <= MOST_TEXT
            self.data += base64.b64decode(body, validate=True)
        self._blocks: dict[int, bytes] = {}

    def scripts(self, kind: str | None) -> list[tuple[str, dict[str, str | None], str]]:
        return [e for e in self.elements if e[0] == "script" and e[1].get("type") == kind]

    def script(self, name: str) -> str:
        found = [e[2] for e in self.elements if e[0] == "script" and e[1].get("id") == name]
        assert len(found) == 1, f"{len(found)} scripts {name}"
        return found[0]

    def policy(self) -> str:
        found = [a["content"] for t, a, _ in self.elements
                 if t == "meta" and a.get("http-equiv") == "Content-Security-Policy"]
        assert len(found) == 1 and found[0]
        return found[0]

    def code(self) -> tuple[str, str]:
        """The only script that runs, and the only style."""
        scripts = [e[2] for e in self.scripts(None)]
        styles = [e[2] for e in self.elements if e[0] == "style"]
        assert len(scripts) == 1 and len(styles) == 1
        return scripts[0], styles[0]

    def block(self, number: int) -> bytes:
        if number not in self._blocks:
            info = self.meta["blocks"][number]
            packed = self.data[info["at"]:info["at"] + info["bytes"]]
            assert len(packed) == info["bytes"]
            raw = zlib.decompress(packed) if info["codec"] == "deflate" else packed
            assert len(raw) == info["raw_bytes"] and info["codec"] in ("deflate", "none")
            self._blocks[number] = raw
        return self._blocks[number]

    def __contains__(self, table: str) -> bool:
        return table in self.meta["tables"]

    def json(self, table: str) -> Any:
        info = self.meta["tables"][table]
        assert info["json"] is True
        return json.loads(self.block(info["block"])[info["at"]:info["at"] + info["bytes"]])

    def column(self, table: str, name: str) -> list[Any]:
        info = self.meta["tables"][table]
        column = next(c for c in info["columns"] if c["name"] == name)
        raw = self.block(column["block"])[column["at"]:column["at"] + column["bytes"]]
        assert len(raw) == column["bytes"] and column["at"] % 8 == 0
        if column["type"] == "text":
            return texts(raw, info["rows"])
        return numbers(raw, info["rows"], column["type"], column["code"])

    def table(self, table: str) -> dict[str, list[Any]]:
        if table not in self:
            return {}
        return {c["name"]: self.column(table, c["name"])
                for c in self.meta["tables"][table]["columns"]}

    def rows(self, table: str) -> list[dict[str, Any]]:
        columns = self.table(table)
        return [dict(zip(columns, values)) for values in zip(*columns.values())]

    @property
    def strings(self) -> list[str]:
        return self.column("strings", "text")

    def stack(self, node: int) -> list[str]:
        """Functions of a stack, outermost first."""
        parents, codes = self.column("nodes", "parent"), self.column("nodes", "code")
        functions, names, strings = [], self.column("code", "function"), self.strings
        while node != NONE:
            functions.append(strings[names[codes[node]]])
            assert parents[node] == NONE or parents[node] < node
            node = parents[node]
        return functions[::-1]


def texts(raw: bytes, rows: int) -> list[str]:
    out, at = [], 0
    for _ in range(rows):
        (length,) = struct.unpack_from("<I", raw, at)
        out.append(raw[at + 4:at + 4 + length].decode("utf-8"))
        at += 4 + length
    assert at == len(raw)
    return out


def numbers(raw: bytes, rows: int, kind: str, code: str) -> list[Any]:
    width = WIDTH[kind]
    assert len(raw) == rows * width
    if code.endswith("planes"):
        flat = bytearray(len(raw))
        for k in range(width):
            flat[k::width] = raw[k * rows:(k + 1) * rows]
        raw = bytes(flat)
    values = list(struct.unpack(f"<{rows}{LETTER[kind]}", raw))
    if code.startswith("delta"):
        assert kind != "f64"
        modulus, before = 1 << 8 * width, 0
        for i, value in enumerate(values):
            before = (before + value) % modulus
            values[i] = before - modulus if kind == "i64" and before >= modulus >> 1 else before
    return values


def digest(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def read(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


def directives(policy: str) -> dict[str, list[str]]:
    parts = [re.split(r" +", p.strip()) for p in policy.split(";")]
    return {p[0]: p[1:] for p in parts}
