"""A ring of events that wraps many times: tasks, workers and threads keep their names, all polls in the ring are read with both
ends, and the number of overwritten events is exact. The same after kill -9."""
from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

import events
from conftest import Project
from made import make, put, tool
from events import API, compile, environment, recordings

TASKS, THREADS = 200, 2

STORM = r"""
static long polls;
static pthread_barrier_t ready, done;

static void *work(void *arg)
{
    uint64_t me = (uintptr_t)arg;
    char name[32];
    snprintf(name, sizeof name, "worker %d", (int)me);
    pthread_setname_np(pthread_self(), name);
    piano_worker_start(me, name);
    for (uint64_t i = 1; i <= 200 && me == 0; i++) { /* a thread whose chunks are reused */
        snprintf(name, sizeof name, "task %d", (int)i % 10);
        piano_task_spawn(i, name, "storm.c:1");
    }
    pthread_barrier_wait(&ready);
    for (long i = 0; i < polls; i++) {
        piano_poll_begin(1 + i % 200);
        piano_wake(1 + (i + 1) % 200);
        piano_poll_end();
    }
    pthread_barrier_wait(&done);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[2];
    polls = atol(argv[1]);
    pthread_barrier_init(&ready, NULL, 3);
    pthread_barrier_init(&done, NULL, 3);
    for (uintptr_t i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    pthread_barrier_wait(&ready);
    pthread_barrier_wait(&done);
    if (argc > 2)
        kill(getpid(), SIGKILL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
"""


def storm(project: Project, polls: int, *more: str) -> tuple[Path, str]:
    program = compile(project, STORM, *API)
    path = project.root / "storm.rec"
    done = project.piano("record", "--events", "--max-size", "2M", "-o", path, "--", program, polls, *more, check=False)
    assert done.status == (128 + signal.SIGKILL if more else 0), done
    return path, done.err


@pytest.mark.parametrize("end", [(), ("kill",)], ids=["exits", "killed"])
def test_wrapped_ring_keeps_names_and_pairs(project: Project, end: tuple[str, ...]) -> None:
    polls = 400_000
    path, _ = storm(project, polls, *end)
    r = events.load(path)
    data = project.json("report", "--polls", "--all", path)
    assert r.trace["recycled"] > 4 * r.trace["ring_most"], "it went round many times"
    # Names: of all tasks, workers and threads.
    assert {task["name"] for task in data["tasks"]} == {f"task {i}" for i in range(10)}
    assert sum(task["spawned"] for task in data["tasks"]) == TASKS
    assert {w["name"] for w in data["workers"]} == {"worker 0", "worker 1"}
    # Pairs: only the first end of each thread may lack its begin.
    begun = ended = 0
    for tid in {e.tid for e in r.of("poll_begin")}:
        kinds = [e.what for e in r.of("poll_begin", "poll_end", tid=tid)]
        kinds = kinds[1:] if kinds[0] == "poll_end" else kinds
        assert kinds == ["poll_begin", "poll_end"] * (len(kinds) // 2)
        begun += kinds.count("poll_begin")
    ended = len(r.of("poll_end"))
    assert data["polls"] == begun > 20_000
    assert data["events"]["stray_ends"] == ended - begun <= THREADS
    assert data["events"]["cut"] == 0 and all(task["open"] == 0 for task in data["tasks"])
    # Counts: present and overwritten events add up to the written ones.
    threads = len(r.of("thread"))
    written = 3 * THREADS * polls + TASKS + THREADS + threads
    assert len(r.events) == data["events"]["count"]
    assert data["dropped"]["overwritten"] + data["events"]["count"] == r.trace["events"] == written
    assert data["dropped"]["recycled_chunks"] == r.trace["recycled"]
    assert data["dropped"]["memory"] == data["dropped"]["definitions_in_ring"] == 0


def test_report_leads_with_the_time_the_events_cover(project: Project) -> None:
    path, said = storm(project, 400_000)
    data = project.json("report", "--polls", path)
    covers = data["covers"]
    assert not covers["all"] and 0 < covers["from_ns"] < covers["to_ns"]
    r = events.load(path)
    oldest = {}
    for e in r.of("poll_begin"):
        oldest.setdefault(e.tid, e.ns)
    start = r.start_ns
    # The newest overwritten event was the last of its chunk: less than a chunk before the oldest present one.
    assert covers["from_ns"] <= max(oldest.values()) - start + 1e6
    lines = project.piano("report", "--polls", path).out.splitlines()
    assert re.fullmatch(r"covers the last \S+ of \S+: older events were overwritten", lines[1]), lines
    both = project.root / "both.rec"
    project.piano("record", "--events", "--heap", "--max-size", "2M", "-o", both, "--", project.root / "prog", 400_000)
    assert re.search(r"Polls\ncovers the last", project.piano("report", both).out)
    assert re.search(r"the oldest given up \(\S+\): they cover the last \S+ of \S+", said), said


def test_recording_with_room_covers_everything(project: Project) -> None:
    path, said = storm(project, 1000)
    assert project.json("report", "--polls", path)["covers"]["all"]
    assert "cover" not in said and "covers" not in project.piano("report", "--polls", path).out


def test_spawns_beyond_the_log_are_counted_and_said(project: Project) -> None:
    program = compile(project, r"""
        int main(void)
        {
            for (uint64_t i = 1; i <= 300000; i++)
                piano_task_spawn(i, "one of many", "many.c:1");
            piano_poll_begin(300000);
            piano_poll_end();
        }
    """, *API)
    path = project.root / "many.rec"
    project.piano("record", "--events", "--max-size", "1M", "-o", path, "--", program)
    data = project.json("report", "--polls", path)
    assert data["dropped"]["definitions_in_ring"] > 100_000
    task, = (task for task in data["tasks"] if task["polls"])
    assert task["name"] == "one of many", "the newest are in the ring"
    assert "had no room in their log" in project.piano("report", "--polls", path).err
    assert not any(flag["kind"] == "task-growth" for flag in data["flags"]), "spawns and ends are not all there"


def test_a_chunk_missing_in_the_middle_cuts_its_polls(project: Project) -> None:
    """A poll without an end is not joined with the end of a later one."""
    program = compile(project, r"""
        int main(void)
        {
            for (uint64_t i = 0; i < 60000; i++) {
                piano_poll_begin(7);
                piano_mark(i % 2 ? "odd" : "even");
                piano_poll_end();
            }
        }
    """, *API)
    project.command(program, env=environment(project))
    path, = recordings(project)
    data = bytearray(path.read_bytes())
    whole = events.load(path)
    places = [at for at in range(events.HEADER, len(data), events.CHUNK)
              if data[at] == events.EVENTS and data[at + 4] == 1]
    assert len(places) > 4
    for cut in places[1:-1]:  # each alone, because some of them end in the middle of a poll
        broken = bytearray(data)
        broken[cut + 4] = 0
        path.write_bytes(broken)
        report = project.json("report", "--polls", path)
        halves = [[not cut <= e.at < cut + events.CHUNK for e in whole.of(what)] for what in ("poll_begin", "poll_end")]
        pairs = sum(begin and end for begin, end in zip(*halves))
        assert report["polls"] == pairs
        assert report["events"]["cut"] + report["events"]["stray_ends"] == sum(map(sum, halves)) - 2 * pairs
        longest = max(b.ns - a.ns for a, b in zip(whole.of("poll_begin"), whole.of("poll_end")))
        assert report["longest"][0]["duration_ns"] <= longest * 1.01 + 1000


@tool
def test_old_recordings_have_definitions_among_all_events(project: Project) -> None:
    """Both encodings of the same events give the same report: 40 threads, more spawns than one part holds."""
    reports = []
    for has_definitions in (False, True):
        rec = make.Recording(ticks_per_ns=2.5)
        rec.has_definitions = has_definitions
        for tid in range(11, 51):
            rec.event(tid, 1, make.WORKER_START, tid, rec.name(f"worker {tid}"))
            for i in range(400 if tid == 11 else 3):
                task = 1000 * tid + i
                rec.event(tid, 2 + i, make.TASK_SPAWN, task, rec.name(f"task {i % 7}"), rec.name("here.c:1"))
                rec.event(tid, 2 + i, make.WAKE, task)
                rec.poll(tid, 2.2 + i, 0.5, task=task)
                rec.event(tid, 2.8 + i, make.TASK_END, task)
            rec.event(tid, 9000, make.WORKER_STOP)
        path = put(project, rec, f"174000000000{int(has_definitions)}-7.rec")
        data = project.json("report", path, "--polls", "--all")
        for key in ("id", "path"):
            data["run"].pop(key)
        reports.append(data)
    old, new = reports
    assert sum(task["spawned"] for task in new["tasks"]) == 400 + 39 * 3 == new["polls"]
    assert {task["name"] for task in new["tasks"]} == {f"task {i}" for i in range(7)}
    assert len(new["workers"]) == 40 and new["missing"]["gaps"] == new["missing"]["unknown_chunks"] == 0
    # Threads are in the order of their first events in the file.
    for data in reports:
        data["threads"].sort(key=lambda t: t["tid"])
        data["workers"].sort(key=lambda w: w["tid"])
        data["longest"].sort(key=lambda p: (p["start_ns"], p["tid"]))
    assert old == new


@tool
def test_damaged_definitions_are_left_out(project: Project) -> None:
    rec = make.Recording()
    for tid in (11, 12):
        rec.event(tid, 1, make.TASK_SPAWN, tid, rec.name(f"task of {tid}"), 0)
        rec.poll(tid, 2, 1, task=tid)
    path = put(project, rec)
    data = bytearray(path.read_bytes())
    at, = (at for at in range(events.HEADER, len(data), events.CHUNK) if data[at] == events.DEFINITIONS)
    first, second = (at + events.CHUNK_HEADER + i * events.PART for i in range(2))
    data[second + 16:second + 24] = b"\xff" * 8  # claims more bytes than fit
    path.write_bytes(data)
    done = project.json("report", path, "--polls")
    assert done["missing"]["gaps"] >= 1 and done["polls"] == 2
    assert "task of 11" in {task["name"] for task in done["tasks"]}
    data[first + 4] = 0  # not ready
    path.write_bytes(data)
    assert project.json("report", path, "--polls")["polls"] == 2
    path.write_bytes(data[:at + events.CHUNK_HEADER + 100])
    assert project.json("report", path, "--polls")["polls"] == 2
