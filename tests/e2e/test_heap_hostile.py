"""The heap profiler under hard conditions: unloading by many threads, allocators with their own operators, forks in the
middle of a sample, full tables. The program prints the truth each time."""
from __future__ import annotations

import pytest

from conftest import LIB, PRELOAD, ROOT, Project, need
from heaps import compile, compile_library, record, same_with_and_without

PLUGIN = """
    void *plug_take(int n) { void *p = malloc(n); KEEP(p); return p; }
    void plug_free(void *p) { free(p); }
    __attribute__((constructor)) static void begin(void) { void *volatile p = malloc(100000); free(p); }
"""


def test_threads_that_unload_at_the_same_time(project: Project) -> None:
    """piano must not read a module while another thread unmaps it; all loadings of a module are one site."""
    for i in range(4):
        compile_library(project, PLUGIN, f"p{i}.so")
    program = compile(project, r"""
        #include <dlfcn.h>
        static void *run(void *arg)
        {
            char name[64];
            snprintf(name, sizeof name, "./p%ld.so", (long)arg);
            for (int i = 0; i < 300; i++) {
                void *lib = dlopen(name, RTLD_NOW);
                void *(*take)(int) = (void *(*)(int))dlsym(lib, "plug_take");
                void (*give)(void *) = (void (*)(void *))dlsym(lib, "plug_free");
                give(take(200000));
                dlclose(lib);
            }
            return NULL;
        }
        int main(void)
        {
            pthread_t t[4];
            for (long i = 0; i < 4; i++) pthread_create(&t[i], NULL, run, (void *)i);
            for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
            puts("fine");
            return 0;
        }
    """, "-ldl")
    done, heap = record(project, program)
    assert done.out == "fine\n"
    taken = [site for site in heap.sites if site["stack"][0]["function"] == "plug_take"]
    assert sum(site["allocated_objects"] for site in taken) == 4 * 300
    assert sum(site["live_objects"] for site in taken) == 0
    # A library may be loaded at another address, which makes a new stack. At the same address it keeps its number.
    assert len(taken) < 200, len(taken)


def test_dlclose_that_unloads_nothing_does_not_renumber_modules(project: Project) -> None:
    program = compile(project, r"""
        #include <dlfcn.h>
        int main(void)
        {
            for (int i = 0; i < 2000; i++) {
                void *lib = dlopen("libm.so.6", RTLD_NOW);
                void *p = malloc(5000);
                KEEP(p);
                free(p);
                dlclose(lib);
            }
            return 0;
        }
    """, "-lm", "-ldl")
    _, heap = record(project, program)
    own = [site for site in heap.sites if site["stack"][0]["function"] == "main"]
    assert len(own) == 1 and own[0]["allocated_objects"] == 2000


CXX_LOAD = r"""
    #include <unistd.h>
    int main()
    {
        static char *kept[1000];
        for (auto &p : kept) p = new char[10000];
        for (auto &p : kept) delete[] p;
        for (auto &p : kept) p = new char[100];
        for (auto &p : kept) delete[] p;
        return write(1, "fine\n", 5) != 5;
    }
"""


@pytest.mark.parametrize("library", ["", "-ljemalloc", "-ltcmalloc", "-lmimalloc"])
def test_operators_count_once_wherever_they_are_defined(project: Project, library: str) -> None:
    (project.root / "probe.c").write_text("int main(void) { return 0; }\n")
    if library and project.command("gcc", "probe.c", "-o", "probe", library, check=False).status != 0:
        pytest.skip(f"{library} cannot be linked here: no development package")
    program = compile(project, CXX_LOAD, *([library] if library else []), cxx=True)
    _, heap = record(project, program)
    made = [site for site in heap.sites if any(f["function"] == "main" for f in site["stack"])]
    assert sum(site["allocated_bytes"] for site in made) == 1000 * 10100
    assert sum(site["allocated_objects"] for site in made) == 2000
    assert sum(site["live_objects"] for site in made) == 0
    assert heap["dropped"]["stale"] == 0


def test_operators_that_call_malloc_count_once(project: Project) -> None:
    (project.root / "own.cc").write_text(r"""
        #include <cstddef>
        extern "C" { void *__libc_malloc(size_t); void __libc_free(void *); void *__libc_calloc(size_t, size_t);
                     void *__libc_realloc(void *, size_t); }
        extern "C" void *malloc(size_t n) { return __libc_malloc(n); }
        extern "C" void free(void *p) { __libc_free(p); }
        extern "C" void *calloc(size_t a, size_t b) { return __libc_calloc(a, b); }
        extern "C" void *realloc(void *p, size_t n) { return __libc_realloc(p, n); }
        void *operator new(size_t n) { return malloc(n); }
        void *operator new[](size_t n) { return malloc(n); }
        void operator delete(void *p) noexcept { free(p); }
        void operator delete[](void *p) noexcept { free(p); }
        void operator delete(void *p, size_t) noexcept { free(p); }
        void operator delete[](void *p, size_t) noexcept { free(p); }
    """)
    project.command("g++", "-O2", "-w", "-shared", "-fPIC", "own.cc", "-o", "libown.so")
    program = compile(project, CXX_LOAD, "-L.", "-lown", f"-Wl,-rpath,{project.root}", cxx=True)
    _, heap = record(project, program)
    made = [site for site in heap.sites if any(f["function"] == "main" for f in site["stack"])]
    assert sum(site["allocated_objects"] for site in made) == 2000
    assert heap["dropped"]["stale"] == 0


def test_delete_in_a_library_loaded_later(project: Project) -> None:
    (project.root / "plug.cc").write_text('extern "C" void drop(char *p) { delete[] p; }\n')
    project.command("g++", "-O2", "-shared", "-fPIC", "plug.cc", "-o", "plug.so")
    program = compile(project, r"""
        #include <dlfcn.h>
        #include <unistd.h>
        int main()
        {
            void *lib = dlopen("./plug.so", RTLD_NOW);
            auto drop = (void (*)(char *))dlsym(lib, "drop");
            for (int i = 0; i < 500; i++) drop(new char[3000]);
            return write(1, "fine\n", 5) != 5;
        }
    """, "-ltcmalloc", "-ldl", cxx=True)
    _, heap = record(project, program)
    made = [site for site in heap.sites if any(f["function"] == "main" for f in site["stack"])]
    assert sum(site["live_bytes"] for site in made if site["allocated_bytes"] >= 3000) < 3000


def test_forks_in_the_middle_of_a_sample(project: Project) -> None:
    program = compile(project, r"""
        #include <signal.h>
        #include <sys/time.h>
        #include <sys/wait.h>
        static volatile int forks, child, bad;
        static void handler(int s)
        {
            if (child) return;
            pid_t p = fork();
            forks++;
            if (p == 0) { child = 1; return; }
            int status;
            waitpid(p, &status, 0);
            bad += status != 0;
        }
        int main(void)
        {
            struct sigaction action = {.sa_handler = handler};
            sigaction(SIGALRM, &action, NULL);
            struct itimerval timer = {{0, 1000}, {0, 1000}};
            setitimer(ITIMER_REAL, &timer, NULL);
            static void *kept[64];
            for (unsigned s = 1; forks < 150;) {
                s = s * 1103515245 + 12345;
                if (child) _exit(0);
                /* only glibc's allocator may be interrupted and entered again, so signals are blocked around others */
                void *volatile p = kept[s >> 10 & 63];
                (void)p;
                kept[s >> 10 & 63] = memalign(64, s >> 20 & 255);
                free(kept[s >> 10 & 63]);
                kept[s >> 10 & 63] = NULL;
            }
            timer = (struct itimerval){{0, 0}, {0, 0}};
            setitimer(ITIMER_REAL, &timer, NULL);
            printf("bad %d\n", bad);
            return 0;
        }
    """.replace("<signal.h>", "<signal.h>\n        #include <malloc.h>"))
    alone = project.command(program, check=False)
    if alone.out != "bad 0\n":
        pytest.skip("this allocator cannot be forked in the middle of a call")
    done, _ = record(project, program)
    assert done.out == "bad 0\n"


def test_starting_on_many_threads(project: Project) -> None:
    need("gcc")
    program = compile(project, r"""
        #include <dlfcn.h>
        static int (*start)(size_t);
        static pthread_barrier_t line;
        static void *run(void *arg)
        {
            pthread_barrier_wait(&line);
            long status = start(1);
            for (int i = 0; i < 100; i++) { void *p = malloc(100); KEEP(p); free(p); }
            return (void *)status;
        }
        int main(void)
        {
            start = (int (*)(size_t))dlsym(RTLD_DEFAULT, "piano_heap_start");
            pthread_t t[8];
            pthread_barrier_init(&line, NULL, 8);
            int zeroes = 0;
            for (int i = 0; i < 8; i++) pthread_create(&t[i], NULL, run, NULL);
            for (int i = 0; i < 8; i++) { void *r; pthread_join(t[i], &r); zeroes += r == NULL; }
            printf("%d\n", zeroes);
            return 0;
        }
    """, "-ldl")
    runs = project.root / "runs"
    done = project.command(program, env={"LD_PRELOAD": PRELOAD, "PIANO_RUNS_DIR": str(runs)})
    assert done.out == "1\n"
    assert len(list(runs.iterdir())) == 1


def test_a_full_live_table_is_not_called_freed(project: Project) -> None:
    """More sampled blocks than there is disk space: neither live nor freed, and reported."""
    program = compile(project, r"""
        #include <sys/resource.h>
        static void *keep(void) { void *p = malloc(1000); KEEP(p); return p; }
        int main(void)
        {
            for (int i = 0; i < 1000; i++) keep();
            struct rlimit limit = {300000, 300000};
            setrlimit(RLIMIT_FSIZE, &limit);
            for (int i = 0; i < 20000; i++) keep();
            return 0;
        }
    """)
    _, heap = record(project, program)
    kept = [site for site in heap.sites if site["stack"][0]["function"] in ("keep", "main")]
    assert sum(site["allocated_bytes"] for site in kept) == 21_000_000
    assert sum(site.get("freed_bytes", 0) for site in kept) == 0
    live, lost = (sum(site[key] for site in kept) for key in ("live_bytes", "untracked_bytes"))
    assert 0 < live < 21_000_000 and live + lost == 21_000_000
    assert heap["live_bytes_ci95"][1] >= 21_000_000


# ---- the loader ----

HOST = r"""
    #include <dlfcn.h>
    #include <sys/mman.h>
    static int use_of(void *library)
    {
        if (!library) { puts(dlerror()); exit(1); }
        int (*use)(void) = (int (*)(void))dlsym(library, "use");
        return use();
    }
    int main(int argc, char **argv)
    {
        Dl_info info;
        void *first = dlopen("./first.so", RTLD_NOW | RTLD_LOCAL);
        printf("%d\n", use_of(first));
        dladdr(dlsym(first, "use"), &info);
        dlclose(first);
        /* the next one is loaded at another address */
        for (int i = 0; i < 16; i++)
            mmap((char *)info.dli_fbase + i * 4096, 4096, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (argc > 1)
            printf("%d\n", use_of(dlopen(argv[1], RTLD_NOW | RTLD_LOCAL)));
        return 0;
    }
"""


def test_a_library_that_waits_for_its_threads_while_it_is_loaded(project: Project) -> None:
    """Its first delete is made by a thread, and the thread that waits for it holds the loader's lock."""
    compile(project, r"""
        #include <thread>
        #include <unistd.h>
        static int ready = [] { std::thread t([] { }); t.join(); return 7; }();
        static struct End { ~End() { puts("unloaded"), fflush(stdout); } } end;
        extern "C" int use(void) { return ready; }
    """, "-shared", "-fPIC", name="first.so", cxx=True)
    program = compile(project, HOST.replace("return 0;", 'puts("end"); return 0;'), "-ldl")
    same_with_and_without(project, "timeout", "20", program, rates=("1",))


def test_operators_of_libraries_that_come_and_go(project: Project) -> None:
    """A C program and two libraries that define operators. The second is loaded after the first was unloaded. Each
    defines one operator that the other does not, and frees go to the library that allocated."""
    source = r"""
        static int made;
        #if SECOND
        void *operator new(size_t n) { made++; return (char *)malloc(n + 64) + 64; }
        void operator delete(void *p) noexcept { made--; free((char *)p - 64); }
        void operator delete(void *p, size_t) noexcept { made--; free((char *)p - 64); }
        #else
        void *operator new(size_t n) { made++; return (char *)malloc(n + 32) + 32; }
        void operator delete(void *p) noexcept { made--; free((char *)p - 32); }
        void operator delete(void *p, size_t) noexcept { made--; free((char *)p - 32); }
        #endif
        extern "C" int use(void)
        {
            int *p = new int(7);
            KEEP(p);
            int value = *p;
        #if SECOND
            operator delete(p);
        #else
            delete p;
        #endif
            return value;
        }
    """
    for name, second in (("first.so", 0), ("second.so", 1)):
        compile(project, f"#define SECOND {second}\n#include <cstddef>\n" + source, "-shared", "-fPIC", "-fno-exceptions",
                "-nodefaultlibs", "-lc", name=name, cxx=True)
    program = compile(project, HOST, "-ldl")
    same_with_and_without(project, program, "./second.so", rates=("1",))


def test_dlerror_is_not_changed(project: Project) -> None:
    """piano makes no dl call between a failed dl call of the program and its dlerror."""
    program = compile(project, r"""
        #include <dlfcn.h>
        #include <string>
        int main()
        {
            dlopen("/missing.so", RTLD_NOW);
            std::string *text = new std::string(100, 'x');
            delete text;
            const char *said = dlerror();
            puts(said ? said : "nothing");
            return 0;
        }
    """, "-ldl", cxx=True)
    same_with_and_without(project, program, rates=("1",))


# ---- the recording ----

NO_FALLOCATE = r"""
    #include <linux/filter.h>
    #include <linux/seccomp.h>
    #include <stddef.h>
    #include <sys/prctl.h>
    #include <sys/syscall.h>
    int main(int argc, char **argv)
    {
        struct sock_filter filter[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fallocate, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
        struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) { puts("no seccomp"); return 0; }
        execvp(argv[1], argv + 1);
        return 1;
    }
"""


def test_a_file_system_that_reserves_nothing(project: Project) -> None:
    """Threads extend the recording at the same time on a file system without fallocate: none overwrites the data of another."""
    launcher = compile(project, NO_FALLOCATE, name="launcher")
    program = compile(project, r"""
        #include "piano.h"
        static NOINLINE void *keeps(void *arg)
        {
            for (int i = 0; i < 100000; i++) { void *p = malloc(50); KEEP(p); }
            return NULL;
        }
        static void *tells(void *arg)
        {
            for (int i = 0; i < 400000; i++) piano_value("value", i);
            return NULL;
        }
        int main(void)
        {
            pthread_t t[4];
            for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, i % 2 ? keeps : tells, NULL);
            for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
            return 0;
        }
    """, f"-I{ROOT}/include", f"-L{LIB}", "-lpiano", f"-Wl,-rpath,{LIB}")
    done, heap = record(project, launcher, program, flags=["--events", "--snapshot-every", "0"])
    if done.out == "no seccomp\n":
        pytest.skip("no seccomp filter can be had here")
    # On a busy machine a thread may wait too long for another one that extends the table of blocks. It counts such blocks.
    uncounted = heap["dropped"]["memory"]
    blocks = 200000 - uncounted
    assert uncounted < 20 and heap.live("keeps") == (blocks, 50 * blocks)
    missing = heap["missing"]
    assert [missing[key] for key in ("gaps", "bad_numbers", "unfinished_chunks")] == [0, 0, 0], missing


def test_heap_and_cpu_begun_at_the_same_time(project: Project) -> None:
    """Both share one recording, in any order of start."""
    program = compile(project, r"""
        #include "piano.h"
        static pthread_barrier_t line;
        static void *heap(void *arg)
        {
            long status;
            pthread_barrier_wait(&line);
            do status = piano_heap_start(1); while (status == -EBUSY);
            return (void *)status;
        }
        int main(void)
        {
            pthread_t t;
            void *status;
            int cpu;
            pthread_barrier_init(&line, NULL, 2);
            pthread_create(&t, NULL, heap, NULL);
            pthread_barrier_wait(&line);
            do cpu = piano_cpu_start(NULL); while (cpu == -EBUSY);
            pthread_join(t, &status);
            printf("%d %ld\n", cpu, (long)status);
            return 0;
        }
    """, f"-I{ROOT}/include", f"-L{LIB}", "-lpiano", f"-Wl,-rpath,{LIB}")
    for i in range(60):
        runs = project.root / f"runs{i}"
        done = project.command(program, env={"PIANO_RUNS_DIR": str(runs)})
        assert (done.out, len(list(runs.iterdir()))) == ("0 0\n", 1)


def test_caught_stack_overflows_do_not_stop_sampling(project: Project) -> None:
    """A handler on an alternate stack leaves by siglongjmp, mostly during a sample: later allocations are still sampled."""
    program = compile(project, r"""
        #include <setjmp.h>
        #include <sys/resource.h>
        static sigjmp_buf landing;
        static NOINLINE void take(int n) { void *volatile p = malloc(n); free(p); }
        static NOINLINE int down(int n)
        {
            volatile char room[700] = {0};
            take(10);
            return down(n + 1) + room[n % 700];
        }
        static NOINLINE void after(void) { for (int i = 0; i < 500; i++) take(100); }
        static void overflown(int number) { siglongjmp(landing, 1); }
        static char alternate[65536];
        int main(int argc, char **argv)
        {
            struct rlimit small = {atoi(argv[1]) * 1024, atoi(argv[1]) * 1024};
            setrlimit(RLIMIT_STACK, &small);
            stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
            struct sigaction act = {.sa_handler = overflown, .sa_flags = SA_ONSTACK};
            sigaltstack(&stack, NULL);
            sigaction(SIGSEGV, &act, NULL);
            for (volatile int i = 0; i < 40; i++) {
                if (sigsetjmp(landing, 1) == 0) down(i);
                after();
            }
            return 0;
        }
    """)
    for size in (500, 533, 600):  # kilobytes; the limits end at different places
        _, heap = record(project, program, str(size))
        assert heap.made("after") == (40 * 500, 40 * 500 * 100)
        assert heap["dropped"]["busy"] == 0
