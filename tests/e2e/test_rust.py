"""`piano build` in a Cargo project: every call is counted, the program's output is as without piano, and the user's tree is unchanged."""
from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conftest import LIB, Project

MANIFEST = '[package]\nname = "{name}"\nversion = "0.1.0"\nedition = "{edition}"\n{more}'
# A test has its own home directory, and rustup looks for its compilers in the home directory.
OFFLINE = {"CARGO_NET_OFFLINE": "true", "CARGO_TERM_COLOR": "never",
           "RUSTUP_HOME": os.environ.get("RUSTUP_HOME") or str(Path.home() / ".rustup"),
           "CARGO_HOME": os.environ.get("CARGO_HOME") or str(Path.home() / ".cargo")}

MAIN = r'''//! Every form of function. `calls` counts what piano has to count.
mod shapes;
use shapes::{Circle, Draw};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
static THREADS: AtomicU64 = AtomicU64::new(0);

struct Grid<T> { cells: Vec<T> }
impl<T: Clone + Default> Grid<T> {
    fn new(n: usize) -> Self { Grid { cells: vec![T::default(); n] } }
    fn get(&self, at: usize) -> Option<T> { self.cells.get(at).cloned() }
}
fn parse(text: &str) -> Result<u32, std::num::ParseIntError> { let n: u32 = text.parse()?; if n > 5 { return Ok(5); } Ok(n) }
fn iterate(n: u32) -> impl Iterator<Item = u32> { (0..n).map(|x| x * 2) }
fn longest<'a>(a: &'a str, b: &'a str) -> &'a str { if a.len() > b.len() { a } else { b } }
const fn fixed() -> u32 { 7 }
unsafe fn careful(x: u8) -> u8 { x.wrapping_add(1) }
extern "C" fn for_c(mut x: i64) -> i64 { x += 1; x }
fn fails(n: u32) -> u32 { if n == 3 { panic!("three") } n }
fn outer(c: char) -> char { fn inner(c: char) -> char { c.to_ascii_uppercase() } inner(c) }
fn consume(mut v: Vec<u64>) -> u64 { v.push(1); v.iter().sum() }
fn boxed(n: u32) -> Box<dyn Fn(u32) -> u32> { Box::new(move |x| x + n) }
fn never(stop: bool) { if stop { std::process::exit(exits()) } }
fn exits() -> i32 { 0 }
macro_rules! made { ($name:ident) => { fn $name() -> u32 { 1 } } }
made!(by_macro);
mod deep { pub mod er { pub fn here() -> bool { super::up() } } fn up() -> bool { true } }
async fn waits(n: u32) -> Result<u32, String> { let r: Result<u32, String> = later(n).await; let v = r?; Ok(v + 1) }
struct Later(u32, bool);
impl std::future::Future for Later {
    type Output = Result<u32, String>;
    fn poll(mut self: std::pin::Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> std::task::Poll<Self::Output> {
        if self.1 { return std::task::Poll::Ready(Ok(self.0)); }
        self.1 = true; cx.waker().wake_by_ref(); std::task::Poll::Pending
    }
}
fn later(n: u32) -> Later { Later(n, false) }
struct Quiet;
impl std::task::Wake for Quiet { fn wake(self: std::sync::Arc<Self>) {} }
fn block_on<F: std::future::Future>(f: F) -> F::Output {
    let waker = std::task::Waker::from(std::sync::Arc::new(Quiet));
    let mut cx = std::task::Context::from_waker(&waker);
    let mut f = Box::pin(f);
    loop { if let std::task::Poll::Ready(r) = f.as_mut().poll(&mut cx) { return r; } }
}
fn in_thread() -> u64 { THREADS.fetch_add(1, Relaxed) }

fn main() {
    let grid = Grid::<u16>::new(10);
    for i in 0..20 { grid.get(i); }
    let other: Grid<String> = Grid::new(3);
    for i in 0..5 { other.get(i); }
    let parsed: Vec<_> = ["1", "x", "9"].iter().map(|t| parse(t).ok()).collect();
    let sum: u32 = iterate(4).sum();
    let c = Circle { r: 2.0 };
    for _ in 0..6 { c.draw(1); }
    for _ in 0..3 { shapes::Square.draw(2); }
    let mut caught = 0;
    std::panic::set_hook(Box::new(|info| println!("panic at {}:{}", info.location().unwrap().file(), info.location().unwrap().line())));
    for n in 0..5 { caught += std::panic::catch_unwind(|| fails(n)).is_err() as u32; }
    let threads: Vec<_> = (0..4).map(|i| std::thread::Builder::new().name(format!("worker-{i}")).spawn(|| { for _ in 0..25 { in_thread(); } }).unwrap()).collect();
    for t in threads { t.join().unwrap(); }
    std::thread::scope(|s| { s.spawn(|| in_thread()); });
    println!("{parsed:?} {sum} {} {} {caught} {}", longest("ab", "c"), fixed(), for_c(1));
    println!("{} {} {} {}", outer('q'), consume(vec![1, 2]), boxed(2)(3), by_macro());
    println!("{} {:?} {}:{}:{}", deep::er::here(), block_on(waits(4)), file!(), line!(), column!());
    println!("{} {}", shapes::half(8.0), THREADS.load(Relaxed));
    never(true);
}
'''
SHAPES = '''pub struct Circle { pub r: f64 }
pub struct Square;
pub trait Draw { fn draw(&self, n: u32) -> f64 { n as f64 } }
impl Draw for Circle { fn draw(&self, n: u32) -> f64 { self.r * n as f64 } }
impl Draw for Square {}
pub fn half(x: f64) -> f64 { x / 2.0 }'''
CALLS = {"Grid::new": 2, "Grid::get": 25, "parse": 3, "iterate": 1, "longest": 1, "for_c": 1, "fails": 5, "outer": 1, "outer::inner": 1,
         "consume": 1, "boxed": 1, "never": 1, "exits": 1, "deep::er::here": 1, "deep::up": 1, "waits": 2, "<Later as Future>::poll": 2,
         "later": 1, "block_on": 1, "in_thread": 101, "<Quiet as Wake>::wake": 1, "<Circle as Draw>::draw": 6, "Draw::draw": 3, "shapes::half": 1, "main": 1}


@pytest.fixture(autouse=True, name="cargo")
def _cargo() -> str:
    found = shutil.which("cargo")
    if found is None:
        pytest.skip("cargo is not installed")
    if not (LIB / "piano-rust").exists():
        pytest.skip("piano-rust is not built: the registry of Rust's crates could not be reached")
    return found


def crate(project: Project, files: dict[str, str], edition: str = "2021", more: str = "", name: str = "program") -> None:
    project.write({"Cargo.toml": MANIFEST.format(name=name, edition=edition, more=more), **files})


def build(project: Project, *flags: Any, **more: Any) -> Any:
    return project.piano("build", *flags, env=OFFLINE, **more)


def run(project: Project) -> Any:
    return project.piano("run", env=OFFLINE)


def calls(project: Project) -> dict[str, int]:
    return project.report().called()


def plain(project: Project, place: Path) -> str:
    """The program's output without piano, built elsewhere from the same files."""
    copy = place / "plain" / project.root.name
    shutil.copytree(project.root, copy, ignore=shutil.ignore_patterns(".piano"))
    done = subprocess.run(["cargo", "run", "--quiet", "--release"], cwd=copy, env={**os.environ, **OFFLINE}, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def tree(project: Project) -> dict[str, bytes]:
    return {str(p.relative_to(project.root)): p.read_bytes() for p in project.root.rglob("*") if p.is_file() and ".piano" not in p.parts}


def test_every_form_of_function(project: Project, tmp_path: Path) -> None:
    crate(project, {"src/main.rs": MAIN, "src/shapes.rs": SHAPES})
    before = tree(project)
    said = build(project).err
    assert tree(project) == before, "the user's tree stays as it is: no target/, no Cargo.lock"
    assert f"instrumented {len(CALLS) + 1} functions in 2 files" in said, said  # and `careful`, which is never called
    ran = run(project)
    assert ran.out == plain(project, tmp_path), "files, lines, columns and panics are the user's own"
    assert calls(project) == CALLS
    rows = {row["name"]: row for row in project.report().functions}
    assert (rows["shapes::half"]["file"], rows["shapes::half"]["line"]) == ("src/shapes.rs", 6)
    assert (rows["Grid::get"]["file"], rows["Grid::get"]["line"]) == ("src/main.rs", 10)
    left_out = build(project, "--list-skipped").out
    assert re.search(r"src/main.rs:15: fixed \(a const fn", left_out), left_out


@pytest.mark.parametrize("edition", ["2015", "2018", "2024"])
def test_editions(project: Project, edition: str) -> None:
    crate(project, {"src/main.rs": "#![forbid(unsafe_code)]\nmod inner { pub fn twice(x: f64) -> f64 { x * 2.0 } }\nfn main() { println!(\"{}\", inner::twice(4.0)) }\n"}, edition)
    build(project)
    assert run(project).out == "8\n"
    assert calls(project) == {"inner::twice": 1, "main": 1}


def test_allocations_are_exact(project: Project) -> None:
    """A program's own allocator counts once per allocation, whatever it calls itself."""
    crate(project, {"src/main.rs": '''use std::alloc::{GlobalAlloc, Layout, System};
struct Wrapper;
unsafe impl GlobalAlloc for Wrapper {
    unsafe fn alloc(&self, l: Layout) -> *mut u8 { System.alloc(l) }
    unsafe fn dealloc(&self, p: *mut u8, l: Layout) { System.dealloc(p, l) }
}
#[cfg(feature = "own")]
#[global_allocator]
static GLOBAL: Wrapper = Wrapper;
fn boxes(n: usize) -> Vec<Box<[u8; 100]>> { let mut v = Vec::with_capacity(n); for i in 0..n { v.push(Box::new([i as u8; 100])); } v }
fn drops(v: Vec<Box<[u8; 100]>>) {}
fn grows() -> Vec<u64> { let mut v = Vec::with_capacity(4); for i in 0..5u64 { v.push(std::hint::black_box(i)); } v }
fn main() { for _ in 0..10 { drops(boxes(50)); } std::hint::black_box(grows()); }
'''}, more="[features]\nown = []\n")
    for flags in ((), ("--features", "own")):
        for old in project.run_files():
            old.unlink()
        build(project, *flags)
        run(project)
        rows = {row["name"]: row for row in project.report().functions}
        assert (rows["boxes"]["alloc_count"], rows["boxes"]["alloc_bytes"]) == (510, 10 * (50 * 100 + 50 * 8)), flags
        assert rows["drops"]["free_count"] == 510, "an argument is dropped by the function that took it"
        # grows: 32 bytes, and 64 with the fifth element
        assert (rows["grows"]["alloc_count"], rows["grows"]["alloc_bytes"]) == (2, 96), flags
        assert not any("GlobalAlloc" in name for name in rows)


def test_selection(project: Project) -> None:
    crate(project, {"src/main.rs": MAIN, "src/shapes.rs": SHAPES})
    for flags, names in ((("--fn", "<Circle as Draw>::draw", "--exact"), {"<Circle as Draw>::draw"}),
                         (("--fn", "Grid::"), {"Grid::new", "Grid::get"}),
                         (("--file", "src/shapes.rs", "--skip", "half"), {"<Circle as Draw>::draw", "Draw::draw"}),
                         (("--fn", "deep::er::here"), {"deep::er::here"})):
        for old in project.run_files():
            old.unlink()
        build(project, *flags)
        run(project)
        assert set(calls(project)) == names, flags


def test_only_what_changed_is_compiled_again(project: Project) -> None:
    files = {"Cargo.toml": '[workspace]\nmembers = ["app", "engine"]\nresolver = "2"\n',
             "app/Cargo.toml": MANIFEST.format(name="app", edition="2021", more='[dependencies]\nengine = { path = "../engine" }\n'),
             "app/src/main.rs": "fn main() { println!(\"{}\", engine::generic(engine::plain(3))) }\n",
             "engine/Cargo.toml": MANIFEST.format(name="engine", edition="2021", more=""),
             "engine/src/lib.rs": "pub fn plain(x: u32) -> u32 { x + 1 }\npub fn generic<T: Copy>(x: T) -> T { x }\n"}
    project.write(files)
    build(project)
    run(project)
    assert calls(project) == {"plain": 1, "generic": 1, "main": 1}, "crates of a workspace are joined"
    products = project.root / ".piano/build/cargo/release"

    def times() -> dict[str, int]:
        return {p.name.split("-")[0]: p.stat().st_mtime_ns for p in (products / "deps").glob("*") if p.suffix in (".rlib", "")}
    first = times()
    build(project)
    assert times() == first, "nothing changed, nothing is compiled"
    project.write({"app/src/main.rs": files["app/src/main.rs"].replace("3", "4")})
    build(project)
    second = times()
    assert second["libengine"] == first["libengine"] and second["app"] > first["app"]
    build(project, "--fn", "generic")
    assert times()["libengine"] > second["libengine"]
    for old in project.run_files():
        old.unlink()
    run(project)
    assert calls(project) == {"generic": 1}


def test_build_scripts_macros_and_crates_without_std_stay(project: Project) -> None:
    project.write({
        "Cargo.toml": MANIFEST.format(name="program", edition="2021", more='[workspace]\nmembers = ["derive", "bare"]\n[dependencies]\nderive = { path = "derive" }\nbare = { path = "bare" }\n'),
        "build.rs": "fn from_script() -> u32 { 5 }\nfn main() { println!(\"cargo:rustc-env=FIVE={}\", from_script()) }\n",
        "src/main.rs": "fn main() { println!(\"{} {} {}\", env!(\"FIVE\"), derive::seven!(), bare::add(1)) }\n",
        "derive/Cargo.toml": MANIFEST.format(name="derive", edition="2021", more="[lib]\nproc-macro = true\n"),
        "derive/src/lib.rs": "extern crate proc_macro;\n#[proc_macro]\npub fn seven(_: proc_macro::TokenStream) -> proc_macro::TokenStream { \"7\".parse().unwrap() }\n",
        "bare/Cargo.toml": MANIFEST.format(name="bare", edition="2021", more=""),
        "bare/src/lib.rs": "#![no_std]\npub fn add(x: u32) -> u32 { x + 1 }\n"})
    build(project)
    assert run(project).out == "5 7 2\n"
    assert calls(project) == {"main": 1}
    assert "bare/src/lib.rs:2: add (a crate without std)" in build(project, "--list-skipped").out


def test_a_crate_that_does_not_compile_with_guards_is_compiled_as_it_is(project: Project) -> None:
    """Two modules with one name do not compile. The other crate keeps its guards."""
    project.write({
        "Cargo.toml": MANIFEST.format(name="program", edition="2021", more='[workspace]\nmembers = ["odd"]\n[dependencies]\nodd = { path = "odd" }\n'),
        "src/main.rs": "fn twice(x: u32) -> u32 { odd::one() + x * 2 }\nfn main() { println!(\"{}\", twice(4)) }\n",
        "odd/Cargo.toml": MANIFEST.format(name="odd", edition="2021", more=""),
        "odd/src/lib.rs": "mod __piano_here {}\npub fn one() -> u32 { 1 }\n"})
    said = build(project).err
    assert "instrumented 2 functions in 1 file" in said, said
    assert run(project).out == "9\n"
    assert calls(project) == {"twice": 1, "main": 1}
    left_out = build(project, "--list-skipped")
    assert "odd/src/lib.rs:2: one (its crate does not compile with guards)" in left_out.out, left_out


def test_errors_of_the_user_are_shown_with_the_users_paths(project: Project) -> None:
    crate(project, {"src/main.rs": "fn main() { let x: u32 = \"text\"; }\n"})
    failed = build(project, check=False)
    assert failed.status == 1
    assert "mismatched types" in failed.err and "src/main.rs:1:26" in failed.err, failed.err
    assert ".piano/build/tree" not in failed.err.replace(".piano/build/log", "")


def test_targets_are_chosen_as_in_cargo(project: Project) -> None:
    crate(project, {"src/lib.rs": "pub fn shared() -> u32 { 3 }\n#[cfg(test)] mod tests { #[test] fn checks() { assert_eq!(super::shared(), 3) } }\n",
                    "src/bin/one.rs": "fn main() { println!(\"one {}\", program::shared()) }\n",
                    "src/bin/two.rs": "fn main() { println!(\"two {}\", program::shared()) }\n",
                    "examples/three.rs": "fn main() { println!(\"three {}\", program::shared()) }\n"})
    for flags, out in ((("--bin", "two"), "two 3\n"), (("--example", "three"), "three 3\n")):
        shutil.rmtree(project.root / ".piano", ignore_errors=True)
        (project.root / ".piano").mkdir()
        build(project, *flags)
        assert run(project).out == out
        assert calls(project) == {"shared": 1, "main": 1}


def test_a_command_with_cargo_in_it(project: Project) -> None:
    crate(project, {"src/main.rs": "fn work() -> u32 { 3 }\nfn main() { println!(\"{}\", work()) }\n"})
    build(project, "--fn", "work", "--", "cargo", "build", "--quiet")
    assert run(project).out == "3\n"
    assert calls(project) == {"work": 1}


@pytest.mark.timing
def test_arithmetic_stays_in_its_function(project: Project) -> None:
    """The compiler may move arithmetic without side effects out of the function, and its time to the caller."""
    crate(project, {"src/main.rs": '''fn step(mut x: f64) -> f64 { for _ in 0..20 { x = (x * 1.000001).sqrt() + 0.3; } x }
#[derive(Clone, Copy)] struct Pair(f64, f64);
fn pair(p: Pair) -> Pair { let mut q = p; for _ in 0..20 { q.0 = (q.0 + q.1).sqrt(); q.1 = q.1 * 0.99 + 0.3; } q }
fn frame(n: u32) -> f64 { let mut t = 1.0; let mut p = Pair(1.0, 2.0); for i in 0..n { t = step(t + i as f64); p = pair(Pair(p.0, t)); } t + p.1 }
fn main() { let mut t = 0.0; for _ in 0..200 { t += frame(2000); } println!("{t}"); }
'''})
    build(project)
    run(project)
    rows = {row["name"]: row["self_ns"] for row in project.report().functions}
    assert rows["step"] + rows["pair"] > 5 * rows["frame"], rows
    assert rows["step"] > rows["frame"] and rows["pair"] > rows["frame"], rows
