"""The runtime as a guest in a process: places where a runtime can do harm."""
from __future__ import annotations

from conftest import LIB, ROOT, Project

NOINLINE = "#define NOINLINE __attribute__((noinline))\n"


def test_first_calls_on_many_threads_at_once(project: Project) -> None:
    """No instrumented function runs before the threads do: none of their calls may be lost."""
    report = project.profile_c(NOINLINE + """
        #include <pthread.h>
        static pthread_barrier_t gate;
        static NOINLINE void handle(void) { for (volatile int i = 0; i < 20; i++) ; }
        static void *serve(void *arg)
        {
            pthread_barrier_wait(&gate);
            for (int i = 0; i < 5000; i++) handle();
            return arg;
        }
        int main(void)
        {
            pthread_t threads[8];
            pthread_barrier_init(&gate, 0, 8);
            for (int i = 0; i < 8; i++) pthread_create(&threads[i], 0, serve, 0);
            for (int i = 0; i < 8; i++) pthread_join(threads[i], 0);
            return 0;
        }
    """, "-pthread", select=["--fn", "handle"])
    assert report.called() == {"handle": 40000}
    assert sum(report.data["dropped"].values()) == 0


def test_probes_are_no_cancellation_points(project: Project) -> None:
    """A cancelled thread that holds a lock continues until it reaches a cancellation point."""
    project.profile_c(NOINLINE + """
        #include <pthread.h>
        #include <stdio.h>
        #include <unistd.h>
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        static volatile long turns;
        static NOINLINE void work(void) { for (volatile int i = 0; i < 2000; i++) ; turns++; }
        static void *hold(void *arg)
        {
            pthread_mutex_lock(&lock);
            long end = 0;
            while (end == 0 || turns < end) {
                work();
                if (end == 0 && turns == 100) end = turns + 300000; /* long enough for a flush */
            }
            pthread_mutex_unlock(&lock);
            pause();
            return arg;
        }
        int main(void)
        {
            pthread_t thread;
            pthread_create(&thread, 0, hold, 0);
            while (turns < 50) ;
            pthread_cancel(thread);
            pthread_join(thread, 0);
            printf("%s\\n", pthread_mutex_trylock(&lock) == 0 ? "free" : "held");
            return 0;
        }
    """, "-pthread", select=["--fn", "work"])
    assert project.out == "free\n"


def test_first_call_on_a_small_stack(project: Project) -> None:
    report = project.profile_c(NOINLINE + """
        #include <pthread.h>
        static NOINLINE void work(void) { for (volatile int i = 0; i < 20; i++) ; }
        static void *loop(void *arg) { for (int i = 0; i < 100000; i++) work(); return arg; }
        int main(void)
        {
            pthread_t thread;
            pthread_attr_t attr;
            pthread_attr_init(&attr);
            if (pthread_attr_setstacksize(&attr, 16384)) return 1;
            if (pthread_create(&thread, &attr, loop, 0)) return 2;
            return pthread_join(thread, 0);
        }
    """, "-pthread", select=["--fn", "work"])
    assert report.called() == {"work": 100000}


def test_a_call_that_ends_on_another_thread(project: Project) -> None:
    """A coroutine moves to another thread while a counted call of it is open; then it allocates."""
    project.profile_c(NOINLINE + """
        #include <pthread.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <ucontext.h>
        static ucontext_t coroutine, back;
        static char stack[65536];
        static NOINLINE int tiny(int i)
        {
            if (i == 300000) swapcontext(&coroutine, &back);
            return i ^ 1;
        }
        static NOINLINE void outer(void)
        {
            long sum = 0;
            for (int i = 0; i <= 300000; i++) sum += tiny(i);
            for (int i = 0; i < 1000; i++) free(malloc(100));
            printf("%ld\\n", sum);
        }
        static void entry(void) { outer(); setcontext(&back); }
        static NOINLINE void warm(void) { }
        static void *resume(void *arg) { warm(); swapcontext(&back, &coroutine); return arg; }
        int main(void)
        {
            pthread_t thread;
            getcontext(&coroutine);
            coroutine.uc_stack.ss_sp = stack;
            coroutine.uc_stack.ss_size = sizeof stack;
            makecontext(&coroutine, entry, 0);
            swapcontext(&back, &coroutine);
            pthread_create(&thread, 0, resume, 0);
            pthread_join(thread, 0);
            return 0;
        }
    """, "-pthread")
    assert project.out == "45000150001\n"


def test_a_fork_inside_a_counted_call(project: Project) -> None:
    """The child continues in a separate run and does not use the parent's memory."""
    project.profile_c(NOINLINE + """
        #include <stdio.h>
        #include <stdlib.h>
        #include <sys/wait.h>
        #include <unistd.h>
        static int forked;
        static NOINLINE int other(int x) { return x * 3 + 1; }
        static NOINLINE int step(int i)
        {
            if (i == 50000 && fork() == 0) { forked = 1; other(1); }
            return i ^ 1;
        }
        static NOINLINE long loop(int n)
        {
            long sum = 0;
            for (int i = 0; i < n; i++) sum += step(i);
            for (int i = 0; forked && i < 1000; i++) free(malloc(10 + i % 7));
            return sum;
        }
        int main(void)
        {
            int status = 0, bad = 0;
            for (int k = 0; k < 20; k++) {
                loop(60000);
                if (forked) _exit(0);
                wait(&status);
                bad += status != 0;
            }
            printf("%d\\n", bad);
            return 0;
        }
    """)
    assert project.out == "0\n"


def test_forks_while_functions_are_registered(project: Project) -> None:
    """A child that loads an instrumented library. It is forked while another thread loads one."""
    project.write({"host.c": r"""
        #define _GNU_SOURCE
        #include <pthread.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <sys/wait.h>
        #include <unistd.h>
        #include "common/probe.h"
        enum { COUNT = 2000 };
        static int over;
        static struct __piano_unit *unit(int count)
        {
            struct __piano_unit *u = calloc(1, sizeof *u);
            u->version = __piano_abi;
            u->count = count;
            u->fns = calloc(count, sizeof *u->fns);
            u->heads = calloc(count, sizeof *u->heads);
            for (int i = 0; i < count; i++) u->fns[i] = (struct __piano_fn){"a_function_with_a_name", "a/file.c", i, 0};
            return u;
        }
        static void *loads(void *arg)
        {
            while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) __piano_register(arg);
            return 0;
        }
        int main(void)
        {
            pthread_t thread;
            struct __piano_unit *other = unit(1);
            pthread_create(&thread, 0, loads, unit(COUNT));
            for (int i = 0; i < 50; i++) {
                int status = 1;
                pid_t child = fork();
                if (child == 0) {
                    alarm(10);
                    __piano_register(other);
                    _exit(0);
                }
                waitpid(child, &status, 0);
                if (status) { printf("status %x\n", status); return 1; }
            }
            __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
            pthread_join(thread, 0);
            puts("fine");
            return 0;
        }
    """})
    project.command("gcc", "-O1", f"-I{ROOT}/src", "host.c", "-o", "host", f"-L{LIB}", "-lpiano", f"-Wl,-rpath,{LIB}", "-pthread")
    assert project.command(project.root / "host", check=False).out == "fine\n"


def test_a_library_with_an_allocator_of_its_own(project: Project) -> None:
    """Another allocator comes before piano, so calls bypass piano. Those of a library bound to its own malloc (RTLD_DEEPBIND)
    must not be counted."""
    project.write({"first.c": r"""
        #include <stddef.h>
        void *__libc_malloc(size_t);
        void *__libc_calloc(size_t, size_t);
        void *__libc_realloc(void *, size_t);
        void __libc_free(void *);
        void *malloc(size_t n) { return __libc_malloc(n); }
        void *calloc(size_t n, size_t m) { return __libc_calloc(n, m); }
        void *realloc(void *p, size_t n) { return __libc_realloc(p, n); }
        void free(void *p) { __libc_free(p); }
    """, "own.c": r"""
        #include <stddef.h>
        static char arena[4096];
        static size_t used;
        void *malloc(size_t n) { used += 64; return arena + used; }
        void free(void *p) { }
        int use(void)
        {
            char *p = malloc(10);
            free(p);
            return p >= arena && p < arena + sizeof arena;
        }
    """, "host.c": r"""
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include "common/probe.h"
        int main(void)
        {
            static struct __piano_fn fn = {"f", "f.c", 1, 0};
            static unsigned head;
            struct __piano_unit unit = {__piano_abi, 1, &fn, &head, "", ""};
            void *library = dlopen("./own.so", RTLD_NOW | RTLD_DEEPBIND);
            int (*use)(void) = (int (*)(void))dlsym(library, "use");
            int before = use();
            __piano_register(&unit); /* like an instrumented library that is loaded */
            printf("%d %d\n", before, use());
            return 0;
        }
    """})
    for name in ("first", "own"):
        project.command("gcc", "-O1", "-w", "-fno-builtin", "-shared", "-fPIC", f"{name}.c", "-o", f"{name}.so")
    project.command("gcc", "-O1", f"-I{ROOT}/src", "host.c", "-o", "host", f"-L{LIB}", "-lpiano", f"-Wl,-rpath,{LIB}", "-ldl")
    done = project.command(project.root / "host", env={"LD_PRELOAD": str(project.root / "first.so")}, check=False)
    assert done.out == "1 1\n", done
