"""Correctness of the figures, as relations inside one run: sums and orders.

`make bench` measures absolute times. The margins here are wide: they detect a probe that
charges its own cost to the wrong function, not a slow machine.
"""
from __future__ import annotations

import statistics

import pytest

from conftest import BURN, Project

WORK = BURN + "#include <stdlib.h>\nstatic volatile unsigned sink;\n"
pytestmark = pytest.mark.timing
COMPILERS = pytest.mark.parametrize("compiler", ["gcc", "clang"])


@COMPILERS
def test_self_times_add_up_to_the_outermost_total(project: Project, compiler: str) -> None:
    report = project.profile_c(WORK + """
        static void leaf(void) { BURN(200); }
        static void branch(void) { BURN(500); for (int i = 0; i < 10; i++) leaf(); }
        static void update(void) { BURN(1000); for (int i = 0; i < 10; i++) branch(); }
        int main(void) { for (int i = 0; i < 200; i++) update(); return 0; }
    """, compiler=compiler)
    total = report.row("main")["total_ns"]
    summed = sum(row["self_ns"] for row in report.functions)
    assert 0.85 * total <= summed <= 1.15 * total
    update = report.row("update")["total_ns"]
    below = sum(report.row(n)["self_ns"] for n in ("update", "branch", "leaf"))
    assert 0.85 * update <= below <= 1.15 * update
    assert update <= 1.02 * total


@COMPILERS
def test_ten_to_three_to_one(project: Project, compiler: str) -> None:
    report = project.profile_c(WORK + """
        static void ten(void) { BURN(50000); }
        static void three(void) { BURN(15000); }
        static void one(void) { BURN(5000); }
        int main(void) { for (int i = 0; i < 200; i++) { one(); ten(); three(); } return 0; }
    """, compiler=compiler)
    # medians over the calls, because other programs preempt some of them
    ten, three, one = (report.row(n)["p50_ns"] for n in ("ten", "three", "one"))
    assert 8 < ten / one < 12
    assert 2.4 < three / one < 3.6
    assert [r["name"] for r in report.functions[:3]] == ["ten", "three", "one"]


@COMPILERS
def test_parent_of_many_short_calls_is_not_the_hottest(project: Project, compiler: str) -> None:
    """50 000 calls of an almost empty function, compared with a function that works ten times longer."""
    report = project.profile_c(WORK + """
        static void __attribute__((noinline)) tiny(void) { sink++; }
        static void parent(void) { for (int i = 0; i < 50000; i++) tiny(); }
        static void worker(void) { BURN(500000); }
        int main(void) { for (int i = 0; i < 20; i++) { parent(); worker(); } return 0; }
    """, compiler=compiler)
    assert report.row("tiny")["calls"] == 1_000_000
    names = [row["name"] for row in report.functions]
    assert names[0] == "worker"
    assert report.row("parent")["self_ns"] * 2 < report.row("worker")["self_ns"]
    assert report.row("parent")["total_ns"] * 1.5 < report.row("worker")["self_ns"]


@COMPILERS
def test_parent_of_many_allocations_is_not_inflated(project: Project, compiler: str) -> None:
    """50 000 pairs of malloc and free per turn, compared with a function that works longer."""
    report = project.profile_c(WORK + """
        static void *volatile keep;
        static void allocates(void)
        {
            for (int i = 0; i < 50000; i++) { keep = malloc(32); free(keep); }
        }
        static void worker(void) { BURN(4000000); }
        int main(void) { for (int i = 0; i < 6; i++) { allocates(); worker(); } return 0; }
    """, compiler=compiler)
    assert report.row("allocates")["alloc_count"] == 300_000
    assert report.functions[0]["name"] == "worker"
    assert report.row("allocates")["self_ns"] * 1.5 < report.row("worker")["self_ns"]


@COMPILERS
def test_a_hot_leaf_has_no_time_but_its_own(project: Project, compiler: str) -> None:
    """20 million calls of a body that overlaps with the loop around it: a correction of its self time also applies to
    its total."""
    report = project.profile_c(WORK + """
        struct box { float x, y, w, h; };
        static struct box boxes[300];
        static int overlap(const struct box *a, const struct box *b)
        {
            float dx = a->x - b->x, dy = a->y - b->y;
            return dx * dx + dy * dy < 0.01f;
        }
        static void collide(void)
        {
            for (int i = 0; i < 300; i++)
                for (int j = i + 1; j < 300; j++)
                    if (overlap(&boxes[i], &boxes[j])) sink++;
        }
        int main(void)
        {
            for (int i = 0; i < 300; i++) { boxes[i].x = i % 100; boxes[i].y = i * 7 % 100; }
            for (int i = 0; i < 450; i++) collide();
            return 0;
        }
    """, compiler=compiler)
    leaf, caller = report.row("overlap"), report.row("collide")
    assert leaf["calls"] == 450 * 44_850 and leaf["sampled"] is True
    assert leaf["total_ns"] == pytest.approx(leaf["self_ns"], rel=0.001)
    # self times add up to the total of the caller, with any estimates
    assert caller["self_ns"] + leaf["self_ns"] == pytest.approx(caller["total_ns"], rel=0.001)


def test_medium_calls_keep_their_share(project: Project) -> None:
    """A parent that only loops over 100 ns bodies has little self time of its own."""
    report = project.profile_c(WORK + """
        static void __attribute__((noinline)) body(void) { BURN(100); }
        static void parent(void) { for (int i = 0; i < 20000; i++) body(); }
        int main(void) { for (int i = 0; i < 20; i++) parent(); return 0; }
    """)
    # medians over the frames, because other programs may preempt any frame
    body, parent = report.row("body")["p50_ns"], report.row("parent")["p50_ns"]
    assert parent < body * 0.25
    assert parent > -body * 0.25


def test_recursion_does_not_multiply(project: Project) -> None:
    report = project.profile_c(WORK + """
        static void walk(int n) { BURN(3000); if (n) walk(n - 1); }
        int main(void) { for (int i = 0; i < 100; i++) walk(30); return 0; }
    """)
    walk, main = report.row("walk"), report.row("main")
    assert walk["calls"] == 3100
    assert walk["total_ns"] <= main["total_ns"] * 1.05
    assert 0.8 * walk["total_ns"] <= walk["self_ns"] <= 1.2 * walk["total_ns"]


def test_fib_self_time_is_the_programs_own_measure(project: Project) -> None:
    """fib is timed by sample; its estimate stays near the time of a twin without a probe.

    Both are medians of 60 turns, so that preemptions do not count.
    """
    project.write({"prog.c": """
        #include <stdio.h>
        #include <time.h>
        static volatile int n = 23;
        #define NOINLINE __attribute__((noinline))
        static NOINLINE int plain(int k) { return k < 2 ? k : plain(k - 1) + plain(k - 2); }
        static NOINLINE int fib(int k) { return k < 2 ? k : fib(k - 1) + fib(k - 2); }
        static NOINLINE int turn(void) { return fib(n); }
        static long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t);
                                return t.tv_sec * 1000000000L + t.tv_nsec; }
        int main(void)
        {
            for (int i = 0; i < 60; i++) {
                long start = now();
                int same = plain(n);
                start = now() - start;
                printf("%ld %d\\n", start, same == turn());
            }
            return 0;
        }
    """})
    done = project.command(project.build("--fn", "fib", "--fn", "turn", "--exact", "--", "gcc",
                                         "-O1", "prog.c", "-o", "p"))
    turns = [tuple(map(int, line.split())) for line in done.out.splitlines()]
    assert {same for _, same in turns} == {1}
    plain_ns = statistics.median(ns for ns, _ in turns)
    report = project.report()
    assert report.calls("turn", "fib") == {"turn": 60, "fib": 60 * 92_735}
    assert report.row("fib")["sampled"] is True
    assert plain_ns / 4 < report.row("fib")["p50_ns"] < plain_ns * 4


def test_uncorrected_is_never_below_corrected(project: Project) -> None:
    report = project.profile_c(WORK + """
        static void __attribute__((noinline)) body(void) { BURN(100); }
        static void parent(void) { for (int i = 0; i < 1000; i++) body(); }
        int main(void) { for (int i = 0; i < 10; i++) parent(); return 0; }
    """)
    raw = project.report("--uncorrected")
    for name in ("body", "parent"):
        assert raw.row(name)["self_ns"] >= report.row(name)["self_ns"]


def test_waiting_is_wall_time_of_the_waiter(project: Project) -> None:
    report = project.profile_c(WORK + """
        #include <unistd.h>
        static void waits(void) { usleep(20000); }
        static void works(void) { BURN(1000); }
        int main(void) { for (int i = 0; i < 5; i++) { waits(); works(); } return 0; }
    """)
    assert report.row("waits")["self_ns"] >= 100_000_000
    assert report.functions[0]["name"] == "waits"


def test_threads_do_not_charge_each_other(project: Project) -> None:
    report = project.profile_c(WORK + """
        #include <pthread.h>
        static void *heavy(void *p) { BURN(10000000); return p; }
        static void waits(pthread_t t) { pthread_join(t, 0); }
        static void light(void) { BURN(1000); }
        int main(void)
        {
            pthread_t t;
            pthread_create(&t, 0, heavy, 0);
            light();
            waits(t);
            return 0;
        }
    """, "-pthread")
    assert report.row("light")["self_ns"] * 5 < report.row("heavy")["self_ns"]
    assert report.row("waits")["self_ns"] <= report.row("heavy")["self_ns"] * 1.3


def test_sum_over_threads_is_the_sum_over_functions(project: Project) -> None:
    report = project.profile_c(WORK + """
        #include <pthread.h>
        static void work(void) { BURN(3000); free(malloc(8)); }
        static void *body(void *p) { for (int i = 0; i < 50; i++) work(); return p; }
        int main(void)
        {
            pthread_t t[3];
            for (int i = 0; i < 3; i++) pthread_create(&t[i], 0, body, 0);
            for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
            body(0);
            return 0;
        }
    """, "-pthread")
    threads = project.json("report", "--threads", "--all")["threads"]
    for key in ("calls", "self_ns", "alloc_count", "alloc_bytes", "free_count"):
        for name in ("work", "body", "main"):
            summed = sum(f[key] for t in threads for f in t["functions"] if f["name"] == name)
            assert summed == report.row(name)[key], (name, key)
