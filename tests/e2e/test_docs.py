"""What is written about piano agrees with what there is: links, files, rooms, and the options of each command in its help, its
page and the completions of all shells."""
from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from conftest import ROOT, Project
from test_cli import COMMANDS

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("integrations/*/*.md")])
FLAG = re.compile(r"(?<![\w-])(--[a-z][a-z-]*|-[jo])(?![\w-])")


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
    there = {"src/common", "include", "viewer", "python", "integrations", "examples", "tests", "bench", "tools"}
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
    bash = re.search(rf'^    {command}\) options="([^"]*)"', (ROOT / "tools/completion/piano.bash").read_text(), re.M)
    assert bash
    completed = flags(bash[1].replace("$select", "--fn --exact --file --dir --skip --frame").replace("=", "")) - {"--help"}
    assert synopsis <= completed, "in the synopsis, not completed"
    assert completed <= flags(page), "completed, not on the page"
    assert completed <= helped, "completed, not in the help"
    zsh = (ROOT / "tools/completion/_piano").read_text()
    lists = dict(re.findall(r"^    (\w+)=\(\n(.*?)^    \)", zsh, re.M | re.S))
    part = re.search(rf"^    {command}\)(.*?);;", zsh, re.M | re.S)
    words = re.sub(r"\$(\w+)", lambda m: lists.get(m[1], ""), part[1] if part else "")
    assert flags(re.sub(r"\[[^\]]*\]", " ", words).replace("=-", " ")) == completed, "bash and zsh differ"
    assert fish_options(command) == completed, "bash and fish differ"


def fish_options(command: str) -> set[str]:
    """The options in lines such as: complete -c piano -n '__piano_command view' -s o -l output -rF -d 'the file'."""
    found: set[str] = set()
    for line in (ROOT / "tools/completion/piano.fish").read_text().splitlines():
        match = re.match(r"complete -c piano -n '__piano_command ([a-z ]+)' (.*)", line)
        if match and command in match[1].split():
            words = shlex.split(match[2])
            found |= {{"-s": "-", "-l": "--"}[a] + b for a, b in zip(words, words[1:]) if a in ("-s", "-l")}
    return found


@pytest.mark.tool
def test_every_shell_completes_every_command() -> None:
    bash, zsh, fish = ((ROOT / "tools/completion" / name).read_text() for name in ("piano.bash", "_piano", "piano.fish"))
    for command in [*COMMANDS, "help"]:
        assert re.search(rf'compgen -W "profile[a-z ]* {command}[ "]', bash) or command == "profile"
        assert f"        '{command}:" in zsh and re.search(rf"^    '{command} ", fish, re.M), command


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
