"""Allocators in the executable: the program calls them directly, so piano hooks the entries of their functions. If that is not
safe, the figures are unknown, and all reports say so.
"""
from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conftest import LIB, Project, need
from heaps import Heap, archive, compile, figures, read, record

# The allocator is in a separate file, because a compiler could inline it into its callers otherwise.
POOL = r"""
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>
    static char pool[64 << 20];
    static size_t used;
    static void *last; /* of the largest size, for reuse */
    void *malloc(size_t n)
    {
        if (n == 100000 && last) { void *p = last; last = 0; return p; }
        n = (n + 31) & ~(size_t)15;
        size_t at = __atomic_fetch_add(&used, n, __ATOMIC_RELAXED);
        if (at + n > sizeof pool) return NULL;
        size_t *p = (size_t *)(pool + at);
        *p = n - 16;
        return p + 2;
    }
    void free(void *p) { if (p && ((size_t *)p)[-2] >= 100000) last = p; }
    void *calloc(size_t a, size_t b) { void *p = malloc(a * b); return p ? memset(p, 0, a * b) : p; }
    void *realloc(void *p, size_t n)
    {
        void *q = malloc(n);
        if (p && q) { memcpy(q, p, ((size_t *)p)[-2] < n ? ((size_t *)p)[-2] : n); free(p); }
        return q;
    }
"""

NAMES = ("malloc", "calloc", "realloc", "free", "posix_memalign", "aligned_alloc", "memalign", "valloc", "mallocx", "rallocx",
         "xallocx", "sdallocx", "dallocx", "malloc_usable_size")

# A is the text before the names of the allocator. Prints its live and requested bytes.
USE = r"""
    #include <malloc.h>
    #define JOIN_(a, b) a##b
    #define JOIN(a, b) JOIN_(a, b)
    void *JOIN(A, malloc)(size_t), *JOIN(A, calloc)(size_t, size_t), *JOIN(A, realloc)(void *, size_t);
    void JOIN(A, free)(void *);
    static void *kept[1000];
    static size_t made, held;
    NOINLINE void keep(int n) { for (int i = 0; i < n; made += 1000 + i, i++) kept[i] = JOIN(A, malloc)(1000 + i); held = made; }
    NOINLINE void churn(int n)
    {
        for (int i = 0; i < n; i++, made += 300 + 5000 + 100000) {
            void *p = JOIN(A, calloc)(3, 100);
            p = JOIN(A, realloc)(p, 5000);
            p = JOIN(A, realloc)(p, 100000);
            KEEP(p);
            JOIN(A, free)(p);
        }
    }
    NOINLINE void drop(int n) { for (int i = 0; i < n; i += 2) JOIN(A, free)(kept[i]), held -= 1000 + i; }
    int main(void)
    {
        keep(400);
        churn(50);
        drop(400);
        printf("made %zu\nheld %zu\n", made, held);
        return 3;
    }
"""
OTHERS = 5000  # stdio's buffer, and allocations of the allocator's own constructors


def own(project: Project, *flags: Any, name: str = "prog", source: str = USE) -> Path:
    """A program with its own malloc."""
    project.write({"pool.c": POOL})
    project.command("gcc", "-O2", "-g", "-fno-builtin", "-c", "pool.c", "-o", "pool.o")
    return compile(project, source, "-DA=", project.root / "pool.o", *flags, name=name)


def prefixed(project: Project, prefix: str = "je_") -> Path:
    """jemalloc, with names that begin with PREFIX."""
    need("objcopy")
    renamed = [word for name in NAMES for word in ("--redefine-sym", f"{name}={prefix}{name}")]
    path = project.root / f"lib{prefix}malloc.a"
    project.command("objcopy", *renamed, archive("jemalloc_pic"), path)
    return path


def check(heap: Heap, out: str, allocator: str) -> None:
    """The figures agree with the program's output."""
    said = {name: numbers[0] for name, numbers in figures(out).items()}
    assert heap.live("keep") == (200, said["held"])
    assert heap.made("churn") == (150, 50 * 105300)
    assert heap.made("keep") == (400, said["made"] - 50 * 105300)
    assert heap.live("churn") == (0, 0)
    assert not heap.lost, "a free was not seen"
    assert heap["live_bytes"] <= said["held"] + OTHERS and heap["allocated_bytes"] <= said["made"] + OTHERS
    assert heap["stack_health"]["truncated_share"] == 0
    assert heap["run"]["own_allocator"] == allocator and heap["run"]["own_allocator_hidden"] is None


def record_same(project: Project, program: Path, **options: Any) -> tuple[str, Heap]:
    """PROGRAM prints and returns the same recorded and alone."""
    alone = project.command(program, check=False)
    assert alone.status == 3
    done, heap = record(project, program, status=3, **options)
    assert done.out == alone.out
    assert "unknown" not in done.err, done.err
    return done.out, heap


@pytest.mark.parametrize("flags", [(), ("-no-pie",), ("-fcf-protection=full",), ("-Wl,-z,noseparate-code",)], ids=" ".join)
def test_malloc_of_the_program(project: Project, flags: tuple[str, ...]) -> None:
    out, heap = record_same(project, own(project, *flags))
    check(heap, out, "malloc")


def test_malloc_compiled_by_clang(project: Project) -> None:
    need("clang")
    project.write({"pool.c": POOL})
    project.command("clang", "-O2", "-g", "-fno-builtin", "-c", "pool.c", "-o", "pool.o")
    out, heap = record_same(project, compile(project, USE, "-DA=", project.root / "pool.o"))
    check(heap, out, "malloc")


@pytest.mark.parametrize("prefix", ["je_", "_rjem_", "mine_"])
def test_jemalloc_with_a_prefix(project: Project, prefix: str) -> None:
    """Like redis, and Rust's jemalloc. An unknown prefix is found next to `mallocx`."""
    program = compile(project, USE, f"-DA={prefix}", prefixed(project, prefix), "-ldl", "-lm")
    out, heap = record_same(project, program)
    check(heap, out, "jemalloc")


@pytest.mark.parametrize("allocator", ["jemalloc", "tcmalloc_minimal"])
def test_linked_statically(project: Project, allocator: str) -> None:
    cxx = ("-lstdc++",) if allocator.startswith("tc") else ()
    out, heap = record_same(project, compile(project, USE, "-DA=", archive(allocator), *cxx, "-ldl", "-lm"))
    check(heap, out, allocator.split("_")[0])


def test_functions_of_jemalloc_alone(project: Project) -> None:
    program = compile(project, r"""
        void *je_mallocx(size_t, int), *je_rallocx(void *, size_t, int), je_dallocx(void *, int), je_sdallocx(void *, size_t, int);
        size_t je_xallocx(void *, size_t, size_t, int);
        static size_t now, failed;
        NOINLINE void *grow(void)
        {
            char *p = je_mallocx(100, 0);
            p = je_rallocx(p, 70000, 0);
            now = je_xallocx(p, 75000, 0, 0);
            failed = je_xallocx(p, 1 << 30, 0, 0);
            return p;
        }
        NOINLINE void frees(void) { je_dallocx(je_mallocx(200, 0), 0); je_sdallocx(je_mallocx(300, 1 << 6), 300, 1 << 6); }
        int main(void)
        {
            void *p = grow();
            KEEP(p);
            frees();
            printf("%d %d\n", now >= 75000, failed >= 1 << 30);
            return 3;
        }
    """, prefixed(project), "-ldl", "-lm")
    out, heap = record_same(project, program)
    assert out == "1 0\n"
    assert heap.live("grow") == (1, 75000) and heap.made("grow") == (3, 100 + 70000 + 75000)
    assert heap.made("frees") == (2, 500) and heap.live("frees") == (0, 0)


# mimalloc's functions on a simple pool, because only its names and arguments matter here.
MIMALLOC = POOL.replace("*malloc(", "*mi_malloc(").replace("*calloc(", "*mi_calloc(").replace("*realloc(", "*mi_realloc(").replace(
    " free(", " mi_free(").replace("= malloc(", "= mi_malloc(") + r"""
    void *mi_malloc_aligned(size_t n, size_t a) { return mi_malloc((n + a - 1) & ~(a - 1)); }
    void *mi_heap_malloc(void *heap, size_t n) { return heap ? mi_malloc(n) : 0; }
    void *mi_heap_calloc(void *heap, size_t n, size_t m) { return heap ? mi_calloc(n, m) : 0; }
    void mi_free_size(void *p, size_t n) { if (n) mi_free(p); }
"""


def test_functions_of_mimalloc(project: Project) -> None:
    project.write({"mi.c": MIMALLOC})
    project.command("gcc", "-O2", "-g", "-fno-builtin", "-c", "mi.c", "-o", "mi.o")
    program = compile(project, r"""
        void *mi_malloc(size_t), *mi_malloc_aligned(size_t, size_t), *mi_heap_malloc(void *, size_t);
        void *mi_heap_calloc(void *, size_t, size_t), mi_free_size(void *, size_t);
        static char heap;
        NOINLINE void all(void)
        {
            KEEP(mi_malloc(100));
            KEEP(mi_malloc_aligned(200, 64));
            KEEP(mi_heap_malloc(&heap, 300));
            KEEP(mi_heap_calloc(&heap, 4, 100));
            mi_free_size(mi_malloc(500), 500);
        }
        int main(void) { all(); return 3; }
    """, project.root / "mi.o")
    _, heap = record_same(project, program)
    assert heap.made("all") == (5, 1500) or heap.made("all") == (5, 1500 + 56), "an inner function may be the one that is sampled"
    assert heap.live("all")[0] == 4
    assert {site["stack"][site["site_frame"]]["function"] for site in heap.through("all")} == {"all"}, "mi_malloc_aligned is no site"
    assert heap["run"]["own_allocator"] == "mimalloc"


THREADS = r"""
    #include <new>
    #include <string>
    #include <thread>
    #include <vector>
    #include <sys/wait.h>
    #include <unistd.h>
    static NOINLINE int throws()
    {
        int count = 0;
        for (int i = 0; i < 20; i++)
            try { volatile size_t n = (size_t)-1 / 4; static char *volatile p; p = new char[n]; } catch (std::bad_alloc &) { count++; }
        return count;
    }
    static NOINLINE void keep(char **kept) { for (int i = 0; i < 100; i++) kept[i] = new char[10007]; }
    static int work(int seed)
    {
        std::vector<std::string> v;
        int bad = 0;
        for (int i = 0; i < 5000; i++) {
            v.push_back(std::string(10 + (i * seed) % 90, 'x'));
            if (v.size() > 300) v.clear();
            if (i % 1000 == 0) {
                pid_t child = fork();
                if (child == 0) { std::string s(1000, 'y'); v.clear(); _exit(s.size() != 1000); }
                int status;
                waitpid(child, &status, 0);
                bad += status != 0;
            }
        }
        return bad;
    }
    int main()
    {
        std::vector<std::thread> threads;
        int bad[4], before, after;
        static char *kept[100];
        before = throws();
        for (int k = 0; k < 4; k++) threads.emplace_back([&bad, k] { bad[k] = work(k + 3); });
        for (auto &t : threads) t.join();
        keep(kept);
        after = throws();
        printf("%d %d %d\n", bad[0] + bad[1] + bad[2] + bad[3], before, after);
        return 3;
    }
"""


@pytest.mark.parametrize("allocator", ["jemalloc", "tcmalloc_minimal"])
def test_threads_forks_and_exceptions(project: Project, allocator: str) -> None:
    program = compile(project, THREADS, archive(allocator), "-ldl", cxx=True)
    for rate in ("1", "4K"):
        out, heap = record_same(project, program, rate=rate, flags=["--children"])
        assert out == "0 20 20\n"
        assert not heap.lost
    _, heap = record(project, program, status=3)
    assert heap.live("keep") == (100, 1_000_700)
    assert heap.live("work") == (0, 0), "all frees of all threads were seen"


def rustc(project: Project, *flags: Any) -> Path:
    """Compiles main.rs. rustup finds its compilers in the user's own home directory."""
    around = {key: value for key, value in os.environ.items() if key not in ("RUSTFLAGS", "LD_PRELOAD")}
    words = [need("rustc"), "-O", "-g", "main.rs", "-o", "prog", "-A", "warnings", *map(str, flags)]
    if subprocess.run([words[0], "--version"], env=around, capture_output=True).returncode != 0:
        pytest.skip("rustc is installed, but does not say its version")
    done = subprocess.run(words, cwd=project.root, env=around, capture_output=True, text=True)
    if "error[E" in done.stderr or "expected expression" in done.stderr:
        pytest.skip("rustc is too old for this program: " + done.stderr.splitlines()[0])
    assert done.returncode == 0, done.stderr
    return project.root / "prog"


def test_a_global_allocator_of_rust(project: Project) -> None:
    project.write({"main.rs": r"""
        use std::alloc::{GlobalAlloc, Layout};
        use std::os::raw::{c_int, c_void};
        extern "C" {
            fn _rjem_mallocx(size: usize, flags: c_int) -> *mut c_void;
            fn _rjem_rallocx(p: *mut c_void, size: usize, flags: c_int) -> *mut c_void;
            fn _rjem_sdallocx(p: *mut c_void, size: usize, flags: c_int);
        }
        struct Jemalloc;
        unsafe impl GlobalAlloc for Jemalloc {
            unsafe fn alloc(&self, l: Layout) -> *mut u8 { _rjem_mallocx(l.size(), l.align().trailing_zeros() as c_int) as *mut u8 }
            unsafe fn realloc(&self, p: *mut u8, l: Layout, n: usize) -> *mut u8 {
                _rjem_rallocx(p as *mut c_void, n, l.align().trailing_zeros() as c_int) as *mut u8
            }
            unsafe fn dealloc(&self, p: *mut u8, l: Layout) {
                _rjem_sdallocx(p as *mut c_void, l.size(), l.align().trailing_zeros() as c_int)
            }
        }
        #[global_allocator]
        static A: Jemalloc = Jemalloc;
        #[inline(never)]
        fn keep(n: usize) -> Vec<Vec<u8>> { (0..n).map(|i| vec![1u8; 1000 + i]).collect() }
        #[inline(never)]
        fn churn() -> usize { (0..100).map(|i| { let mut v = Vec::with_capacity(4); for k in 0..50u64 { v.push(k * i); } v.len() }).sum() }
        fn main() { let kept = keep(100); println!("{} {}", kept.len(), churn()); std::process::exit(3); }
    """})
    library = prefixed(project, "_rjem_")
    out, heap = record_same(project, rustc(project, "-C", f"link-arg={library}", "-C", "link-arg=-lm"))
    assert out == "100 5000\n"
    assert heap.live("keep") == (101, 100 * 24 + sum(1000 + i for i in range(100)))
    assert heap.live("churn") == (0, 0) and heap.made("churn")[0] == 500, "with_capacity, and 4 times twice as much"
    assert heap["run"]["own_allocator"] == "jemalloc"


# ---- unknown figures ----

NOTICE = "prog has an allocator of its own ({}) that piano cannot see: heap figures are unknown ({})"


def check_unknown(project: Project, program: Path, allocator: str, why: str, **options: Any) -> None:
    """The program runs as always, and no report shows a figure."""
    alone = project.command(program, check=False, **options)
    notice = NOTICE.format(allocator, why)
    for flags, path in (["--heap=1"], "heap.rec"), ([], "all.rec"):
        done = project.piano("record", *flags, "-o", path, "--", program, check=False, **options)
        assert (done.status, done.out) == (alone.status, alone.out), repr(done)
        assert notice in done.err and "little" not in done.err and "nothing was sampled" not in done.err, done.err
        shown = project.piano("report", "--heap", path)
        assert notice in shown.out and "0B" not in shown.out, shown.out
        assert [line.split() for line in shown.out.splitlines() if line.startswith(("Live", "Peak"))] == [
            ["Live", "at", "exit", "-"], ["Peak", "-"]]
        heap = read(project, path)
        assert [heap[key] for key in ("live_bytes", "allocated_bytes", "peak_bytes", "samples")] == [None] * 4
        assert heap.sites == []
        assert (heap["run"]["own_allocator"], heap["run"]["own_allocator_hidden"]) == (allocator, why)
        assert notice in project.piano("export", "--format", "collapsed", path, check=False).err
    assert notice in project.piano("report", "all.rec").out
    assert project.json("report", "all.rec")["heap"] == {"live_bytes": None, "allocated_bytes": None, "peak_bytes": None,
                                                         "samples": None}
    assert notice in project.piano("view", "all.rec", "-o", "page.html", "--force").err
    assert "that piano cannot see: heap figures are unknown" in (project.root / "page.html").read_text()


def test_malloc_of_a_stripped_program(project: Project) -> None:
    check_unknown(project, own(project, "-s"), "malloc", "its symbols are stripped")


@pytest.mark.parametrize("text, env, allocator", [
    ("", {}, "mimalloc"), ("pymalloc_debug", {}, None), ("pymalloc_debug free-threading build", {}, "mimalloc"),
    ("pymalloc_debug", {"PYTHONMALLOC": "mimalloc_debug"}, "mimalloc"), ("pymalloc_debug", {"PYTHONMALLOC": "malloc"}, None)])
def test_mimalloc_of_python_is_rarely_used(project: Project, text: str, env: dict[str, str], allocator: str | None) -> None:
    """Python from 3.13 contains mimalloc, and uses it without the GIL or if PYTHONMALLOC names it."""
    project.write({"prog.c": f"""
        #include <stdio.h>
        #include <stdlib.h>
        int main(void) {{ return puts("mimalloc: error: {text}") < 0 || !malloc(1 << 24); }}
    """})
    project.command("gcc", "-s", "-O1", "-fno-builtin", "prog.c", "-o", "prog")
    project.piano("record", "--heap=64K", "-o", "x.rec", "--", "./prog", env=env)
    heap = read(project, "x.rec")
    assert heap["run"]["own_allocator"] == allocator
    assert heap["samples"] is None if allocator else heap["samples"] > 0


def test_allocators_of_stripped_programs(project: Project) -> None:
    """The library's messages identify it, even if it is not the malloc of all libraries."""
    program = compile(project, USE, "-DA=je_", prefixed(project), "-ldl", "-lm", "-s")
    check_unknown(project, program, "jemalloc", "its symbols are stripped")
    (project.root / "heap.rec").unlink()
    (project.root / "all.rec").unlink()
    program = compile(project, USE, "-DA=", archive("tcmalloc_minimal"), "-lstdc++", "-lm", "-s")
    check_unknown(project, program, "tcmalloc", "its symbols are stripped")


def with_free(project: Project, code: str) -> Path:
    """A program whose `free` is CODE in assembler; `old_free` does the work."""
    if platform.machine() != "x86_64":
        pytest.skip("the code is for x86-64")
    text = "\\n".join(line.strip() for line in code.split(";"))
    project.write({"pool.c": POOL.replace("void free(void *p)", "void free(void *); void old_free(void *p)") + f"""
        __asm__(".text\\n.p2align 4\\n.globl free\\n.type free, @function\\nfree: {text}\\n.size free, . - free\\n.p2align 4\\n"
                ".globl calls\\n.data\\ncalls: .quad old_free\\n.text\\n");
    """})
    project.command("gcc", "-O2", "-g", "-fno-builtin", "-c", "pool.c", "-o", "pool.o")
    return compile(project, USE, "-DA=", project.root / "pool.o")


@pytest.mark.parametrize("code", ["jmp old_free", "endbr64; jmp old_free", "sub $8, %rsp; call old_free; add $8, %rsp; ret",
                                  "test %rdi, %rdi; je 1f; jmp old_free; 1: ret", "lea calls(%rip), %rax; jmp *(%rax)",
                                  "jmp *calls(%rip)", "push %rbx; mov %rdi, %rbx; call old_free; pop %rbx; ret",
                                  "xor %eax, %eax; inc %eax; nop; 1: dec %eax; jnz 1b; jmp old_free"])
def test_code_that_is_moved(project: Project, code: str) -> None:
    """Function entries that piano can hook."""
    out, heap = record_same(project, with_free(project, code))
    check(heap, out, "malloc")


@pytest.mark.parametrize("code", ["xor %eax, %eax; 1: inc %eax; cmp $3, %eax; jne 1b; jmp old_free", "jrcxz 1f; 1: jmp old_free",
                                  "sub $8, %rsp; call *calls(%rip); add $8, %rsp; ret", "jmp 1f; .byte 6, 6, 6, 6; 1: jmp old_free",
                                  "nop; nop; nop; nop; nop; .byte 6; ret"])
def test_code_that_cannot_be_moved(project: Project, code: str) -> None:
    """In any doubt, nothing is changed: the program jumps into the replaced bytes; an instruction cannot be moved;
    a call would return into the copy; some bytes are not an instruction."""
    check_unknown(project, with_free(project, code.replace("nop; .byte 6; ret", "nop; jmp old_free; .byte 6")), "malloc",
                  "its code cannot be hooked safely")


def test_a_global_allocator_written_in_rust(project: Project) -> None:
    """The compiler inlines it into its callers: a hook would see some of the calls."""
    project.write({"main.rs": r"""
        use std::alloc::{GlobalAlloc, Layout};
        use std::sync::atomic::{AtomicUsize, Ordering};
        struct Bump;
        static mut POOL: [u8; 1 << 24] = [0; 1 << 24];
        static USED: AtomicUsize = AtomicUsize::new(0);
        unsafe impl GlobalAlloc for Bump {
            unsafe fn alloc(&self, l: Layout) -> *mut u8 {
                let n = l.size() + l.align();
                let at = USED.fetch_add(n, Ordering::Relaxed);
                if at + n > 1 << 24 { return std::ptr::null_mut(); }
                let p = (&raw mut POOL as *mut u8).add(at);
                p.add(p.align_offset(l.align()))
            }
            unsafe fn dealloc(&self, _p: *mut u8, _l: Layout) {}
        }
        #[global_allocator]
        static A: Bump = Bump;
        fn main() { let v: Vec<Vec<u8>> = (0..100).map(|i| vec![1u8; 1000 + i]).collect(); println!("{}", v.len()); }
    """})
    check_unknown(project, rustc(project), "Rust's global allocator", "its code cannot be hooked safely")


def test_threads_before_the_allocator_could_be_hooked(project: Project) -> None:
    """A library starts a thread before piano is initialised. That thread may be inside an allocation."""
    project.write({"early.c": r"""
        #include <pthread.h>
        #include <unistd.h>
        static void *sleeps(void *p) { pause(); return p; }
        __attribute__((constructor(101))) static void begin(void) { pthread_t t; pthread_create(&t, 0, sleeps, 0); }
        void early(void) { }
    """})
    project.command("gcc", "-shared", "-fPIC", "-pthread", "early.c", "-o", "libearly.so")
    program = own(project, "-Wl,--no-as-needed", project.root / "libearly.so", "-Wl,-rpath," + str(project.root))
    check_unknown(project, program, "malloc", "threads were running before it could be hooked")


@pytest.mark.parametrize("prefix", ["", "je_"])
def test_a_library_that_is_loaded_later(project: Project, prefix: str) -> None:
    """The program may be executing the bytes to replace. piano reports that, and changes nothing."""
    library = prefixed(project) if prefix else archive("jemalloc_pic")
    program = compile(project, r"""
        #include <dlfcn.h>
        void *JOIN(A, malloc)(size_t), JOIN(A, free)(void *);
        int main(int argc, char **argv)
        {
            unsigned char before[16], after[16];
            memcpy(before, (void *)JOIN(A, malloc), sizeof before);
            void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
            int (*start)(size_t) = (int (*)(size_t))dlsym(library, "piano_heap_start");
            int err = start(1);
            memcpy(after, (void *)JOIN(A, malloc), sizeof after);
            JOIN(A, free)(JOIN(A, malloc)(100));
            printf("%d %d\n", err == -ENOTSUP, memcmp(before, after, sizeof before));
            return 0;
        }
    """.replace("#include <dlfcn.h>", "#include <dlfcn.h>\n#define JOIN_(a, b) a##b\n#define JOIN(a, b) JOIN_(a, b)"), f"-DA={prefix}",
                      library, "-ldl", "-lm")
    assert project.command(program, LIB / "libpiano.so").out == "1 0\n"


def test_children_with_an_allocator_that_cannot_be_seen(project: Project) -> None:
    """They have no samples, so their recordings are removed, with a message."""
    program = own(project, "-s")
    done = project.piano("record", "--heap=1", "--children", "-o", "x.rec", "--", "sh", "-c", f"{program}; {program}; exit 0")
    assert done.err.count(NOTICE.format("malloc", "its symbols are stripped")) == 1, done.err


# ---- instrumented programs ----

def tally(row: dict[str, Any]) -> tuple[int, int, int]:
    return row["alloc_count"], row["alloc_bytes"], row["free_count"]


@pytest.mark.parametrize("prefix", ["", "je_"])
def test_counts_of_instrumented_functions(project: Project, prefix: str) -> None:
    """Calls of an allocator in the program count like any other."""
    library = prefixed(project) if prefix else archive("jemalloc_pic")
    compile(project, USE, f"-DA={prefix}", library, "-ldl", "-lm")  # writes prog.c
    project.build("--fn", "keep", "--fn", "churn", "--fn", "drop", "--", "gcc", "-O2", "-fno-builtin", "-w", f"-DA={prefix}",
                  "prog.c", library, "-ldl", "-lm", "-o", "prog")
    assert project.piano("run", check=False).status == 3
    report = project.report()
    assert tally(report.row("keep")) == (400, sum(1000 + i for i in range(400)), 0)
    assert tally(report.row("churn")) == (150, 50 * 105300, 150)
    assert tally(report.row("drop")) == (0, 0, 200)
    assert report.row("drop")["free_bytes"] >= sum(1000 + i for i in range(0, 400, 2)), "jemalloc knows their sizes"


def test_an_instrumented_program_that_is_recorded(project: Project) -> None:
    project.write({"pool.c": POOL})
    compile(project, USE, "-DA=", "pool.c")  # writes prog.c
    program = project.build("--fn", "keep", "--fn", "churn", "--fn", "drop", "--file", "prog.c", "--", "gcc", "-O2", "-g",
                            "-fno-builtin", "-w", "-DA=", "prog.c", "pool.c", "-o", "prog")
    done, heap = record(project, program, status=3)
    check(heap, done.out, "malloc")
    assert tally(project.report().row("churn")) == (150, 50 * 105300, 150)


def test_counts_of_an_allocator_that_cannot_be_hooked(project: Project) -> None:
    """Counts of malloc alone would be wrong."""
    if platform.machine() != "x86_64":
        pytest.skip("the code is for x86-64")
    code = "xor %eax, %eax\\n1: inc %eax\\ncmp $3, %eax\\njne 1b\\nret"
    project.write({"pool.c": MIMALLOC.replace("mi_", "je_").replace("void je_free(", "void je_free(void *); void old_free(") + f"""
        __asm__(".text\\n.globl je_free\\n.type je_free, @function\\nje_free: {code}\\n.size je_free, . - je_free\\n");
    """})
    compile(project, USE, "-DA=je_", "pool.c")  # writes prog.c
    project.build("--fn", "keep", "--fn", "churn", "--file", "prog.c", "--", "gcc", "-O2", "-fno-builtin", "-w", "-DA=je_", "prog.c",
                  "pool.c", "-o", "prog")
    assert project.piano("run", check=False).status == 3
    report = project.report()
    assert [report.row("keep")[key] for key in ("alloc_count", "alloc_bytes", "free_count", "free_bytes")] == [None] * 4
    assert report.data["dropped"]["allocators"] == 1
    shown = project.piano("report")
    assert "1 allocator in the executable cannot be seen: allocations are not known" in shown.err
    assert [line.split()[-2:] for line in shown.out.splitlines() if line.startswith(("keep", "churn"))] == [["-", "-"]] * 2
    project.piano("run", check=False)
    runs = sorted((project.root / ".piano/runs").glob("*.*json"))
    compared = project.json("diff", runs[0], runs[-1])
    assert {row["alloc_count"] for row in compared["functions"]} == {None}
    assert "Allocs" not in project.piano("diff", runs[0], runs[-1]).out
