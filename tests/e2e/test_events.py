"""Events that programs report with include/piano.h.

Programs run with libpiano.so preloaded, as `piano record --events` does, and print what they did; a
separate decoder (events.py) reads the recording.
"""
from __future__ import annotations

import random
import signal
import struct
from pathlib import Path
from typing import Any

import events
from conftest import LIB, PRELOAD, Done, Project
from events import (API, CHILD, HAS_HEAP, Recording, compile, environment, parks, record, recordings)

# Events of programs -----------------------------------------------------------------------------

TOLD = r"""
static void *worker(void *arg)
{
    uint64_t me = (uintptr_t)arg;
    char name[16];
    snprintf(name, sizeof name, "pool %d", (int)me);
    pthread_setname_np(pthread_self(), name);
    piano_worker_start(me, name);
    for (uint64_t task = me * 1000; task < me * 1000 + 100; task++) {
        piano_task_spawn(task, task % 2 ? "odd" : "even", "prog.c:31");
        piano_poll_begin(task);
        piano_wake(task + 1);
        piano_poll_end();
        piano_queue_depth(me, task - me * 1000);
        piano_task_end(task);
    }
    piano_value("balance", -(int64_t)me);
    piano_worker_stop();
    printf("%d %d\n", (int)me, (int)syscall(SYS_gettid));
    return NULL;
}

int main(void)
{
    pthread_t threads[4];
    piano_mark("begin");
    for (uintptr_t i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, worker, (void *)i);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    piano_mark("end");
    piano_park();
    poll(NULL, 0, 1);
    piano_unpark();
    return 0;
}
"""


def check_order(mine: list[str], is_exact: bool) -> None:
    """With a coarse clock (aarch64), a definition has the time of other events, and comes first: only the order of each kind is known."""
    if is_exact:
        assert mine[1:-2] == ["task_spawn", "poll_begin", "wake", "poll_end", "queue", "task_end"] * 100
        assert mine[-2:] == ["value", "worker_stop"]
    kinds = {"worker_start", "worker_stop", "task_spawn", "task_end"}
    assert [what for what in mine if what in kinds] == ["worker_start", *["task_spawn", "task_end"] * 100, "worker_stop"]
    assert [what for what in mine if what not in kinds] == ["poll_begin", "wake", "poll_end", "queue"] * 100 + ["value"]


def check_told(r: Recording, done: Done) -> None:
    tids = {int(me): int(tid) for me, tid in (line.split() for line in done.out.splitlines())}
    assert [r.name(e.fields[0]) for e in r.of("mark")] == ["begin", "end"]
    assert [e.tid for e in r.of("mark")] == [r.pid, r.pid]
    for me, tid in tids.items():
        mine = [e for e in r.events if e.tid == tid and e.what != "thread"]
        assert (mine[0].what, mine[0].fields[0], r.name(mine[0].fields[1])) == ("worker_start", me, f"pool {me}")
        check_order([e.what for e in mine], is_exact=len({e.ticks for e in mine}) == len(mine))
        assert [e.fields[0] for e in mine if e.what == "poll_begin"] == list(range(me * 1000, me * 1000 + 100))
        assert [e.fields[1] for e in mine if e.what == "queue"] == list(range(100))
        spawned = [e for e in mine if e.what == "task_spawn"]
        assert [r.name(e.fields[1]) for e in spawned] == ["even", "odd"] * 50
        assert {r.name(e.fields[2]) for e in spawned} == {"prog.c:31"}
        assert [e.fields[1] for e in mine if e.what == "value"] == [2 * me - 1 if me else 0]  # zigzag
        assert all(a.ticks <= b.ticks for a, b in zip(mine, mine[1:]))
        assert all(e.bytes <= 12 for e in mine if e.what in ("poll_begin", "poll_end"))
        assert r.threads[tid][-1] == f"pool {me}"
    assert parks(r) == [("api", 0)]  # the wait inside it does not count
    assert r.trace["events"] == len(r.events)
    assert not any(r.trace[key] for key in r.trace if key.startswith("dropped"))
    assert r.trace["recycled"] == 0


def test_every_event_of_the_interface_is_recorded(project: Project) -> None:
    program = compile(project, TOLD, *API)
    r, done = record(project, program)
    check_told(r, done)
    assert r.state == 4
    start, end = r.trace["start_ticks"], r.trace["end_ticks"]
    assert start < end and all(start <= e.ticks <= end for e in r.events)


def test_interface_does_nothing_without_a_recording(project: Project) -> None:
    program = compile(project, TOLD, *API)
    for env in ({}, {"LD_PRELOAD": PRELOAD}):
        done = project.command(program, env=env)
        assert len(done.out.splitlines()) == 4
    assert recordings(project) == []


def test_static_program_can_use_the_interface(project: Project) -> None:
    program = compile(project, TOLD, "-static", str(LIB / "libpiano.a"))
    done = project.command(program, env={**environment(project), "LD_PRELOAD": ""})
    path, = recordings(project)
    check_told(events.load(path), done)


def test_the_header_is_good_for_cxx(project: Project) -> None:
    program = compile(project, r"""
        #include <chrono>
        #include <condition_variable>
        #include <mutex>
        int main()
        {
            std::mutex mutex;
            std::condition_variable changed;
            std::unique_lock<std::mutex> lock(mutex);
            piano_worker_start(1, "c++");
            CHECK(changed.wait_for(lock, std::chrono::milliseconds(1)) == std::cv_status::timeout);
            piano_worker_stop();
        }
    """, *API, compiler="g++")
    r, _ = record(project, program)
    assert [e.what for e in r.events] == ["worker_start", "park", "unpark", "worker_stop"]
    assert parks(r) == [("condition", 110 + 1)]


def test_heap_and_events_are_in_one_recording(project: Project) -> None:
    program = compile(project, TOLD, *API)
    r, done = record(project, program, PIANO_HEAP=1)
    assert r.flags & HAS_HEAP
    assert {2, 3, 4, 6, 7, 9} <= set(r.chunks)
    check_told(r, done)


# Ends, children, crowds -------------------------------------------------------------------------

COUNTED = r"""
static uint64_t *counts;
static int begun, go;
static void *count(void *arg)
{
    uint64_t *mine = &counts[8 * (uintptr_t)arg];
    mine[1] = syscall(SYS_gettid);
    __atomic_add_fetch(&begun, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&go, __ATOMIC_ACQUIRE))
        sched_yield();
    for (uint64_t i = 0;; i++) {
        piano_queue_depth((uintptr_t)arg, i);
        __atomic_store_n(mine, i + 1, __ATOMIC_RELEASE);
    }
}

/* Each thread writes as many events as requested. The process is killed some nanoseconds later. */
int main(int argc, char **argv)
{
    pthread_t threads[2];
    timer_t timer;
    struct sigevent killed = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    struct itimerspec when = {.it_value.tv_nsec = atol(argv[3])};
    uint64_t many = atol(argv[2]);
    int fd = open(argv[1], O_RDWR);
    counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(timer_create(CLOCK_MONOTONIC, &killed, &timer) == 0);
    for (uintptr_t i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, count, (void *)i);
    while (__atomic_load_n(&begun, __ATOMIC_ACQUIRE) < 2)
        usleep(50);
    __atomic_store_n(&go, 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&counts[0], __ATOMIC_ACQUIRE) < many || __atomic_load_n(&counts[8], __ATOMIC_ACQUIRE) < many)
        usleep(50);
    CHECK(timer_settime(timer, 0, &when, NULL) == 0);
    pthread_join(threads[0], NULL);
}
"""


def kill_after(project: Project, program: Path, many: int, ns: int, **more: Any) -> tuple[Recording, list[tuple[int, int]]]:
    """The recording of a program killed NS after each thread had written MANY events; (tid, events that it counted)."""
    shared = project.root / "counts"
    shared.write_bytes(bytes(4096))
    done = project.command(program, shared, many, ns, env=environment(project, **more), check=False)
    assert done.status == -signal.SIGKILL, done
    known = [struct.unpack_from("<QQ", shared.read_bytes(), 64 * i) for i in range(2)]
    path, = recordings(project)
    r = events.load(path)
    path.unlink()
    return r, [(tid, count) for count, tid in known]


def test_events_survive_a_kill_at_any_moment(project: Project) -> None:
    program = compile(project, COUNTED, *API)
    chance = random.Random(4)
    for _ in range(20):
        r, known = kill_after(project, program, 0, chance.randrange(1, 700_000))
        for tid, count in known:
            depths = [e.fields[1] for e in r.of("queue", tid=tid)]
            assert depths == list(range(len(depths)))
            assert count <= len(depths) <= count + 1
        assert r.state == 1 and r.trace["end_ticks"] == 0


def test_newest_events_are_kept_within_the_size_asked_for(project: Project) -> None:
    program = compile(project, COUNTED, *API)
    r, known = kill_after(project, program, 300_000, 1, PIANO_EVENTS_MAX=512 * 1024)
    assert r.chunks[events.EVENTS] <= 8 and r.trace["recycled"] > 0
    for tid, count in known:
        depths = [e.fields[1] for e in r.of("queue", tid=tid)]
        if depths:  # one thread may have been so much faster that it owns the whole ring
            assert depths == list(range(depths[0], depths[0] + len(depths)))
            assert depths[-1] >= count - 1


def test_children_have_events_of_their_own(project: Project) -> None:
    program = compile(project, r"""
        int main(void)
        {
            piano_mark("parent");
            pid_t child = fork();
            if (child == 0) {
                piano_mark("child");
                poll(NULL, 0, 1);
                return 0;
            }
            waitpid(child, NULL, 0);
            child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); /* without the C library's knowledge */
            if (child == 0) {
                piano_mark("raw child");
                _exit(0);
            }
            waitpid(child, NULL, 0);
            child = vfork();
            if (child == 0)
                _exit(0);
            waitpid(child, NULL, 0);
            piano_mark("parent");
            return 0;
        }
    """, *API)
    project.command(program, env=environment(project))
    found = [events.load(path) for path in recordings(project)]
    parent, = (r for r in found if not r.flags & CHILD)
    child, = (r for r in found if r.flags & CHILD)
    assert [parent.name(e.fields[0]) for e in parent.of("mark")] == ["parent", "parent"]
    assert [child.name(e.fields[0]) for e in child.of("mark")] == ["child"]
    assert {e.tid for e in parent.events} == {parent.pid} and {e.tid for e in child.events} == {child.pid}
    assert child.threads.keys() == {child.pid}
    assert set(parent.names.values()) == {"parent"} and set(child.names.values()) == {"child"}


def test_events_of_thousands_of_threads_are_complete(project: Project) -> None:
    program = compile(project, r"""
        static void *brief(void *arg)
        {
            piano_poll_begin((uintptr_t)arg);
            piano_poll_end();
            return NULL;
        }
        int main(void)
        {
            for (uintptr_t i = 0; i < 5000; i += 8) {
                pthread_t threads[8];
                for (uintptr_t j = 0; j < 8; j++)
                    CHECK(pthread_create(&threads[j], NULL, brief, (void *)(i + j)) == 0);
                for (int j = 0; j < 8; j++)
                    pthread_join(threads[j], NULL);
            }
            return 0;
        }
    """, *API)
    r, _ = record(project, program)
    begun = r.of("poll_begin")
    assert sorted(e.fields[0] for e in begun) == list(range(5000))
    polls: dict[int, list[str]] = {}
    for e in r.of("poll_begin", "poll_end"):
        polls.setdefault(e.tid, []).append(e.what)
    assert all(seen == ["poll_begin", "poll_end"] * (len(seen) // 2) for seen in polls.values())
    assert set(polls) <= set(r.threads)
    assert r.chunks[events.EVENTS] <= 16, "a chunk for each thread at once, and what they filled"
    assert r.trace["events"] == len(r.events)


def test_unknown_events_are_skipped_by_their_length(project: Project) -> None:
    """A reader skips an event of an unknown kind; all other events stay in place."""
    program = compile(project, TOLD, *API)
    done = project.command(program, env=environment(project))
    path, = recordings(project)
    r = events.load(path)
    data = bytearray(path.read_bytes())
    strange = r.of("wake", "value")
    for e in strange:
        data[e.at] = 200 + e.at % 50
        for i in range(e.at + 2, e.at + e.bytes - 1):
            data[i] |= 0x80 if i > e.at + 5 else 0
    path.write_bytes(data)
    again = events.load(path)
    assert again.skipped == len(strange)
    assert sorted((e.at, e.what, e.tid, e.fields) for e in again.events) == \
        sorted((e.at, e.what, e.tid, e.fields) for e in r.events if e.what not in ("wake", "value"))
    assert done.status == 0


def test_handlers_that_jump_out_of_events(project: Project) -> None:
    """A timer's handler leaves by siglongjmp, mostly in the middle of an event: all later events are there."""
    program = compile(project, r"""
        #include <setjmp.h>
        #include <sys/time.h>
        static sigjmp_buf landing;
        static volatile int jumps;
        static void jump(int number) { jumps++; siglongjmp(landing, 1); }
        int main(void)
        {
            struct itimerval soon = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
            piano_poll_begin(1);
            signal(SIGALRM, jump);
            sigsetjmp(landing, 1);
            if (jumps == 0) setitimer(ITIMER_REAL, &soon, NULL);
            while (jumps < 40) piano_queue_depth(1, 2);
            setitimer(ITIMER_REAL, &never, NULL);
            signal(SIGALRM, SIG_IGN);
            for (int i = 0; i < 1000; i++) piano_queue_depth(7, i);
            return 0;
        }
    """, *API)
    recording, _ = record(project, program)
    assert sum(event.fields[0] == 7 for event in recording.of("queue")) == 1000
    assert recording.trace["dropped_busy"] == 0
