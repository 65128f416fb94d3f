"""The Makefile: plain `make` uses all processors, and shows its progress."""
from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from conftest import Project

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.tool


@pytest.fixture
def tree(project: Project) -> Project:
    """The Makefile with a few sources. `true` replaces the compiler, because only the commands matter."""
    for name in ("Makefile", "VERSION", "tools/package/package.mk"):
        (project.root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, project.root / name)
    for folder in ("include", "tests", "bench", "examples"):
        (project.root / folder).mkdir()
    project.write({"src/target/a.c": "", "src/target/b.c": "", "src/target/c.c": "",
                   "jobs.mk": "include Makefile\njobs:\n\t@echo jobs '$(MAKEFLAGS)'\n",
                   "outer.mk": "all:\n\t@$(MAKE) -f jobs.mk jobs\n"})
    return project


def jobs(project: Project, *words: str, env: dict[str, str] | None = None) -> list[str]:
    done = project.command("make", *words, env=env)
    assert "warning" not in done.err, done
    return re.findall(r"(?<!-)-j ?(\d+)", next(line for line in done.out.splitlines() if line.startswith("jobs")))


def test_plain_make_uses_all_processors(tree: Project) -> None:
    assert jobs(tree, "-f", "jobs.mk", "jobs") == [str(len(os.sched_getaffinity(0)))]


def test_a_number_that_was_given_stays(tree: Project) -> None:
    for words, want in ((["-j1"], "1"), (["-j3"], "3"), (["--jobs=4"], "4"), (["-kj2"], "2")):
        assert jobs(tree, "-f", "jobs.mk", "jobs", *words) == [want]
    assert jobs(tree, "-f", "jobs.mk", "jobs", env={"MAKEFLAGS": "-j7"}) == ["7"]
    assert jobs(tree, "-f", "outer.mk", "-j3") == ["3"]


def test_scripts_get_no_job_server(tree: Project) -> None:
    """A make that the recipe starts would complain about it."""
    tree.write({"tests/run": "#!/bin/sh\necho flags [$MAKEFLAGS]; exec make -s -f /dev/null nothing\n",
                "tools/setup": "#!/bin/sh\n", "tools/check-refs": "#!/bin/sh\nexec make -s -j2 -f jobs.mk jobs\n"})
    for name in ("tests/run", "tools/setup", "tools/check-refs"):
        (tree.root / name).chmod(0o755)
    for words in (["-j2", "test"], ["-j2", "CC=a b", "check-refs"], ["check-refs"]):
        done = tree.command("make", *words, check=False)
        assert "jobserver" not in done.err and "-j" not in done.out.split("jobs")[0], done


def test_each_step_says_how_far_it_is(tree: Project) -> None:
    done = tree.command("make", "-j1", "CC=true", "OBJCOPY=true", "AR=true", "build/lib/libpiano.a")
    steps = re.findall(r"^\s*\[\s*(\d+)/(\d+)\] +CC +src/", done.out, re.M)
    assert steps == [("1", "3"), ("2", "3"), ("3", "3")], done
    quiet = tree.command("make", "-s", "-j1", "CC=true", "AR=true", "build/lib/libpiano.a", "-B")
    assert quiet.out == "" and quiet.err == "", quiet


def test_compact_progress_is_one_line_on_a_terminal(tree: Project) -> None:
    words = ("make", "-j1", "PROGRESS=short", "CC=true", "AR=true", "-B", "build/lib/libpiano.a")
    status, seen = tree.run_in_pty(*words)
    assert status == 0 and "CC" not in seen and "3 of 3" in seen.split("\r")[-2], repr(seen)
    piped = tree.command(*words)
    assert "\r" not in piped.out + piped.err and len((piped.out + piped.err).splitlines()) <= 2, piped
