"""Notices that are printed once."""
from __future__ import annotations

import os
from pathlib import Path

import pytest

from conftest import PIANO, Project
from samples import DENY, compiled
from test_polls import make

CURE = "sudo sysctl kernel.perf_event_paranoid=1"


def paranoid() -> int:
    try:
        return int(Path("/proc/sys/kernel/perf_event_paranoid").read_text())
    except OSError:
        return -1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may sample everything")
@pytest.mark.skipif(paranoid() < 2, reason="kernel.perf_event_paranoid below 2 lets everybody sample everything")
def test_hint_for_perf_event_paranoid_is_printed_once(project: Project) -> None:
    told = [project.piano("record", "--cpu", "--", "true").err for _ in range(3)]
    if "seccomp" in told[0]:
        pytest.skip("a seccomp filter is in the way before that")
    assert CURE in told[0] and CURE not in told[1] + told[2], told
    # Losses are still reported in the last line, or because the samples come from another source.
    assert all("own code only" in text or "by timers in the program" in text for text in told), told
    assert CURE in project.piano("doctor", check=False).out


def test_notice_is_repeated_when_it_cannot_be_remembered(project: Project) -> None:
    deny = compiled(project, DENY, name="deny")
    (project.home / ".local").write_text("in the way")
    for home in (project.home, "/dev/null/home", ""):
        done = project.command(deny, PIANO, "record", "--cpu", "--", "true", env={"HOME": str(home)})
        assert "for samples from outside: in a container" in done.err, done


def test_hint_for_containers_is_printed_once(project: Project) -> None:
    deny = compiled(project, DENY, name="deny")
    told = [project.command(deny, PIANO, "record", "--cpu", "--", "true").err for _ in range(2)]
    assert "for samples from outside" in told[0] and "for samples from outside" not in told[1], told
    assert all("by timers in the program" in text for text in told)
    assert list((project.home / ".local/state/piano").iterdir())
    state = project.home / "state"
    done = project.command(deny, PIANO, "record", "--cpu", "--", "true", env={"XDG_STATE_HOME": str(state)})
    assert "for samples from outside" in done.err and list(state.rglob("*"))


@pytest.mark.tool
def test_summary_has_every_loss_notice_of_the_parts(project: Project) -> None:
    """`piano report` says everything about missing data that `--heap`, `--cpu` and `--polls` say, and says it once."""
    stats = dict.fromkeys(("dropped_live", "dropped_stacks", "dropped_memory", "dropped_busy", "stale", "map_partial"), 3)
    rec = make.Recording(**stats)
    rec.module("/nowhere/prog", 0x400000, 0x500000)
    leaf = rec.stack([0x401010])
    for _ in range(50):
        rec.sample(leaf, 64 * 1024)
    rec.cpu(4711, 1, leaf, count=100)
    for i in range(10):
        rec.turn(4711, 10 * i + 5, 1)
    rec.trace.update(samples_lost=5, dropped_memory=6, dropped_busy=7, dropped_names=8, recycled=9, samples_unwound=50)
    project.runs.mkdir(parents=True)
    path = rec.write(project.runs / "1740000000000-7.rec")

    def losses(*flags: str) -> list[str]:
        said = project.piano("report", *flags, path).err.splitlines()
        return [line for line in said if "no names for" not in line and "only 50 sampled blocks" not in line]

    summary = losses()
    for part in ("--heap",), ("--cpu",), ("--polls",):
        missing = set(losses(*part)) - set(summary)
        assert len(losses(*part)) > 1 and not missing, (part, missing, summary)
    assert len(summary) == len(set(summary)), summary
