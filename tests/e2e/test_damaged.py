"""Recordings with a damaged number: no figure is larger than the file allows, and the damage is reported."""
from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from conftest import Done, Project

SOURCE = r"""
    #include <poll.h>
    #include <stdlib.h>
    static void *held[2000];
    int main(void)
    {
        volatile unsigned long x = 1;
        for (int i = 0; i < 2000; i++)
            held[i] = malloc(10000);
        for (int i = 0; i < 1000; i++)
            free(held[i]);
        for (int i = 0; i < 20; i++)
            poll(0, 0, 1);
        for (long i = 0; i < 100000000; i++)
            x = x * 3 + 1;
        return 0;
    }
"""
VIEWS = [["report"], ["report", "--heap"], ["report", "--heap", "--leaks"], ["report", "--cpu"], ["report", "--polls"],
         ["report", "--json"], ["report", "--heap", "--json"], ["report", "--cpu", "--json"], ["report", "--polls", "--json"]]
HUGE = 10**18 + 7
CHUNK, HEADER = 64 * 1024, 4096
# Kinds of chunks and the places of counts in their records: first offset in the payload, size of a record.
HEADER_COUNTS = {"samples": 176, "freed": 184, "stacks": 192, "stale": 224, "dropped_live": 232, "dropped_stacks": 240,
                 "dropped_memory": 248, "dropped_busy": 256, "walked": 264, "walked_lost": 280, "threads": 304,
                 "map_partial": 320}
TRACE = 432 + 2048
TRACE_COUNTS = {"events": 40, "dropped_memory": 48, "dropped_busy": 56, "dropped_names": 64, "recycled": 72, "samples": 80,
                "samples_lost": 88, "samples_unwound": 96, "switches": 104, "threads_missed": 112}


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("damaged")
    (root / "home").mkdir()
    project = Project(root, root / "home")
    project.write({"w.c": SOURCE})
    project.command("gcc", "-O1", "-g", "-fno-builtin", "w.c", "-o", "w")
    project.piano("record", "--heap=64K", "--cpu=999", "--events", "-o", "a.rec", "./w")
    return root / "a.rec"


def numbers(text: str) -> list[str]:
    """Impossible values: counts of 10^13 and more, terabytes and more, months."""
    text = re.sub(r'"(timestamp_ms|start_ns|at_ns|first_ns|last_ns|begin_ns|address|key|id)":"?[-\d.]+', "", text)
    found = [m for m in re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?:e\+\d+)?", text) if float(m) >= 1e13]
    return found + re.findall(r"\d[\d.]*(?:TB|PB|EB)\b", text)


def looked_at(project: Project, data: bytes, path: Path) -> list[Done]:
    path.write_bytes(data)
    done = [project.piano(*view, path, check=False) for view in VIEWS]
    assert all(d.status in (0, 1) for d in done), [d for d in done if d.status not in (0, 1)]
    return done


def test_whole_recording_is_not_called_damaged(project: Project, recording: Path) -> None:
    for done in looked_at(project, recording.read_bytes(), project.root / "b.rec"):
        assert not numbers(done.out + done.err) and "damaged" not in done.err, done


@pytest.mark.parametrize("value", [HUGE, 2**64 - 1, 2**52], ids=["10^18", "2^64-1", "2^52"])
@pytest.mark.parametrize("name,at", [*((n, a) for n, a in HEADER_COUNTS.items()),
                                     *(("trace " + n, TRACE + a) for n, a in TRACE_COUNTS.items())])
def test_wrong_counts_in_the_header_are_reported_as_damage(project: Project, recording: Path, name: str, at: int, value: int) -> None:
    data = bytearray(recording.read_bytes())
    struct.pack_into("<Q", data, at, value)
    for done in looked_at(project, bytes(data), project.root / "b.rec"):
        assert not numbers(done.out + done.err), done
        if done.status == 0:
            assert "b.rec is damaged" in done.err, done
    listed = project.piano("list", "--json", env={"PIANO_RUNS_DIR": str(project.root)})
    assert not numbers(listed.out), listed




def test_changed_bytes_anywhere_never_crash_the_report(project: Project, recording: Path) -> None:
    """Trying each would take hours, so this tries some hundred of the 8-byte words that are not 0, spread over the file."""
    whole = recording.read_bytes()
    places = [at for at in range(432 + 2048, len(whole) - 8, 8) if whole[at:at + 8] != bytes(8)]
    views = [["report", "--heap"], ["report", "--heap", "--json"], ["report", "--cpu", "--json"]]
    for at in places[::max(1, len(places) // 100)]:
        data = bytearray(whole)
        struct.pack_into("<Q", data, at, HUGE)
        (project.root / "b.rec").write_bytes(data)
        for view in views:
            done = project.piano(*view, "b.rec", check=False)
            assert done.status in (0, 1) and not numbers(done.out + done.err), (at, done)
