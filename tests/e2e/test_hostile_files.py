"""Files of a project that are not what their names suggest: empty, a FIFO, a link to another place."""
from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from conftest import PIANO_WORD, Project, put_run
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


@pytest.mark.tool
def test_tag_that_is_far_too_large_hides_no_run(project: Project) -> None:
    """A sparse file of a terabyte takes no space on the disk."""
    put_run(project, "1740000000123-77", GOOD)
    tags = project.runs / "tags"
    tags.mkdir()
    with open(tags / "x", "wb") as tag:
        try:
            tag.truncate(1 << 40)
        except OSError as error:
            pytest.skip(f"no sparse files here: {error}")
    assert len(project.json("list")["runs"]) == 1
    assert project.report().frame_count == 12


def files_of(place: Path) -> list[str]:
    """The names of the files below PLACE, without the copy of the project."""
    return sorted(str(path.relative_to(place)) for path in place.rglob("*")
                  if path.is_file() and not path.is_symlink() and "tree" not in path.relative_to(place).parts)


def test_no_file_of_piano_blocks_when_it_is_a_fifo(project: Project) -> None:
    """Replaces each file below .piano in turn: the commands that read it terminate with an answer or an error."""
    project.write({"tick.c": TICK, "Makefile": "tick: tick.c\n\t$(CC) -O1 -o tick tick.c\n"})
    project.piano("profile", "--fn", "tick")
    project.piano("tag", "before")
    names = files_of(project.root / ".piano")
    assert len(names) > 8, names
    for name in names:
        path = project.root / ".piano" / name
        if not path.exists():
            continue  # the name belonged to one build
        path.unlink()
        os.mkfifo(path)
        project.piano("list", check=False)
        project.piano("report", check=False)
        project.piano("build", "--fn", "tick", check=False)
        if path.is_fifo():
            path.unlink()


def test_sparse_file_of_the_largest_size_is_not_copied(project: Project) -> None:
    """The sum of its size and any other file's does not fit in 64 bits. Only some file systems allow such files."""
    place = Path(tempfile.mkdtemp(prefix="piano-large-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
    try:
        project.root = place / "project"
        project.root.mkdir()
        with open(project.root / "large", "wb") as large:
            try:
                large.truncate((1 << 63) - 1)
            except OSError as error:
                pytest.skip(f"no file of 8 EB here: {error}")
        # tmpfs lists the newest file first, so the sum contains the other sizes already.
        project.write({"a.c": TICK, "Makefile": "a: a.c\n\t$(CC) -O1 -o a a.c\n"})
        done = project.command("sh", "-c", f"ulimit -f 4096; exec {PIANO_WORD} build --fn tick", check=False)
        assert done.status == 1 and "cannot copy" not in done.err and "too " in done.err, done
    finally:
        shutil.rmtree(place)


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
