"""CPU samples by timers in the program, where the kernel refuses perf events: `piano record` under a seccomp filter, and the
functions of piano.h. The program's signals, threads and processes work as without piano."""
from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from conftest import LIB, LIMIT_S, PIANO, ROOT, Done, Project
from samples import CPU, DENY, HAS_CPU, HAS_HEAP, LONG, OFF, SHARES, WORK, Recording, compiled, shares

HAS_EVENTS = 16
TIMERS = 3
OWN_STACK = 0xc0000000

THREADS = WORK + r"""
    #include <pthread.h>
    static void *work(void *arg)
    {
        long n = (long)arg;
        pthread_setname_np(pthread_self(), n == 3 ? "three" : "one");
        for (int i = 0; i < 60; i++)
            a(n * 300000);
        return NULL;
    }
"""


@pytest.fixture
def deny(project: Project) -> Path:
    return compiled(project, DENY, name="deny")


def record(project: Project, deny: Path, *words: Any, flags: tuple = ("--cpu=499",), name: str = "x.rec",
           **options: Any) -> tuple[Recording, Done]:
    done = project.command(deny, PIANO, "record", *flags, "-o", name, "--", *words, **options)
    return Recording(project.root / name), done


# Contents of the recording --------------------------------------------------------------------------------


@pytest.mark.timing
@pytest.mark.parametrize("hz", [99, 499, 10000])
def test_shares_are_right_for_slow_and_fast_timers(project: Project, deny: Path, hz: int) -> None:
    """Shares and sums are right for timers that are slower and faster than the kernel's tick."""
    (project.root / "x.rec").unlink(missing_ok=True)
    program = compiled(project, SHARES)
    before = os.times()
    rec, done = record(project, deny, program, LONG, flags=(f"--cpu={hz}",))
    found = shares(rec, "a", "b")
    assert 0.65 < found["a"] < 0.85, (found, done)
    assert rec.flags & HAS_CPU and not rec.flags & HAS_HEAP and rec.source == TIMERS and rec.hz == hz
    samples = rec.kind(CPU)
    assert rec.samples_said == len(samples) > 20 and rec.lost == 0 and not rec.kind(OFF)
    assert all(s.value >= 10**9 // hz and s.value % (10**9 // hz) == 0 for s in samples)
    assert all(s.stack >= OWN_STACK and s.tid == s.pid == rec.pid for s in samples)
    assert rec.unwound >= 0.95 * len(samples)
    used = os.times().children_user - before.children_user  # includes a few milliseconds of the tool
    assert 0.8 * used < sum(s.value for s in samples) / 1e9 < 1.05 * used + 0.02
    chains = [tuple(s.names[:3]) for s in samples]
    assert chains.count(("burn", "a", "main")) > chains.count(("burn", "b", "main")) > 0


def test_report_and_doctor_name_the_source_of_samples(project: Project, deny: Path) -> None:
    """`record`, `report` and `doctor` name the source of the samples."""
    rec, done = record(project, deny, compiled(project, SHARES), check=False)
    assert rec.exit_status == 1 and done.status == 0
    assert "CPU samples are taken by timers in the program" in done.err and "forbidden here" in done.err
    assert re.search(r"\d+ CPU samples \(timers, 499 Hz\)", done.err), done
    report = project.piano("report", "--cpu", "x.rec")
    assert "timers in the program at 499 Hz" in report.out
    assert project.json("report", "--cpu", "x.rec")["cpu"]["source"] == "timers"
    doctor = project.command(deny, PIANO, "doctor", check=False)
    assert re.search(r"^warn  perf events: .*forbidden.* by timers in the program", doctor.out, re.M), doctor


def test_timers_work_with_heap_and_events(project: Project, deny: Path) -> None:
    rec, done = record(project, deny, compiled(project, SHARES), flags=())
    assert rec.flags & HAS_HEAP and rec.flags & HAS_CPU and rec.flags & HAS_EVENTS
    assert rec.source == TIMERS and rec.hz == 99 and len(rec.kind(CPU)) > 5
    report = project.piano("report", "x.rec")
    assert "burn" in report.out, report


@pytest.mark.timing
def test_samples_are_in_proportion_to_the_time_of_threads(project: Project, deny: Path) -> None:
    """Each thread has its own CPU time, and the times are in proportion."""
    (project.root / "x.rec").unlink(missing_ok=True)
    rec, _ = record(project, deny, compiled(project, THREADS + r"""
        int main(void)
        {
            pthread_t t[2];
            pthread_create(&t[0], NULL, work, (void *)1L);
            pthread_create(&t[1], NULL, work, (void *)3L);
            pthread_join(t[0], NULL);
            pthread_join(t[1], NULL);
            return 0;
        }
    """))
    times = {}
    for s in rec.kind(CPU):
        name = rec.threads[s.tid][1]
        times[name] = times.get(name, 0) + s.value
        assert rec.threads[s.tid][0] == rec.pid
    assert 2.4 < times["three"] / times["one"] < 3.6, times
    tops = {s.names[-1] for s in rec.kind(CPU) if s.tid != s.pid and s.stack_flags == 0}
    assert tops and not any("piano" in t for t in tops), tops
    assert all("work" in s.names for s in rec.kind(CPU) if s.tid != s.pid and s.stack_flags == 0 and "a" in s.names)


@pytest.mark.timing
def test_short_threads_have_their_time_and_leave_no_timer(project: Project, deny: Path) -> None:
    """Hundreds of threads, each as long as a period: their samples represent their time, and no timer remains."""
    (project.root / "x.rec").unlink(missing_ok=True)
    rec, done = record(project, deny, compiled(project, WORK + r"""
        #include <pthread.h>
        #include <string.h>
        #include <sys/resource.h>
        static void *work(void *arg) { a(1500000); return arg; }
        int main(void)
        {
            for (int i = 0; i < 200; i++) {
                pthread_t t[2];
                pthread_create(&t[0], NULL, work, NULL);
                pthread_create(&t[1], NULL, work, NULL);
                pthread_join(t[0], NULL);
                pthread_join(t[1], NULL);
            }
            char line[256];
            int timers = 0;
            FILE *f = fopen("/proc/self/timers", "r");
            while (f && fgets(line, sizeof line, f))
                timers += strncmp(line, "ID:", 3) == 0;
            struct rusage u;
            getrusage(RUSAGE_SELF, &u);
            printf("%d %ld\n", timers, u.ru_utime.tv_sec * 1000000 + u.ru_utime.tv_usec);
            return 0;
        }
    """), flags=("--cpu=199",))
    timers, used_us = map(int, done.out.split())
    assert timers <= 1, done
    sampled = sum(s.value for s in rec.kind(CPU))
    assert rec.lost == 0
    assert 0.85 < sampled / (used_us * 1000) < 1.15, (sampled, used_us)


def test_python_keeps_its_signals_threads_and_children(project: Project, deny: Path) -> None:
    """Python: its signals, its threads, its children."""
    rec, done = record(project, deny, "/usr/bin/python3", "-c", """if True:
        import signal, subprocess, threading, time
        def burn():
            end = time.thread_time() + 0.3
            while time.thread_time() < end: sum(range(1000))
        t = threading.Thread(target=burn); t.start(); burn(); t.join()
        assert signal.getsignal(signal.SIGPROF) == signal.SIG_DFL
        assert subprocess.run(["echo", "child"], capture_output=True).stdout == b"child\\n"
        print("fine")
    """)
    assert done.out == "fine\n"
    assert len({s.tid for s in rec.kind(CPU)}) == 2 and len(rec.kind(CPU)) > 50


# Side effects on the program ------------------------------------------------------------------------------


def test_errno_is_kept_and_reads_are_restarted(project: Project, deny: Path) -> None:
    """errno is unchanged; interrupted reads are restarted."""
    _, done = record(project, deny, compiled(project, WORK + r"""
        #include <errno.h>
        int main(void)
        {
            volatile int *error = &errno;
            for (int i = 0; i < 300; i++) {
                *error = 1000 + i;
                burn(1000000);
                if (*error != 1000 + i)
                    return 3;
            }
            int ends[2];
            char c;
            pipe(ends);
            if (fork() == 0) {
                burn(300000000);
                write(ends[1], "x", 1);
                _exit(0);
            }
            return read(ends[0], &c, 1) == 1 ? 0 : 4;
        }
    """), flags=("--cpu=10000",))
    assert done.status == 0


SETTERS = {
    "sigaction": "struct sigaction s = {.sa_handler = mine}, old; if (sigaction(SIGPROF, NULL, &old) || old.sa_handler) return 5;"
                 "if (sigaction(SIGPROF, &s, &old) || old.sa_handler) return 6;",
    "signal": "if (signal(SIGPROF, mine) != SIG_DFL) return 5;",
    "sysv_signal": "if (sysv_signal(SIGPROF, mine) != SIG_DFL) return 5;",
    "sigset": "if (sigset(SIGPROF, mine) != SIG_DFL) return 5;",
}


@pytest.mark.parametrize("how", SETTERS)
def test_program_with_its_own_handler_is_sampled_by_another_signal(project: Project, deny: Path, how: str) -> None:
    """A program with a handler for SIGPROF gets only its own signals; piano samples with another signal."""
    rec, done = record(project, deny, compiled(project, WORK + r"""
        #include <signal.h>
        #include <sys/time.h>
        static volatile int hits, strange;
        static void mine(int signal) { hits++; strange += signal != SIGPROF; }
        __attribute__((noinline)) static void before(void) { burn(60000000); __asm__ volatile(""); }
        __attribute__((noinline)) static void after(void) { burn(100000000); __asm__ volatile(""); }
        int main(void)
        {
            before();
            """ + SETTERS[how] + r"""
            after();
            int quiet = hits;
            raise(SIGPROF);
            printf("%d %d %d\n", quiet, hits, strange);
            return 0;
        }
    """))
    assert done.out == "0 1 0\n", done
    names = [n for s in rec.kind(CPU) for n in s.names]
    assert "before" in names and "after" in names
    assert rec.lost <= 2


def test_resetting_all_signals_does_not_end_the_program(project: Project, deny: Path) -> None:
    """The program resets all signals; the default action of SIGPROF would end it."""
    _, done = record(project, deny, compiled(project, WORK + r"""
        #include <signal.h>
        int main(void)
        {
            for (int k = 0; k < 5; k++) {
                for (int i = 1; i <= SIGRTMAX; i++)
                    signal(i, SIG_DFL);
                burn(40000000);
            }
            puts("alive");
            return 0;
        }
    """), flags=("--cpu=9999",))
    assert done.out == "alive\n", done


def test_foreign_sigprof_ends_the_program_as_without_piano(project: Project, deny: Path) -> None:
    """A SIGPROF from another process ends a program without a handler, as it does without piano."""
    program = compiled(project, WORK + r"""
        #include <sys/time.h>
        int main(void)
        {
            struct itimerval soon = {.it_value = {0, 200000}};
            burn(100000000);
            setitimer(ITIMER_PROF, &soon, NULL);
            for (;;)
                burn(1000);
        }
    """)
    assert project.command(program, check=False).status == -signal.SIGPROF
    rec, done = record(project, deny, program, check=False)
    assert done.status == 128 + signal.SIGPROF and len(rec.kind(CPU)) > 10


def test_blocked_samples_are_counted_as_lost(project: Project, deny: Path) -> None:
    """A thread that blocks the signal is not sampled; the missing samples are reported. No signal is pending after a later exec."""
    program = compiled(project, WORK + r"""
        #include <signal.h>
        int main(void)
        {
            sigset_t all;
            sigfillset(&all);
            sigprocmask(SIG_BLOCK, &all, NULL);
            burn(200000000);
            return 0;
        }
    """)
    rec, done = record(project, deny, program, check=False)
    assert done.status == 0
    assert len(rec.kind(CPU)) <= 1 and rec.lost > 20, (rec.lost, done)
    assert re.search(r"\d+ lost", done.err)
    assert "lost" in project.piano("report", "--cpu", "x.rec", check=False).err


def test_program_survives_ten_thousand_samples_a_second(project: Project, deny: Path) -> None:
    """Ten thousand samples per second, with threads, forks, libraries that are loaded and unloaded, and a final exec."""
    project.write({"lib.c": "int answer(void) { int s = 0; for (int i = 0; i < 200000; i++) { s += i; __asm__ volatile(\"\" : \"+r\"(s)); }"
                            " return s; }"})
    project.command("gcc", "-O2", "-shared", "-fPIC", "lib.c", "-o", "lib.so")
    rec, done = record(project, deny, compiled(project, WORK + r"""
        #include <dlfcn.h>
        #include <errno.h>
        #include <pthread.h>
        #include <sys/wait.h>
        static volatile int over;
        static void *spin(void *arg)
        {
            while (!over) {
                void *p = malloc(1000);
                a(1000);
                free(p);
            }
            return arg;
        }
        static void *brief(void *arg) { a(10000); return arg; }
        int main(int argc, char **argv)
        {
            pthread_t t, u;
            if (argc > 1) {
                a(30000000);
                puts("end");
                return 0;
            }
            pthread_create(&t, NULL, spin, NULL);
            for (int i = 0; i < 150; i++) {
                void *lib = dlopen("./lib.so", RTLD_NOW);
                int (*answer)(void) = (int (*)(void))dlsym(lib, "answer");
                answer();
                dlclose(lib);
                pthread_create(&u, NULL, brief, NULL);
                pthread_join(u, NULL);
                pid_t child = fork();
                if (child == 0) {
                    b(300000);
                    _exit(7);
                }
                int status;
                while (waitpid(child, &status, 0) < 0 && errno == EINTR)
                    ;
                if (!WIFEXITED(status) || WEXITSTATUS(status) != 7)
                    return 3;
            }
            over = 1;
            pthread_join(t, NULL);
            execl(argv[0], argv[0], "again", NULL);
            return 4;
        }
    """), flags=("--cpu=10000", "--heap=1K", "--events"))
    assert done.out == "end\n", done
    first = Recording(project.root / "x.rec.1")
    assert rec.kind(CPU) and len(first.kind(CPU)) > 10
    names = {n for s in first.kind(CPU) for n in s.names}
    assert {"spin", "main"} <= names and not {s.pid for s in first.samples} - {first.pid}
    project.piano("report", "x.rec.1")


def test_children_are_sampled_only_with_children(project: Project, deny: Path) -> None:
    """Each child has its own recording; with --no-children, children are not sampled."""
    program = compiled(project, WORK + r"""
        #include <sys/wait.h>
        __attribute__((noinline)) static void in_child(void) { burn(300000000); __asm__ volatile(""); }
        int main(void)
        {
            burn(100000000);
            pid_t child = fork();
            if (child == 0) {
                in_child();
                exit(0);
            }
            waitpid(child, NULL, 0);
            printf("%d\n", child);
            return 0;
        }
    """)
    rec, done = record(project, deny, program, flags=("--cpu=499", "--no-children"))
    assert "in_child" not in {n for s in rec.kind(CPU) for n in s.names}
    assert list(project.root.glob("x.rec-*")) == []
    _, done = record(project, deny, program, name="y.rec")
    child = Recording(project.root / f"y.rec-{done.out.strip()}")
    names = [n for s in child.kind(CPU) for n in s.names]
    assert names.count("in_child") > 20 and child.source == TIMERS


def test_a_fork_while_another_thread_is_in_the_loader(project: Project, deny: Path) -> None:
    """The child inherits the loader's lock in its locked state, without the thread that would release it."""
    program = compiled(project, WORK + r"""
        #define _GNU_SOURCE
        #include <link.h>
        #include <pthread.h>
        #include <sys/wait.h>
        static pthread_barrier_t inside, over;
        static int look(struct dl_phdr_info *info, size_t size, void *arg)
        {
            pthread_barrier_wait(&inside);
            pthread_barrier_wait(&over);
            return 1;
        }
        static void *looks(void *arg) { dl_iterate_phdr(look, NULL); return NULL; }
        int main(void)
        {
            pthread_t t;
            pthread_barrier_init(&inside, NULL, 2);
            pthread_barrier_init(&over, NULL, 2);
            pthread_create(&t, NULL, looks, NULL);
            pthread_barrier_wait(&inside);
            pid_t child = fork();
            if (child == 0)
                _exit(0);
            waitpid(child, NULL, 0);
            pthread_barrier_wait(&over);
            pthread_join(t, NULL);
            puts("fine");
            return 0;
        }
    """)
    _, done = record(project, deny, "timeout", "20", program, flags=("--cpu=499", "--children"), check=False)
    assert done.out == "fine\n"


def test_small_stacks_are_walked_or_marked_as_lost(project: Project, deny: Path) -> None:
    """Coroutines and alternate signal stacks: walked or marked as lost, never a fault."""
    rec, done = record(project, deny, compiled(project, WORK + r"""
        #include <signal.h>
        #include <ucontext.h>
        static ucontext_t here, there;
        static char room[64 * 1024], alternate[64 * 1024];
        static void coroutine(void) { for (;;) { a(1000000); swapcontext(&there, &here); } }
        static void handler(int signal) { b(50000000); }
        int main(void)
        {
            stack_t s = {.ss_sp = alternate, .ss_size = sizeof alternate};
            struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
            sigaltstack(&s, NULL);
            sigaction(SIGUSR1, &action, NULL);
            getcontext(&there);
            there.uc_stack.ss_sp = room;
            there.uc_stack.ss_size = sizeof room;
            makecontext(&there, coroutine, 0);
            for (int i = 0; i < 100; i++)
                swapcontext(&here, &there);
            raise(SIGUSR1);
            puts("fine");
            return 0;
        }
    """), flags=("--cpu=1999",))
    assert done.out == "fine\n"
    names = [s.names for s in rec.kind(CPU)]
    assert any("coroutine" in n for n in names) and any("handler" in n and "main" in n for n in names)


def test_samples_survive_a_kill_at_any_moment(project: Project, deny: Path) -> None:
    """SIGKILL at any moment: all samples taken before are in the recording."""
    program = compiled(project, THREADS + r"""
        int main(void)
        {
            for (;;) {
                pthread_t t;
                pthread_create(&t, NULL, work, (void *)1L);
                pthread_join(t, NULL);
            }
        }
    """)
    for i in range(10):
        name = f"k{i}.rec"
        running = subprocess.Popen([deny, PIANO, "record", "--cpu=4999", "-o", name, "--", program], cwd=project.root,
                                   env=project.env, stderr=subprocess.PIPE, start_new_session=True)
        end = time.monotonic() + LIMIT_S
        while not (project.root / name).exists() and time.monotonic() < end:
            assert running.poll() is None, running.communicate()
            time.sleep(0.01)
        time.sleep(random.uniform(0.02, 0.15))
        child = subprocess.run(["pgrep", "-P", str(running.pid)], capture_output=True, text=True).stdout.split()
        os.kill(int(child[0]), signal.SIGKILL)
        running.communicate(timeout=LIMIT_S)
        rec = Recording(project.root / name)
        assert abs(rec.samples_said - len(rec.kind(CPU))) <= 2
        assert all(s.stack == 0 or s.stack in rec.stacks for s in rec.samples)
        done = project.piano("report", "--cpu", name)
        assert "could not be read" not in done.err, done


# Impossible cases ------------------------------------------------------------------------------------------


def test_static_program_is_refused(project: Project, deny: Path) -> None:
    """piano cannot preload its library into the program, and says so."""
    program = compiled(project, SHARES, "-O2", "-static")
    done = project.command(deny, PIANO, "record", "--cpu", "-o", "x.rec", "--", program, check=False)
    assert done.status == 1 and "statically linked" in done.err and "piano build" in done.err
    assert "record --cpu" not in done.err and not (project.root / "x.rec").exists()


def test_program_runs_without_samples_when_no_timer_is_left(project: Project, deny: Path) -> None:
    """Each timer needs one of the signals that may be queued (ulimit -i); without them, the program runs unsampled."""
    program = compiled(project, SHARES)
    done = project.command("prlimit", "--sigpending=0", deny, PIANO, "record", "--events", "--cpu", "-o", "x.rec", "--", program)
    rec = Recording(project.root / "x.rec")
    assert not rec.flags & HAS_CPU and rec.samples_said == 0, done


# The functions of piano.h ----------------------------------------------------------------------------------


API = WORK + r"""
    #include <errno.h>
    #include <fcntl.h>
    #include <pthread.h>
    #include <signal.h>
    #include <string.h>
    #include <sys/wait.h>
    #include "piano.h"
    static volatile int over;
    __attribute__((noinline)) static void worker_burns(void) { burn(200000); __asm__ volatile(""); }
    static void *worker(void *arg) { while (!over) worker_burns(); return arg; }
    __attribute__((noinline)) static void unseen(void) { burn(60000000); __asm__ volatile(""); }
    __attribute__((noinline)) static void seen(void) { burn(200000000); __asm__ volatile(""); }
"""


def api(project: Project, body: str, **options: Any) -> tuple[Recording | None, Done]:
    project.write({"api.c": API + "int main(void)\n{\n" + body + "\nreturn 0;\n}\n"})
    project.command("gcc", "-w", "-O2", "-fno-optimize-sibling-calls", f"-I{ROOT}/include", "api.c", "-o", "api", f"-L{LIB}",
                    "-lpiano", f"-Wl,-rpath,{LIB}", "-pthread")
    done = project.command(*options.pop("before", ()), project.root / "api", check=False, **options)
    assert done.status == 0, done
    files = sorted(project.runs.glob("*.rec"))
    return (Recording(files[-1]) if files else None), done


@pytest.mark.parametrize("source", ["AUTO", "TIMERS", "CPU_CLOCK"])
def test_interface_samples_all_threads_from_start_to_stop(project: Project, source: str) -> None:
    """Samples all threads, also those that existed before, from start to stop."""
    rec, done = api(project, r"""
        pthread_t t;
        struct piano_cpu_stats s;
        struct piano_cpu_options o = {.size = sizeof o, .frequency_hz = 500, .source = PIANO_SOURCE_""" + source + r"""};
        if (piano_cpu_stats(&s) != -ENOTCONN || piano_cpu_stop() != -ENOTCONN)
            return 3;
        pthread_create(&t, NULL, worker, NULL);
        unseen();
        int err = piano_cpu_start(&o);
        if (err) {
            printf("refused %d\n", err);
            over = 1;
            pthread_join(t, NULL);
            return 0;
        }
        if (piano_cpu_start(&o) != -EALREADY)
            return 4;
        seen();
        if (piano_cpu_stats(&s) || !s.is_sampling || s.threads != 2 || s.samples < 20 || s.frequency_hz != 500)
            return 5;
        if (piano_cpu_stop() != 0 || piano_cpu_stop() != -ENOTCONN)
            return 6;
        uint64_t sampled = s.samples;
        unseen();
        if (piano_cpu_stats(&s) || s.is_sampling || s.threads || s.samples > sampled + 4)
            return 7;
        over = 1;
        pthread_join(t, NULL);
        if (piano_cpu_start(NULL) != 0)
            return 8;
        seen();
        if (piano_cpu_stats(&s) || s.frequency_hz != 99 || s.source != PIANO_SOURCE_TIMERS || s.samples <= sampled || s.lost > 2)
            return 9;
    """)
    if done.out.startswith("refused"):
        pytest.skip("perf events are refused here")
    assert rec and rec.flags & HAS_CPU and rec.source == TIMERS
    names = [n for s in rec.kind(CPU) for n in s.names]
    assert names.count("seen") > 20 and names.count("worker_burns") > 20 and "unseen" not in names
    project.piano("report", "--cpu")


def test_kernel_frames_come_before_those_of_the_program(project: Project) -> None:
    """With perf and permission to sample the kernel, the kernel's frames come before the program's."""
    rec, done = api(project, r"""
        struct piano_cpu_options o = {.size = sizeof o, .frequency_hz = 1000, .source = PIANO_SOURCE_CPU_CLOCK, .include_kernel = 1};
        int err = piano_cpu_start(&o);
        if (err) {
            printf("refused %d\n", err);
            return 0;
        }
        static char page[1 << 16];
        int fd = open("/dev/zero", O_RDONLY);
        for (int i = 0; i < 40000; i++)
            read(fd, page, sizeof page);
        piano_cpu_stop();
    """)
    if done.out.startswith("refused"):
        pytest.skip("perf events are refused here")
    mixed = [s.names for s in rec.kind(CPU) if s.names[:1] == ["kernel"]]
    assert len(mixed) > 20 and all("main" in names for names in mixed if len(names) < 60), mixed[:3]


def test_interface_refuses_wrong_options(project: Project, deny: Path) -> None:
    rec, done = api(project, r"""
        struct piano_cpu_options o = {.size = sizeof o, .source = PIANO_SOURCE_CPU_CLOCK};
        struct { struct piano_cpu_options o; uint64_t more; } longer = {{.size = sizeof longer}};
        printf("%d ", piano_cpu_start(&o) == -EPERM);
        o = (struct piano_cpu_options){.size = sizeof o, .frequency_hz = 10001};
        printf("%d ", piano_cpu_start(&o) == -EINVAL);
        o = (struct piano_cpu_options){.size = sizeof o, .source = 4};
        printf("%d ", piano_cpu_start(&o) == -EINVAL);
        o = (struct piano_cpu_options){.size = 0};
        printf("%d ", piano_cpu_start(&o) == -EINVAL);
        o = (struct piano_cpu_options){.size = sizeof o, .include_kernel = 1};
        printf("%d ", piano_cpu_start(&o) == -ENOTSUP);
        longer.more = 1;
        printf("%d ", piano_cpu_start(&longer.o) == -EINVAL);
        longer.more = 0;
        printf("%d ", piano_cpu_start(&longer.o));
        printf("%d\n", piano_cpu_stop());
    """, before=(deny,))
    assert done.out == "1 1 1 1 1 1 0 0\n", done


def test_program_that_closes_all_descriptors_loses_only_samples(project: Project) -> None:
    """perf has a descriptor per thread. A program that closes unknown descriptors only loses its samples."""
    rec, done = api(project, r"""
        struct piano_cpu_options o = {.size = sizeof o, .source = PIANO_SOURCE_CPU_CLOCK};
        int err = piano_cpu_start(&o);
        if (err) {
            printf("refused %d\n", err);
            return 0;
        }
        for (int i = 3; i < 2000; i++)
            close(i);
        for (int i = 3; i < 1000; i++)
            dup(0);
        seen();
        piano_cpu_stop();
        unseen();
        for (int i = 3; i < 1000; i++)
            if (fcntl(i, F_GETFD) < 0)
                return 4;
        puts("fine");
    """)
    if done.out.startswith("refused"):
        pytest.skip("perf events are refused here")
    assert done.out == "fine\n"


def test_interface_does_not_sample_what_the_tool_samples(project: Project) -> None:
    """The tool already samples the program into the same file, so the program must not sample itself."""
    api(project, "")
    project.write({"api.c": API + 'int main(void) { printf("%d\\n", piano_cpu_start(NULL) == -EBUSY); return 0; }'})
    project.command("gcc", "-w", "-O2", f"-I{ROOT}/include", "api.c", "-o", "api", f"-L{LIB}", "-lpiano", f"-Wl,-rpath,{LIB}", "-pthread")
    done = project.piano("record", "--cpu", "--events", "-o", "x.rec", "--", project.root / "api")
    assert done.out == "1\n" or "timers in the program" in done.err, done


@pytest.mark.parametrize("source", ["TIMERS", "CPU_CLOCK"])
def test_interface_survives_ten_thousand_samples_a_second(project: Project, source: str) -> None:
    """Ten thousand samples per second, threads that start and end, forks, starts and stops; then the program uses the signal itself."""
    rec, done = api(project, r"""
        struct piano_cpu_options o = {.size = sizeof o, .frequency_hz = 10000, .source = PIANO_SOURCE_""" + source + r"""};
        struct piano_cpu_stats s;
        pthread_t t;
        int err = piano_cpu_start(&o);
        if (err) {
            printf("refused %d\n", err);
            return 0;
        }
        for (int i = 0; i < 40; i++) {
            over = 0;
            pthread_create(&t, NULL, worker, NULL);
            pid_t child = fork();
            if (child == 0) {
                seen();
                _exit(piano_cpu_stats(&s) == -ENOTCONN ? 7 : 1);
            }
            if (i % 4 == 3 && (piano_cpu_stop() || piano_cpu_start(&o)))
                return 3;
            seen();
            over = 1;
            pthread_join(t, NULL);
            int status;
            if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 7)
                return 4;
        }
        if (signal(SIGPROF, SIG_DFL) != SIG_DFL)
            return 5;
        seen();
        if (piano_cpu_stats(&s) || s.is_sampling != (o.source == PIANO_SOURCE_TIMERS))
            return 6;
        puts("fine");
    """.replace("seen();", "burn(5000000);"), limit=120)
    if done.out.startswith("refused"):
        pytest.skip("perf events are refused here")
    assert done.out == "fine\n" and rec and len(rec.kind(CPU)) > 50
    assert {s.pid for s in rec.samples} == {rec.pid}
    names = {n for s in rec.kind(CPU) for n in s.names}
    assert {"main", "worker"} <= names
