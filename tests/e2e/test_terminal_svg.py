"""The animation of README.md: the output of tools/make-terminal-svg.py, and that the one in docs/images is up to date."""
from __future__ import annotations

import importlib.util
import sys
import xml.etree.ElementTree as ElementTree
from types import ModuleType

import pytest

from conftest import ROOT

SVG = "{http://www.w3.org/2000/svg}"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_terminal_svg", ROOT / "tools" / "make-terminal-svg.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def texts(picture: str) -> list[str]:
    return ["".join(text.itertext()) for text in ElementTree.fromstring(picture).iter(f"{SVG}text")]


@pytest.mark.tool
def test_lines_that_are_left_out_are_dots() -> None:
    made = load()
    lines = ["one", "two", "", "\x1b[1mthree", "four\x1b[0m", "five"]
    assert [made.plain(line) for line in made.chosen(lines, "one|four|five")] == ["one", "...", "four", "five"]
    assert made.chosen(lines, "four") == ["\x1b[1mfour\x1b[0m"], "a colour goes on to the next line"


@pytest.mark.tool
def test_the_picture_shows_text_and_never_markup() -> None:
    made = load()
    player = made.Player()
    first = made.Scene("first", "", [], [], "answer", "said")
    player.scene(first, [("piano <x>", ["plain", "\x1b[33m<b>answer</b>\x1b[0m & more", "x" * 200])])
    player.scene(made.Scene("second", "", [], [], "z", "also said"), [("piano y", ["z"])])
    picture = player.svg()
    shown = texts(picture)
    assert "$ piano <x>" in shown and "<b>answer</b> & more" in shown
    assert all(len(line) <= made.COLUMNS for line in shown)
    groups = ElementTree.fromstring(picture).findall(f"{SVG}g")
    hidden = {"".join(group.itertext()): group.get("opacity") == "0" for group in groups}
    assert not hidden["said"] and hidden["also said"], "without animation, the first scene alone"
    assert "<script" not in picture


@pytest.mark.tool
def test_a_scene_without_its_answer_is_refused() -> None:
    made = load()
    with pytest.raises(SystemExit, match="nothing that was printed"):
        made.Player().scene(made.Scene("t", "", [], [], "answer", "c"), [("piano", ["no"])])


@pytest.mark.tool
def test_the_picture_in_the_repository_has_these_scenes() -> None:
    shown = texts((ROOT / "docs" / "images" / "terminal.svg").read_text())
    for scene in load().SCENES:
        assert {scene.title, scene.caption} <= set(shown)
        assert {f"$ {command}" for command, _ in scene.steps} <= set(shown)
