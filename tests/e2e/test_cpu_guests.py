"""Programs that use signals, stacks, threads and exec themselves, sampled by timers or perf events inside them: they behave
as without piano, and their time is not missing."""
from __future__ import annotations

from pathlib import Path

import pytest

from conftest import LIB, PIANO, PRELOAD, ROOT, Project
from samples import CPU, DENY, WORK, Recording, compiled


@pytest.fixture
def deny(project: Project) -> Path:
    return compiled(project, DENY, name="deny")


def record(project: Project, deny: Path, program: Path, hz: int = 499, **options):
    done = project.command(deny, PIANO, "record", f"--cpu={hz}", "-o", "x.rec", "--", program, check=False, **options)
    return Recording(project.root / "x.rec"), done


WAITS = WORK + r"""
    #include <errno.h>
    #include <poll.h>
    #include <signal.h>
    #include <string.h>
    #include <sys/signalfd.h>
    #include <time.h>
    int main(void)
    {
        sigset_t set;
        siginfo_t info;
        struct timespec soon = {0, 100000000}, none = {0, 0}, begin, end;
        int got = 0;
        sigfillset(&set);
        sigprocmask(SIG_BLOCK, &set, NULL);
        burn(30000000);
        clock_gettime(CLOCK_MONOTONIC, &begin);
        printf("sigtimedwait %d", sigtimedwait(&set, &info, &soon));
        clock_gettime(CLOCK_MONOTONIC, &end);
        long ns = (end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec;
        printf(" %d %d\n", errno == EAGAIN, ns >= 100000000);
        burn(30000000);
        printf("at once %d\n", sigtimedwait(&set, NULL, &none));
        struct pollfd one = {signalfd(-1, &set, 0), POLLIN, 0};
        burn(30000000);
        printf("signalfd %d\n", poll(&one, 1, 0));
        burn(30000000);
        kill(getpid(), SIGXFSZ + 3); /* delivered after SIGPROF by the kernel */
        printf("sigwait %d", sigwait(&set, &got));
        printf(" %d\n", got == SIGXFSZ + 3);
        burn(30000000);
        raise(SIGRTMAX);
        printf("sigwaitinfo %d\n", sigwaitinfo(&set, &info) == SIGRTMAX && info.si_pid == getpid());
        sigqueue(getpid(), SIGPROF, (union sigval){7}); /* from another sender */
        printf("own %d\n", sigwaitinfo(&set, &info) == SIGPROF && info.si_code == SI_QUEUE && info.si_value.sival_int == 7);
        return 0;
    }
"""


def test_sigwait_for_all_signals_gets_only_the_programs_own(project: Project, deny: Path) -> None:
    """The program blocks all signals and calls sigwait for any: it gets its own signals and none of piano's."""
    program = compiled(project, WAITS)
    plain = project.command(program)
    rec, done = record(project, deny, program)
    assert done.status == 0 and done.out == plain.out, done
    assert "sigtimedwait -1 1 1\nat once -1\nsignalfd 0\nsigwait 0 1\nsigwaitinfo 1\nown 1\n" == plain.out
    assert rec.lost > 20


@pytest.mark.parametrize("size", [2048, 4096, 8192])
def test_small_alternate_stacks_are_not_overwritten(project: Project, deny: Path, size: int) -> None:
    """Memory below the program's alternate stack is unchanged, and the thread is sampled."""
    program = compiled(project, WORK + r"""
        #include <signal.h>
        #include <string.h>
        #include <sys/mman.h>
        int main(void)
        {
            enum { SIZE = """ + str(size) + r""", BELOW = 65536 };
            char *memory = mmap(NULL, BELOW + SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            memset(memory, 0x5a, BELOW + SIZE);
            stack_t stack = {.ss_sp = memory + BELOW, .ss_size = SIZE}, before;
            if (sigaltstack(&stack, &before) || !(before.ss_flags & SS_DISABLE))
                return 3;
            a(200000000);
            for (int i = 0; i < BELOW; i++)
                if (memory[i] != 0x5a)
                    return 4;
            return 0;
        }
    """)
    rec, done = record(project, deny, program)
    assert done.status == 0, done
    assert sum("a" in s.names for s in rec.kind(CPU)) > 20 and rec.lost <= 2


def test_threads_of_c11_are_sampled(project: Project, deny: Path) -> None:
    program = compiled(project, WORK + r"""
        #include <threads.h>
        static int work(void *arg) { a(100000000); return *(int *)arg; }
        int main(void)
        {
            thrd_t t;
            int number = -7, result = 0;
            if (thrd_create(&t, work, &number) != thrd_success || thrd_join(t, &result) != thrd_success)
                return 3;
            return result == -7 ? 0 : 4;
        }
    """)
    rec, done = record(project, deny, program)
    assert done.status == 0, done
    assert sum("work" in s.names for s in rec.kind(CPU)) > 20


def test_gprof_counts_its_own_ticks_only(project: Project, deny: Path) -> None:
    """gprof installs its handler inside the C library. It counts its own ticks only, and piano still takes samples."""
    program = compiled(project, WORK + r"""
        #include <sys/resource.h>
        int main(void)
        {
            struct rusage used;
            a(300000000);
            getrusage(RUSAGE_SELF, &used);
            printf("%ld\n", used.ru_utime.tv_sec * 1000 + used.ru_utime.tv_usec / 1000);
            return 0;
        }
    """, "-O2", "-pg", "-no-pie")
    rec, done = record(project, deny, program, hz=99)
    assert done.status == 0 and len(rec.kind(CPU)) > 10 and rec.lost <= 2, (rec.lost, done)
    flat = project.command("gprof", "-b", "-p", program, "gmon.out").out.splitlines()
    seconds = max(float(line.split()[1]) for line in flat if line.split() and line.split()[-1] in ("burn", "a", "main"))
    assert seconds < 1.3 * int(done.out) / 1000 + 0.05, (flat, done)


@pytest.mark.parametrize("kernel", [0, 1])
@pytest.mark.parametrize("is_blocked", [0, 1])
def test_pending_sample_does_not_end_the_program_after_exec(project: Project, kernel: int, is_blocked: int) -> None:
    """A pending signal does not end the program that exec starts."""
    project.write({"again.c": WORK + r"""
        #include <errno.h>
        #include <piano.h>
        #include <signal.h>
        int main(int argc, char **argv)
        {
            struct piano_cpu_options o = {.size = sizeof o, .frequency_hz = 10000, .source = PIANO_SOURCE_CPU_CLOCK,
                                          .include_kernel = """ + str(kernel) + r"""};
            sigset_t all;
            char left[16];
            sigfillset(&all);
            sigprocmask(SIG_UNBLOCK, &all, NULL);
            if (atoi(argv[1]) == 0) {
                puts("alive");
                return 0;
            }
            if (piano_cpu_start(&o) != 0) {
                puts("refused");
                return 0;
            }
            burn(300000);
            execl("/nowhere", "no", NULL);
            if (errno != ENOENT)
                return 3;
            if (""" + str(is_blocked) + r""")
                sigprocmask(SIG_BLOCK, &all, NULL);
            burn(1000000);
            snprintf(left, sizeof left, "%d", atoi(argv[1]) - 1);
            execl("/proc/self/exe", argv[0], left, NULL);
            return 4;
        }
    """})
    project.command("gcc", "-O2", f"-I{ROOT}/include", "again.c", "-o", "again", f"-L{LIB}", "-lpiano", f"-Wl,-rpath,{LIB}")
    done = project.command(project.root / "again", 150, check=False)
    if done.out == "refused\n":
        pytest.skip("perf events are refused here")
    assert (done.status, done.out) == (0, "alive\n")


def test_every_exec_function_passes_its_arguments(project: Project) -> None:
    """Every function of the exec family gets its arguments and environment, also in a vfork child."""
    program = compiled(project, WORK + r"""
        #include <errno.h>
        #include <string.h>
        #include <sys/wait.h>
        int main(int argc, char **argv)
        {
            char *words[] = {"sh", "-c", "echo $X $0 $1 $#", "zero", "one", "two", NULL}, *env[] = {"X=given", NULL};
            const char *w = words[2];
            setenv("X", "own", 1);
            for (int i = 0; i < 8; i++) {
                fflush(stdout);
                if (vfork() == 0) {
                    switch (i) {
                    case 0: execl("/bin/sh", "sh", "-c", w, "zero", "one", "two", NULL); break;
                    case 1: execlp("sh", "sh", "-c", w, "zero", "one", "two", NULL); break;
                    case 2: execle("/bin/sh", "sh", "-c", w, "zero", "one", "two", NULL, env); break;
                    case 3: execv("/bin/sh", words); break;
                    case 4: execvp("sh", words); break;
                    case 5: execve("/bin/sh", words, env); break;
                    case 6: execvpe("sh", words, env); break;
                    case 7: execvp("no-such-program", words); break;
                    }
                    _exit(errno);
                }
                int status;
                wait(&status);
                printf("%d\n", WEXITSTATUS(status));
            }
            return 0;
        }
    """.replace("#include <errno.h>", "#define _GNU_SOURCE\n#include <errno.h>"), "-D_GNU_SOURCE")
    plain = project.command(program)
    done = project.command(program, env={"LD_PRELOAD": PRELOAD})
    assert done.out == plain.out and plain.out.count("one two") == 0 and plain.out.count("zero one 2\n0\n") == 7, plain


@pytest.mark.parametrize("end", ["_exit(0)", "raise(SIGKILL)"])
@pytest.mark.parametrize("is_blocked", [0, 1])
def test_lost_samples_are_counted_when_the_program_is_killed(project: Project, deny: Path, end: str, is_blocked: int) -> None:
    """The program cannot count its lost samples itself, so the tool does."""
    program = compiled(project, WORK + r"""
        #include <signal.h>
        int main(void)
        {
            sigset_t all;
            sigfillset(&all);
            sigprocmask(""" + ("SIG_BLOCK" if is_blocked else "SIG_UNBLOCK") + r""", &all, NULL);
            burn(200000000);
            """ + end + r""";
        }
    """)
    rec, done = record(project, deny, program)
    if is_blocked:
        assert len(rec.kind(CPU)) <= 1 and rec.lost > 20, (rec.lost, done)
        assert "nothing was sampled" in done.err and "less CPU time" not in done.err
    else:
        assert len(rec.kind(CPU)) > 20 and rec.lost <= 2, (rec.lost, done)


def test_switching_between_timers_and_perf_events_ends_no_program(project: Project) -> None:
    """Starts and stops sampling by timers and by perf events while threads start and end: no late signal ends the program."""
    project.write({"turns.c": WORK + r"""
        #include <piano.h>
        #include <pthread.h>
        #include <signal.h>
        #include <time.h>
        static volatile int over;
        static void *leaf(void *arg) { burn(500000); return NULL; }
        static void *threads(void *arg)
        {
            pthread_t t[8];
            while (!over) {
                for (int i = 0; i < 8; i++)
                    pthread_create(&t[i], NULL, leaf, NULL);
                for (int i = 0; i < 8; i++)
                    pthread_join(t[i], NULL);
            }
            return NULL;
        }
        static void *waits(void *arg)
        {
            sigset_t all;
            siginfo_t info;
            const struct timespec soon = {0, 1000000};
            sigfillset(&all);
            pthread_sigmask(SIG_BLOCK, &all, NULL);
            while (!over) {
                burn(500000);
                if (sigtimedwait(&all, &info, &soon) > 0)
                    _exit(3);
            }
            return NULL;
        }
        int main(void)
        {
            pthread_t t[2];
            time_t end = time(NULL) + 2;
            pthread_create(&t[0], NULL, threads, NULL);
            pthread_create(&t[1], NULL, waits, NULL);
            for (int turn = 0; time(NULL) < end; turn++) {
                struct piano_cpu_options o = {.size = sizeof o, .frequency_hz = 5000,
                                              .source = turn % 2 ? PIANO_SOURCE_TIMERS : PIANO_SOURCE_CPU_CLOCK};
                piano_cpu_start(&o);
                burn(1000000);
                piano_cpu_stop();
            }
            over = 1;
            pthread_join(t[0], NULL);
            pthread_join(t[1], NULL);
            puts("alive");
            return 0;
        }
    """})
    project.command("gcc", "-O2", f"-I{ROOT}/include", "turns.c", "-o", "turns", f"-L{LIB}", "-lpiano", f"-Wl,-rpath,{LIB}", "-pthread")
    done = project.command(project.root / "turns", check=False)
    assert (done.status, done.out) == (0, "alive\n"), done
