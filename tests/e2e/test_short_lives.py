"""CPU samples of threads and processes that are shorter than the sampling period: their sum is the CPU time that the
kernel counted, with perf events of CPUs or of threads, and with timers in the program. Also the messages about missing samples."""
from __future__ import annotations

import math
import os
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from conftest import PIANO, Done, Project
from pages import Page
from samples import CPU, DENY, DENY_CPUS, DENY_LATER, WORK, Recording, compiled
from test_cpu import REFUSED

PERIOD = 10**9 // 99
PERF = pytest.mark.skipif(bool(REFUSED), reason=f"perf events are refused here: {REFUSED}")
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root may sample whole CPUs")

# One thread or process burns about NS in two functions, a quarter and three quarters of it. Lengths are random: lives of equal
# length can run in step with the kernel's ticks, so that every tick meets the same function (docs/record.md).
LIVES = r"""
    #include <pthread.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <sys/resource.h>
    #include <sys/wait.h>
    #include <time.h>
    #include <unistd.h>
    static long ns;
    static inline __attribute__((always_inline)) void burn_for(long most)
    {
        struct timespec from, now;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
        do {
            for (volatile int i = 0; i < 3000; i++)
                ;
            clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        } while ((now.tv_sec - from.tv_sec) * 1000000000L + now.tv_nsec - from.tv_nsec < most);
    }
    __attribute__((noinline)) void one(void) { burn_for(ns / 4); __asm__ volatile(""); }
    __attribute__((noinline)) void three(void) { burn_for(3 * ns / 4); __asm__ volatile(""); }
    static void *live(void *arg) { one(); three(); return arg; }
    static long used_us(int who)
    {
        struct rusage u;
        getrusage(who, &u);
        return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 + u.ru_utime.tv_usec + u.ru_stime.tv_usec;
    }
    int main(int argc, char **argv)
    {
        long lives = atol(argv[2]), mean = atol(argv[3]);
        for (long i = 0; i < lives; i++) {
            pthread_t t;
            ns = mean / 2 + (long)((double)mean * rand() / RAND_MAX);
            if (argv[1][0] == 't') {
                pthread_create(&t, NULL, live, NULL);
                pthread_join(t, NULL);
            } else if (fork() == 0) {
                live(NULL);
                _exit(0);
            } else {
                wait(NULL);
            }
        }
        printf("%ld\n", used_us(RUSAGE_SELF) + used_us(RUSAGE_CHILDREN));
        struct rusage u;
        getrusage(RUSAGE_SELF, &u);
        fprintf(stderr, "preempted %ld times\n", u.ru_nivcsw);
    }
"""
MS = 10**6
KINDS = [("threads", 300, 8 * MS), ("threads", 3000, MS // 2), ("threads", 3000, MS // 5), ("processes", 300, 8 * MS),
         ("processes", 1500, MS // 2)]
NAMES = ["-".join(map(str, kind)) for kind in KINDS]


def record(project: Project, *command: object, before: tuple = (), flags: tuple = ("--cpu",)) -> tuple[Recording, Done]:
    path = project.root / "x.rec"
    path.unlink(missing_ok=True)
    done = project.command(*before, PIANO, "record", *flags, "-o", path, "--", *command, check=False)
    return Recording(path), done


def check_sum(rec: Recording, done: Done) -> None:
    """The samples represent the CPU time that the program counted, within 95 % of a Poisson process plus the time before the
    first sample and after the last line of output."""
    used, sampled = int(done.out) * 1000, sum(s.value for s in rec.kind(CPU))
    # A tenth more for the hundred microseconds in which the kernel starts and ends a thread, which the program cannot sample.
    half = 1.96 * math.sqrt(used * PERIOD) + 2 * PERIOD
    assert used - half - (0.12 * used if rec.source == 3 else 0) < sampled < used + half, (sampled / used, half / used, done)
    assert "cover" not in done.err, done


def check_shares(rec: Recording) -> None:
    time: Counter[str] = Counter()
    for s in rec.kind(CPU):
        for name in {"one", "three"} & set(s.names):
            time[name] += s.value
    n = sum(time.values()) / PERIOD
    assert n > 20, "hardly any sample has a stack"
    assert abs(time["three"] / (time["one"] + time["three"]) - 0.75) < 2 * math.sqrt(0.75 * 0.25 / n) + 0.03, time


@PERF
@AS_ROOT
@pytest.mark.timing
@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_samples_of_cpus_add_up_for_short_lives(project: Project, kind: tuple) -> None:
    rec, done = record(project, compiled(project, LIVES), *kind)
    check_sum(rec, done)
    check_shares(rec)


@PERF
@AS_ROOT
@pytest.mark.timing
@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_samples_of_threads_add_up_for_short_lives(project: Project, kind: tuple) -> None:
    """A user who may not sample whole CPUs: each thread is sampled separately, and the rest of its time is known when it ends."""
    deny = compiled(project, DENY_CPUS, name="deny")
    rec, done = record(project, compiled(project, LIVES), *kind, before=(deny,))
    used, sampled = int(done.out) * 1000, sum(s.value for s in rec.kind(CPU))
    assert abs(sampled / used - 1) < 0.1, (sampled / used, done)
    assert "cover" not in done.err, done
    said = project.piano("report", "--cpu", "x.rec")
    assert "of CPU time has no stack" in said.err and "truncated" not in said.err, said


@pytest.mark.timing
@pytest.mark.parametrize("kind", KINDS[:3], ids=NAMES[:3])
def test_timers_add_up_for_short_threads(project: Project, kind: tuple) -> None:
    deny = compiled(project, DENY, name="deny")
    rec, done = record(project, compiled(project, LIVES), *kind, before=(deny,))
    assert rec.source == 3 and rec.lost == 0
    check_sum(rec, done)
    preempted = re.search(r"preempted (\d+) times", done.err)
    if preempted and int(preempted[1]) > kind[1] // 10:
        pytest.skip("the kernel's ticks begin the lives of threads on a busy machine (docs/limits.md)")
    check_shares(rec)


@PERF
@AS_ROOT
def test_doctor_says_what_is_missing_for_short_threads(project: Project) -> None:
    deny = compiled(project, DENY_CPUS, name="deny")
    text = "without the stacks of threads that are shorter"
    assert text in project.command(deny, PIANO, "doctor", check=False).out
    assert text not in project.piano("doctor", check=False).out


# Coverage of the samples -----------------------------------------------------------------------------------


COVER = r"samples cover (\d+\.\d)% of (\d+\.\d+)(m?)s"


def covered(text: str) -> tuple[float, float] | None:
    """(share in percent, seconds) from TEXT."""
    found = re.search(COVER, text)
    return found and (float(found[1]), float(found[2]) / (1000 if found[3] else 1))


def test_missing_samples_are_said_everywhere(project: Project) -> None:
    """A program that blocks the signal of its timers for most of its time: `record`, the report, its JSON, the overview and the
    page show how much of the time the samples cover."""
    deny = compiled(project, DENY, name="deny")
    program = compiled(project, WORK + r"""
        #include <signal.h>
        int main(void)
        {
            sigset_t all;
            a(10000000);
            sigfillset(&all);
            sigprocmask(SIG_BLOCK, &all, NULL);
            a(200000000);
            return 0;
        }
    """)
    rec, done = record(project, program, before=(deny,))
    share, seconds = covered(done.err)
    cpu = project.json("report", "--cpu", "x.rec")["cpu"]
    assert cpu["incomplete"] is True and share < 50
    assert abs(cpu["coverage"] * 100 - share) < 0.1 and abs(cpu["kernel_cpu_ns"] / 1e9 - seconds) < 0.1
    assert cpu["cpu_ns"] == sum(s.value for s in rec.kind(CPU))
    assert covered(project.piano("report", "--cpu", "x.rec").out) == (share, seconds)
    assert covered(project.piano("report", "x.rec").out) == (share, seconds)
    project.piano("view", "x.rec", "-o", "x.html")
    page = Page((project.root / "x.html").read_text())
    assert any(covered(notice) == (share, seconds) for notice in page.meta["notices"]), page.meta["notices"]


@pytest.mark.parametrize("how", [pytest.param("perf", marks=PERF), "timers"])
def test_nothing_is_said_when_the_samples_are_complete(project: Project, how: str) -> None:
    deny = (compiled(project, DENY, name="deny"),) if how == "timers" else ()
    for turns in (1, 10, 60):
        rec, done = record(project, compiled(project, WORK + "int main(int c, char **v) { a(1000000 * atol(v[1])); return 0; }"), turns,
                           before=deny)
        if "own code only" in done.err:
            pytest.skip("the time in the kernel is not sampled for this user")
        assert "cover" not in done.err + project.piano("report", "--cpu", "x.rec").out, done
        cpu = project.json("report", "--cpu", "x.rec")["cpu"]
        assert cpu["incomplete"] is False and cpu["kernel_cpu_ns"] > 0


@PERF
@pytest.mark.parametrize("by", ["cpu", "thread"])
def test_attach_compares_with_the_time_of_the_process(project: Project, by: str) -> None:
    """Two long threads, one of which starts short ones, existed before."""
    before = (compiled(project, DENY_CPUS, name="deny"),) if by == "thread" else ()
    program = compiled(project, WORK + r"""
        #include <pthread.h>
        static void *forever(void *arg) { for (;;) a(1000000); }
        static void *brief(void *arg) { a(300000); return arg; }
        int main(void)
        {
            pthread_t t;
            pthread_create(&t, NULL, forever, NULL);
            for (;;) {
                a(300000);
                pthread_create(&t, NULL, brief, NULL);
                pthread_join(t, NULL);
            }
        }
    """)
    process = subprocess.Popen([program])
    try:
        done = project.command(*before, PIANO, "record", "--cpu", "--pid", process.pid, "--duration", "1", "-o", "x.rec")
    finally:
        process.kill()
        process.wait()
    cpu = project.json("report", "--cpu", "x.rec")["cpu"]
    if "own code only" in done.err:
        pytest.skip("the time in the kernel is not sampled for this user")
    half = 4 * math.sqrt(cpu["kernel_cpu_ns"] * PERIOD)
    assert cpu["kernel_cpu_ns"] > 0
    if by == "thread" and cpu["incomplete"]:  # the time of their creator is missing, and that is said (docs/limits.md)
        assert re.search(r"samples cover \d+\.\d% of", project.piano("report", "--cpu", "x.rec").out) and "samples cover" in done.err
        assert abs(cpu["coverage"] - cpu["cpu_ns"] / cpu["kernel_cpu_ns"]) < 0.001, cpu
        return
    assert cpu["incomplete"] is False, cpu
    assert abs(cpu["cpu_ns"] - cpu["kernel_cpu_ns"]) < half, cpu


def test_program_without_a_sample_is_told_what_it_used(project: Project) -> None:
    """The old message was wrong for hundreds of short threads: it called seconds of CPU time less than a period."""
    deny = compiled(project, DENY, name="deny")
    for i in range(5):
        rec, done = record(project, "true", before=(deny,))
        if rec.samples_said == 0:
            break
    used = re.search(r"the program used (\d+\.\d)(us|ms) of CPU time, and there is a sample every 10.1ms", done.err)
    assert used, done


# Impossible samples ----------------------------------------------------------------------------------------


@PERF
def test_failed_sampling_is_said_at_the_end_and_in_reports(project: Project) -> None:
    """The kernel reports that it can sample, but then opens no event of the program."""
    deny = compiled(project, DENY_LATER, name="deny")
    program = compiled(project, WORK + "int main(void) { char *p = malloc(1000); a(10000000); return p == 0; }")
    for flags in ("--cpu",), ("--cpu", "--heap=1"):
        rec, done = record(project, program, flags=flags, before=(deny,))
        assert done.status == 0, done
        lines = done.err.splitlines()
        assert any("no CPU samples are taken: it needs a file descriptor" in line for line in lines), done
        assert any("recording: x.rec" in line and "no CPU samples: it needs a file descriptor" in line for line in lines), done
        for flag in ("--cpu",), ():
            said = project.piano("report", *flag, "x.rec", check=False)
            assert "has no CPU samples, although they were asked for: Too many open files" in said.err, said
        assert rec.samples_said == 0


def test_timers_that_fail_are_said_at_the_end_and_in_reports(project: Project) -> None:
    deny = compiled(project, DENY, name="deny")
    program = compiled(project, WORK + "int main(void) { a(10000000); return 0; }")
    _, done = record(project, program, flags=("--cpu", "--events"), before=("prlimit", "--sigpending=0", deny))
    assert re.search(r"recording: x.rec \(.*no CPU samples: ", done.err), done
    said = project.piano("report", "x.rec")
    assert "has no CPU samples, although they were asked for" in said.err, said
