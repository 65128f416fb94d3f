"""What a newcomer types in the first ten minutes: words without `--`, mistakes, pipes, small terminals."""
from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from conftest import PIANO, Project, put_run, update_run

tool = pytest.mark.tool


# The program without `--` --------------------------------------------------------------------------------


def test_record_takes_a_program_without_dashes(project: Project) -> None:
    done = project.piano("record", "--heap=64K", "-o", "a.rec", "sh", "-c", 'echo "$0 $*"', "--heap=x", "--help", "-h")
    assert done.out == "--heap=x --help -h\n", done
    assert (project.root / "a.rec").exists()


def test_record_passes_every_later_word_on(project: Project) -> None:
    done = project.piano("record", "--heap", "echo", "-o", "x", "--", "--cpu", "-h")
    assert done.out == "-o x -- --cpu -h\n" and not (project.root / "x").exists(), done


@tool
@pytest.mark.parametrize("words", [["record", "--help"], ["record", "--heap", "-h"], ["record", "-o", "x", "--help"],
                                   ["record", "--duration", "1", "--help"], ["run", "--duration", "1", "-h"]], ids=" ".join)
def test_help_before_the_program_is_ours(project: Project, words: list[str]) -> None:
    done = project.piano(*words)
    assert done.out.startswith(f"Usage: piano {words[0]}") and done.err == ""


@tool
@pytest.mark.parametrize("words,text", [
    (["record", "--heap", "64K", "ls"], "--heap=64K"), (["record", "--cpu", "999", "ls"], "--cpu=999"),
    (["record", "--haep", "ls"], "--heap"), (["record"], "piano record PROGRAM"),
    (["record", "--heap", "--"], "piano record PROGRAM"), (["record", "--pid", "1", "ls"], "--pid"),
    (["build", "update"], "--fn update"), (["profile", "update"], "--fn update"),
], ids=lambda v: " ".join(v) if isinstance(v, list) else "")
def test_words_that_cannot_be_meant(project: Project, words: list[str], text: str) -> None:
    done = project.piano(*words, check=False)
    assert done.status == 2 and text in done.err and done.out == "", done


def test_run_takes_words_without_dashes(project: Project) -> None:
    project.write({"a.c": "#include <stdio.h>\n"
                          "int main(int n, char **v) { for (int i = 1; i < n; i++) puts(v[i]); return 0; }\n"})
    project.build("--", "gcc", "a.c", "-o", "game")
    assert project.piano("run", "game", "--duration", "1", "-h").out == "--duration\n1\n-h\n"
    assert project.piano("run", "level3", "--help").out == "level3\n--help\n"
