"""Removal of old runs: limits of number and size, which runs are kept, and the messages."""
from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conftest import PIANO, Done, Project, update_run

FIRST_MS = 1_740_000_000_000


def dead_pid() -> int:
    """The id of an ended process."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def old_runs(project: Project, count: int, size: int = 0, pid: int | None = None) -> list[Path]:
    """COUNT runs, oldest first, each of SIZE bytes or a little more."""
    project.runs.mkdir(parents=True, exist_ok=True)
    gone = pid or dead_pid()
    text = update_run([16_000_000] * 3)
    paths = [project.runs / f"{FIRST_MS + i * 1000}-{gone}.ndjson" for i in range(count)]
    for path in paths:
        path.write_text(text + " " * size)
    return paths


def record(project: Project, **env: Any) -> Done:
    return project.piano("record", "--heap=1K", "true", env={k: str(v) for k, v in env.items()})


def there(paths: list[Path]) -> list[bool]:
    return [path.exists() for path in paths]


def test_runs_beyond_fifty_are_removed(project: Project) -> None:
    paths = old_runs(project, 60)
    done = record(project)
    assert there(paths) == [False] * 11 + [True] * 49, "with the new one there are 50"
    assert "removed the 11 oldest runs" in done.err and "PIANO_KEEP_RUNS" in done.err and "piano tag" in done.err, done
    assert "removed" not in record(project, PIANO_KEEP_RUNS=60).err


def test_limit_can_be_set_in_the_environment(project: Project) -> None:
    paths = old_runs(project, 9)
    done = record(project, PIANO_KEEP_RUNS=4)
    assert there(paths) == [False] * 6 + [True] * 3 and "6 oldest" in done.err, done
    assert "removed" not in record(project, PIANO_KEEP_RUNS=0, PIANO_KEEP_SIZE=0).err


def test_oldest_runs_are_removed_beyond_the_size_limit(project: Project) -> None:
    paths = old_runs(project, 6, size=2 << 20)
    done = record(project, PIANO_KEEP_SIZE="7M")
    assert there(paths)[:2] == [False, False] and there(paths)[-1], done
    assert "PIANO_KEEP_SIZE" in done.err and sum(p.stat().st_size for p in project.runs.iterdir()) <= 7 << 20
    assert "removed" not in record(project, PIANO_KEEP_SIZE="1G").err


def test_the_newest_stays_whatever_its_size(project: Project) -> None:
    paths = old_runs(project, 3, size=1 << 20)
    done = record(project, PIANO_KEEP_SIZE="1K")
    assert there(paths) == [False] * 3 and len(list(project.runs.glob("*.rec"))) == 1, done
    assert project.piano("report", check=False).status == 0


def test_tagged_runs_stay(project: Project) -> None:
    paths = old_runs(project, 9)
    project.piano("tag", "before", paths[0].stem)
    project.piano("tag", "other", str(paths[2]))
    record(project, PIANO_KEEP_RUNS=3)
    assert there(paths) == [True, False, True] + [False] * 4 + [True] * 2
    assert project.piano("report", "before").status == 0


def test_the_companion_of_a_tagged_run_stays(project: Project) -> None:
    """A run and the recording of the same process belong together."""
    project.cc("int update(int n) { return n; }\nint main(void) { for (int i = 0; i < 9; i++) update(i); return 0; }\n")
    program = project.root / ".piano/build/tree/project/prog"
    project.piano("record", "--heap=1", program)
    run, recording = project.only_run(), next(project.runs.glob("*.rec"))
    project.piano("tag", "both", recording.stem)
    for _ in range(3):
        record(project, PIANO_KEEP_RUNS=1)
    assert run.exists() and recording.exists()


def test_all_files_of_a_run_go(project: Project) -> None:
    paths = old_runs(project, 3)
    more = [paths[0].with_suffix(s) for s in (".live", ".rec", ".rec.1", ".rec-4711")]
    for path in more:
        path.write_text("x")
    keep = [project.runs / n for n in ("mine.ndjson", "notes.txt", "1740000000000.json", f"{paths[0].stem}x.ndjson")]
    for path in keep:
        path.write_text("{}")
    folder = project.runs / f"{FIRST_MS}-1.ndjson"
    folder.mkdir()
    record(project, PIANO_KEEP_RUNS=1)
    assert not any(there(paths + more)) and all(there(keep)) and folder.is_dir()


def test_a_process_that_runs_keeps_its_run(project: Project) -> None:
    paths = old_runs(project, 3, pid=os.getpid())
    record(project, PIANO_KEEP_RUNS=1)
    assert all(there(paths))


def test_links_are_not_followed(project: Project) -> None:
    outside = project.root / "outside"
    outside.write_text("precious")
    paths = old_runs(project, 2)
    paths[0].unlink()
    paths[0].symlink_to(outside)
    record(project, PIANO_KEEP_RUNS=1)
    assert outside.read_text() == "precious"


@pytest.mark.parametrize("command", ["run", "profile"])
def test_run_and_profile_remove_old_runs_too(project: Project, command: str) -> None:
    paths = old_runs(project, 5)
    source = "int update(int n) { return n; }\nint main(void) { return update(0); }\n"
    project.write({"a.c": source})
    if command == "run":
        project.build("--", "gcc", "a.c", "-o", "a")
        done = project.piano("run", env={"PIANO_KEEP_RUNS": "2"})
    else:
        done = project.piano("profile", "--", "gcc", "a.c", "-o", "a", env={"PIANO_KEEP_RUNS": "2"})
    assert there(paths) == [False] * 4 + [True] and "removed the 4 oldest runs" in done.err, done


def test_runs_in_a_directory_of_the_user_are_not_removed(project: Project, tmp_path: Path) -> None:
    """A runs directory named by the user is not pruned, unless a limit is given too."""
    paths = old_runs(project, 60)
    where = {"PIANO_RUNS_DIR": project.runs}
    assert "removed" not in record(project, **where).err and all(there(paths))
    assert "removed" in record(project, PIANO_KEEP_RUNS=50, **where).err


@pytest.mark.tool
def test_reading_removes_nothing(project: Project) -> None:
    paths = old_runs(project, 60)
    for words in (["list"], ["report"], ["list", "--json"]):
        project.piano(*words, env={"PIANO_KEEP_RUNS": "1"})
    assert all(there(paths))


@pytest.mark.parametrize("name,value", [("PIANO_KEEP_RUNS", "many"), ("PIANO_KEEP_RUNS", "-1"), ("PIANO_KEEP_SIZE", "x"),
                                        ("PIANO_KEEP_SIZE", "1Q")])
def test_a_limit_that_makes_no_sense_removes_nothing(project: Project, name: str, value: str) -> None:
    paths = old_runs(project, 60)
    done = record(project, **{name: value})
    assert all(there(paths)) and name in done.err and value in done.err, done
