"""Runs a program on a terminal, and keeps the contents of its screen: a grid of characters.

Understands the sequences that `piano top` writes, and fails at any other.
"""
from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from typing import Any, Callable

import pytest

from conftest import LIMIT_S

ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"
SEQUENCE = re.compile(rb"\x1b\[(\??)([0-9;]*)([A-Za-z])")
KEYS = {"up": "\x1b[A", "down": "\x1b[B", "right": "\x1b[C", "left": "\x1b[D", "enter": "\r", "escape": "\x1b",
        "f2": "\x1bOQ", "f3": "\x1b[13~"}


class Screen:
    def __init__(self, command: list[Any], *, env: dict[str, str], cwd: Any, rows: int = 30, columns: int = 120):
        self.raw = b""  # all output
        self.left = b""  # an incomplete sequence
        self.is_open = False
        self.resize_grid(rows, columns)
        try:
            self.pid, self.master = pty.fork()
        except OSError as error:
            pytest.skip(f"no terminal can be had here: {error}")
        if self.pid == 0:
            try:
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
                os.chdir(cwd)
                words = [str(word) for word in command]
                os.execvpe(words[0], words, {"TERM": "xterm", **env})
            finally:
                os._exit(127)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.status: int | None = None

    def resize_grid(self, rows: int, columns: int) -> None:
        self.rows, self.columns = rows, columns
        self.grid = [[" "] * columns for _ in range(rows)]
        self.row = self.column = 0

    def resize(self, rows: int, columns: int) -> None:
        self.resize_grid(rows, columns)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def __enter__(self) -> "Screen":
        return self

    def __exit__(self, *_: Any) -> None:
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.master)

    # ---- contents ----

    @property
    def lines(self) -> list[str]:
        return ["".join(row).rstrip() for row in self.grid]

    def table(self) -> list[list[str]]:
        """The cells of the rows below the rule, split at two blanks."""
        rule = next((i for i, line in enumerate(self.lines) if re.fullmatch("-{10,}", line)), None)
        if rule is None:
            return []
        rows = self.lines[rule + 1:-1]
        return [re.split(r" {2,}", line.strip()) for line in rows if line]

    def titles(self) -> list[str]:
        rule = next(i for i, line in enumerate(self.lines) if re.fullmatch("-{10,}", line))
        return re.split(r" {2,}", self.lines[rule - 1].strip())

    def __repr__(self) -> str:
        return "\n" + "\n".join(f"|{line}" for line in self.lines) + f"\n{self.raw[-2000:]!r}"

    # ---- actions ----

    def press(self, *keys: str) -> None:
        for key in keys:
            os.write(self.master, KEYS.get(key, key).encode())

    def until(self, wanted: Callable[["Screen"], Any], limit_s: float = LIMIT_S) -> Any:
        """Returns the value of WANTED once it is true; fails with the screen if that takes too long."""
        end = time.monotonic() + limit_s
        while True:
            found = wanted(self)
            if found:
                return found
            assert time.monotonic() < end and self.read(), f"never on the screen:{self!r}"

    def end(self, limit_s: float = LIMIT_S) -> int:
        """The exit status, after the program has ended."""
        end = time.monotonic() + limit_s
        while self.read():
            assert time.monotonic() < end, f"it does not end:{self!r}"
        self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.status

    def after(self) -> str:
        """The output after the screen was closed."""
        return self.raw.rsplit(LEAVE, 1)[-1].decode("utf-8", "replace")

    def read(self) -> bool:
        """Reads for at most a second. Returns false if the terminal was closed."""
        if not select.select([self.master], [], [], 1)[0]:
            return True
        try:
            chunk = os.read(self.master, 65536)
        except OSError:
            return False
        self.raw += chunk
        self.feed(self.left + chunk)
        return bool(chunk)

    def feed(self, data: bytes) -> None:
        self.left = b""
        at = 0
        while at < len(data):
            if data[at] == 0x1b:
                found = SEQUENCE.match(data, at)
                if not found:
                    assert len(data) - at < 16, f"a sequence that is not known: {data[at:at + 16]!r}"
                    self.left = data[at:]
                    return
                self.obey(*(part.decode() for part in found.groups()))
                at = found.end()
                continue
            size = 1 if data[at] < 0x80 else 2 if data[at] < 0xe0 else 3 if data[at] < 0xf0 else 4
            if at + size > len(data):
                self.left = data[at:]
                return
            self.put(data[at:at + size].decode("utf-8", "replace"))
            at += size

    def obey(self, private: str, numbers: str, letter: str) -> None:
        if private:
            assert numbers in ("1049", "25", "7") and letter in "hl", (numbers, letter)
            self.is_open = letter == "h" if numbers == "1049" else self.is_open
        elif letter == "H":
            row, _, column = numbers.partition(";")
            self.row, self.column = int(row or 1) - 1, int(column or 1) - 1
        elif letter == "J":
            assert numbers == "2"
            self.grid = [[" "] * self.columns for _ in range(self.rows)]
        elif letter == "K" and self.row < self.rows:
            self.grid[self.row][self.column:] = [" "] * (self.columns - self.column)
        elif letter not in "mK":
            raise AssertionError(f"a sequence that is not known: {private}{numbers}{letter}")

    def put(self, character: str) -> None:
        if not self.is_open:
            return
        assert character >= " ", f"a raw control character {character!r} on the screen"
        if self.row < self.rows and self.column < self.columns:
            self.grid[self.row][self.column] = character
            self.column += 1
