"""Files of a project that are not what their names promise: empty, a FIFO, a link elsewhere."""
from __future__ import annotations

import os
from pathlib import Path

import pytest

from conftest import Project, put_run
from test_bad_input import GOOD

TICK = """
    static volatile int sink;
    void tick(int n) { for (int i = 0; i < n; i++) sink += i; }
    int main(void) { for (int i = 1; i <= 50; i++) tick(i * 100); return 0; }
"""


def test_empty_response_file_does_not_stop_the_instrumentation(project: Project) -> None:
    project.write({"tick.c": TICK, "empty.rsp": ""})
    project.command(project.build("--fn", "tick", "--", "gcc", "-O1", "tick.c", "@empty.rsp", "-o", "tick"))
    assert project.report().calls("tick") == {"tick": 50}


@pytest.mark.tool
def test_empty_tag_names_no_run(project: Project) -> None:
    put_run(project, "1740000000123-77", GOOD)
    tags = project.runs / "tags"
    tags.mkdir()
    (tags / "before").write_text("")
    done = project.piano("report", "before", check=False)
    assert done.status == 1 and "before" in done.err and done.out == ""
    assert done.err.isascii() and done.err.count("before") <= 2, "what was in memory"
    assert project.json("list")["runs"][0]["tags"] == []


@pytest.mark.tool
def test_fifo_among_the_tags_does_not_block(project: Project) -> None:
    put_run(project, "1740000000123-77", GOOD)
    tags = project.runs / "tags"
    tags.mkdir()
    os.mkfifo(tags / "x")
    project.piano("list")
    project.piano("report")
    done = project.piano("report", "x", check=False)
    assert done.status == 1 and "x" in done.err
    done = project.piano("tag", "x", check=False)
    assert done.status in (0, 1), done


def files_of(place: Path) -> list[str]:
    """The names of the files below PLACE, without the copy of the project."""
    return sorted(str(path.relative_to(place)) for path in place.rglob("*")
                  if path.is_file() and not path.is_symlink() and "tree" not in path.relative_to(place).parts)


def test_no_file_of_piano_blocks_when_it_is_a_fifo(project: Project) -> None:
    """Every file below .piano in turn: the commands that read it end, whatever they say."""
    project.write({"tick.c": TICK, "Makefile": "tick: tick.c\n\t$(CC) -O1 -o tick tick.c\n"})
    project.piano("profile", "--fn", "tick")
    project.piano("tag", "before")
    names = files_of(project.root / ".piano")
    assert len(names) > 8, names
    for name in names:
        path = project.root / ".piano" / name
        if not path.exists():
            continue  # its name was that of one build
        path.unlink()
        os.mkfifo(path)
        project.piano("list", check=False)
        project.piano("report", check=False)
        project.piano("build", "--fn", "tick", check=False)
        if path.is_fifo():
            path.unlink()


@pytest.mark.parametrize("kind", ["fifo", "link to nothing", "directory"])
def test_sources_that_cannot_be_read_do_not_block(project: Project, kind: str) -> None:
    project.write({"tick.c": TICK, "Makefile": "tick: tick.c\n\t$(CC) -O1 -o tick tick.c\n"})
    odd = project.root / "odd.c"
    if kind == "fifo":
        os.mkfifo(odd)
    elif kind == "directory":
        odd.mkdir()
    else:
        odd.symlink_to("nowhere")
    project.command(project.build("--fn", "tick"))
    assert project.report().calls("tick") == {"tick": 50}
