"""Threads: names, ended threads, thousands of short ones, and their creators."""
from __future__ import annotations

from typing import Any

import pytest

from conftest import BURN, Project


def threads(project: Project) -> list[dict[str, Any]]:
    return project.json("report", "--threads", "--all")["threads"]


NAMED = BURN + """
    #define _GNU_SOURCE
    #include <pthread.h>
    static void work(int n) { BURN(n * 1000); }
    #define NAME(name) pthread_setname_np(pthread_self(), name)
    static void *renderer(void *p) { NAME("render"); work(3); return p; }
    static void *loader(void *p) { NAME("load"); work(1); work(1); return p; }
    static pthread_t t;
    static pthread_t start_renderer(void) { pthread_create(&t, 0, renderer, 0); return t; }
    static pthread_t start_loader(void) { pthread_create(&t, 0, loader, 0); return t; }
    int main(void)
    {
        pthread_join(start_renderer(), 0);
        pthread_join(start_loader(), 0);
        work(1);
        return 0;
    }
"""


def test_names_and_exited_threads(project: Project) -> None:
    report = project.profile_c(NAMED, "-pthread")
    assert report.called() == {"main": 1, "work": 4, "renderer": 1, "loader": 1,
                               "start_renderer": 1, "start_loader": 1}
    found = {t["name"]: t for t in threads(project)}
    assert {"render", "load"} <= set(found) and len(found) == 3
    rows = {f["name"]: f["calls"] for f in found["load"]["functions"]}
    assert {n: c for n, c in rows.items() if c} == {"loader": 1, "work": 2}
    rows = {f["name"]: f["calls"] for f in found["render"]["functions"]}
    assert {n: c for n, c in rows.items() if c} == {"renderer": 1, "work": 1}


def test_work_is_attributed_to_the_function_that_started_the_thread(project: Project) -> None:
    project.profile_c(NAMED, "-pthread")
    found = threads(project)
    first = [t for t in found if t["parent_thread"] is None]
    assert len(first) == 1 and first[0]["parent_fn"] is None
    starters = {t["name"]: (t["parent_thread"], t["parent_fn"]) for t in found if t != first[0]}
    number = first[0]["thread"]
    assert starters == {"render": (number, "start_renderer"), "load": (number, "start_loader")}
    table = project.piano("report", "--threads").out
    for word in ("render", "load", "start_renderer", "start_loader"):
        assert word in table


def test_name_given_by_another_thread_and_late(project: Project) -> None:
    project.profile_c("""
        #define _GNU_SOURCE
        #include <pthread.h>
        static pthread_barrier_t meet;
        static void work(void) { }
        static void *body(void *p)
        {
            work();
            pthread_barrier_wait(&meet);
            pthread_barrier_wait(&meet);
            work();
            return p;
        }
        int main(void)
        {
            pthread_t t;
            pthread_barrier_init(&meet, 0, 2);
            pthread_create(&t, 0, body, 0);
            pthread_barrier_wait(&meet);
            pthread_setname_np(t, "renamed");
            pthread_barrier_wait(&meet);
            pthread_join(t, 0);
            return 0;
        }
    """, "-pthread")
    assert "renamed" in {t["name"] for t in threads(project)}


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_counts_are_exact_with_threads_at_once(project: Project, compiler: str) -> None:
    report = project.profile_c(BURN + """
        #include <pthread.h>
        #include <stdlib.h>
        static volatile int sink;
        static void tiny(void) { sink++; }
        static void longer(void) { BURN(500); free(malloc(8)); }
        static void *body(void *p)
        {
            for (int i = 0; i < 20000; i++) { tiny(); if (i % 10 == 0) longer(); }
            return p;
        }
        int main(void)
        {
            pthread_t t[6];
            for (int i = 0; i < 6; i++) pthread_create(&t[i], 0, body, 0);
            for (int i = 0; i < 6; i++) pthread_join(t[i], 0);
            return 0;
        }
    """, "-pthread", compiler=compiler)
    assert report.called() == {"main": 1, "body": 6, "tiny": 120000, "longer": 12000}
    assert report.row("longer")["alloc_count"] == 12000


SHORT = """
    #include <pthread.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    static void work(void) { free(malloc(10)); }
    static void *body(void *p) { work(); return p; }
    static long status(const char *key)
    {
        char line[256];
        long value = 0;
        FILE *f = fopen("/proc/self/status", "r");
        while (fgets(line, sizeof line, f))
            if (!strncmp(line, key, strlen(key))) value = atol(line + strlen(key));
        fclose(f);
        return value;
    }
    int main(int argc, char **argv)
    {
        int n = atoi(argv[argc - 1]);
        for (int i = 0; i < n; i++) {
            pthread_t t;
            if (pthread_create(&t, 0, body, 0)) return 2;
            pthread_join(t, 0);
        }
        printf("%ld %ld\\n", status("VmHWM:"), status("VmSize:"));
        return 0;
    }
"""


def test_thousands_of_short_threads_do_not_grow(project: Project) -> None:
    program = project.cc(SHORT, "-pthread", select=["--skip", "status"])
    small, size_small = map(int, project.command(program, "100").out.split())
    large, size_large = map(int, project.command(program, "2000").out.split())
    report = project.report()
    assert report.called() == {"main": 1, "body": 2000, "work": 2000}
    assert report.row("work")["alloc_count"] == 2000
    assert large <= small * 1.5 + 1024, "resident size grows with every thread that ever was"
    assert size_large <= size_small * 1.5 + 64 * 1024
    assert len(threads(project)) >= 1


def test_many_threads_alive_at_once(project: Project) -> None:
    report = project.profile_c("""
        #include <pthread.h>
        static pthread_barrier_t all;
        static void work(void) { }
        static void *body(void *p) { work(); pthread_barrier_wait(&all); work(); return p; }
        int main(void)
        {
            pthread_t t[500];
            pthread_attr_t attr;
            pthread_attr_init(&attr);
            pthread_attr_setstacksize(&attr, 64 * 1024);
            pthread_barrier_init(&all, 0, 500);
            for (int i = 0; i < 500; i++) if (pthread_create(&t[i], &attr, body, 0)) return 1;
            for (int i = 0; i < 500; i++) pthread_join(t[i], 0);
            return 0;
        }
    """, "-pthread")
    dropped = report.data["dropped"]
    if not dropped.get("threads"):
        assert report.called() == {"main": 1, "body": 500, "work": 1000}
    else:
        assert report.row("work")["calls"] < 1000, "dropped threads are said and not made up"


def test_detached_threads(project: Project) -> None:
    report = project.profile_c("""
        #include <pthread.h>
        #include <sched.h>
        static int left = 200;
        static void work(void) { }
        static void *body(void *p) { work(); __sync_fetch_and_sub(&left, 1); return p; }
        int main(void)
        {
            for (int i = 0; i < 200; i++) {
                pthread_t t;
                pthread_create(&t, 0, body, 0);
                pthread_detach(t);
            }
            while (__sync_fetch_and_add(&left, 0)) sched_yield();
            return 0;
        }
    """, "-pthread")
    assert report.called() == {"main": 1, "body": 200, "work": 200}


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_cxx_threads(project: Project, compiler: str) -> None:
    report = project.profile_c("""
        #include <thread>
        #include <vector>
        #include <future>
        static void work(int) { }
        static void start() { std::vector<std::thread> v;
            for (int i = 0; i < 10; i++) v.emplace_back(work, i);
            for (auto &t : v) t.join(); }
        int main() { start(); auto f = std::async(std::launch::async, [] { work(1); return 1; });
                     return f.get() - 1; }
    """, "-pthread", compiler=compiler, name="prog.cc")
    assert report.calls("work", "start", "main") == {"work": 11, "start": 1, "main": 1}
    assert len([t for t in threads(project) if t["parent_fn"] == "start"]) == 10


def test_c11_threads(project: Project) -> None:
    report = project.profile_c("""
        #include <threads.h>
        static int work(void *p) { (void)p; return 5; }
        int main(void)
        {
            thrd_t t;
            int r;
            thrd_create(&t, work, 0);
            thrd_join(t, &r);
            return r - 5;
        }
    """, "-std=c11", "-pthread")
    assert report.called() == {"main": 1, "work": 1}


def test_pthread_create_failure_is_passed_on(project: Project) -> None:
    report = project.profile_c("""
        #include <pthread.h>
        #include <errno.h>
        #include <sys/resource.h>
        static void *body(void *p) { return p; }
        static int start(void)
        {
            pthread_attr_t attr;
            pthread_t t;
            pthread_attr_init(&attr);
            pthread_attr_setstacksize(&attr, 1UL << 46);
            return pthread_create(&t, &attr, body, 0);
        }
        int main(void) { return start() == EAGAIN ? 0 : 1; }
    """, "-pthread")
    assert report.called() == {"main": 1, "start": 1}


def test_thread_return_values_and_keys(project: Project) -> None:
    """Destructors of the program's own thread-specific data may call instrumented functions."""
    report = project.profile_c("""
        #include <pthread.h>
        #include <stdio.h>
        #include <stdlib.h>
        static pthread_key_t key;
        static void cleanup(void *p) { free(p); }
        static void *body(void *p) { pthread_setspecific(key, malloc(30)); return p; }
        int main(void)
        {
            void *r;
            pthread_key_create(&key, cleanup);
            for (long i = 0; i < 20; i++) {
                pthread_t t;
                pthread_create(&t, 0, body, (void *)i);
                pthread_join(t, &r);
                if ((long)r != i) return 1;
            }
            return 0;
        }
    """, "-pthread")
    assert report.called() == {"main": 1, "body": 20, "cleanup": 20}
    assert report.row("cleanup")["free_count"] == 20


def test_calls_of_threads_that_end_while_the_program_exits(project: Project) -> None:
    """Their lines are written by them or by the exiting thread: once."""
    program = project.cc("""
        #include <pthread.h>
        #include <stdlib.h>
        #include <unistd.h>
        static int left = 8, over;
        __attribute__((noinline)) void score(void) { __asm__ volatile(""); }
        static void *run(void *arg)
        {
            for (int i = 0; i < 200; i++) score();
            __atomic_fetch_sub(&left, 1, __ATOMIC_SEQ_CST);
            while (!__atomic_load_n(&over, __ATOMIC_SEQ_CST)) usleep(10);
            return arg;
        }
        int main(int argc, char **argv)
        {
            pthread_t t;
            for (int i = 0; i < 8; i++) pthread_create(&t, NULL, run, NULL);
            while (__atomic_load_n(&left, __ATOMIC_SEQ_CST)) ;
            __atomic_store_n(&over, 1, __ATOMIC_SEQ_CST);
            for (volatile int i = 0; i < atoi(argv[1]); i++) ;
            return 0;
        }
    """, "-pthread", select=["--exact", "--fn", "score"])
    for turn in range(60):
        for old in project.runs.glob("*"):
            old.unlink()
        project.command(program, turn * 4000)
        assert project.report().calls("score") == {"score": 1600}, turn
