"""The run file: v2 NDJSON, streamed, private, readable at any point."""
from __future__ import annotations

import json
import signal
import stat
import subprocess
import threading
import time
from pathlib import Path

import pytest

from conftest import BURN, Project, fn, frame, header, ndjson, put_run, update_run

LOOP = BURN + """
    #include <stdlib.h>
    static void physics(void) { BURN(2000); }
    static void update(void) { BURN(2000); physics(); free(malloc(64)); }
    int main(void) { for (int i = 0; i < 40; i++) update(); return 0; }
"""

# Runs N frames, prints a message, and waits for a byte before it continues.
PAUSED = BURN + """
    #include <stdio.h>
    static void update(void) { BURN(3000); }
    int main(void)
    {
        for (int round = 0; round < 2; round++) {
            for (int i = 0; i < 500; i++) update();
            puts("half");
            fflush(stdout);
            getchar();
        }
        return 0;
    }
"""


def test_header_and_lines(project: Project) -> None:
    project.profile_c(LOOP)
    head, *rest = project.lines()
    assert head["format_version"] == 2
    pid, stamp = head["run_id"].split("_")
    assert int(stamp) <= head["timestamp_ms"] <= int(stamp) + 60_000
    assert project.only_run().name == f"{stamp}-{pid}.ndjson"
    assert abs(head["timestamp_ms"] / 1000 - time.time()) < 3600
    assert sorted(head["functions"]) == ["main", "physics", "update"]
    assert len(head["places"]) == 3 and all(p.startswith("prog.c:") for p in head["places"])
    frames = [line for line in rest if "frame" in line]
    names = head["functions"]
    ours = [f for f in frames if names[f["root"]] == "update"]
    assert len(ours) == 40
    for f in ours:
        assert f["thread"] == 1 and f["wall_ns"] > 0 and f["start_ns"] >= 0
        rows = {names[r["id"]]: r for r in f["fns"]}
        update = rows["update"]
        assert {"id", "calls", "self_ns", "ac", "ab"} <= set(update)
        assert (update["calls"], update["ac"], update["ab"]) == (1, 1, 64)
        assert all(isinstance(v, int) for v in update.values())
    threads = [line for line in rest if "thread" in line and "tid" in line]
    assert threads[0]["thread"] == 1
    assert [line for line in rest if line.get("end")] == [rest[-1]]
    assert set(rest[-1]["dropped"].values()) == {0}


def test_file_name_and_modes(project: Project) -> None:
    project.profile_c(LOOP)
    path = project.only_run()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    stamp, _, pid = path.stem.partition("-")
    assert stamp.isdigit() and pid.isdigit()


def test_runs_dir_from_the_environment(project: Project, tmp_path: Path) -> None:
    there = tmp_path / "else" / "where"
    program = project.cc(LOOP)
    env = {"PIANO_RUNS_DIR": str(there)}
    project.command(program, env=env)
    assert len(project.run_files(there)) == 1 and project.run_files() == []
    assert stat.S_IMODE(there.stat().st_mode) == 0o700
    assert project.report(env=env).row("update")["calls"] == 40
    assert project.piano("report", check=False).status == 1, "the default place has no run"
    project.piano("run", env=env)
    assert len(project.run_files(there)) == 2


def test_program_started_elsewhere_writes_to_its_project(project: Project, tmp_path: Path) -> None:
    program = project.cc(LOOP)
    project.command(program, cwd=tmp_path)
    assert len(project.run_files()) == 1


def test_each_process_has_its_own_file(project: Project) -> None:
    program = project.cc(LOOP)
    several = [subprocess.Popen([program], cwd=project.root, env=project.env) for _ in range(6)]
    assert [p.wait(30) for p in several] == [0] * 6
    files = project.run_files()
    assert len(files) == 6
    for path in files:
        assert project.report(str(path)).row("update")["calls"] == 40


def test_streamed_while_the_program_runs(project: Project) -> None:
    program = project.cc(PAUSED)
    child = subprocess.Popen([program], cwd=project.root, env=project.env, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE)
    try:
        assert child.stdout.readline() == b"half\n"
        report = project.report()
        assert report.row("update")["calls"] == 500
        assert report.frame_count == 500
        child.stdin.write(b"x")
        child.stdin.flush()
        assert child.stdout.readline() == b"half\n"
        assert project.report().row("update")["calls"] == 1000
        child.stdin.write(b"x")
        child.stdin.close()
        assert child.wait(20) == 0
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
    assert project.report().row("update")["calls"] == 1000
    assert project.report().data["run"]["clean_exit"] is True


def test_kill_9_loses_nothing_that_completed(project: Project) -> None:
    program = project.cc(PAUSED)
    child = subprocess.Popen([program], cwd=project.root, env=project.env, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE)
    child.stdout.readline()
    child.kill()
    assert child.wait(20) == -signal.SIGKILL
    child.stdout.close()
    child.stdin.close()
    report = project.report()
    assert report.called() == {"main": 1, "update": 500}
    assert report.frame_count == 500
    assert report.data["run"]["clean_exit"] is not True
    for _ in range(2):
        assert project.report().called() == {"main": 1, "update": 500}, "reading changes nothing"


def test_kill_9_at_any_time_leaves_a_readable_run(project: Project) -> None:
    """Killed from a thread at arbitrary points of a busy, allocating, threaded program."""
    program = project.cc("""
        #include <pthread.h>
        #include <stdio.h>
        #include <stdlib.h>
        static volatile unsigned sink;
        static void tiny(void) { sink++; }
        static void update(void) { for (int i = 0; i < 300; i++) tiny(); free(malloc(10)); }
        static void *busy(void *p) { for (;;) update(); return p; }
        int main(void)
        {
            pthread_t t;
            for (int i = 0; i < 2; i++) pthread_create(&t, 0, busy, 0);
            puts("go");
            fflush(stdout);
            busy(0);
        }
    """, "-pthread", "-w")
    for turn in range(5):
        child = subprocess.Popen([program], cwd=project.root, env=project.env,
                                 stdout=subprocess.PIPE)
        child.stdout.readline()
        timer = threading.Timer(0.02 * (turn + 1), child.kill)
        timer.start()
        child.wait(20)
        child.stdout.close()
        report = project.report()
        update, tiny = report.row("update")["calls"], report.row("tiny")["calls"]
        # each of 3 threads may have one open update and a few tiny calls that are not yet final
        assert update > 0 and abs(tiny - 300 * update) <= 3 * 300 + update * 3, (update, tiny)


@pytest.mark.tool
def test_truncated_file_loads_up_to_the_last_whole_line(project: Project) -> None:
    whole = update_run([16_000_000] * 10)
    for cut in (1, 5, 40, 90):
        path = put_run(project, f"174000000{cut:04d}-77", whole[:-cut] if cut > 1
                       else whole.rstrip("\n")[:-1])
        done = project.piano("report", path, "--json")
        data = json.loads(done.out)
        rows = {f["name"]: f["calls"] for f in data["functions"]}
        assert rows["update"] in (9, 10), cut
        assert data["run"]["truncated"] is True
        assert str(path.name) in done.err, "the cut is said, with the file"


@pytest.mark.tool
def test_truncation_at_every_byte_of_the_last_frames(project: Project) -> None:
    whole = update_run([1_000_000] * 3)
    start = whole.index('{"frame":1')
    for cut in range(start, len(whole), 7):
        path = put_run(project, "1740000000000-1", whole[:cut])
        done = project.piano("report", path, "--json", check=False)
        assert done.status == 0, done
        calls = json.loads(done.out)["functions"][0]["calls"]
        complete = whole[:cut].count('"wall_ns"') and whole[:cut].count("\n") - 2
        assert calls in (complete, complete + 1), (cut, done)


@pytest.mark.tool
def test_seed_file_as_it_stands_in_the_seed(project: Project) -> None:
    """The example of the old format: no threads, no wall times, no totals."""
    put_run(project, "1740000000123-12345", ndjson(
        {"format_version": 2, "run_id": "12345_1740000000000", "timestamp_ms": 1740000000123,
         "functions": ["update", "physics_step", "Parser::parse_node"]},
        {"frame": 0, "fns": [{"id": 0, "calls": 1, "self_ns": 1890000, "ac": 34, "ab": 8192},
                             {"id": 1, "calls": 1, "self_ns": 420000, "ac": 0, "ab": 0}]},
        {"frame": 1, "fns": [{"id": 0, "calls": 1, "self_ns": 1920000, "ac": 30, "ab": 7200},
                             {"id": 1, "calls": 1, "self_ns": 415000, "ac": 0, "ab": 0}]}))
    report = project.report()
    update = report.row("update")
    assert (update["calls"], update["self_ns"]) == (2, 3810000)
    assert (update["alloc_count"], update["alloc_bytes"]) == (64, 15392)
    assert update["total_ns"] is None, "what was not recorded is not made up"
    assert report.row("physics_step")["self_ns"] == 835000
    assert report.calls("Parser::parse_node") == {"Parser::parse_node": 0}
    assert report.frame_count == 2


@pytest.mark.tool
def test_v1_file_is_read(project: Project) -> None:
    put_run(project, "1740000000000-9", json.dumps({
        "run_id": "9_1740000000000", "timestamp_ms": 1740000000000,
        "functions": [{"name": "walk", "calls": 3, "total_ms": 12.0, "self_ms": 10.5,
                       "alloc_count": 100, "alloc_bytes": 8192},
                      {"name": "old", "calls": 1, "total_ms": 1.0, "self_ms": 1.0}]}), ".json")
    report = project.report()
    walk = report.row("walk")
    assert (walk["calls"], walk["self_ns"], walk["total_ns"]) == (3, 10_500_000, 12_000_000)
    assert (walk["alloc_count"], walk["alloc_bytes"]) == (100, 8192)
    assert report.row("old")["calls"] == 1
    assert report.frame_count == 0
    assert "walk" in project.piano("report").out


@pytest.mark.tool
def test_unknown_keys_and_lines_are_skipped(project: Project) -> None:
    put_run(project, "1740000000000-9", ndjson(
        header(["f"], shoe_size=43), {"from_the_future": [1, {"a": None}]},
        frame(0, [{**fn(0), "flavour": "mint"}], 1000), {"weather": "rain"},
        frame(1, [fn(0)], 1000)))
    assert project.report().called() == {"f": 2}


@pytest.mark.tool
def test_levels_threads_outside_part_merged_and_later_functions(project: Project) -> None:
    """main -> run -> tick, as the runtime writes it: lines of three depths, then the sums."""
    put_run(project, "1740000000000-9", ndjson(
        header(["main", "run", "tick"]),
        {"thread": 1, "tid": 5, "name": "main", "start_ns": 0},
        *[frame(i, [fn(2, 1, 500)], 600, depth=2, under=1) for i in range(4)],
        {"functions_add": ["plugin"], "places_add": ["p.c:1"]},
        {"part": True, "thread": 1, "depth": 2, "fns": [fn(3, 7, 50)]},
        frame(4, [fn(2, 1, 500)], 600, depth=2, under=1),
        {"merged": 1000, "thread": 1, "depth": 2, "root": 2, "under": 1, "wall_ns": 600_000,
         "wall_max_ns": 900, "hist": [[200, 1000]], "fns": [fn(2, 1000, 500_000)]},
        {"outside": True, "thread": 1, "fns": [fn(3, 3, 30)]},
        frame(0, [fn(1, 1, 90)], 5000, depth=1, under=0),
        frame(0, [fn(0, 1, 10)], 6000, depth=0),
        {"end": True, "wall_ns": 7000, "dropped": {"frames": 2}}))
    report = project.report()
    assert report.called() == {"main": 1, "run": 1, "tick": 1005, "plugin": 10}
    assert report.frame_count == 1005
    assert report.data["dropped"]["frames"] == 2
    assert "2 frames" in project.piano("report").err, "what was dropped is said"


@pytest.mark.tool
def test_64_bit_counters(project: Project) -> None:
    big = 1 << 40
    put_run(project, "1740000000000-9", ndjson(
        header(["f"]), *[frame(i, [fn(0, big, big * 1000, big, big * 16)], 1000)
                         for i in range(2)]))
    row = project.report().row("f")
    assert (row["calls"], row["alloc_bytes"]) == (2 * big, 32 * big)


@pytest.mark.tool
def test_negative_self_times_are_legal(project: Project) -> None:
    put_run(project, "1740000000000-9", ndjson(
        header(["f"]), frame(0, [fn(0, 1, -25)], 1000), frame(1, [fn(0, 1, 100)], 1000)))
    assert project.report().row("f")["self_ns"] == 75
    project.piano("report")
