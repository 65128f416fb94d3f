"""The tutorial works: its commands run in order in a copy of examples/, and print what the page shows.

Figures and the order of rows differ from run to run. So a line of the page matches a line of the output that
has all of its words: names of columns and functions, sentences, marks. Figures, and the names of functions inside the C
library, are not compared. `...` on the page stands for any lines."""
from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import Iterator

import pytest

from conftest import LIB, ROOT, Project
from test_cli import COMMANDS
from test_docs import flags

PAGE = ROOT / "docs" / "tutorial.md"
FIGURE = re.compile(r"[-+~±]*\d[\d.]*(?:(?:ns|us|ms|s|B|KB|MB|GB)\b)?(?:/(?:s|min))?%?")
OF_LIBC = {"__strcmp_evex", "msort_with_tmp", "__GI___qsort_r"}
# Differences between machines: singular or plural, waits for a CPU, perf events or timers.
VARYING = {"cpu-clock", "samples", "sample", "switches", "spikes", "spike", "polls", "poll", "them",
           "waiting", "for", "one"}
BUSY = "the machine was busy"  # then other frames are the worst ones, and the columns show other functions


def steps(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each `$ command` of the page with the lines below it."""
    for block in re.findall(r"^```\n(.*?)^```", text, re.M | re.S):
        if not block.startswith("$ "):
            continue
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, *lines = part.splitlines()
            yield command, lines


def words(line: str) -> set[str]:
    found = re.findall(r"[a-z_][\w./-]*|<-", FIGURE.sub(" ", line).lower())
    return {word for word in (w.rstrip("./-") for w in found) if len(word) > 1 or word == "<-"}


def unprinted(shown: list[str], printed: str) -> list[str]:
    """The lines SHOWN on the page without a match in PRINTED."""
    have = [words(line) for line in printed.splitlines()]
    missing = []
    for line in filter(lambda line: line.strip(" .-"), shown):
        want = words(line) - OF_LIBC - VARYING
        if BUSY in printed and line.startswith("Frame "):
            want &= {"frame", "total", "allocs", "bytes"}
        if not any(want <= line_words for line_words in have):
            missing.append(line)
    return missing


@pytest.mark.tool
def test_a_line_is_found_by_its_words() -> None:
    printed = "Function  Calls  Self  Wait\nasset_load   67  ~9.1ms  0ns\n12.3ms in 4 objects <- spike\n"
    assert unprinted(["Function  Calls  Self", "asset_load  99  1.1ms", "1.0ms in 2 objects <- spike", "..."], printed) == []
    assert unprinted(["asset_get  67  ~9.1ms"], printed) == ["asset_get  67  ~9.1ms"]
    assert unprinted(["Function  Calls  Total"], printed) == ["Function  Calls  Total"]


@pytest.mark.tool
def test_every_fault_is_shown() -> None:
    """The page has a step for each instrument, and shows output for it."""
    commands = {command: lines for command, lines in steps(PAGE.read_text())}
    for part in ("piano profile", "report --frames", "record --heap", "--growth", "piano diff", "--polls", "piano view"):
        assert any(part in command and lines for command, lines in commands.items()), part


@pytest.mark.tool
@pytest.mark.parametrize("page", ["README.md", *(f"docs/{name}.md" for name in ("tutorial", "howto", "troubleshooting", "compare"))])
def test_commands_on_the_pages_have_these_options(project: Project, page: str) -> None:
    """Each `piano COMMAND --option` on a page for users is one that `piano help COMMAND` names."""
    helped: dict[str, set[str]] = {}
    used = re.findall(r"\bpiano ([a-z]+)( [^`\n]*)", (ROOT / page).read_text())
    named = [(command, rest) for command, rest in used if command in COMMANDS]
    assert named
    for command, rest in named:
        ours = re.split(r" -- | \./| [|#&]| python3 | make ", rest)[0]
        helped.setdefault(command, flags(project.piano("help", command).out))
        assert flags(ours) <= helped[command], f"piano {command}{rest}"


@pytest.mark.tool
def test_the_readme_shows_the_same_run() -> None:
    page = set(PAGE.read_text().splitlines())
    shown = [line for _, lines in steps((ROOT / "README.md").read_text()) for line in lines if line]
    assert shown and [line for line in shown if line not in page] == []


@pytest.mark.timing  # on a busy machine other frames may be slow
def test_the_commands_print_what_the_page_shows(project: Project) -> None:
    examples = project.root / "examples"
    shutil.rmtree(examples, ignore_errors=True)
    for name in ("game", "store"):
        shutil.copytree(ROOT / "examples" / name, examples / name, ignore=shutil.ignore_patterns(".piano", "*.o", name))
    path = {"PATH": f"{LIB.parent}:{project.env['PATH']}"}
    place = project.root
    for command, shown in steps(PAGE.read_text()):
        if command.startswith("cd "):
            place = (place / command[3:]).resolve()
            assert place.is_dir()
            continue
        done = project.command(*shlex.split(command), cwd=place, env=path, limit=180)
        assert unprinted(shown, done.out + done.err) == [], f"{command}\n{done}"
    assert (place / "late.html").stat().st_size > 0
