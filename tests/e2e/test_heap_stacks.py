"""Stacks of allocations: names, threads, libraries, and unusual places of allocations."""
from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from conftest import Project
from heaps import compile, compile_library, figures, names, record, same_with_and_without

# ---- stacks ----

def test_stacks_have_names_inlines_and_lines(project: Project) -> None:
    program = compile(project, r"""
        static inline __attribute__((always_inline)) void *inner(size_t n)
        {
            void *p = malloc(n); int line = __LINE__;
            KEEP(p);
            printf("inner %d\n", line);
            return p;
        }
        static inline __attribute__((always_inline)) void *between(size_t n)
        {
            void *p = inner(n); int line = __LINE__;
            printf("between %d\n", line);
            return p;
        }
        NOINLINE void outer(size_t n)
        {
            void *p = between(n); int line = __LINE__;
            KEEP(p);
            printf("outer %d\n", line);
        }
        int main(void)
        {
            outer(12345); int line = __LINE__;
            printf("main %d\n", line);
            return 0;
        }
    """)
    done, heap = record(project, program)
    site = next(s for s in heap.through("outer") if s["size_max"] == 12345)
    said = figures(done.out)
    seen = [(f["function"], f["line"], f["inlined"]) for f in site["stack"][:4]]
    assert seen == [("inner", *said["inner"], True), ("between", *said["between"], True),
                    ("outer", *said["outer"], False), ("main", *said["main"], False)]
    assert all(Path(f["file"]).name == "prog.c" and f["module"] == "prog" for f in site["stack"][:4])
    assert names(site)[-1] == "_start" and not site["truncated"]
    assert site["size_min"] == 12345 and site["site_frame"] == 0


def test_stacks_of_threads_are_complete(project: Project) -> None:
    program = compile(project, r"""
        static NOINLINE void *serve(void *arg) { void *p = malloc(5000); KEEP(p); return arg; }
        int main(void)
        {
            pthread_t t;
            pthread_create(&t, 0, serve, 0);
            return pthread_join(t, 0);
        }
    """)
    _, heap = record(project, program)
    [site] = heap.through("serve")
    assert not site["truncated"] and 2 <= len(site["stack"]) <= 4, names(site)
    assert heap["stack_health"]["lost"] == 0 and heap["stack_health"]["confidence"] == "high"


def test_stacks_pass_through_callbacks_of_libc(project: Project) -> None:
    program = compile(project, r"""
        static void *kept[1 << 16];
        static int count;
        static NOINLINE int compare(const void *a, const void *b)
        {
            kept[count++] = malloc(40);
            return *(const int *)a - *(const int *)b;
        }
        static NOINLINE void sorting(void)
        {
            int numbers[500];
            for (int i = 0; i < 500; i++) numbers[i] = i * 7919 % 500;
            qsort(numbers, 500, sizeof *numbers, compare);
            KEEP(numbers);
        }
        int main(void) { sorting(); printf("compare %d %d\n", count, count * 40); return 0; }
    """)
    done, heap = record(project, program)
    assert heap.live("compare") == figures(done.out)["compare"]
    for site in heap.through("compare"):
        seen = names(site)
        assert seen[0] == "compare" and seen.index("sorting") > 1 and "main" in seen and not site["truncated"]


def test_stacks_pass_through_exceptions_and_templates(project: Project) -> None:
    program = compile(project, r"""
        #include <stdexcept>
        #include <string>
        #include <vector>
        namespace shop {
        template <class T> struct Basket {
            std::vector<T> things;
            NOINLINE void fill(size_t n) { things.reserve(n); KEEP(things.data()); }
        };
        struct Guard { char *p; NOINLINE Guard() : p(new char[3000]) { KEEP(p); } NOINLINE ~Guard() { delete[] p; } };
        NOINLINE void fail(int depth)
        {
            Guard guard;
            if (depth == 0) throw std::runtime_error(std::string(500, 'x'));
            fail(depth - 1);
            KEEP(&guard);
        }
        }
        int main()
        {
            auto *ints = new shop::Basket<int>;
            auto *strings = new shop::Basket<std::string>;
            ints->fill(1000);
            strings->fill(100);
            int caught = 0;
            for (int i = 0; i < 200; i++)
                try { shop::fail(20); } catch (const std::exception &e) { caught += strlen(e.what()) == 500; }
            printf("caught %d\n", caught);
            return 0;
        }
    """, cxx=True)
    alone, heap = same_with_and_without(project, program, rates=("1K", "1"))
    assert alone.out == "caught 200\n"
    assert heap.live("Guard") == (0, 0) and heap.live("fail") == (0, 0)
    assert heap.sum("fail")["freed_objects"] >= 200 * 22
    full = heap.names()
    assert any(re.match(r"shop::Basket<int>::fill\(", n) for n in full), full
    assert any(re.match(r"shop::Basket<std::.*string.*>::fill\(", n) for n in full), full
    assert sum(site["live_bytes"] for site in heap.sites if any("Basket<int>::fill" in n for n in names(site))) == 4000
    assert heap["stack_health"]["lost"] == 0


LIBRARY = r"""
    static void *kept[1000];
    static int count;
    NOINLINE void from_NAME(void) { void *p = malloc(SIZE); KEEP(p); }
    void (*const entry)(void) = from_NAME;
"""


def test_libraries_loaded_at_the_same_address_keep_their_names(project: Project) -> None:
    """A library at the address of an unloaded one: each allocation keeps the name of its own library."""
    for name, size in (("alpha", 100), ("beta", 200)):
        compile_library(project, LIBRARY.replace("NAME", name).replace("SIZE", str(size)), f"lib{name}.so")
    program = compile(project, r"""
        #include <dlfcn.h>
        int main(void)
        {
            void *last = NULL;
            int same = 0;
            for (int i = 0; i < 100; i++) {
                void *library = dlopen(i % 2 ? "./libbeta.so" : "./libalpha.so", RTLD_NOW);
                if (!library) { puts(dlerror()); return 1; }
                void (**entry)(void) = dlsym(library, "entry");
                same += (void *)*entry == last, last = (void *)*entry;
                (*entry)();
                dlclose(library);
            }
            puts(same > 50 ? "reused" : "not reused");
            return 0;
        }
    """, "-ldl")
    done, heap = record(project, program)
    assert done.out == "reused\n"
    assert heap.live("from_alpha") == (50, 5000)
    assert heap.live("from_beta") == (50, 10000)
    for site in heap.through("from_alpha") + heap.through("from_beta"):
        assert not site["truncated"] and "main" in names(site)
        assert Path(site["stack"][0]["file"]).name == f"lib{names(site)[0][5:]}.so.c" and site["stack"][0]["line"]


def test_deep_recursion_is_truncated(project: Project) -> None:
    program = compile(project, r"""
        static NOINLINE void leaf(void) { void *p = malloc(700); KEEP(p); }
        static NOINLINE void down(int n) { if (n == 0) leaf(); else down(n - 1); KEEP(&n); }
        int main(void) { for (int i = 0; i < 5; i++) down(1000); down(50); return 0; }
    """)
    _, heap = record(project, program)
    assert heap.live("leaf") == (6, 4200)
    deep = [site for site in heap.through("leaf") if site["truncated"]]
    assert len(deep) == 1 and deep[0]["live_objects"] == 5
    assert names(deep[0]) == ["leaf"] + ["down"] * 127
    assert heap["stack_health"]["full"] == 5 and heap["stack_health"]["lost"] == 0
    [whole] = [site for site in heap.through("leaf") if not site["truncated"]]
    assert names(whole)[:53] == ["leaf"] + ["down"] * 51 + ["main"]


def test_ten_thousands_of_stacks_are_stored_or_counted(project: Project) -> None:
    """Possibly more stacks than the tables can hold: stacks without room are counted, and the sum is right."""
    program = compile(project, r"""
        static NOINLINE void even(int depth, unsigned path);
        static NOINLINE void odd(int depth, unsigned path)
        {
            if (depth == 0) { void *p = malloc(24); KEEP(p); return; }
            if (path & 1) odd(depth - 1, path >> 1); else even(depth - 1, path >> 1);
            KEEP(&depth);
        }
        static NOINLINE void even(int depth, unsigned path)
        {
            if (depth == 0) { void *p = malloc(24); KEEP(p); return; }
            if (path & 1) odd(depth - 1, path >> 1); else even(depth - 1, path >> 1);
            KEEP(&depth);
        }
        int main(void) { for (unsigned i = 0; i < 1 << 14; i++) even(14, i); return 0; }
    """)
    _, heap = record(project, program)
    assert heap["live_objects"] >= 1 << 14 and heap["live_bytes"] >= 24 << 14
    assert heap["allocated_objects"] - heap["freed_objects"] == heap["live_objects"]
    named = heap.live("even")[0]
    assert named + heap["dropped"]["stacks"] + heap["dropped"]["memory"] >= 1 << 14
    assert named > 10000


# ---- unusual places of allocations ----

def test_allocations_of_signal_handlers_are_recorded(project: Project) -> None:
    program = compile(project, r"""
        static void *kept[1000];
        static int count;
        static NOINLINE void handler(int number) { kept[count++] = malloc(333); }
        static NOINLINE void poked(void) { raise(SIGUSR1); KEEP(kept); }
        int main(void)
        {
            signal(SIGUSR1, handler);
            for (int i = 0; i < 1000; i++) poked();
            for (int i = 0; i < 500; i++) free(kept[i]);
            return 0;
        }
    """)
    _, heap = record(project, program)
    assert heap.live("handler") == (500, 500 * 333)
    assert heap.made("handler") == (1000, 333000)
    for site in heap.through("handler"):
        assert names(site)[0] == "handler" and {"poked", "main"} <= set(names(site)) and not site["truncated"]
        signal_frame = names(site)[1]  # names inside libc are known only with its debug symbols
        assert "restore_rt" in signal_frame or signal_frame.startswith("libc.so.6+0x"), names(site)


def test_a_signal_in_the_middle_of_an_allocation(project: Project) -> None:
    """With an allocator that allows it: a handler allocates during another allocation."""
    compile_library(project, r"""
        static char arena[256 << 20] __attribute__((aligned(4096)));
        static _Atomic size_t used;
        static void *take(size_t size, size_t align)
        {
            size_t whole = ((size + 15) & ~(size_t)15) + 16 + (align > 16 ? align : 0);
            size_t at = atomic_fetch_add(&used, whole);
            if (at + whole > sizeof arena) { errno = ENOMEM; return NULL; }
            uintptr_t p = (uintptr_t)arena + at + 16;
            if (align > 16) p = (p + align - 1) & ~(uintptr_t)(align - 1);
            ((size_t *)p)[-1] = size;
            return (void *)p;
        }
        void *malloc(size_t n) { return take(n, 16); }
        void free(void *p) { }
        void *calloc(size_t n, size_t m) { return take(n * m, 16); }
        void *realloc(void *p, size_t n)
        {
            void *q = take(n, 16);
            if (p && q) memcpy(q, p, ((size_t *)p)[-1] < n ? ((size_t *)p)[-1] : n);
            return q;
        }
        void *memalign(size_t a, size_t n) { return take(n, a); }
        void *aligned_alloc(size_t a, size_t n) { return take(n, a); }
        int posix_memalign(void **p, size_t a, size_t n) { return (*p = take(n, a)) ? 0 : ENOMEM; }
        size_t malloc_usable_size(void *p) { return p ? ((size_t *)p)[-1] : 0; }
    """, "libbump.so")
    program = compile(project, r"""
        #include <sys/time.h>
        static volatile long handled, ordinary;
        static NOINLINE void in_handler(int number) { void *p = malloc(64); KEEP(p); handled++; }
        static NOINLINE void in_order(void) { void *p = malloc(32); KEEP(p); ordinary++; }
        int main(void)
        {
            struct itimerval every = {{0, 50}, {0, 50}};
            signal(SIGALRM, in_handler);
            setitimer(ITIMER_REAL, &every, NULL);
            while (handled < 2000) in_order();
            memset(&every, 0, sizeof every);
            setitimer(ITIMER_REAL, &every, NULL);
            printf("in_handler %ld %ld\nin_order %ld %ld\n", handled, handled * 64, ordinary, ordinary * 32);
            return 0;
        }
    """, "-L.", "-l:libbump.so", "-Wl,-rpath,$ORIGIN")
    done, heap = record(project, program)
    said = figures(done.out)
    assert heap.live("in_order")[0] >= said["in_order"][0]  # a handler above it is in both
    missing = said["in_handler"][0] - heap.live("in_handler")[0]
    assert missing == heap["dropped"]["busy"], "what was not sampled is counted"
    assert heap["stack_health"]["truncated_share"] < 0.05


def test_allocations_before_and_after_main_are_recorded(project: Project) -> None:
    """Constructors, destructors, atexit, destructors of thread-locals, of the program and of a library."""
    compile_library(project, r"""
        static void *given_back;
        static NOINLINE void in_library_constructor(void) { void *p = malloc(1009); KEEP(p); }
        static NOINLINE void in_library_kept(void) { given_back = malloc(1013); }
        static NOINLINE void in_library_destructor(void) { void *p = malloc(1019); KEEP(p); }
        __attribute__((constructor)) static void up(void) { in_library_constructor(); in_library_kept(); }
        __attribute__((destructor)) static void down(void) { free(given_back); in_library_destructor(); }
        void library(void) {}
    """, "libearly.so")
    program = compile(project, r"""
        #include <thread>
        extern "C" void library(void);
        static NOINLINE void *take(size_t n) { void *p = malloc(n); KEEP(p); return p; }
        static NOINLINE void in_constructor() { take(2003); }
        static NOINLINE void in_destructor() { take(2011); }
        static NOINLINE void in_atexit() { take(2017); }
        static NOINLINE void in_static() { take(2027); }
        static NOINLINE void in_thread_local() { take(2029); }
        static NOINLINE void in_key(void *p) { free(p); take(2039); }
        static NOINLINE void given_to_key(pthread_key_t key) { pthread_setspecific(key, take(2053)); }
        __attribute__((constructor)) static void up() { in_constructor(); }
        __attribute__((destructor)) static void down() { in_destructor(); }
        struct Static { ~Static() { in_static(); } } global;
        struct Local { char *p = nullptr; ~Local() { in_thread_local(); } };
        static thread_local Local local;
        int main()
        {
            pthread_key_t key;
            pthread_key_create(&key, in_key);
            library();
            atexit(in_atexit);
            for (int i = 0; i < 20; i++)
                std::thread([&] { KEEP(&local); local.p = (char *)1; given_to_key(key); }).join();
            return 0;
        }
    """, "-L.", "-l:libearly.so", "-Wl,-rpath,$ORIGIN", cxx=True)
    _, heap = record(project, program)
    expected = {"in_constructor": (1, 2003), "in_destructor": (1, 2011), "in_atexit": (1, 2017), "in_static": (1, 2027),
                "in_thread_local": (20, 20 * 2029), "in_key": (20, 20 * 2039), "given_to_key": (0, 0),
                "in_library_constructor": (1, 1009), "in_library_destructor": (1, 1019), "in_library_kept": (0, 0)}
    assert {name: heap.live(name) for name in expected} == expected


def test_allocations_on_foreign_stacks_are_recorded(project: Project) -> None:
    program = compile(project, r"""
        #include <sys/mman.h>
        #include <ucontext.h>
        static ucontext_t home, away[50];
        static NOINLINE void take(size_t n) { void *p = malloc(n); KEEP(p); }
        static NOINLINE void on_coroutine(void) { take(500); }
        static void body(void)
        {
            int self = 0;
            for (int i = 0; i < 3; i++) { on_coroutine(); KEEP(&self); }
        }
        static NOINLINE void on_alternate(int number) { take(700); KEEP(&number); }
        static NOINLINE void *on_small(void *arg) { take(900); KEEP(&arg); return arg; }
        int main(void)
        {
            for (int i = 0; i < 50; i++) {
                size_t size = 65536;
                int flags = MAP_PRIVATE | MAP_ANONYMOUS;
                char *stack = i % 2 ? malloc(size) : mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);
                memset(stack, 0xff, size);
                getcontext(&away[i]);
                away[i].uc_stack.ss_sp = stack, away[i].uc_stack.ss_size = size, away[i].uc_link = &home;
                makecontext(&away[i], body, 0);
                swapcontext(&home, &away[i]);
                if (i % 2) free(stack); else munmap(stack, size);
            }
            stack_t alternate = {.ss_sp = malloc(65536), .ss_size = 65536};
            memset(alternate.ss_sp, 0xff, 65536);
            sigaltstack(&alternate, NULL);
            struct sigaction act = {.sa_handler = on_alternate, .sa_flags = SA_ONSTACK};
            sigaction(SIGUSR1, &act, NULL);
            for (int i = 0; i < 10; i++) raise(SIGUSR1);
            pthread_attr_t attr;
            pthread_attr_init(&attr);
            pthread_attr_setstacksize(&attr, 16384);
            for (int i = 0; i < 10; i++) {
                pthread_t thread;
                if (pthread_create(&thread, &attr, on_small, 0)) return 1;
                pthread_join(thread, 0);
            }
            return 0;
        }
    """)
    _, heap = record(project, program)
    assert heap.live("on_coroutine") == (150, 75000)
    assert heap.live("on_alternate") == (10, 7000)
    assert heap.live("on_small") == (10, 9000)
    assert all(names(site)[:3] == ["take", "on_coroutine", "body"] for site in heap.through("on_coroutine"))
    assert all("main" in names(site) for site in heap.through("on_alternate")), "across the stacks"
    assert not heap.lost


def test_garbage_in_the_frame_pointer_ends_the_walk(project: Project) -> None:
    """Code without a table, called with an invalid frame pointer: the walk ends, the program continues."""
    project.write({"bare.s": """
            .text
            .globl bare
        bare:
            pushq %rbp
            movq $0x123456789abc, %rbp
            subq $16, %rsp
            movl $777, %edi
            call malloc@PLT
            addq $16, %rsp
            popq %rbp
            ret
            .section .note.GNU-stack,"",@progbits
    """})
    if os.uname().machine != "x86_64":
        pytest.skip("assembly of x86-64")
    program = compile(project, r"""
        extern void *bare(void);
        static NOINLINE void caller(void) { void *p = bare(); KEEP(p); }
        int main(void) { for (int i = 0; i < 10; i++) caller(); puts("fine"); return 0; }
    """, "bare.s")
    done, heap = record(project, program)
    assert done.out == "fine\n"
    assert heap.live("bare") == (10, 7770)
    assert all(names(site)[0] == "bare" for site in heap.through("bare"))


# ---- threads ----

def test_thousands_of_threads_do_not_grow_the_recording(project: Project) -> None:
    """No allocation is lost, and the recording does not grow with the number of threads."""
    program = compile(project, r"""
        static NOINLINE void *visit(void *arg) { void *p = malloc(99); KEEP(p); free(p); return arg; }
        int main(int argc, char **argv)
        {
            int count = atoi(argv[1]);
            for (int i = 0; i < count; i += 10) {
                pthread_t threads[10];
                for (int k = 0; k < 10; k++) pthread_create(&threads[k], 0, visit, 0);
                for (int k = 0; k < 10; k++) pthread_join(threads[k], 0);
            }
            return 0;
        }
    """)
    sizes = []
    for count in (200, 5000):
        _, heap = record(project, program, count, flags=["--snapshot-every", "0"])
        assert heap.made("visit") == (count, count * 99)
        assert heap.live("visit") == (0, 0) and not heap.lost
        sizes.append((project.root / "out.rec").stat().st_size)
    assert sizes[1] <= sizes[0] + 65536, sizes


def test_a_new_stack_on_many_threads_at_once(project: Project) -> None:
    """The second thread finds the stack that the first has just inserted: no stack is dropped or duplicated."""
    program = compile(project, r"""
        enum { THREADS = 3, ROUNDS = 3000 };
        static atomic_int arrived;
        static NOINLINE void leaf(void) { void *p = malloc(77); KEEP(p); }
        static NOINLINE void even(int depth, int path);
        static NOINLINE void odd(int depth, int path)
        {
            if (depth == 0) leaf();
            else if (path & 1) odd(depth - 1, path >> 1);
            else even(depth - 1, path >> 1);
            KEEP(&depth);
        }
        static NOINLINE void even(int depth, int path)
        {
            if (depth == 0) leaf();
            else if (path & 1) odd(depth - 1, path >> 1);
            else even(depth - 1, path >> 1);
            KEEP(&depth);
        }
        static NOINLINE void *visit(void *arg)
        {
            for (int i = 0; i < ROUNDS; i++) {
                atomic_fetch_add(&arrived, 1);
                for (int turn = 0; arrived < (i + 1) * THREADS; turn++)
                    if (turn > 1000) sched_yield();
                even(12, i);
            }
            return arg;
        }
        int main(void)
        {
            pthread_t threads[THREADS];
            for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], 0, visit, 0);
            for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
            return 0;
        }
    """)
    _, heap = record(project, program)
    assert not heap.lost
    assert heap.live("leaf") == (9000, 9000 * 77)
    assert {site["samples"] for site in heap.through("leaf")} == {3} and len(heap.through("leaf")) == 3000
