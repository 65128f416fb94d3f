"""The documentation agrees with the project: links, files, rooms, and the options of each command in its help, its
page and its flag table."""
from __future__ import annotations

import re
from pathlib import Path

import pytest

from conftest import ROOT, Project
from test_cli import COMMANDS

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("integrations/*/*.md")])
FLAG = re.compile(r"(?<![\w-])(--[a-z][a-z-]*|-[jop])(?![\w-])")


def flags(text: str) -> set[str]:
    return set(FLAG.findall(text))


def anchor(heading: str) -> str:
    return re.sub(r"[^\w -]", "", heading.strip().lower()).replace(" ", "-")


@pytest.mark.tool
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if re.match(r"https?:", target):
            continue
        path, _, part = target.partition("#")
        there = page.parent / path if path else page
        assert there.exists(), f"{target} is not there"
        if part:
            headings = re.findall(r"^#+ (.*)", there.read_text(), re.M)
            assert part in map(anchor, headings), f"{target}: no such heading"


@pytest.mark.tool
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_are_named_exist(page: Path) -> None:
    rooms = "src|include|tests|bench|examples|tools|viewer|python|integrations|docs"
    for name in re.findall(rf"`((?:{rooms})/[a-z0-9_./-]*)`", page.read_text()):
        assert (ROOT / name).exists() or (page.parent / name).exists(), f"{name} is not there"


@pytest.mark.tool
def test_every_room_is_in_the_plan() -> None:
    told = set(re.findall(r"^\| `([\w/]+)/` \|", (ROOT / "docs/architecture.md").read_text(), re.M))
    there = {"src/common", "src/rust", "include", "viewer", "python", "integrations", "examples", "tests", "bench", "tools"}
    there |= {str(room.relative_to(ROOT)) for half in ("src/target", "src/tool", "viewer/src")
              for room in (ROOT / half).iterdir() if room.is_dir()}
    assert told == there


@pytest.mark.tool
@pytest.mark.parametrize("command", COMMANDS)
def test_options_are_the_same_everywhere(project: Project, command: str) -> None:
    helped = flags(project.piano("help", command).out)
    page = (ROOT / "docs" / f"{command}.md").read_text()
    synopsis = flags(page.split("```")[1])
    assert max(map(len, page.split("```")[1].splitlines())) <= 73, "too wide for a manual page"
    rows = [line.split("\t") for line in project.piano("--complete").out.splitlines()]
    completed = {row[1] for row in rows if row[0] == command} - {"-", "--help"}
    assert synopsis <= completed, "in the synopsis, not completed"
    assert completed <= flags(page), "completed, not on the page"
    assert completed <= helped, "completed, not in the help"


def test_page_format_names_every_column() -> None:
    """docs/page-format.md lists the columns of src/tool/view/tables.def, in any order."""
    listed: dict[str, set[str]] = {}
    for line in (ROOT / "src/tool/view/tables.def").read_text().splitlines():
        if match := re.match(r"TABLE\((\w+)\)", line):
            columns = listed.setdefault(match[1], set())
        elif match := re.match(r"COLUMN\((\w+),", line):
            columns.add(match[1])
    described: dict[str, set[str]] = {}
    for line in (ROOT / "docs/page-format.md").read_text().splitlines():
        if match := re.match(r"\*\*(\w+)\*\*", line):
            columns = described.setdefault(match[1], set())
        elif described and line.startswith("| `"):
            columns.update(re.findall(r"`(\w+)`", line.split("|")[1]))
    assert {name: described.get(name) for name in listed} == listed
