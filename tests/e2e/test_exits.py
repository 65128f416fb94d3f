"""The runtime sees every way out of a function, and every way out of a program leaves a correct run."""
from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path

import pytest

from conftest import BURN, Project, Report

BOTH_C = pytest.mark.parametrize("compiler", ["gcc", "clang"])
LEVELS = pytest.mark.parametrize("level", ["-O0", "-O2"])


# Out of a function -----------------------------------------------------------------------------


@BOTH_C
@LEVELS
def test_return_goto_and_fall_through(project: Project, compiler: str, level: str) -> None:
    report = project.profile_c("""
        static int many_returns(int n) { if (n == 1) return 1; if (n == 2) return 2; return n; }
        static int with_goto(int n) { if (n > 2) goto out; n++; out: return n; }
        static void falls(void) { }
        static void returns_void(int n) { if (n) return; }
        int main(void)
        {
            for (int i = 0; i < 10; i++) {
                many_returns(i); with_goto(i); falls(); returns_void(i);
            }
            return 0;
        }
    """, level, compiler=compiler)
    assert report.called() == {"main": 1, "many_returns": 10, "with_goto": 10, "falls": 10,
                               "returns_void": 10}


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@LEVELS
def test_exceptions(project: Project, compiler: str, level: str) -> None:
    report = project.profile_c("""
        #include <stdexcept>
        #include <cstdlib>
        struct Noisy { ~Noisy() { } };
        int thrower(int n) { Noisy noisy; if (n % 2) throw std::runtime_error("odd"); return n; }
        int middle(int n) { Noisy noisy; return thrower(n); }
        int rethrower(int n) { try { return middle(n); } catch (...) { throw; } }
        int catcher(int n) { try { return rethrower(n); } catch (std::exception &) { return -1; } }
        int after() { std::free(std::malloc(5)); return 0; }
        int main() { for (int i = 0; i < 1000; i++) { catcher(i); after(); } return 0; }
    """, level, compiler=compiler, name="prog.cc")
    assert report.calls("catcher", "rethrower", "middle", "thrower", "after", "main") == {
        "catcher": 1000, "rethrower": 1000, "middle": 1000, "thrower": 1000, "after": 1000,
        "main": 1}
    assert report.row("Noisy::~Noisy")["calls"] == 2000
    assert report.row("after")["alloc_count"] == 1000


@BOTH_C
@LEVELS
def test_longjmp_over_frames(project: Project, compiler: str, level: str) -> None:
    """The time after a longjmp belongs to the function that called it, not to the functions that it skipped."""
    report = project.profile_c("""
        #include <setjmp.h>
        #include <stdlib.h>
        static jmp_buf env;
        static void jumper(int n) { longjmp(env, n + 1); }
        static void middle(int n) { jumper(n); }
        static void outer(int n) { middle(n); }
        static void after(void) { free(malloc(7)); }
        static void lands(int n)
        {
            if (setjmp(env) == 0)
                outer(n);
            free(malloc(3));
        }
        int main(void)
        {
            for (int i = 0; i < 100000; i++) { lands(i); after(); }
            return 0;
        }
    """, level, compiler=compiler)
    n = 100000
    assert report.called() == {"main": 1, "lands": n, "outer": n, "middle": n, "jumper": n,
                               "after": n}
    assert report.row("after")["alloc_bytes"] == 7 * n
    assert report.row("lands")["alloc_bytes"] == 3 * n
    assert report.row("jumper")["alloc_count"] == 0
    assert report.row("main")["alloc_count"] == 0
    assert sum(report.data["dropped"].values()) == 0


@BOTH_C
def test_longjmp_to_main_without_return(project: Project, compiler: str) -> None:
    """An interpreter's error loop: never returns normally, always jumps back."""
    report = project.profile_c("""
        #include <setjmp.h>
        static jmp_buf env;
        static volatile int turns;
        static void deep(int n) { if (n == 0) longjmp(env, 1); deep(n - 1); }
        static void command(void) { turns++; deep(10); }
        int main(void)
        {
            setjmp(env);
            if (turns < 100000)
                command();
            return 0;
        }
    """, compiler=compiler)
    assert report.called() == {"main": 1, "command": 100000, "deep": 1100000}


def test_longjmp_out_of_a_signal_handler(project: Project) -> None:
    report = project.profile_c("""
        #include <setjmp.h>
        #include <signal.h>
        static sigjmp_buf env;
        static void handler(int s) { siglongjmp(env, s); }
        static void fault(void) { *(volatile int *)0 = 1; }
        static void attempt(void) { if (!sigsetjmp(env, 1)) fault(); }
        int main(void)
        {
            signal(SIGSEGV, handler);
            for (int i = 0; i < 200; i++) attempt();
            return 0;
        }
    """)
    assert report.called() == {"main": 1, "attempt": 200, "fault": 200, "handler": 200}


@BOTH_C
def test_pthread_exit_and_cancellation(project: Project, compiler: str) -> None:
    report = project.profile_c("""
        #include <pthread.h>
        #include <unistd.h>
        static void leaf(int n) { if (n) pthread_exit(0); }
        static void inner(int n) { leaf(n); }
        static void *leaves(void *p) { inner(0); inner(1); return p; }
        static int fd[2];
        static void waits(void) { char c; (void)!read(fd[0], &c, 1); }
        static void *cancelled(void *p) { waits(); return p; }
        static void spin(void) { for (;;) pthread_testcancel(); }
        static void *spinner(void *p) { spin(); return p; }
        int main(void)
        {
            pthread_t t;
            (void)!pipe(fd);
            for (int i = 0; i < 50; i++) {
                pthread_create(&t, 0, leaves, 0);
                pthread_join(t, 0);
                pthread_create(&t, 0, cancelled, 0);
                pthread_cancel(t);
                pthread_join(t, 0);
            }
            pthread_create(&t, 0, spinner, 0);
            pthread_cancel(t);
            pthread_join(t, 0);
            return 0;
        }
    """, "-pthread", compiler=compiler)
    calls = report.calls("leaves", "inner", "leaf", "main")
    assert calls == {"leaves": 50, "inner": 100, "leaf": 100, "main": 1}
    # a thread cancelled before it began never enters its function
    cancelled = report.calls("cancelled", "waits")
    assert cancelled["cancelled"] == cancelled["waits"] <= 50


@BOTH_C
@pytest.mark.parametrize("how,status", [("exit(3)", 3), ("quick_exit(4)", 4), ("_exit(5)", 5),
                                        ("_Exit(6)", 6), ("abort()", -signal.SIGABRT),
                                        ("raise(SIGTERM)", -signal.SIGTERM),
                                        ("raise(SIGINT)", -signal.SIGINT),
                                        ("raise(SIGKILL)", -signal.SIGKILL),
                                        ("*(volatile int *)0 = 1", -signal.SIGSEGV),
                                        ("__builtin_trap()", -signal.SIGILL),
                                        ("raise(SIGQUIT)", -signal.SIGQUIT)])
def test_ends_in_the_middle(project: Project, compiler: str, how: str, status: int) -> None:
    """Ways to end a program: its exit status is unchanged, and no call is missing."""
    report = project.profile_c(f"""
        #include <stdlib.h>
        #include <signal.h>
        #include <unistd.h>
        #include <sys/resource.h>
        int tick(int n) {{ free(malloc(n)); return n; }}
        void deep(int n) {{ if (n) deep(n - 1); else {{ {how}; }} }}
        int update(int n) {{ tick(n); tick(n); if (n == 50) deep(5); return n; }}
        int main(void)
        {{
            struct rlimit none = {{0, 0}};
            setrlimit(RLIMIT_CORE, &none);
            for (int i = 1; i <= 100; i++) update(i);
            return 0;
        }}
    """, "-w", compiler=compiler, status=status)
    assert report.called() == {"main": 1, "update": 50, "tick": 100, "deep": 6}
    assert report.row("tick")["alloc_count"] == 100
    assert report.row("tick")["alloc_bytes"] == 2 * sum(range(1, 51))
    assert report.row("tick")["free_count"] == 100


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_tail_calls(project: Project, compiler: str) -> None:
    report = project.profile_c("""
        __attribute__((noinline)) int last(int n) { return n; }
        __attribute__((noinline)) int middle(int n) { return last(n + 1); }
        __attribute__((noinline)) int first(int n) { return middle(n + 1); }
        __attribute__((noinline)) int loop(int n) { return n ? loop(n - 1) : 0; }
        int main(void) { int s = 0; for (int i = 0; i < 1000; i++) s += first(i) + loop(10);
                         return s == 0; }
    """, "-O3", compiler=compiler)
    assert report.called() == {"main": 1, "first": 1000, "middle": 1000, "last": 1000,
                               "loop": 11000}


@BOTH_C
def test_signal_handlers_that_call_instrumented_functions(project: Project, compiler: str) -> None:
    report = project.profile_c("""
        #include <signal.h>
        #include <stdio.h>
        #include <stdlib.h>
        static volatile int seen;
        static void in_handler(void) { seen++; }
        static void handler(int s) { (void)s; in_handler(); }
        static void work(int n) { free(malloc(n)); if (n % 10 == 0) raise(SIGUSR1); }
        int main(void)
        {
            signal(SIGUSR1, handler);
            for (int i = 1; i <= 1000; i++) work(i);
            printf("%d\\n", seen);
            return 0;
        }
    """, compiler=compiler)
    assert project.out == "100\n"
    assert report.called() == {"main": 1, "work": 1000, "handler": 100, "in_handler": 100}


def test_asynchronous_signals(project: Project) -> None:
    """A timer interrupts instrumented code everywhere, including probes and the allocator."""
    report = project.profile_c("""
        #include <signal.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <sys/time.h>
        static volatile long hits, works;
        static void in_handler(void) { hits++; }
        static void handler(int s) { (void)s; in_handler(); }
        static void tiny(void) { works++; }
        static void work(int n) { free(malloc(n & 255)); tiny(); tiny(); }
        int main(void)
        {
            struct itimerval every = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
            signal(SIGALRM, handler);
            setitimer(ITIMER_REAL, &every, 0);
            for (int i = 0; hits < 500; i++) work(i);
            setitimer(ITIMER_REAL, &never, 0);
            printf("%ld %ld\\n", hits, works);
            return 0;
        }
    """)
    hits, works = map(int, project.out.split())
    assert report.calls("main", "work", "tiny") == {"main": 1, "work": works // 2, "tiny": works}
    # a call from a handler that interrupted the runtime may be dropped, but is counted as dropped
    calls = report.calls("handler", "in_handler")
    assert sum(calls.values()) + report.data["dropped"]["busy"] == 2 * hits
    assert report.row("work")["alloc_count"] == works // 2


def test_handler_on_an_alternate_stack(project: Project) -> None:
    report = project.profile_c("""
        #include <signal.h>
        #include <stdlib.h>
        static void handler(int s) { (void)s; }
        static void work(void) { raise(SIGUSR1); }
        int main(void)
        {
            stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
            struct sigaction act = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
            sigaltstack(&stack, 0);
            sigaction(SIGUSR1, &act, 0);
            for (int i = 0; i < 300; i++) work();
            return 0;
        }
    """)
    assert report.called() == {"main": 1, "work": 300, "handler": 300}


def test_swapcontext(project: Project) -> None:
    """Stackful coroutines that switch in the middle of instrumented calls."""
    report = project.profile_c("""
        #include <ucontext.h>
        #include <stdlib.h>
        #include <stdio.h>
        static ucontext_t there, here;
        static int step(int n) { swapcontext(&there, &here); return n; }
        static void body(void) { for (int i = 0; i < 100; i++) step(i); }
        static void resume_it(void) { swapcontext(&here, &there); }
        int main(void)
        {
            getcontext(&there);
            there.uc_stack.ss_sp = malloc(65536);
            there.uc_stack.ss_size = 65536;
            there.uc_link = &here;
            makecontext(&there, body, 0);
            for (int i = 0; i < 101; i++) resume_it();
            puts("done");
            return 0;
        }
    """)
    assert project.out == "done\n"
    assert report.called() == {"main": 1, "body": 1, "step": 100, "resume_it": 101}


# Recursion -------------------------------------------------------------------------------------


DEEP = """
    static int deep(int n) { return n ? 1 + deep(n - 1) : 0; }
    int main(void) { return deep(100000) != 100000; }
"""


@BOTH_C
def test_deep_recursion(project: Project, compiler: str) -> None:
    """100 000 levels on the usual 8 MB of stack: the guard must not cause an overflow."""
    report = project.profile_c(DEEP, "-O2", compiler=compiler)
    assert report.called() == {"main": 1, "deep": 100001}


@BOTH_C
def test_deep_recursion_without_optimization(project: Project, compiler: str) -> None:
    program = project.cc(DEEP, "-O0", compiler=compiler)
    project.command("sh", "-c", 'ulimit -s 65536; exec "$0"', program)
    assert project.report().called() == {"main": 1, "deep": 100001}


def test_deep_recursion_of_a_large_body(project: Project) -> None:
    """Bodies long enough to be timed, deeper than the stack of open calls."""
    report = project.profile_c(BURN + """
        static int deep(int n) { BURN(300);
                                 return n ? 1 + deep(n - 1) : 0; }
        static void after(void) { BURN(300); }
        int main(void) { for (int i = 0; i < 3; i++) { deep(100000); after(); } return 0; }
    """, "-O2")
    assert report.calls("main", "deep", "after") == {"main": 1, "deep": 300003, "after": 3}
    assert report.row("deep")["self_ns"] > report.row("after")["self_ns"]


def test_recursion_counts_once_in_totals(project: Project) -> None:
    report = project.profile_c(BURN + """
        static void odd(int n);
        static void even(int n) { BURN(2000); if (n) odd(n - 1); }
        static void odd(int n) { BURN(2000); if (n) even(n - 1); }
        int main(void) { for (int i = 0; i < 50; i++) even(100); return 0; }
    """)
    main = report.row("main")
    for name in ("even", "odd"):
        row = report.row(name)
        assert 0 < row["total_ns"] <= main["total_ns"] * 1.05, name
        assert row["self_ns"] <= row["total_ns"] * 1.05
    assert report.calls("even", "odd") == {"even": 51 * 50, "odd": 50 * 50}


# Out of a program ------------------------------------------------------------------------------


def test_fork_child_has_its_own_run(project: Project) -> None:
    program = project.cc("""
        #include <unistd.h>
        #include <stdlib.h>
        #include <sys/wait.h>
        int in_child(void) { free(malloc(1)); return 0; }
        int in_parent(void) { free(malloc(1)); return 0; }
        int main(void)
        {
            for (int i = 0; i < 5; i++) in_parent();
            pid_t pid = fork();
            if (pid == 0) { for (int i = 0; i < 70; i++) in_child(); exit(0); }
            for (int i = 0; i < 5; i++) in_parent();
            int status;
            waitpid(pid, &status, 0);
            return WIFEXITED(status) ? WEXITSTATUS(status) : 9;
        }
    """)
    project.command(program)
    runs = [project.report(str(path)) for path in project.run_files()]
    parents = [r for r in runs if r.calls("in_parent")["in_parent"] == 10]
    assert len(parents) == 1
    assert parents[0].calls("in_child", "main") == {"in_child": 0, "main": 1}
    assert parents[0].row("in_parent")["alloc_count"] == 10
    assert len(runs) <= 2
    if len(runs) == 2:
        child = next(r for r in runs if r is not parents[0])
        assert child.calls("in_child", "in_parent") == {"in_child": 70, "in_parent": 0}


@pytest.mark.parametrize("way", ["_exit(0)", "abort()", "exit(0)"])
def test_fork_many_children(project: Project, way: str) -> None:
    program = project.cc(f"""
        #include <unistd.h>
        #include <stdlib.h>
        #include <sys/wait.h>
        int child(void) {{ free(malloc(9)); return 0; }}
        int parent(void) {{ free(malloc(9)); return 0; }}
        int main(void)
        {{
            for (int i = 0; i < 20; i++) {{
                parent();
                if (fork() == 0) {{ child(); {way}; }}
            }}
            while (wait(0) > 0) {{ }}
            return 0;
        }}
    """)
    project.command(program)
    counts = [r.called() for r in map(lambda p: project.report(str(p)), project.run_files())]
    assert [c for c in counts if c.get("parent") == 20], counts
    for c in counts:
        assert c.get("parent", 0) in (0, 20) and c.get("child", 0) in (0, 1), counts


def test_fork_from_a_thread_while_others_work(project: Project) -> None:
    project.profile_c("""
        #include <pthread.h>
        #include <stdlib.h>
        #include <sys/wait.h>
        #include <unistd.h>
        static volatile int stop;
        static void work(void) { free(malloc(64)); }
        static void *busy(void *p) { while (!stop) work(); return p; }
        static void forks(void) { pid_t p = fork(); if (!p) { work(); _exit(0); }
                                  waitpid(p, 0, 0); }
        static void *forker(void *p) { for (int i = 0; i < 30; i++) forks(); return p; }
        int main(void)
        {
            pthread_t a, b;
            pthread_create(&a, 0, busy, 0);
            pthread_create(&b, 0, forker, 0);
            pthread_join(b, 0);
            stop = 1;
            pthread_join(a, 0);
            return 0;
        }
    """, "-pthread")
    parents = [r for r in (project.report(str(p)) for p in project.run_files())
               if r.calls("main")["main"] == 1]
    assert len(parents) == 1
    assert parents[0].calls("forks", "forker", "busy") == {"forks": 30, "forker": 1, "busy": 1}


def test_vfork_and_exec(project: Project) -> None:
    report = project.profile_c("""
        #include <unistd.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <sys/wait.h>
        int before(void) { return 0; }
        int after(void) { return 0; }
        static void spawn(void)
        {
            pid_t pid = vfork();
            if (pid == 0) { execl("/bin/true", "true", (char *)0); _exit(127); }
            waitpid(pid, 0, 0);
        }
        int main(void)
        {
            for (int i = 0; i < 10; i++) { before(); spawn(); after(); }
            printf("%d\\n", system("exit 3") >> 8);
            FILE *f = popen("echo hello", "r");
            char line[16];
            fputs(fgets(line, sizeof line, f), stdout);
            return pclose(f);
        }
    """)
    assert project.out == "3\nhello\n"
    assert report.called() == {"main": 1, "before": 10, "spawn": 10, "after": 10}


def test_posix_spawn(project: Project) -> None:
    report = project.profile_c("""
        #include <spawn.h>
        #include <sys/wait.h>
        extern char **environ;
        static int start(void)
        {
            char *argv[] = {"sh", "-c", "exit 4", 0};
            pid_t pid;
            int status;
            posix_spawn(&pid, "/bin/sh", 0, 0, argv, environ);
            waitpid(pid, &status, 0);
            return WEXITSTATUS(status);
        }
        int main(void) { return start() + start(); }
    """, status=8)
    assert report.called() == {"main": 1, "start": 2}


def test_exec_keeps_what_came_before(project: Project) -> None:
    """exec ends the program without an exit, and piano does not follow the new program."""
    program = project.cc("""
        #include <unistd.h>
        int update(int n) { return n; }
        int main(void)
        {
            for (int i = 0; i < 40; i++) update(i);
            execl("/bin/sh", "sh", "-c", "echo replaced; exit 6", (char *)0);
            return 1;
        }
    """)
    done = project.command(program, check=False)
    assert (done.out, done.status) == ("replaced\n", 6)
    assert project.report().called() == {"main": 1, "update": 40}


def test_exec_of_an_instrumented_program(project: Project) -> None:
    program = project.cc("""
        #include <unistd.h>
        int first(void) { return 0; }
        int second(void) { return 0; }
        int main(int argc, char **argv)
        {
            if (argc > 1) { for (int i = 0; i < 3; i++) second(); return 0; }
            for (int i = 0; i < 5; i++) first();
            return execl(argv[0], argv[0], "again", (char *)0);
        }
    """)
    project.command(program)
    calls = [project.report(str(p)).called() for p in project.run_files()]
    assert sorted(calls, key=str) == [{"first": 5, "main": 1}, {"main": 1, "second": 3}]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_killed_from_outside_loses_no_completed_call(project: Project, number: int) -> None:
    program = project.cc(BURN + """
        #include <stdio.h>
        #include <unistd.h>
        int update(int n) { BURN(2000); return n; }
        int main(void)
        {
            for (int i = 0; i < 1234; i++) update(i);
            puts("ready");
            fflush(stdout);
            for (;;) pause();
        }
    """, select=["--fn", "update"])
    child = subprocess.Popen([program], cwd=project.root, env=project.env, stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"ready\n"
    child.send_signal(number)
    assert child.wait(20) == -number
    child.stdout.close()
    report = project.report()
    assert report.called() == {"update": 1234}
    assert report.frame_count == 1234
    told = project.piano("report")
    assert "exit cleanly" in told.err + told.out or "recovered" in told.err + told.out


def test_signal_dispositions_are_unchanged(project: Project) -> None:
    source = """
        #include <stdio.h>
        #include <string.h>
        int update(void) { return 0; }
        int main(void)
        {
            char line[256];
            update();
            FILE *f = fopen("/proc/self/status", "r");
            while (fgets(line, sizeof line, f))
                if (!strncmp(line, "Sig", 3) && strncmp(line, "SigQ", 4)) fputs(line, stdout);
            fclose(f);
            return 0;
        }
    """
    project.write({"plain.c": source})
    # libpiano.so needs libpthread, which reserves two signals before glibc 2.34.
    project.command("gcc", "plain.c", "-o", "plain", "-Wl,--no-as-needed", "-lpthread")
    want = project.command(project.root / "plain").out
    assert "SigCgt" in want
    project.profile_c(source)
    assert project.out == want


def test_users_own_handlers_run(project: Project) -> None:
    report = project.profile_c("""
        #include <signal.h>
        #include <stdio.h>
        #include <stdlib.h>
        static void bye(void) { puts("atexit"); }
        static void term(int s) { (void)s; puts("handler"); exit(9); }
        int update(void) { return 0; }
        int main(void)
        {
            atexit(bye);
            signal(SIGTERM, term);
            update();
            raise(SIGTERM);
            return 0;
        }
    """, status=9)
    assert project.out == "handler\natexit\n"
    assert report.called() == {"main": 1, "update": 1, "term": 1, "bye": 1}


def test_functions_called_by_atexit_and_destructors_count(project: Project) -> None:
    report = project.profile_c("""
        #include <stdlib.h>
        static void late(void) { free(malloc(3)); }
        static void at_exit(void) { late(); }
        __attribute__((destructor)) static void destructor(void) { late(); }
        __attribute__((constructor)) static void constructor(void) { late(); }
        int main(void) { atexit(at_exit); return 0; }
    """)
    assert report.called() == {"main": 1, "at_exit": 1, "destructor": 1, "constructor": 1,
                               "late": 3}
    assert report.row("late")["alloc_count"] == 3


def test_cxx_static_objects(project: Project) -> None:
    report = project.profile_c("""
        #include <cstdio>
        struct Global {
            Global() { touch(); }
            ~Global() { touch(); }
            void touch() { n++; }
            int n = 0;
        };
        static Global global;
        static thread_local Global per_thread;
        int main() { per_thread.touch(); return 0; }
    """, compiler="g++", name="prog.cc")
    assert report.calls("Global::Global", "Global::~Global", "Global::touch") == {
        "Global::Global": 2, "Global::~Global": 2, "Global::touch": 5}


PLUGIN = {
    "plugin.c": "#include <stdlib.h>\nint plugin_work(int n) { free(malloc(n)); return n; }\n",
    "host.c": """
        #include <dlfcn.h>
        #include <stdio.h>
        #include <string.h>
        int host_work(int n) { return n; }
        int main(int argc, char **argv)
        {
            char path[4096];
            int rounds = 100, sum = 0;
            (void)argc;
            snprintf(path, sizeof path, "%s", argv[0]);
            strcpy(strrchr(path, '/') + 1, "plugin.so");
            for (int i = 1; i <= rounds; i++) {
                void *lib = dlopen(path, RTLD_NOW);
                if (!lib) { fprintf(stderr, "%s\\n", dlerror()); return 1; }
                int (*work)(int) = (int (*)(int))dlsym(lib, "plugin_work");
                sum += work(i) + host_work(i);
                dlclose(lib);
            }
            printf("%d\\n", sum);
            return 0;
        }
    """,
    "build.sh": "set -e\ngcc -O1 -fno-builtin -shared -fPIC plugin.c -o plugin.so\n"
                "gcc -O1 host.c -o host -ldl\n",
}


def test_dlopen_and_dlclose_a_hundred_times(project: Project) -> None:
    project.write(PLUGIN)
    program = project.build("--", "sh", "build.sh")
    assert project.command(program).out == "10100\n"
    report = project.report()
    assert report.called() == {"main": 1, "host_work": 100, "plugin_work": 100}
    assert report.row("plugin_work")["alloc_count"] == 100
    assert report.row("plugin_work")["file"] == "plugin.c"


def test_dlopen_into_a_plain_program(project: Project) -> None:
    """Only the plugin is instrumented: the host is not linked with the runtime."""
    project.write(PLUGIN)
    project.piano("build", "--fn", "plugin_work", "--", "sh", "build.sh")
    program = next((project.root / ".piano").rglob("host"))
    assert project.command(program).out == "10100\n"
    assert project.report().called() == {"plugin_work": 100}


def test_many_plugins_loaded_at_once(project: Project) -> None:
    names = [f"p{i}" for i in range(20)]
    for name in names:
        project.write({f"{name}.c": f"int {name}_work(int n) {{ return n; }}\n"})
    project.write({"host.c": """
        #include <dlfcn.h>
        #include <stdio.h>
        #include <string.h>
        int main(int argc, char **argv)
        {
            char path[4096], symbol[64];
            (void)argc;
            for (int i = 0; i < 20; i++) {
                snprintf(path, sizeof path, "%s", argv[0]);
                sprintf(strrchr(path, '/') + 1, "p%d.so", i);
                sprintf(symbol, "p%d_work", i);
                void *lib = dlopen(path, RTLD_NOW);
                int (*work)(int) = (int (*)(int))dlsym(lib, symbol);
                for (int k = 0; k <= i; k++) work(k);
            }
            return 0;
        }
    """, "build.sh": "set -e\nfor p in " + " ".join(names)
                     + "; do gcc -shared -fPIC $p.c -o $p.so; done\ngcc host.c -o host -ldl\n"})
    project.command(project.build("--", "sh", "build.sh"))
    want = {f"p{i}_work": i + 1 for i in range(20)}
    assert project.report().called() == {"main": 1, **want}


def test_exit_while_threads_run(project: Project) -> None:
    for _ in range(3):
        program = project.cc("""
            #include <pthread.h>
            #include <sched.h>
            #include <stdlib.h>
            #define ADD(p, n) __sync_fetch_and_add(p, n)
            static long ready, begun;
            static void work(void) { free(malloc(32)); ADD(&ready, 1); }
            static void *busy(void *p) { ADD(&begun, 1); for (;;) work(); return p; }
            int main(void)
            {
                pthread_t t;
                for (int i = 0; i < 4; i++) pthread_create(&t, 0, busy, 0);
                while (ADD(&ready, 0) < 1000 || ADD(&begun, 0) < 4)
                    sched_yield();
                exit(7);
            }
        """, "-pthread", "-w")
        done = project.command(program, check=False, limit=20)
        assert done.status == 7
        report = project.report()
        assert report.row("busy")["calls"] == 4
        assert report.row("work")["calls"] >= 1000


def test_main_thread_leaves_first(project: Project) -> None:
    """pthread_exit in main: the process runs until the last thread ends."""
    report = project.profile_c("""
        #include <pthread.h>
        #include <stdio.h>
        static pthread_t first;
        static void late(void) { puts("late"); }
        static void *other(void *p) { pthread_join(first, 0); late(); return p; }
        int main(void)
        {
            pthread_t t;
            first = pthread_self();
            pthread_create(&t, 0, other, 0);
            pthread_exit(0);
        }
    """, "-pthread")
    assert project.out == "late\n"
    assert report.called() == {"main": 1, "other": 1, "late": 1}


def test_daemon(project: Project) -> None:
    """fork, setsid, fork again, all descriptors closed: the daemon's data is in its run."""
    program = project.cc("""
        #include <fcntl.h>
        #include <stdlib.h>
        #include <unistd.h>
        #include <sys/wait.h>
        int serve(int n) { return n; }
        int main(void)
        {
            int fd[2];
            (void)!pipe(fd);
            if (fork()) { char c; close(fd[1]); (void)!read(fd[0], &c, 1); _exit(0); }
            setsid();
            int keep = fcntl(fd[1], F_DUPFD, 900);
            for (int i = 0; i < 900; i++) close(i);
            (void)!chdir("/");
            for (int i = 0; i < 77; i++) serve(i);
            (void)keep;
            exit(0);
        }
    """)
    project.command(program)
    counts = [project.report(str(p)).called() for p in project.run_files()]
    assert {"serve": 77} in [{k: v for k, v in c.items() if k == "serve"} for c in counts], counts


def test_program_that_closes_all_descriptors(project: Project) -> None:
    report = project.profile_c("""
        #include <unistd.h>
        #include <fcntl.h>
        #include <stdlib.h>
        int update(int n) { return n; }
        int main(void)
        {
            for (int i = 0; i < 10; i++) update(i);
            for (int i = 3; i < 1024; i++) close(i);
            int fd = open("mine.txt", O_CREAT | O_RDWR | O_TRUNC, 0600);
            for (int i = 0; i < 2000; i++) update(i);
            (void)!write(fd, "only this", 9);
            close(fd);
            exit(0);
        }
    """)
    assert (project.root / "mine.txt").read_text() == "only this"
    assert report.called() == {"main": 1, "update": 2010}


def test_low_descriptors_belong_to_the_program(project: Project) -> None:
    project.profile_c("""
        #include <stdio.h>
        #include <fcntl.h>
        int update(void) { return 0; }
        int main(void) { update(); printf("%d\\n", open("/dev/null", O_RDONLY)); return 0; }
    """)
    assert project.out == "3\n"


def test_errno_survives_probes_and_allocations(project: Project) -> None:
    project.profile_c("""
        #include <errno.h>
        #include <stdio.h>
        #include <stdlib.h>
        static int touch(void) { return 0; }
        int main(void)
        {
            int bad = 0;
            for (int i = 0; i < 20000; i++) {
                errno = 77;
                touch();
                free(malloc(10));
                bad += errno != 77;
            }
            printf("%d\\n", bad);
            return 0;
        }
    """)
    assert project.out == "0\n"


def test_no_file_may_grow(project: Project) -> None:
    """RLIMIT_FSIZE of 0: the program ends as without piano, without a SIGXFSZ from piano."""
    program = project.cc("""
        #include <sys/resource.h>
        #include <stdio.h>
        #include <signal.h>
        int update(int n) { return n; }
        int main(void)
        {
            struct rlimit none = {0, 0};
            setrlimit(RLIMIT_FSIZE, &none);
            for (int i = 0; i < 5000; i++) update(i);
            return 5;
        }
    """)
    done = project.command(program, check=False)
    assert done.status == 5, repr(done)


def test_output_of_the_program_is_its_own(project: Project) -> None:
    program = project.cc("""
        #include <stdio.h>
        int update(void) { return 0; }
        int main(void) { update(); puts("out"); fputs("err\\n", stderr); return 0; }
    """)
    done = project.command(program)
    assert (done.out, done.err) == ("out\n", "err\n")


def test_chdir_does_not_move_the_run(project: Project) -> None:
    (project.root / "sub").mkdir()
    report = project.profile_c("""
        #include <unistd.h>
        int update(void) { return 0; }
        int main(void) { (void)!chdir("sub"); for (int i = 0; i < 4; i++) update(); return 0; }
    """)
    assert report.called() == {"main": 1, "update": 4}
    assert list((project.root / "sub").iterdir()) == []


def test_v1_of_a_run_ended_by_exit(project: Project) -> None:
    """exit() in the middle of the only call: no frames, but every function."""
    report: Report = project.profile_c("""
        #include <stdlib.h>
        static void inner(void) { exit(0); }
        static void outer(void) { inner(); }
        int main(void) { outer(); return 1; }
    """)
    assert report.called() == {"main": 1, "outer": 1, "inner": 1}
    old = json.loads(next(project.runs.glob("*.json")).read_text())
    assert {f["name"]: f["calls"] for f in old["functions"]} == {"main": 1, "outer": 1, "inner": 1}


@pytest.mark.parametrize("blocks", [1, 4, 8, 16, 64])
def test_a_small_file_size_limit_does_not_end_the_program(project: Project, blocks: int) -> None:
    """`ulimit -f`: the kernel sends SIGXFSZ to the writer beyond the limit. No code repeats here, so that the v1 file is written too."""
    functions = "".join(f"int a_function_with_a_long_name_{i}(void) {{ return {i}; }}\n" for i in range(60))
    calls = "".join(f"a_function_with_a_long_name_{i}();" for i in range(60))
    program = project.cc(functions + f"int main(void) {{ {calls} return 5; }}")
    done = project.command("sh", "-c", f"ulimit -f {blocks}; {program}", check=False)
    assert done.status == 5, repr(done)


def frame_numbers(path: Path) -> list[bytes]:
    """Count of all frame lines in the run file."""
    return re.findall(rb'^\{"frame":(\d+),', path.read_bytes(), re.MULTILINE)


def test_exit_writes_no_line_twice(project: Project) -> None:
    """exit() while 16 threads write lines: each line is written by its thread or by the exiting one, not by both."""
    leaves = "".join(f"static __attribute__((noinline)) void leaf_{i}(void) {{ sink++; }}\n" for i in range(40))
    calls = "".join(f"leaf_{i}();" for i in range(40))
    program = project.cc(f"""
        #include <pthread.h>
        #include <stdlib.h>
        static volatile int sink;
        static long turns;
        {leaves}
        static __attribute__((noinline)) void turn(void) {{ {calls} __sync_fetch_and_add(&turns, 1); }}
        static void *run(void *p) {{ for (;;) turn(); return p; }}
        int main(int argc, char **argv)
        {{
            pthread_t t;
            for (int i = 0; i < 16; i++) pthread_create(&t, 0, run, 0);
            while (__sync_fetch_and_add(&turns, 0) < 2000 + atoi(argv[1])) ;
            exit(3);
        }}
    """, "-pthread", "-w", select=["--frame", "turn"])
    twice = 0
    for i in range(40):
        done = project.command(program, 97 * i, check=False, limit=30)
        assert done.status == 3
        path = project.only_run()
        numbers = frame_numbers(path)
        assert len(numbers) > 1000
        twice += len(numbers) != len(set(numbers))
        if i % 10 == 0:
            assert project.report().frame_count >= len(numbers)
        for left in project.runs.iterdir():
            left.unlink()
    assert twice == 0


def test_calls_after_a_jump_out_of_any_handler(project: Project) -> None:
    """A timer's handler leaves by siglongjmp, sometimes in the middle of the runtime. No later call is lost."""
    report = project.profile_c("""
        #include <setjmp.h>
        #include <signal.h>
        #include <sys/time.h>
        static sigjmp_buf landing;
        static volatile int jumps, sink;
        static void jump(int number) { siglongjmp(landing, 1); }
        static __attribute__((noinline)) void leaf(void) { sink++; }
        static __attribute__((noinline)) void busy(void) { for (;;) for (int i = 0; i < 20; i++) leaf(); }
        static __attribute__((noinline)) void step(void) { sink++; }
        int main(void)
        {
            struct itimerval once = {{0, 0}, {0, 500}};
            signal(SIGALRM, jump);
            for (jumps = 0; jumps < 300; jumps++) {
                if (sigsetjmp(landing, 1) == 0) { setitimer(ITIMER_REAL, &once, 0); busy(); }
                step();
            }
            return 0;
        }
    """, select=["--fn", "busy", "--fn", "leaf", "--fn", "step", "--fn", "main"], env={"PIANO_TIMING": "all"})
    assert report.row("step")["calls"] == 300
    assert report.data["dropped"]["busy"] == 0
