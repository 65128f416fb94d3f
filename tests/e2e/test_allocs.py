"""Allocations and frees: exact, exclusive, per thread and per frame, with any allocator."""
from __future__ import annotations

import ctypes.util
from pathlib import Path
from typing import Any

import pytest

from conftest import BURN, Project, need


def tally(row: dict[str, Any]) -> tuple[int, int, int, int]:
    return row["alloc_count"], row["alloc_bytes"], row["free_count"], row["free_bytes"]


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_every_way_to_allocate(project: Project, compiler: str) -> None:
    report = project.profile_c("""
        #define _GNU_SOURCE
        #include <malloc.h>
        #include <stdlib.h>
        #include <string.h>
        static void with_malloc(void) { for (int i = 0; i < 10; i++) free(malloc(100)); }
        static void with_calloc(void) { for (int i = 0; i < 10; i++) free(calloc(7, 11)); }
        static void with_realloc(void)
        {
            void *p = realloc(0, 50);
            p = realloc(p, 5000);
            p = realloc(p, 20);
            free(p);
        }
        static void with_reallocarray(void) { free(reallocarray(0, 12, 12)); }
        static void with_memalign_family(void)
        {
            void *p;
            if (!posix_memalign(&p, 64, 640)) free(p);
            free(aligned_alloc(128, 1280));
            free(memalign(256, 100));
            free(valloc(4096));
        }
        static void with_strdup(void) { free(strdup("123456789")); free(strndup("123456789", 4)); }
        static void only_frees(void *p) { free(p); }
        static void nothing(void) { free(0); }
        int main(void)
        {
            with_malloc(); with_calloc(); with_realloc(); with_reallocarray();
            with_memalign_family(); with_strdup(); nothing();
            only_frees(malloc(1000));
            return 0;
        }
    """, compiler=compiler)
    assert tally(report.row("with_malloc"))[:3] == (10, 1000, 10)
    assert tally(report.row("with_calloc"))[:3] == (10, 770, 10)
    assert tally(report.row("with_realloc"))[:3] == (3, 5070, 3), "a realloc frees and allocates"
    assert tally(report.row("with_reallocarray"))[:3] == (1, 144, 1)
    assert tally(report.row("with_memalign_family"))[:3] == (4, 640 + 1280 + 100 + 4096, 4)
    assert tally(report.row("with_strdup"))[:3] == (2, 15, 2)
    assert tally(report.row("nothing")) == (0, 0, 0, 0)
    assert tally(report.row("only_frees"))[:3] == (0, 0, 1)
    assert report.row("only_frees")["free_bytes"] >= 1000
    assert tally(report.row("main"))[:3] == (1, 1000, 0)


def test_frees_and_allocations_balance(project: Project) -> None:
    """The bytes of frees equal the bytes of allocations, or the usable sizes of the blocks."""
    row = project.profile_c("""
        #include <stdlib.h>
        static void churn(void) { for (int i = 1; i <= 1000; i++) free(malloc(i)); }
        int main(void) { churn(); return 0; }
    """).row("churn")
    assert row["alloc_bytes"] == 500500
    assert row["free_count"] == 1000
    assert 500500 <= row["free_bytes"] <= 500500 + 1000 * 24


def test_ignored_allocations_are_not_counted(project: Project) -> None:
    """Counts realloc too."""
    report = project.profile_c("""
        #include <stdlib.h>
        void piano_heap_ignore(int on);
        static void ignoring(void)
        {
            piano_heap_ignore(1);
            void *p = malloc(100);
            p = realloc(p, 5000);
            free(p);
            piano_heap_ignore(0);
            free(realloc(0, 20));
        }
        int main(void) { ignoring(); return 0; }
    """)
    assert tally(report.row("ignoring"))[:3] == (1, 20, 1)


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_new_and_delete(project: Project, compiler: str) -> None:
    report = project.profile_c("""
        #include <cstddef>
        #include <new>
        #include <string>
        struct alignas(64) Wide { char c[64]; };
        struct Thing { char c[24]; };
        static void *volatile keep;
        static void plain()
        {
            for (int i = 0; i < 5; i++) { auto *p = new Thing; keep = p; delete p; }
        }
        static void array() { auto *p = new int[100]; keep = p; delete[] p; }
        static void aligned() { auto *p = new Wide; keep = p; delete p; }
        static void quiet() { auto *p = new (std::nothrow) Thing; keep = p; delete p; }
        static void placement()
        {
            alignas(Thing) char room[sizeof(Thing)];
            keep = new (room) Thing;
        }
        static void string() { std::string s(1000, 'x'); keep = &s; }
        static void too_much()
        {
            volatile size_t n = (size_t)-1 / 4;
            try { keep = new char[n]; } catch (std::bad_alloc &) { }
        }
        int main()
        {
            plain(); array(); aligned(); quiet(); placement(); string(); too_much();
            return 0;
        }
    """, "-std=c++17", compiler=compiler, name="prog.cc")
    assert tally(report.row("plain"))[:3] == (5, 120, 5)
    assert tally(report.row("array"))[:3] == (1, 400, 1)
    assert tally(report.row("aligned"))[:3] == (1, 64, 1)
    assert tally(report.row("quiet"))[:3] == (1, 24, 1)
    assert tally(report.row("placement"))[:3] == (0, 0, 0)
    assert tally(report.row("string"))[:3] == (1, 1001, 1)
    # the exception object is a separate allocation; the failed block must not count
    assert report.row("too_much")["alloc_bytes"] < 4096


def test_failed_allocations_do_not_count(project: Project) -> None:
    report = project.profile_c("""
        #define _GNU_SOURCE
        #include <errno.h>
        #include <malloc.h>
        #include <stdint.h>
        #include <stdlib.h>
        static int fails(void)
        {
            volatile size_t huge = SIZE_MAX / 2;
            int bad = 0;
            void *p = (void *)1, *q = malloc(10);
            bad += malloc(huge) != 0 || errno != ENOMEM;
            bad += calloc(huge, 8) != 0;
            bad += reallocarray(0, huge, 8) != 0;
            bad += realloc(q, huge) != 0;
            bad += posix_memalign(&p, 24, 100) != EINVAL;
            bad += aligned_alloc(64, huge) != 0;
            free(q);
            return bad;
        }
        int main(void) { return fails(); }
    """, "-w")
    assert tally(report.row("fails"))[:3] == (1, 10, 1)


def test_zero_sizes(project: Project) -> None:
    row = project.profile_c("""
        #include <stdlib.h>
        static void zero(void) { void *p = malloc(0), *q = calloc(0, 5); free(p); free(q); }
        int main(void) { zero(); return 0; }
    """).row("zero")
    assert tally(row)[:3] == (2, 0, 2)


def test_exclusive(project: Project) -> None:
    report = project.profile_c("""
        #include <stdlib.h>
        static void child(void) { for (int i = 0; i < 3; i++) free(malloc(10)); }
        static void parent(void) { free(malloc(1000)); child(); child(); free(malloc(1000)); }
        static void deep(int n) { free(malloc(n)); if (n > 1) deep(n - 1); }
        int main(void) { for (int i = 0; i < 4; i++) parent(); deep(10); return 0; }
    """)
    assert tally(report.row("child"))[:3] == (24, 240, 24)
    assert tally(report.row("parent"))[:3] == (8, 8000, 8)
    assert tally(report.row("deep"))[:3] == (10, 55, 10)
    assert tally(report.row("main"))[:3] == (0, 0, 0)


def test_uninstrumented_callees_are_their_callers(project: Project) -> None:
    report = project.profile_c("""
        #include <stdlib.h>
        static __attribute__((noinline)) void helper(void) { free(malloc(10)); }
        static void update(void) { helper(); helper(); }
        int main(void) { helper(); for (int i = 0; i < 4; i++) update(); return 0; }
    """, select=["--fn", "update"])
    assert tally(report.row("update"))[:3] == (8, 80, 8)


def test_many_allocations_in_tiny_functions(project: Project) -> None:
    """A function whose calls are mostly only counted still owns all of its allocations."""
    report = project.profile_c("""
        #include <stdlib.h>
        static void *get(void) { return malloc(16); }
        static void put(void *p) { free(p); }
        static void nothing(void) { }
        static void turn(void) { for (int i = 0; i < 1000; i++) { void *p = get(); nothing();
                                 free(malloc(3)); put(p); } }
        int main(void) { for (int i = 0; i < 500; i++) turn(); return 0; }
    """)
    n = 500000
    assert report.called() == {"main": 1, "turn": 500, "get": n, "put": n, "nothing": n}
    assert tally(report.row("get"))[:3] == (n, 16 * n, 0)
    assert tally(report.row("put"))[:3] == (0, 0, n)
    assert tally(report.row("nothing")) == (0, 0, 0, 0)
    assert tally(report.row("turn"))[:3] == (n, 3 * n, n)


def test_per_thread(project: Project) -> None:
    report = project.profile_c("""
        #include <pthread.h>
        #include <stdlib.h>
        static void grab(int n) { for (int i = 0; i < 100; i++) free(malloc(n)); }
        static void *body(void *p) { grab((int)(long)p); return 0; }
        int main(void)
        {
            pthread_t t[8];
            for (long i = 0; i < 8; i++) pthread_create(&t[i], 0, body, (void *)(i + 1));
            for (int i = 0; i < 8; i++) pthread_join(t[i], 0);
            return 0;
        }
    """, "-pthread")
    assert tally(report.row("grab"))[:3] == (800, 3600, 800)
    assert tally(report.row("body")) == (0, 0, 0, 0), "the runtime's own are never counted"
    assert report.row("main")["alloc_count"] <= 8, "at most glibc's block for a thread's vector"


def test_freed_by_another_thread(project: Project) -> None:
    report = project.profile_c("""
        #include <pthread.h>
        #include <stdlib.h>
        static void *block[1000];
        static void makes(void) { for (int i = 0; i < 1000; i++) block[i] = malloc(40); }
        static void drops(void) { for (int i = 0; i < 1000; i++) free(block[i]); }
        static void *body(void *p) { drops(); return p; }
        int main(void) { pthread_t t; makes(); pthread_create(&t, 0, body, 0); pthread_join(t, 0);
                         return 0; }
    """, "-pthread")
    assert tally(report.row("makes"))[:3] == (1000, 40000, 0)
    assert tally(report.row("drops"))[:3] == (0, 0, 1000)


def test_per_frame(project: Project) -> None:
    project.profile_c(BURN + """
        #include <stdlib.h>
        static void load(int n) { for (int i = 0; i < n; i++) free(malloc(100)); }
        static void update(int n) { BURN(3000); free(malloc(1)); load(n); }
        int main(void) { for (int i = 0; i < 20; i++) update(i == 7 ? 50 : 2); return 0; }
    """)
    frames = project.frames()
    assert len(frames) == 20
    assert [f["alloc_count"] for f in frames] == [51 if i == 7 else 3 for i in range(20)]
    assert [f["alloc_bytes"] for f in frames] == [5001 if i == 7 else 201 for i in range(20)]
    rows = {f["name"]: f for f in frames[7]["functions"]}
    assert (rows["load"]["alloc_count"], rows["update"]["alloc_count"]) == (50, 1)


def test_64_bit_byte_counts(project: Project) -> None:
    row = project.profile_c("""
        #include <stdlib.h>
        static void big(void) { for (int i = 0; i < 100; i++) free(malloc(1UL << 30)); }
        int main(void) { big(); return 0; }
    """).row("big")
    assert row["alloc_bytes"] == 100 << 30


def test_alignment_is_kept(project: Project) -> None:
    project.profile_c("""
        #define _GNU_SOURCE
        #include <malloc.h>
        #include <stdint.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        static int check(void)
        {
            int bad = 0;
            for (size_t a = 16; a <= 65536; a *= 2) {
                void *p = aligned_alloc(a, a), *q = memalign(a, 10), *r;
                bad += (uintptr_t)p % a != 0 || (uintptr_t)q % a != 0;
                bad += posix_memalign(&r, a, 7) != 0 || (uintptr_t)r % a != 0;
                memset(p, 1, malloc_usable_size(p));
                free(p); free(q); free(r);
            }
            for (int i = 1; i < 100; i++) { char *p = calloc(1, i); bad += p[i - 1]; free(p); }
            return bad;
        }
        int main(void) { printf("%d\\n", check()); return 0; }
    """, "-U_FORTIFY_SOURCE")  # Ubuntu's defaults reject writes beyond the requested size up to malloc_usable_size()
    assert project.out == "0\n"


# Programs that bring an allocator ---------------------------------------------------------------

WORK = """
    static void *get(int n) { return malloc(n); }
    static void work(void)
    {
        for (int i = 0; i < 1000; i++) {
            void *p = get(64);
            p = realloc(p, 128);
            free(p);
            free(calloc(4, 8));
        }
    }
"""


def check_work(report) -> None:
    assert tally(report.row("get"))[:3] == (1000, 64000, 0)
    assert tally(report.row("work"))[:3] == (2000, 160000, 3000)


def library(name: str) -> str:
    if not ctypes.util.find_library(name):
        pytest.skip(f"lib{name} is not installed")
    return name


def can_link(project: Project, flag: str) -> None:
    project.write({"probe.c": "int main(void) { return 0; }\n"})
    if project.command("gcc", "probe.c", "-o", "probe", flag, check=False).status != 0:
        pytest.skip(f"{flag} cannot be linked here: no development package")


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_linked_jemalloc_is_kept(project: Project, compiler: str) -> None:
    library("jemalloc")
    can_link(project, "-ljemalloc")
    report = project.profile_c("""
        #include <stdio.h>
        #include <stdlib.h>
        #include <stdint.h>
        int mallctl(const char *, void *, size_t *, void *, size_t);
        """ + WORK + """
        int main(void)
        {
            uint64_t epoch = 1, before, after;
            size_t size = sizeof before;
            if (mallctl("thread.allocated", &before, &size, 0, 0)) return 1;
            work();
            mallctl("epoch", &epoch, &size, &epoch, sizeof epoch);
            mallctl("thread.allocated", &after, &size, 0, 0);
            printf("%d\\n", after - before >= 1000 * (64 + 128 + 32));
            return 0;
        }
    """, "-ljemalloc", compiler=compiler)
    assert project.out == "1\n", "the blocks did not come from jemalloc"
    check_work(report)


def test_preloaded_jemalloc_is_kept(project: Project) -> None:
    name = library("jemalloc")
    report = project.profile_c("""
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <stdio.h>
        #include <stdint.h>
        #include <stdlib.h>
        """ + WORK + """
        int main(void)
        {
            int (*ctl)(const char *, void *, size_t *, void *, size_t);
            uint64_t before = 0, after = 0;
            size_t size = sizeof before;
            ctl = dlsym(RTLD_DEFAULT, "mallctl");
            if (!ctl || ctl("thread.allocated", &before, &size, 0, 0)) return 1;
            work();
            ctl("thread.allocated", &after, &size, 0, 0);
            printf("%d\\n", after - before >= 1000 * (64 + 128 + 32));
            return 0;
        }
    """, "-ldl", env={"LD_PRELOAD": ctypes.util.find_library(name) or ""})
    assert project.out == "1\n", "the blocks did not come from jemalloc"
    check_work(report)


def test_linked_mimalloc_is_kept(project: Project) -> None:
    library("mimalloc")
    can_link(project, "-lmimalloc")
    report = project.profile_c("""
        #include <stdbool.h>
        #include <stdio.h>
        #include <stdlib.h>
        bool mi_is_in_heap_region(const void *);
        """ + WORK + """
        int main(void)
        {
            void *p = malloc(100);
            work();
            printf("%d\\n", mi_is_in_heap_region(p));
            free(p);
            return 0;
        }
    """, "-lmimalloc")
    assert project.out == "1\n", "the blocks did not come from mimalloc"
    check_work(report)


def test_preloaded_mimalloc_is_kept(project: Project) -> None:
    name = library("mimalloc")
    report = project.profile_c("""
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <stdbool.h>
        #include <stdio.h>
        #include <stdlib.h>
        """ + WORK + """
        int main(void)
        {
            bool (*mine)(const void *) = dlsym(RTLD_DEFAULT, "mi_is_in_heap_region");
            void *p = malloc(100);
            work();
            printf("%d\\n", mine && mine(p));
            free(p);
            return 0;
        }
    """, "-ldl", env={"LD_PRELOAD": ctypes.util.find_library(name) or ""})
    assert project.out == "1\n", "the blocks did not come from mimalloc"
    check_work(report)


TCMALLOC = """
    #define _GNU_SOURCE
    #include <dlfcn.h>
    #include <stdio.h>
    #include <stdlib.h>
    """ + WORK + """
    int main(void)
    {
        int (*owns)(const void *) = dlsym(RTLD_DEFAULT, "MallocExtension_GetOwnership");
        void *p = malloc(100);
        work();
        printf("%d\\n", owns ? owns(p) : -1);
        free(p);
        return 0;
    }
"""


def test_linked_tcmalloc_is_kept(project: Project) -> None:
    library("tcmalloc_minimal")
    can_link(project, "-ltcmalloc_minimal")
    report = project.profile_c(TCMALLOC, "-Wl,--no-as-needed", "-ltcmalloc_minimal", "-ldl")
    assert project.out == "1\n", "the blocks did not come from tcmalloc"
    check_work(report)


def test_preloaded_tcmalloc_is_kept(project: Project) -> None:
    name = library("tcmalloc_minimal")
    report = project.profile_c(TCMALLOC, "-ldl",
                               env={"LD_PRELOAD": ctypes.util.find_library(name) or ""})
    assert project.out == "1\n", "the blocks did not come from tcmalloc"
    check_work(report)


OWN_MALLOC = """
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>
    static char arena[16 << 20];
    static size_t used;
    long own_calls;
    void *malloc(size_t n)
    {
        size_t *p;
        own_calls++;
        n = (n + 31) & ~(size_t)15;
        if (n > sizeof arena - used) return 0;
        p = (size_t *)(arena + used);
        used += n;
        p[0] = n - 16;
        return p + 2;
    }
    void free(void *p) { (void)p; }
    void *calloc(size_t a, size_t b)
    {
        void *p = malloc(a * b);
        return p ? memset(p, 0, a * b) : p;
    }
    void *realloc(void *p, size_t n)
    {
        void *q = malloc(n);
        if (p && q) memcpy(q, p, ((size_t *)p)[-2] < n ? ((size_t *)p)[-2] : n);
        return q;
    }
"""


@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_malloc_in_the_executable_is_kept(project: Project, compiler: str, static: bool) -> None:
    need(compiler)
    project.write({"own.c": OWN_MALLOC, "main.c": """
        #include <stdio.h>
        #include <stdlib.h>
        extern long own_calls;
        """ + WORK + """
        int main(void)
        {
            long before = own_calls;
            work();
            printf("%d\\n", own_calls - before >= 3000);
            return 0;
        }
    """})
    program = project.build("--file", "main.c", "--", compiler, "-O1", "-fno-builtin", "main.c",
                            "own.c", "-o", "p", *(["-static"] if static else []))
    assert project.command(program).out == "1\n", "the program's own malloc was not called"
    check_work(project.report())


def test_own_operator_new_is_kept(project: Project) -> None:
    report = project.profile_c("""
        #include <cstdio>
        #include <cstdlib>
        #include <new>
        static int news;
        void *operator new(std::size_t n) { news++; return std::malloc(n); }
        void operator delete(void *p) noexcept { std::free(p); }
        void operator delete(void *p, std::size_t) noexcept { std::free(p); }
        static void work() { for (int i = 0; i < 10; i++) delete new int(i); }
        int main() { work(); std::printf("%d\\n", news); return 0; }
    """, compiler="g++", name="prog.cc", select=["--fn", "work"])
    assert project.out == "10\n"
    assert tally(report.row("work"))[:3] == (10, 40, 10)


def test_allocator_in_a_shared_library_of_the_project(project: Project) -> None:
    project.write({"own.c": OWN_MALLOC, "main.c": """
        #include <stdio.h>
        #include <stdlib.h>
        extern long own_calls;
        """ + WORK + """
        int main(void)
        {
            long before = own_calls;
            work();
            printf("%d\\n", own_calls - before >= 3000);
            return 0;
        }
    """, "build.sh": "set -e\ngcc -O1 -fno-builtin -shared -fPIC own.c -o libown.so\n"
                     "gcc -O1 -fno-builtin main.c -o p -L. -lown -Wl,-rpath,'$ORIGIN'\n"})
    program = project.build("--file", "main.c", "--", "sh", "build.sh")
    assert project.command(program).out == "1\n", "the library's malloc was not called"
    check_work(project.report())


def test_malloc_hooks_of_a_debugger_library(project: Project) -> None:
    """With another interposer preloaded, both see the calls."""
    project.write({"spy.c": """
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <stddef.h>
        #include <unistd.h>
        static long seen;
        void *malloc(size_t n)
        {
            static void *(*next)(size_t);
            if (!next) next = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
            if (n == 64) seen++;
            return next(n);
        }
        /* Called before and after the work, because the dynamic linker also allocates before main. */
        void spy_mark(void)
        {
            static long before = -1;
            if (before < 0) before = seen;
            else if (seen - before == 1000) (void)!write(1, "spy 1000\\n", 9);
        }
    """})
    project.command("gcc", "-shared", "-fPIC", "spy.c", "-o", "spy.so", "-ldl")
    report = project.profile_c("#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdlib.h>\n" + WORK + """
                               int main(void)
                               {
                                   void (*mark)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "spy_mark");
                                   mark();
                                   work();
                                   mark();
                                   return 0;
                               }
                               """, "-ldl", env={"LD_PRELOAD": str(Path(project.root, "spy.so"))})
    assert project.out == "spy 1000\n"
    check_work(report)
