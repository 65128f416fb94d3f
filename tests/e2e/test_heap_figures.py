"""Figures beyond live bytes, control from inside a program, and a short simulation of a long run."""
from __future__ import annotations

import math
import re
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest

from conftest import LIB, PIANO, ROOT, Done, Project
from heaps import CHURN, Heap, compile, figures, names, read, record

# ---- the other figures of a report ----

def test_anonymous_mappings_are_a_kind_of_their_own(project: Project) -> None:
    program = compile(project, r"""
        #include <sys/mman.h>
        #define MAP(n) mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        static NOINLINE void *mapper(size_t n) { void *p = MAP(n); KEEP(p); return p; }
        static NOINLINE void *mover(void *p, size_t a, size_t b) { return mremap(p, a, b, MREMAP_MAYMOVE); }
        static NOINLINE void *filed(void) { return mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 0, 0); }
        static NOINLINE void by_malloc(void) { void *p = malloc(30 << 20); KEEP(p); }
        int main(void)
        {
            void *a = mapper(10 << 20), *b = mapper(20 << 20), *c = mapper(5 << 20);
            munmap(b, 20 << 20);
            mover(c, 5 << 20, 40 << 20);
            if (mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED || errno != EINVAL) return 1;
            if (munmap((void *)1, 4096) != -1 || errno != EINVAL) return 2;
            if (mremap(a, 4096, 0, 0) != MAP_FAILED) return 3;
            by_malloc();
            filed();
            return 0;
        }
    """)
    _, heap = record(project, program, flags=["--maps"], stdin="")
    assert heap.sum("mapper", "mmap")["live_bytes"] + heap.sum("mover", "mmap")["live_bytes"] == 50 << 20
    assert heap.sum("mapper", "mmap")["live_objects"] + heap.sum("mover", "mmap")["live_objects"] == 2
    assert heap.sum("mapper", "mmap")["allocated_bytes"] == 35 << 20
    assert heap.live("mapper") == (0, 0) and heap.through("filed", "mmap") == []
    assert heap.through("by_malloc", "mmap") == [] and heap.live("by_malloc") == (1, 30 << 20), "counted once"
    assert heap["run"]["maps"]
    _, heap = record(project, program)
    assert not [site for site in heap.sites if site["kind"] == "mmap"] and not heap["run"]["maps"]


def test_a_mapping_that_grows_is_a_new_one(project: Project) -> None:
    """The blocks are so small at first that they are rarely sampled, and so large at the end that they always are."""
    program = compile(project, r"""
        #include <sys/mman.h>
        static NOINLINE void *mover(void *p, size_t a, size_t b) { return mremap(p, a, b, MREMAP_MAYMOVE); }
        int main(void)
        {
            for (int i = 0; i < 20; i++) {
                void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                mover(p, 4096, 100 << 20);
            }
            void *filed = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 0, 0);
            if (mover(filed, 4096, 100 << 20) == MAP_FAILED) return 1;
            return 0;
        }
    """)
    (project.root / "input").write_bytes(bytes(4096))
    with open(project.root / "input", "rb") as file:
        subprocess.run([PIANO, "record", "--heap=1M", "--maps", "-o", project.root / "out.rec", "--", program], stdin=file, check=True)
    assert read(project, project.root / "out.rec").live("mover", "mmap") == (20, 2000 << 20)


@pytest.mark.parametrize("part", ["a, 4096", "a + 4096, 4096", "a + (1 << 20) - 4096, 4096"])
def test_partly_unmapped_mappings_are_followed(project: Project, part: str) -> None:
    """Follows or counts the munmap of a part; removes a mapping that another mapping replaces."""
    program = compile(project, r"""
        #include <sys/mman.h>
        static NOINLINE char *mapper(void *at, size_t n, int more)
        {
            char *p = mmap(at, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | more, -1, 0);
            KEEP(p);
            return p;
        }
        int main(void)
        {
            char *a = mapper(NULL, 1 << 20, 0);
            munmap(PART);
            char *b = mapper(NULL, 1 << 20, 0);
            mapper(b, 1 << 20, MAP_FIXED);
            puts("fine");
            return 0;
        }
    """.replace("PART", part))
    done, heap = record(project, program, flags=["--maps"])
    assert done.out == "fine\n"
    live = heap.sum("mapper", "mmap")
    if heap["dropped"]["map_partial"] == 0:
        assert live["live_bytes"] == (2 << 20) - 4096, "followed"
    else:
        assert live["live_objects"] in (1, 2)
    assert live["live_bytes"] <= 2 << 20


def test_churn_is_not_live_and_holding_is_not_churn(project: Project) -> None:
    program = compile(project, r"""
        static NOINLINE void *take(size_t n) { void *p = malloc(n); KEEP(p); return p; }
        static NOINLINE void fleeting(void) { for (int i = 0; i < 100000; i++) free(take(100)); }
        static void *kept[1000];
        static NOINLINE void lasting(void) { for (int i = 0; i < 1000; i++) kept[i] = take(1000); }
        int main(void)
        {
            lasting();
            struct timespec start, now;
            clock_gettime(CLOCK_MONOTONIC, &start);
            do { fleeting(); clock_gettime(CLOCK_MONOTONIC, &now); }
            while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < 100);
            for (int i = 0; i < 1000; i++) free(kept[i]);
            return 0;
        }
    """)
    for rate in ("1", "4K"):
        _, heap = record(project, program, rate=rate)
        fleeting, lasting = heap.sum("fleeting"), heap.sum("lasting")
        assert fleeting["live_objects"] == fleeting["live_samples"] == 0
        assert 0.9 < fleeting["churn_bytes"] / fleeting["allocated_bytes"] <= 1
        assert lasting["churn_bytes"] == 0 and lasting["live_bytes"] == 0 and lasting["samples"] > 0
        assert all(site["median_lifetime_ns"] >= 50_000_000 for site in heap.through("lasting"))
        assert all(site["median_lifetime_ns"] < 1_000_000 for site in heap.through("fleeting"))
        assert read(project, "out.rec", "--by", "churn").sites[0] in heap.through("fleeting")


def test_the_peak_and_who_held_it(project: Project) -> None:
    program = compile(project, r"""
        static NOINLINE void *take(size_t n) { void *p = malloc(n); KEEP(p); return p; }
        static NOINLINE void lower(void **all) { for (int i = 0; i < 1000; i++) all[i] = take(30000); }
        static NOINLINE void upper(void **all) { for (int i = 0; i < 1000; i++) all[i] = take(20000); }
        static NOINLINE void later(void **all) { for (int i = 0; i < 1000; i++) all[i] = take(25000); }
        static void drop(void **all) { for (int i = 0; i < 1000; i++) free(all[i]); }
        int main(void)
        {
            static void *a[1000], *b[1000];
            lower(a), upper(b), drop(a), drop(b);
            later(a), drop(a);
            return 0;
        }
    """)
    _, heap = record(project, program)
    assert 50_000_000 <= heap["peak_bytes"] <= 50_200_000 and heap["peak_at_ns"] > 0
    assert heap.sum("lower")["peak_bytes"] == 30_000_000
    assert heap.sum("upper")["peak_bytes"] == 20_000_000
    assert heap.sum("later")["peak_bytes"] == 0
    assert heap.sum("lower")["peak_objects"] == 1000
    assert heap["live_bytes"] < 100_000
    top = read(project, "out.rec", "--peak").sites
    assert "lower" in names(top[0]) and "upper" in names(top[1])
    _, heap = record(project, program, rate="64K")
    assert abs(heap["peak_bytes"] - 50e6) < 6 * math.sqrt(50e6 * 65536)


def test_peak_is_the_sum_over_threads(project: Project) -> None:
    """All threads hold their memory at a barrier: the peak is the sum, and the parts add up."""
    program = compile(project, r"""
        static pthread_barrier_t gate;
        static NOINLINE void *holder(void *arg)
        {
            void *mine[500];
            for (int round = 0; round < 3; round++) {
                for (int i = 0; i < 500; i++) { mine[i] = malloc(2000); KEEP(mine[i]); }
                pthread_barrier_wait(&gate);
                for (int i = 0; i < 500; i++) free(mine[i]);
                pthread_barrier_wait(&gate);
            }
            return arg;
        }
        int main(void)
        {
            pthread_t t[8];
            pthread_barrier_init(&gate, 0, 8);
            for (int i = 0; i < 8; i++) pthread_create(&t[i], 0, holder, 0);
            for (int i = 0; i < 8; i++) pthread_join(t[i], 0);
            return 0;
        }
    """)
    _, heap = record(project, program)
    assert 8_000_000 <= heap["peak_bytes"] <= 8_100_000
    assert heap.sum("holder")["peak_bytes"] == pytest.approx(8_000_000, rel=0.01)
    assert heap.live("holder") == (0, 0)


def test_leaks_names_the_function_that_leaks(project: Project) -> None:
    program = compile(project, r"""
        static NOINLINE void leaky(void) { for (int i = 0; i < 100; i++) { void *p = malloc(5000); KEEP(p); } }
        static NOINLINE void *tidy(void) { void *p = malloc(900000); KEEP(p); return p; }
        int main(void) { leaky(); free(tidy()); return 0; }
    """)
    record(project, program)
    said = project.piano("report", "--heap", "--leaks", "out.rec").out
    assert "leaky" in said and "tidy" not in said and re.search(r"\b100\b", said), said


def test_growth_between_two_snapshots(project: Project) -> None:
    """Requested from outside, while the program waits."""
    program = compile(project, r"""
        static void *all[3000];
        static NOINLINE void grows(int n) { for (int i = 0; i < n; i++) { void *p = malloc(1000); KEEP(p); } }
        static NOINLINE void steady(void) { for (int i = 0; i < 100; i++) { void *p = malloc(5000); KEEP(p); } }
        static NOINLINE void shrinks(void) { for (int i = 0; i < 100; i++) all[i] = malloc(2000); }
        int main(void)
        {
            char line[9];
            grows(100), steady(), shrinks();
            printf("%d\n", getpid()), fflush(stdout), fgets(line, 9, stdin);
            grows(400);
            for (int i = 0; i < 50; i++) free(all[i]);
            puts("more"), fflush(stdout), fgets(line, 9, stdin);
            return 0;
        }
    """)
    path = project.root / "out.rec"
    command = [PIANO, "record", "--heap=1", "--snapshot-every", "0", "-o", path, "--", program]
    process = subprocess.Popen(command, text=True, cwd=project.root, env=project.env, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE)
    try:
        pid = process.stdout.readline().strip()
        assert pid.isdigit()
        first = project.piano("snapshot", pid)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "more\n"
        project.piano("snapshot", pid)
        process.communicate("\n", timeout=30)
    finally:
        process.kill()
        process.wait()
    assert "1" in first.out and str(path) in first.out
    heap = read(project, path, "--growth", "--from", 1, "--to", 2)
    assert [s["kind"] for s in heap["snapshots"]] == ["asked", "asked"]
    assert heap["snapshots"][0]["resident_bytes"] > 0
    sites = {row["function"]: row for row in heap["growth"]["sites"]}
    assert sites["grows"]["live_bytes"] == [100_000, 500_000] and sites["grows"]["delta_bytes"] == 400_000
    assert sites["shrinks"]["delta_bytes"] == -100_000
    assert "steady" not in sites or sites["steady"]["delta_bytes"] == 0
    assert heap["growth"]["sites"][0]["function"] == "grows", "the greatest change first"
    said = project.piano("report", "--heap", "--growth", "--from", 1, "--to", 2, path).out
    assert "grows" in said


def test_snapshots_in_the_middle_of_things(project: Project) -> None:
    """While four threads allocate and free: every snapshot shows a possible state."""
    program = compile(project, CHURN + r"""
        int main(void)
        {
            churn_start();
            struct timespec start, now;
            clock_gettime(CLOCK_MONOTONIC, &start);
            do clock_gettime(CLOCK_MONOTONIC, &now);
            while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < 700);
            churn_end();
            return 0;
        }
    """)
    done, heap = record(project, program, flags=["--snapshot-every", "0.01"])
    taken = heap["snapshots"]
    assert len(taken) >= 10
    assert [s["number"] for s in taken] == list(range(1, len(taken) + 1))
    allocated = [s["allocated_bytes"] for s in taken]
    assert allocated == sorted(allocated) and [s["at_ns"] for s in taken] == sorted(s["at_ns"] for s in taken)
    most = (512 + 4) * 508 + 100_000
    assert all(0 <= s["live_bytes"] <= most for s in taken), [s["live_bytes"] for s in taken]
    assert heap.live("churner") == figures(done.out)["churner"]


# ---- control from inside: include/piano.h ----

def with_library(project: Project, source: str, name: str = "prog") -> Path:
    return compile(project, '#include "piano.h"\n' + textwrap.dedent(source), f"-I{ROOT / 'include'}", f"-L{LIB}",
                   "-l:libpiano.so", f"-Wl,-rpath,{LIB}", "-lm", name=name)


def own_recording(project: Project, *command: Any) -> tuple[Done, Heap]:
    """A program that starts its recording itself, and that recording."""
    runs = project.root / "runs"
    done = project.command(*command, env={"PIANO_RUNS_DIR": str(runs)})
    files = [p for p in runs.iterdir() if p.name.endswith(".rec")]
    assert len(files) == 1, list(runs.iterdir())
    return done, read(project, files[0])


def test_interface_records_between_start_and_stop_only(project: Project) -> None:
    program = with_library(project, r"""
        static NOINLINE void *inside(void) { void *p = malloc(111); KEEP(p); return p; }
        static NOINLINE void *outside(void) { void *p = malloc(222); KEEP(p); return p; }
        #define IS(call, wanted) do { int r_ = (call), w_ = (wanted); \
            if (r_ != w_) printf("%s is %d, not %d\n", #call, r_, w_); } while (0)
        int main(void)
        {
            struct piano_heap_stats s;
            outside();
            IS(piano_heap_stats(&s), -ENOTCONN);
            IS(piano_heap_stop(), -ENOTCONN);
            IS(piano_heap_start(0), -EINVAL);
            IS(piano_heap_start(1), 0);
            IS(piano_heap_start(1), -EALREADY);
            void *a = inside(), *b = inside(), *c = inside();
            IS(piano_heap_stats(&s), 0);
            if (s.mean_bytes != 1 || s.samples < 3 || s.live_bytes < 333 || s.dropped) printf("stats %ld %ld %g %ld\n",
                (long)s.mean_bytes, (long)s.samples, s.live_bytes, (long)s.dropped);
            IS(piano_heap_snapshot(), 1);
            uint64_t samples = s.samples;
            IS(piano_heap_stop(), 0);
            IS(piano_heap_stop(), -ENOTCONN);
            outside();
            free(a); /* followed after the stop */
            IS(piano_heap_stats(&s), 0);
            if (s.samples != samples) puts("samples while stopped");
            IS(piano_heap_snapshot(), 2);
            IS(piano_heap_start(1), 0);
            inside();
            IS(piano_heap_stop(), 0);
            IS(piano_heap_shutdown(), 0);
            free(b); /* no longer followed */
            IS(piano_heap_start(1), -ESHUTDOWN);
            if (piano_heap_stop() >= 0) puts("stopped after shutdown");
            outside();
            puts("through");
            return 0;
        }
    """)
    done, heap = own_recording(project, program)
    assert done.out == "through\n"
    assert heap.live("outside") == (0, 0) and heap.made("outside") == (0, 0)
    assert heap.made("inside") == (4, 444) and heap.live("inside") == (3, 333)
    assert [s["kind"] for s in heap["snapshots"]] == ["called", "called"]


def test_a_new_rate_weighs_old_and_new_samples_right(project: Project) -> None:
    program = with_library(project, r"""
        static void *one[2000], *two[200000];
        static NOINLINE void at_one(void) { for (int i = 0; i < 2000; i++) one[i] = malloc(100); }
        static NOINLINE void at_many(void) { for (int i = 0; i < 200000; i++) two[i] = malloc(100); }
        static NOINLINE void unseen(void) { for (int i = 0; i < 2000; i++) { void *p = malloc(100); KEEP(p); } }
        int main(void)
        {
            piano_heap_start(1);
            at_one();
            piano_heap_stop();
            for (int i = 0; i < 500; i++) free(one[i]); /* while stopped */
            unseen();
            piano_heap_start(65536);
            at_many();
            for (int i = 500; i < 1000; i++) free(one[i]); /* with another rate */
            for (int i = 0; i < 100000; i++) free(two[i]);
            struct piano_heap_stats s;
            if (piano_heap_stats(&s) || s.mean_bytes != 65536) return 1;
            printf("live %.0f\n", s.live_bytes);
            return 0;
        }
    """)
    done, heap = own_recording(project, program)
    assert heap.live("at_one") == (1000, 100_000)
    assert heap.live("unseen") == (0, 0)
    deviation = math.sqrt(100_000 * 100 * 65536)
    assert abs(heap.live("at_many")[1] - 10_000_000) < 5 * deviation
    assert abs(heap.made("at_many")[1] - 20_000_000) < 5 * math.sqrt(2) * deviation
    assert heap.live("at_many")[1] % 100 < 100 and heap.sum("at_many")["samples"] < 1000
    assert abs(figures(done.out)["live"][0] - heap["live_bytes"]) <= 0.02 * heap["live_bytes"] + 70000


def test_thousand_starts_and_stops_do_not_grow_the_recording(project: Project) -> None:
    """Neither the recording nor the process grows while other threads allocate."""
    program = with_library(project, CHURN + r"""
        static long resident(void)
        {
            long size, pages;
            FILE *f = fopen("/proc/self/statm", "r");
            fscanf(f, "%ld %ld", &size, &pages);
            fclose(f);
            return pages * 4096;
        }
        int main(void)
        {
            long before = 0;
            churn_start();
            for (int i = 0; i < 1000; i++) {
                if (i == 100) before = resident();
                if (piano_heap_start(1 + i % 3 * 1000)) return 1;
                for (long until = turns + 50; turns < until; ) sched_yield();
                if (piano_heap_stop()) return 2;
            }
            printf("grown %ld\n", resident() - before);
            churn_end();
            for (int i = 0; i < 512; i++) free(slots[i]);
            return 0;
        }
    """)
    done, heap = own_recording(project, program)
    assert figures(done.out)["grown"][0] < 4 << 20
    assert heap.live("churner") == (0, 0)
    assert heap.sum("churner")["samples"] > 334 * 40, "a third of the time every allocation was sampled"
    assert Path(heap["run"]["path"]).stat().st_size < 4 << 20


def test_the_interface_under_record_and_in_a_child(project: Project) -> None:
    """A program that finds piano already recording, and a child that starts a separate recording."""
    program = compile(project, r"""
        #include <dlfcn.h>
        #include <sys/wait.h>
        static NOINLINE void *inside(void) { void *p = malloc(111); KEEP(p); return p; }
        static NOINLINE void child_inside(void) { for (int i = 0; i < 10; i++) { void *p = malloc(55); KEEP(p); } }
        int main(void)
        {
            int (*start)(size_t) = dlsym(RTLD_DEFAULT, "piano_heap_start");
            int (*stop)(void) = dlsym(RTLD_DEFAULT, "piano_heap_stop");
            int (*snapshot)(void) = dlsym(RTLD_DEFAULT, "piano_heap_snapshot");
            if (!start || !stop || !snapshot) return 1;
            printf("%d\n", start(1) == -EALREADY);
            inside();
            printf("%d\n", snapshot() > 0);
            fflush(stdout);
            if (fork() == 0) {
                inside();
                int r = start(1);
                child_inside();
                _exit(r == 0 ? 0 : 3);
            }
            int status;
            wait(&status);
            printf("%d\n", WIFEXITED(status));
            stop();
            inside();
            return 0;
        }
    """, "-ldl")
    done, heap = record(project, program, flags=["--snapshot-every", "0"],
                        env={"PIANO_RUNS_DIR": str(project.root / "runs")})
    assert done.out == "1\n1\n1\n"
    assert heap.live("inside") == (1, 111) and heap.through("child_inside") == []
    assert [s["kind"] for s in heap["snapshots"]] == ["called"]


def test_nothing_to_see_is_an_error(project: Project) -> None:
    """A static program's calls cannot be followed: start returns an error."""
    project.write({"prog.c": '#include "piano.h"\n#include <errno.h>\n#include <stdio.h>\n#include <stdlib.h>\n'
                             'int main(void) { int r = piano_heap_start(1); free(malloc(10)); '
                             'puts(r == -ENOSYS ? "said" : "silent"); return 0; }\n'})
    project.command("gcc", "-O2", "-static", f"-I{ROOT / 'include'}", "prog.c", LIB / "libpiano.a", "-o", "prog",
                    "-pthread")
    done = project.command(project.root / "prog")
    assert done.out == "said\n"


# ---- a short simulation of a day ----

def test_millions_of_allocations_do_not_grow_the_recording(project: Project) -> None:
    """Tens of millions of allocations: recording and process are no larger at the end than in the middle."""
    program = compile(project, r"""
        #include <sys/stat.h>
        enum { THREADS = 4, EACH = 6000000, HELD = 256 };
        static pthread_barrier_t gate;
        static _Atomic(void *) shared[1024];
        static NOINLINE void *day(void *arg)
        {
            uint64_t x = (uintptr_t)arg * 0x9e3779b97f4a7c15u + 1;
            void *held[HELD] = {0};
            for (int half = 0; half < 2; half++) {
                for (int i = 0; i < EACH / 2; i++) {
                    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
                    void **slot = &held[x % HELD];
                    free(*slot);
                    *slot = malloc(16 + (x >> 40) % 200);
                    if (i % 16 == 0) *slot = atomic_exchange(&shared[(x >> 20) % 1024], *slot);
                }
                pthread_barrier_wait(&gate);
                pthread_barrier_wait(&gate);
            }
            for (int i = 0; i < HELD; i++) free(held[i]);
            return NULL;
        }
        static void look(const char *when)
        {
            long size, pages = 0;
            struct stat s = {0};
            FILE *f = fopen("/proc/self/statm", "r");
            fscanf(f, "%ld %ld", &size, &pages);
            fclose(f);
            if (getenv("PIANO_RECORD")) stat(getenv("PIANO_RECORD"), &s);
            printf("%s %ld %ld %ld\n", when, pages * 4096, (long)s.st_size, (long)s.st_blocks * 512);
        }
        int main(void)
        {
            pthread_t threads[THREADS];
            pthread_barrier_init(&gate, NULL, THREADS + 1);
            for (uintptr_t i = 0; i < THREADS; i++) pthread_create(&threads[i], 0, day, (void *)(i + 1));
            pthread_barrier_wait(&gate), look("middle"), pthread_barrier_wait(&gate);
            pthread_barrier_wait(&gate), look("end"), pthread_barrier_wait(&gate);
            for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
            for (int i = 0; i < 1024; i++) free(shared[i]);
            return 0;
        }
    """)
    done, heap = record(project, program, rate="4K", flags=["--snapshot-every", "0"])
    said = figures(done.out)
    middle, end = said["middle"], said["end"]
    assert end[0] <= middle[0] + (1 << 20), f"resident bytes {middle[0]} in the middle, {end[0]} at the end"
    assert end[1] <= middle[1] and 0 < end[1] < 4 << 20, f"the recording: {middle[1]}, {end[1]}"
    total = heap.sum("day")
    assert total["live_bytes"] == total["live_samples"] == 0
    assert not heap.lost
    truth = 24_000_000 * 115.5
    assert abs(total["allocated_bytes"] - truth) < 6 * math.sqrt(truth * 4096)


def test_live_samples_are_those_that_are_followed(project: Project) -> None:
    """Blocks that did not fit are not called live; the count agrees with the program's list of blocks."""
    program = compile(project, r"""
        #include <sys/resource.h>
        #include "piano.h"
        static int each(void *arg, const struct piano_heap_block *block) { return 0; }
        int main(void)
        {
            struct piano_heap_stats stats;
            if (piano_heap_start(1)) return 1;
            for (int i = 0; i < 1000; i++) { void *p = malloc(1000); KEEP(p); }
            struct rlimit limit = {300000, 300000};
            setrlimit(RLIMIT_FSIZE, &limit);
            for (int i = 0; i < 20000; i++) { void *p = malloc(1000); KEEP(p); }
            int shown = piano_heap_blocks(each, NULL);
            piano_heap_stats(&stats);
            if (shown < 1000 || stats.samples < 21000 || stats.dropped == 0) return 2;
            return shown != (int)stats.live_samples;
        }
    """, f"-I{ROOT}/include", f"-L{LIB}", "-lpiano", f"-Wl,-rpath,{LIB}")
    project.command(program)
