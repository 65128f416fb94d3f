"""Which frame of a stack is the site, and which function is shown as its caller."""
from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

import heaps
from conftest import PIANO, Project, need
from made import MB, make, put, tool

# Several paths to one site -----------------------------------------------------------------------

WAYS = """\
extern void *malloc(unsigned long); char *sink;
__attribute__((noinline)) char *make_node(int n) { sink = malloc(n); return sink; }
__attribute__((noinline)) char *helper(int n) { char *p = make_node(n); p[0] = 1; return p; }
__attribute__((noinline)) char *big(int n) { char *p = helper(n); p[1] = 2; return p; }
__attribute__((noinline)) char *small(int n) { char *p = helper(n); p[1] = 3; return p; }
__attribute__((noinline)) char *busy(int n) { char *p = helper(n); p[1] = 4; return p; }
int main(int argc, char **argv) { big(argc); small(argc); busy(argc); return sink == argv[0]; }
"""


@pytest.fixture
def ways(project: Project) -> tuple[Any, dict[str, int]]:
    project.write({"ways.c": WAYS})
    project.command("gcc", "-O1", "-g", "-fno-builtin", "ways.c", "-o", "ways")
    rec = make.Recording(program=str(project.root / "ways"), rate=1)
    elf = make.Program(rec, project.root / "ways")
    return rec, {name: rec.stack(elf.pcs("make_node", "helper", name, "main")) for name in ("small", "big", "busy")}


@tool
def test_the_caller_shown_leads_by_the_figure_of_the_table(project: Project, ways: Any) -> None:
    """`small` holds 100 KB at the end, `big` held 85 MB at the peak, `busy` churned 200 MB."""
    rec, stacks = ways
    rec.sample(stacks["small"], 100_000, at_ms=1)
    rec.sample(stacks["big"], 85 * MB, at_ms=10)
    rec.free(stacks["big"], 85 * MB, lived_us=900_000)
    for _ in range(200):
        rec.sample(stacks["busy"], MB, lived_us=3)
    path = put(project, rec)
    for by, caller in (("live", "small"), ("peak", "big"), ("allocated", "busy"), ("churn", "busy")):
        (site,) = project.json("report", path, "--heap", "--by", by)["places"]
        assert (site["caller"], site["callers"], site["stacks"]) == ("helper", ["helper", caller], 3), by
        first = project.piano("report", path, "--heap", "--by", by).out.split("\n\n")[2]
        assert f"helper < {caller} (3 ways)" in first, (by, first)
    assert "helper < big (3 ways)\n" in project.piano("report", path, "--peak").out


@tool
def test_the_caller_of_a_growing_site_is_the_one_that_grew(project: Project, ways: Any) -> None:
    rec, stacks = ways
    rec.sample(stacks["small"], 9 * MB)
    for turn in range(3):
        rec.sample(stacks["big"], 1000)
        rec.snapshot(at_ms=1000 * (turn + 1))
    path = put(project, rec)
    (site,) = project.json("report", path, "--growth")["growth"]["sites"]
    assert (site["delta_bytes"], site["callers"]) == (2000, ["helper", "big"])
    assert "helper < big (2 ways)" in project.piano("report", path, "--growth").out
    (place,) = project.json("report", path, "--heap")["places"]
    assert place["callers"] == ["helper", "small"], "who holds most is another question"


TWICE = """\
extern void *malloc(unsigned long); char *sink;
__attribute__((noinline)) void make(int n) { sink = malloc(n); sink[0] = 1; }
int main(int argc, char **argv) {
    make(argc);
    return sink == argv[0] ? argc * 3 + argv[0][0] : argv[0][1] * 5;
}
"""


@tool
def test_a_node_of_the_tree_has_the_line_of_its_heaviest_call(project: Project) -> None:
    project.write({"t.c": TWICE})
    project.command("gcc", "-O1", "-g", "-fno-builtin", "t.c", "-o", "t")
    rec = make.Recording(program=str(project.root / "t"), rate=1)
    elf = make.Program(rec, project.root / "t")
    rec.sample(rec.stack([elf.pc("make"), elf.pc("main")]), 10)
    rec.sample(rec.stack([elf.pc("make"), elf.pc("main", elf.functions["main"][1] - 2)]), 1000)
    data = project.json("report", put(project, rec), "--tree")
    heavy, light = (site["stack"][-1]["line"] for site in data["sites"])
    assert light == 4 and heavy != 4
    assert [(n["function"], n["line"], n["bytes"]) for n in data["tree"]["children"]] == [("main", heavy, 1010)]

# Owner of the code -------------------------------------------------------------------------------

RUST = "/rustc/0123456789012345678901234567890123456789/library"
CARGO = "/home/u/.cargo/registry/src/index.crates.io-1cd6/tokio-1.0/src/x.rs"
LIBRARY = "/usr/lib/x86_64-linux-gnu/libfoo.so.1"

# The frames of a stack, innermost first: (module, function, file). The program is "app", or an absolute path.
STACKS = {
    "a library of the system": ("make", "/home/u/app", [
        (LIBRARY, "foo_alloc", None), (LIBRARY, "foo_parse", None), ("app", "make", "a.c"), ("app", "main", "a.c")]),
    "nothing of one's own": ("foo_alloc", "/home/u/app", [(LIBRARY, "foo_alloc", None), (LIBRARY, "foo_thread", None)]),
    "a program of the system": ("foo_alloc", "/usr/bin/app", [
        (LIBRARY, "foo_alloc", None), ("app", "make", "a.c"), ("app", "main", "a.c")]),
    "a program in /usr/local": ("make", "/usr/local/bin/app", [(LIBRARY, "foo_alloc", None), ("app", "make", None)]),
    "a program in /usr/src, as in containers": ("make", "/usr/src/app/app", [
        (LIBRARY, "foo_alloc", None), ("app", "make", "/usr/src/app/a.c")]),
    "headers of C++": ("fill", "/home/u/app", [
        ("app", "void grow<int>(int)", "/usr/include/c++/12/bits/stl_vector.h"), ("app", "fill", "a.cc")]),
    "headers of a library": ("fill", "/home/u/app", [
        ("app", "Eigen::make(int)", "/usr/include/eigen3/Eigen/src/Core.h"), ("app", "fill", "a.cc")]),
    "Rust with lines": ("app::fill", "/home/u/app", [
        ("app", "alloc::alloc::alloc", f"{RUST}/alloc/src/alloc.rs"),
        ("app", "<alloc::vec::Vec<T> as core::clone::Clone>::clone", f"{RUST}/alloc/src/vec/mod.rs"),
        ("app", "tokio::runtime::spawn", CARGO), ("app", "app::fill", "src/main.rs"),
        ("app", "std::rt::lang_start", f"{RUST}/std/src/rt.rs"), ("app", "main", None)]),
    "Rust without lines": ("app::fill", "/home/u/app", [
        ("app", "__rust_alloc", None), ("app", "alloc::raw_vec::RawVec<T,A>::reserve_for_push", None),
        ("app", "<hashbrown::raw::RawTable<T> as core::clone::Clone>::clone", None), ("app", "app::fill", None)]),
    "a trait of one's own for a type of the library": ("<alloc::vec::Vec<u8> as app::Grow>::grow", "/home/u/app", [
        ("app", "alloc::alloc::realloc", f"{RUST}/alloc/src/alloc.rs"),
        ("app", "<alloc::vec::Vec<u8> as app::Grow>::grow", "src/main.rs"), ("app", "main", None)]),
    "only libraries of Rust": ("tokio::runtime::spawn", "/home/u/app", [
        ("app", "alloc::alloc::alloc", f"{RUST}/alloc/src/alloc.rs"), ("app", "tokio::runtime::spawn", CARGO),
        ("app", "std::rt::lang_start", f"{RUST}/std/src/rt.rs")]),
    "postgres": ("heap_copytuple", "/usr/lib/postgresql/15/bin/app", [
        ("app", "app+0x5c7730", None), ("app", "palloc", None), ("app", "heap_copytuple", None),
        ("app", "main", None)]),
    "perl": ("Perl_pp_helem", "/usr/bin/app", [
        ("app", "Perl_safesysmalloc", None), ("app", "Perl_more_bodies", None), ("app", "Perl_pp_helem", None)]),
    "gcc": ("build_decl", "/usr/lib/gcc/x86_64-linux-gnu/12/app", [
        ("app", "alloc_page", None), ("app", "ggc_internal_alloc(unsigned long)", None), ("app", "build_decl", None)]),
    "HotSpot": ("Compile::init()", "/usr/lib/jvm/bin/app", [
        (LIBRARY, "os::malloc(unsigned long, MEMFLAGS)", None), (LIBRARY, "Chunk::operator new(unsigned long)", None),
        (LIBRARY, "Arena::grow(unsigned long)", None), (LIBRARY, "Compile::init()", None)]),
    "Go": ("main.fill", "/home/u/app", [
        ("app", "_cgo_0_Cfunc_malloc", None), ("app", "runtime.cgocall", "/usr/local/go/src/runtime/cgocall.go"),
        ("app", "dep.Get", "/home/u/go/pkg/mod/dep@v1.0.0/dep.go"), ("app", "main.fill", "/home/u/x/main.go")]),
}


@tool
@pytest.mark.parametrize("case", STACKS)
def test_the_site_is_the_nearest_frame_in_ones_own_code(project: Project, case: str) -> None:
    site, program, frames = STACKS[case]
    rec = make.Recording(program=program, rate=1)
    starts: dict[str, int] = {}
    pcs = []
    for number, (module, function, file) in enumerate(frames):
        path = program if module == "app" else module
        if path not in starts:
            starts[path] = 0x10000000 * (len(starts) + 1)
            rec.module(path, starts[path], starts[path] + 0x100000)
        pcs.append(starts[path] + 0x100 * (number + 1))
        rec.symbol(path, 0x100 * (number + 1) - 1, [(function, file, 10 + number if file else 0, False)])
    rec.sample(rec.stack(pcs), 1000)
    path = put(project, rec)
    (place,) = project.json("report", path, "--heap")["places"]
    assert place["function"] == site
    (stack,) = project.json("report", path, "--heap")["sites"]
    assert stack["stack"][stack["site_frame"]]["function"] == site and len(stack["stack"]) == len(frames)


@tool
def test_library_frames_are_skipped_aloud_and_can_be_seen(project: Project) -> None:
    rec = make.Recording(program="/home/u/app", rate=1)
    rec.module("/home/u/app", 0x1000000, 0x1100000)
    rec.module(LIBRARY, 0x2000000, 0x2100000)
    rec.symbol("/home/u/app", 0xFF, [("make", "a.c", 3, False)]).symbol(LIBRARY, 0xFF, [("foo_alloc", None, 0, False)])
    rec.sample(rec.stack([0x2000100, 0x1000100]), 1000)
    path = put(project, rec)
    text = project.piano("report", path, "--heap").out
    assert "sites are in the program's own code, not in foo_alloc and other functions of libraries: --no-skip" in text
    (place,) = project.json("report", path, "--heap", "--no-skip")["places"]
    assert (place["function"], place["caller"]) == ("foo_alloc", "make")
    assert "own code" not in project.piano("report", path, "--heap", "--no-skip").out


# Unknown wrappers ---------------------------------------------------------------------------------

USERS = "".join(f"N void use{i}(void) {{ char *p = mem_get({100 * (i + 1)} + {i}); p[1] = 1; node_new()->x[1] = 2; }}\n"
                for i in range(12))
POOL = """
    #define N NOINLINE
    static void *keep[12000]; static int kept;
    N void *pool_take(size_t n) { void *p = malloc(n + 16); if (!p) abort(); keep[kept++ % 12000] = p; return p; }
    N void *mem_get(size_t n) { char *p = pool_take(n); p[0] = 1; return p; }
    struct node { char x[48]; };
    N struct node *node_new(void) { struct node *p = malloc(48); p->x[0] = 1; keep[kept++ % 12000] = p; return p; }
""" + USERS + """
    int main(int argc, char **argv)
    {
        int few = argc > 1 ? 2 : 12;
        for (int i = 0; i < 100; i++) {
            use0(); use1();
            if (few == 2) continue;
            use2(); use3(); use4(); use5(); use6(); use7(); use8(); use9(); use10(); use11();
        }
        return kept == 1;
    }
"""


def test_a_function_that_only_passes_sizes_on_is_a_wrapper(project: Project) -> None:
    """mem_get returns blocks of any size to twelve functions; node_new makes one kind of block for the same twelve."""
    program = heaps.compile(project, POOL)
    _, heap = heaps.record(project, program)
    held = {p["function"]: p["live_bytes"] for p in heap["places"] if p["function"].startswith("use")}
    assert held == {f"use{i}": 100 * (100 * (i + 1) + i + 16) for i in range(12)}
    assert sum(p["live_bytes"] for p in heap["places"] if p["function"] == "node_new") == 12 * 100 * 48
    assert heap["wrappers_found"] == ["mem_get"]
    text = project.piano("report", "--heap", "out.rec").out
    assert "mem_get counts as a wrapper: many functions call it, for many sizes" in text
    plain = heaps.read(project, "out.rec", "--no-skip")
    assert {p["function"] for p in plain["places"]} >= {"pool_take", "node_new"}
    assert plain["wrappers_found"] == []


def test_a_function_with_few_callers_is_no_wrapper(project: Project) -> None:
    program = heaps.compile(project, POOL)
    _, heap = heaps.record(project, program, "few")
    assert heap["wrappers_found"] == []
    assert {p["function"] for p in heap["places"]} >= {"pool_take", "node_new"}


def test_both_sides_of_a_diff_have_the_same_wrappers(project: Project) -> None:
    """One side alone does not show that mem_get is a wrapper."""
    program = heaps.compile(project, POOL)
    heaps.record(project, program, "few", into="few.rec")
    heaps.record(project, program, into="many.rec")
    for pair in (("few.rec", "many.rec"), ("many.rec", "few.rec")):
        rows = {row["name"]: row["live_bytes"] for row in project.json("diff", *pair)["functions"]}
        assert "pool_take" not in rows and rows["use0"][0] == rows["use0"][1] == 100 * 116, pair


# Real programs -----------------------------------------------------------------------------------

CRATE = """\
use std::collections::HashMap;
#[inline(never)]
fn grow_vec(n: usize) -> Vec<u64> {
    let mut v = Vec::new();
    for i in 0..n {
        v.push(i as u64); // vec
    }
    v
}
#[inline(never)]
fn join(n: usize) -> String {
    let mut s = String::new();
    for i in 0..n {
        s.push_str(&format!("{i:08}")); // string
    }
    s
}
#[inline(never)]
fn boxes(n: usize) -> Vec<Box<[u8; 256]>> {
    let mut all = Vec::with_capacity(n); // boxes
    for i in 0..n {
        all.push(Box::new([i as u8; 256])); // box
    }
    all
}
#[inline(never)]
fn fill_map(n: u64) -> HashMap<u64, [u64; 4]> {
    let mut m = HashMap::new();
    for i in 0..n {
        m.insert(i, [i; 4]); // map
    }
    m
}
fn main() {
    let all = (grow_vec(100_000), join(50_000), boxes(4_000), fill_map(20_000));
    println!("{}", all.0.len() + all.1.len() + all.2.len() + all.3.len());
    std::mem::forget(all);
}
"""


def rustc(folder: Path, *arguments: str) -> None:
    """With the user's environment, because the project's has no toolchain."""
    found = shutil.which("rustc") or shutil.which("rustc", path=str(Path.home() / ".cargo" / "bin"))
    if not found or subprocess.run([found, "-vV"], capture_output=True).returncode != 0:
        pytest.skip("rustc is not installed, or has no toolchain")
    subprocess.run([found, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.mark.parametrize("flags", [["-g"], ["-O", "-g"], ["-O"]], ids=" ".join)
def test_sites_of_rust_are_lines_of_ones_own(project: Project, flags: list[str]) -> None:
    project.write({"app.rs": CRATE})
    rustc(project.root, *flags, "app.rs", "-o", "app")
    _, heap = heaps.record(project, project.root / "app")
    lines = {text: number for number, line in enumerate(CRATE.splitlines(), 1)
             for text in re.findall(r"// (\w+)$", line)}
    big = [p for p in heap["places"] if p["allocated_bytes"] > 20_000]
    found = {(p["function"].split("::")[-1], p["line"]) for p in big}
    wanted = {("grow_vec", lines["vec"]), ("join", lines["string"]), ("boxes", lines["box"]),
              ("boxes", lines["boxes"]), ("fill_map", lines["map"])}
    if "-g" not in flags:
        wanted = {(name, None) for name, _ in wanted}
    assert found == wanted
    boxed = [p for p in big if p["function"].endswith("boxes") and p["line"] in (lines["box"], None)]
    assert sum(p["live_objects"] for p in boxed) in (4000, 4001)


def test_sites_of_perl_are_not_its_allocator(project: Project) -> None:
    need("perl")
    _, heap = heaps.record(project, "perl", "-e", 'my %h; $h{"k$_"} = [$_, "x" x 50] for 1..20000; print scalar keys %h')
    plumbing = [p["function"] for p in heap["places"] if "safesys" in p["function"] or "more_bodies" in p["function"]]
    assert plumbing == []
    assert any(p["function"].startswith("Perl_") for p in heap["places"]) or not any(
        "Perl_" in name for name in heap.names()), "this perl has names"


def test_sites_of_python_are_not_in_the_standard_library(project: Project) -> None:
    """json.loads allocates in json/decoder.py; the site is the user's line that called it."""
    need("python3")
    project.write({"app.py": "import json\n\ndef load(n):\n    text = '[' + ','.join(['\"x%d\"' % i for i in range(n)]) + ']'\n"
                             "    return json.loads(text)  # here\n\nkept = load(200000)\n"})
    done, heap = heaps.record(project, "python3", "app.py")
    def is_in(stack: dict[str, Any], file: str) -> bool:
        return any(f["file"] and f["file"].endswith(file) for f in stack["stack"])

    stacks = [s for s in heap["sites"] if is_in(s, "json/decoder.py") and is_in(s, "/app.py")]
    if not stacks:
        pytest.skip("no Python functions in the stacks: this interpreter is not known")
    for s in stacks:
        site = s["stack"][s["site_frame"]]
        assert site["file"].endswith("app.py"), site
    assert any((s["stack"][s["site_frame"]]["function"], s["stack"][s["site_frame"]]["line"]) == ("load", 5)
               for s in stacks)


def test_sites_of_gcc_are_not_its_allocators(project: Project) -> None:
    gcc = need("gcc")
    compiler = subprocess.run([gcc, "-print-prog-name=cc1"], capture_output=True, text=True).stdout.strip()
    if not Path(compiler).is_file():
        pytest.skip("the gcc here has no cc1")
    project.write({"x.c": "".join(f"int f{i}(int x) {{ return x * {i} + (x > {i} ? f{i - 1}(x) : x); }}\n" if i else
                                  "int f0(int x) { return x; }\n" for i in range(400))})
    _, heap = heaps.record(project, compiler, "-quiet", "-O1", "x.c", "-o", "x.s")
    names = heap.names()
    if not any("ggc_" in name or name == "xmalloc" for name in names):
        pytest.skip("this cc1 is stripped: its allocators have no names")
    sites = {p["function"].split("(")[0] for p in heap["places"]}
    assert not sites & {"xmalloc", "xcalloc", "xrealloc", "ggc_internal_alloc", "ggc_internal_cleared_alloc", "ggc_realloc"}


def test_sites_of_postgres_are_not_its_memory_contexts(project: Project) -> None:
    """A single-user server must not run as root."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not found:
        pytest.skip("postgres is not installed")
    postgres, data = found[-1], Path(tempfile.mkdtemp(prefix="piano-pg-", dir="/var/tmp"))
    user = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    try:
        if user:
            os.chown(data, 65534, 65534)
        made = subprocess.run([postgres.parent / "initdb", "-N", "-D", data / "d"], cwd=data, capture_output=True, text=True,
                              env={"PATH": os.environ["PATH"], "LC_ALL": "C"}, **user)
        if made.returncode != 0:
            pytest.skip(f"initdb does not work here: {made.stderr.strip()[-80:]}")
        query = "create table t as select g, md5(g::text) m from generate_series(1, 20000) g;\n"
        subprocess.run([PIANO, "record", "--heap=4K", "-o", "pg.rec", "--", postgres, "--single", "-D", data / "d", "postgres"],
                       input=query, cwd=data, check=True, capture_output=True, text=True, **user)
        heap = heaps.read(project, data / "pg.rec")
    finally:
        shutil.rmtree(data)
    if "palloc" not in heap.names():
        pytest.skip("this postgres has no names")
    plumbing = [p["function"] for p in heap["places"] if p["function"].startswith(("palloc", "MemoryContextAlloc", "AllocSet"))]
    assert plumbing == []
    assert {p["function"] for p in heap["places"]} & {"heap_copytuple", "InitCatCache", "RelationInitIndexAccessInfo"}
