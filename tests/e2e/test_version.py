"""The version is only in the file VERSION. All other places agree with it."""
from __future__ import annotations

import re
import subprocess
import sys

import pytest

from conftest import LIB, ROOT, Project

VERSION = (ROOT / "VERSION").read_text().strip()


@pytest.mark.tool
def test_the_tool_has_the_version(project: Project) -> None:
    assert project.piano("--version").out == f"piano {VERSION}\n"


def test_the_library_has_the_version() -> None:
    """In a separate process, because the library stays loaded."""
    ask = ("import ctypes, sys; l = ctypes.CDLL(sys.argv[1]);"
           "l.piano_version.restype = ctypes.c_char_p; print(l.piano_version().decode())")
    done = subprocess.run([sys.executable, "-c", ask, str(LIB / "libpiano.so")], stdout=subprocess.PIPE, text=True)
    assert done.stdout.strip() == VERSION


@pytest.mark.tool
def test_the_changelog_begins_with_the_version() -> None:
    entries = re.findall(r"^## (\S+?),? ", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert entries[0] == VERSION


@pytest.mark.tool
def test_the_crate_has_the_version() -> None:
    """Cargo reads no other file, so the number is repeated there."""
    cargo = (ROOT / "integrations/tokio/Cargo.toml").read_text()
    assert re.search(r'^version = "(.*)"', cargo, re.M)[1] == VERSION
