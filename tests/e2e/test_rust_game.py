"""examples/game-rust: the game of examples/game in Rust. Its frames are found, and the function that makes some of them slow is named."""
from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import ROOT, Project, need
from rusts import OFFLINE, need_cargo  # noqa: F401

EXAMPLE = ROOT / "examples" / "game-rust"
FRAMES = 300
# What `make demo-rust` chooses: the functions of a frame.
CHOSEN = "Game::run_frame World::update physics::step Grid:: ai::think path::find render Screen::draw_ Cache:: Pack::".split()
PARTS = {"ai::think", "physics::step", "Particles::update", "Screen::render", "Grid::rebuild"}  # once in each frame


def copy(place: Path) -> None:
    shutil.copytree(EXAMPLE, place, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".piano", "target", "Cargo.lock"))


def play(project: Project, *flags: str) -> str:
    """What the game prints when it was built by `piano build` with FLAGS."""
    copy(project.root)
    project.piano("build", *flags, env=OFFLINE, limit=120)
    return project.piano("run", limit=120).out


def test_it_is_the_game_in_c(project: Project, tmp_path: Path) -> None:
    """Frame for frame, and with the probes in it."""
    need("gcc")
    game = tmp_path / "game"
    shutil.copytree(ROOT / "examples" / "game", game, ignore=shutil.ignore_patterns(".piano", "*.o", "game"))
    project.command("make", "-s", "CFLAGS=-O2 -ffp-contract=off", "game", cwd=game)
    assert play(project) == project.command(game / "game").out


def test_its_frames_are_found_without_a_flag(project: Project) -> None:
    printed = play(project)
    loads = int(re.search(r"(\d+) sprites loaded", printed).group(1))
    report = project.report()
    assert report.frame_count == FRAMES
    assert report.calls("Game::run_frame", "World::update", *PARTS, "Pack::load") == {
        **dict.fromkeys(["Game::run_frame", "World::update", *PARTS], FRAMES), "Pack::load": loads}
    frames = project.frames()
    assert {frame["root"] for frame in frames} == {"Game::run_frame"} and len(frames) == FRAMES
    inside = [{row["name"]: row["calls"] for row in frame["functions"]} for frame in frames]
    assert all(calls[part] == 1 for calls in inside for part in PARTS)
    assert sum(calls.get("Pack::load", 0) for calls in inside) == loads
    assert sum("Pack::load" in calls for calls in inside) < FRAMES / 10, "some frames load many sprites, most load none"


@pytest.mark.timing
def test_the_spike_is_named_without_a_flag(project: Project) -> None:
    play(project, *(word for name in CHOSEN for word in ("--fn", name)))
    text = project.piano("report", "--frames").out
    title, *lines = text.splitlines()
    assert re.match(r"Frame +Total +load ", title), text
    spikes = [line for line in lines if line.endswith("<- spike")]
    assert spikes and not [line for line in spikes if line.split()[2] == "-"], text
    assert f"{FRAMES} frames of Game::run_frame" in text and re.search(r"\b\d+ spikes \(>2x median\)", text), text
