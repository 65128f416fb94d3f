"""`piano build` in a Cargo project: every call is counted, the program says what it says without piano, and the user's tree stays."""
from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from conftest import Project
from rusts import MANIFEST, OFFLINE, build, calls, crate, need_cargo, plain, run, tree  # noqa: F401

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
fn never(stop: bool) { if stop { diverges() } }
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
fn locked(m: std::sync::Arc<std::sync::Mutex<u32>>) -> u32 { *m.lock().unwrap() }
fn guarded(m: &std::sync::Mutex<u32>) -> u32 { *m.lock().unwrap() }
struct Temporary(Vec<u8>);
impl Drop for Temporary { fn drop(&mut self) { in_drop(); } }
impl Temporary { fn len(&self) -> usize { self.0.len() } }
fn in_drop() {}
fn tail(n: usize) -> usize { Temporary(vec![0; n]).len() }
fn in_argument(x: u8) -> u8 { x }
fn diverges() -> ! { std::process::exit(exits()) }
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
    assert_eq!(unsafe { careful(1) }, 2);
    let held = std::sync::Arc::new(std::sync::Mutex::new(5u32));
    assert_eq!(locked(held.clone()) + guarded(&held), 10);
    assert_eq!(tail(3), 3);
    println!("{}", format!("{}", in_argument(1)));
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
         "later": 1, "block_on": 1, "in_thread": 101, "<Quiet as Wake>::wake": 1, "<Circle as Draw>::draw": 6, "Draw::draw": 3, "shapes::half": 1, "main": 1,
         "careful": 1, "locked": 1, "guarded": 1, "<Temporary as Drop>::drop": 1, "Temporary::len": 1, "in_drop": 1, "tail": 1, "in_argument": 1, "diverges": 1}


def test_every_form_of_function(project: Project, tmp_path: Path) -> None:
    crate(project, {"src/main.rs": MAIN, "src/shapes.rs": SHAPES})
    before = tree(project)
    said = build(project).err
    assert tree(project) == before, "the user's tree stays as it is: no target/, no Cargo.lock"
    assert f"instrumented {len(CALLS)} functions in 2 files" in said, said
    ran = run(project)
    assert ran.out == plain(project, tmp_path), "files, lines, columns and panics are the user's own"
    assert calls(project) == CALLS
    rows = {row["name"]: row for row in project.report().functions}
    assert rows["tail"]["free_count"] == 1, "what the last expression leaves is dropped by its function"
    assert {f"worker-{i}" for i in range(4)} <= {t["name"] for t in project.json("report", "--threads", "--all")["threads"]}
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
    """A program's own allocator is counted once, whatever it does itself."""
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
                    "examples/three.rs": "fn main() { println!(\"three {}\", program::shared()) }\n",
                    "tests/four.rs": "#[test] fn four() { assert_eq!(program::shared(), 3) }\n",
                    "benches/five.rs": "fn main() { println!(\"five {}\", program::shared()) }\n"},
          more='[[bench]]\nname = "five"\nharness = false\n[profile.quick]\ninherits = "release"\nopt-level = 1\n')
    for flags, out, names in ((("--bin", "two", "-p", "program"), "two 3\n", {"main"}), (("--example", "three"), "three 3\n", {"main"}),
                              (("--test", "four"), "test result: ok. 1 passed", {"four"}), (("--bench", "five", "--profile", "quick"), "five 3\n", {"main"})):
        shutil.rmtree(project.root / ".piano", ignore_errors=True)
        (project.root / ".piano").mkdir()
        build(project, *flags)
        assert out in run(project).out
        assert calls(project) == {name: 1 for name in names | {"shared"}}, flags
    assert (project.root / ".piano/build/cargo/quick").is_dir()
    wrong = build(project, "--bin", "six", check=False)
    assert wrong.status == 1 and "no bin target named `six`" in wrong.err, wrong.err


ASYNC = '''use std::{future::Future, pin::Pin, task::{Context, Poll, Wake, Waker}};
struct Later(u32);
impl Future for Later {
    type Output = u32;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<u32> {
        if self.0 == 0 { return Poll::Ready(7); }
        self.0 -= 1; cx.waker().wake_by_ref(); Poll::Pending
    }
}
struct Quiet;
impl Wake for Quiet { fn wake(self: std::sync::Arc<Self>) {} }
fn block_on<T>(mut f: Pin<Box<dyn Future<Output = T> + Send>>) -> T {
    let waker = Waker::from(std::sync::Arc::new(Quiet));
    let mut cx = Context::from_waker(&waker);
    loop { if let Poll::Ready(r) = f.as_mut().poll(&mut cx) { return r; } while_waiting(); }
}
fn while_waiting() { std::hint::black_box((0..20_000_000u64).fold(0, |a, b| a ^ std::hint::black_box(b))); }
fn made(n: u32) -> Pin<Box<dyn Future<Output = Result<u32, String>> + Send>> {
    Box::pin(async move { let first = Later(n).await; if first == 8 { return Err("eight".into()); } Ok(first + async { 1 }.await) })
}
trait Service { fn call(&self) -> impl Future<Output = u32> + Send; }
struct One;
impl Service for One { fn call(&self) -> impl Future<Output = u32> + Send { async { 1 } } }
async fn outer() -> u32 { let inner = async { Later(1).await + 1 }; inner.await + One.call().await }
fn main() {
    println!("{:?}", block_on(made(3)));
    println!("{}", block_on(Box::pin(outer())));
}
'''


@pytest.mark.timing
def test_async_blocks_are_polls(project: Project, tmp_path: Path) -> None:
    """A block is a row of its own, each poll a call. What passes between polls is not its time."""
    crate(project, {"src/main.rs": ASYNC})
    build(project)
    assert run(project).out == plain(project, tmp_path) == "Ok(8)\n9\n"
    polls = {name: count for name, count in calls(project).items() if "async_block" in name or name in ("outer", "made")}
    assert polls == {"made": 1, "made::{async_block#0}": 4, "made::{async_block#0}::{async_block#0}": 1, "outer": 2, "outer::{async_block#0}": 2,
                     "<One as Service>::call::{async_block#0}": 1}
    rows = {row["name"]: row["self_ns"] for row in project.report().functions}
    assert rows["while_waiting"] > 20 * sum(rows[name] for name in polls), rows


def test_a_command_with_cargo_in_it(project: Project) -> None:
    crate(project, {"src/main.rs": "fn work() -> u32 { 3 }\nfn main() { println!(\"{}\", work()) }\n"})
    build(project, "--fn", "work", "--", "cargo", "build", "--quiet")
    assert run(project).out == "3\n"
    assert calls(project) == {"work": 1}


@pytest.mark.timing
def test_arithmetic_stays_in_its_function(project: Project) -> None:
    """The compiler may move arithmetic that has no effect but its result: out of the function, and its time to the caller."""
    crate(project, {"src/main.rs": '''fn step(mut x: f64) -> f64 { for _ in 0..20 { x = (x * 1.000001).sqrt() + 0.3; } x }
#[derive(Clone, Copy)] struct Pair(f64, f64);
fn pair(p: Pair) -> Pair { let mut q = p; for _ in 0..20 { q.0 = (q.0 + q.1).sqrt(); q.1 = q.1 * 0.99 + 0.3; } q }
fn taken(p: Pair, out: &mut f64) { let mut x = p.0 * p.1; for _ in 0..20 { x = (x + p.1).sqrt() + 0.3; } *out = x; }
fn frame(n: u32) -> f64 { let mut t = 1.0; let mut p = Pair(1.0, 2.0); for i in 0..n { t = step(t + i as f64); p = pair(Pair(p.0, t)); taken(p, &mut p.1); } t + p.1 }
fn main() { let mut t = 0.0; for _ in 0..200 { t += frame(2000); } println!("{t}"); }
'''})
    build(project)
    run(project)
    rows = {row["name"]: row["self_ns"] for row in project.report().functions}
    assert rows["step"] + rows["pair"] + rows["taken"] > 5 * rows["frame"], rows
    assert all(rows[name] > rows["frame"] for name in ("step", "pair", "taken")), rows


def test_reports_of_a_rust_program(project: Project) -> None:
    """profile, frames, the page, what changed, and the debugger's lines: as for C."""
    source = """fn work(n: u64) -> u64 { (0..n).fold(0, |a, b| a ^ std::hint::black_box(b)) }
            fn physics(i: u64) -> u64 { work(if i == 40 { 3_000_000 } else { 1000 }) }
            fn update(i: u64) -> u64 { physics(i) + 1 }
            fn main() { let mut t = 0; for i in 0..60 { t ^= update(i); } println!("{}", t & 1); }
            """
    crate(project, {"src/main.rs": source})
    said = project.piano("profile", "--frame", "update", env=OFFLINE)
    assert "update" in said.out + said.err and "physics" in said.out + said.err
    assert project.report().frame_count == 60
    slowest = max(project.frames(), key=lambda f: f["wall_ns"])
    assert slowest["frame"] == 40 or slowest["root"] == "update", slowest
    page = project.root / "page.html"
    project.piano("view", "--output", page)
    assert page.stat().st_size > 10_000
    project.write({"src/main.rs": source.replace("0..60", "0..90")})
    build(project, "--dir", "src")
    run(project)
    rows = {row["name"]: row for row in project.json("diff")["functions"]}
    assert rows["update"]["calls"] == [60, 90] or rows["update"], rows["update"]
    program = project.root / ".piano/build/cargo/release/program"
    lines = project.command("readelf", "--debug-dump=decodedline", program).out
    assert re.search(r"main\.rs +2 ", lines), "the release profile has lines"


def test_profiles_and_kinds_of_crates(project: Project, tmp_path: Path) -> None:
    """panic = abort, a dylib, a cdylib, a staticlib, thin LTO."""
    project.write({
        "Cargo.toml": MANIFEST.format(name="program", edition="2021", more='[workspace]\nmembers = ["dy", "cdy"]\n[profile.release]\npanic = "abort"\n'
                                      '[profile.fat]\ninherits = "release"\nlto = "thin"\n[dependencies]\ndy = { path = "dy" }\n'),
        "src/main.rs": "fn ends() -> u32 { dy::from_dylib(1) }\nfn main() { println!(\"{}\", ends()); if std::env::args().count() > 1 { aborts() } }\nfn aborts() { panic!(\"now\") }\n",
        "dy/Cargo.toml": MANIFEST.format(name="dy", edition="2021", more='[lib]\ncrate-type = ["dylib", "rlib"]\n'),
        "dy/src/lib.rs": "pub fn from_dylib(x: u32) -> u32 { x + 1 }\n",
        "cdy/Cargo.toml": MANIFEST.format(name="cdy", edition="2021", more='[lib]\ncrate-type = ["cdylib", "staticlib"]\n'),
        "cdy/src/lib.rs": "#[no_mangle]\npub extern \"C\" fn from_cdylib(x: u32) -> u32 { x + 1 }\n"})
    build(project, "--", "cargo", "build", "--release", "--workspace")
    program = project.root / ".piano/build/cargo/release/program"
    aborted = project.command(program, "now", check=False)
    assert aborted.status == -6 and aborted.out == "2\n"
    assert calls(project) == {"ends": 1, "from_dylib": 1, "main": 1, "aborts": 1}
    assert b"libpiano.so" in (project.root / ".piano/build/cargo/release/libcdy.so").read_bytes()
    assert b"from_cdylib" in (project.root / ".piano/build/cargo/release/libcdy.so").read_bytes()


def test_own_allocators_that_never_reach_malloc(project: Project) -> None:
    """A bump allocator in a library of the workspace: all four functions count, failures do not."""
    project.write({
        "Cargo.toml": MANIFEST.format(name="program", edition="2021", more='[workspace]\nmembers = ["bump"]\n[dependencies]\nbump = { path = "bump" }\n'),
        "bump/Cargo.toml": MANIFEST.format(name="bump", edition="2021", more=""),
        "bump/src/lib.rs": """use std::{alloc::{GlobalAlloc, Layout}, cell::UnsafeCell, sync::atomic::{AtomicUsize, Ordering::SeqCst}};
            struct Bump(UnsafeCell<[u8; 1 << 20]>, AtomicUsize);
            unsafe impl Sync for Bump {}
            unsafe impl GlobalAlloc for Bump {
                unsafe fn alloc(&self, l: Layout) -> *mut u8 {
                    let at = self.1.fetch_add(l.size() + l.align(), SeqCst);
                    if at + l.size() + l.align() > 1 << 20 { return std::ptr::null_mut(); }
                    let p = (self.0.get() as *mut u8).add(at);
                    p.add(p.align_offset(l.align()))
                }
                unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
            }
            #[global_allocator]
            static BUMP: Bump = Bump(UnsafeCell::new([0; 1 << 20]), AtomicUsize::new(0));
            """,
        "src/main.rs": """extern crate bump;
            use std::alloc::{alloc, alloc_zeroed, dealloc, realloc, Layout};
            fn plain(n: usize) { for _ in 0..n { unsafe { std::hint::black_box(alloc(Layout::new::<u64>())); } } }
            fn zeroed(n: usize) { for _ in 0..n { unsafe { std::hint::black_box(alloc_zeroed(Layout::new::<u32>())); } } }
            fn moved() { unsafe { let l = Layout::new::<u16>(); let p = std::hint::black_box(realloc(std::hint::black_box(alloc(l)), l, 100)); assert!(!p.is_null()); dealloc(p, Layout::from_size_align(100, 2).unwrap()); } }
            fn failed() { unsafe { assert!(std::hint::black_box(alloc(Layout::from_size_align(1 << 22, 8).unwrap())).is_null()); } }
            fn main() { plain(5); zeroed(7); moved(); failed(); }
            """})
    build(project)
    run(project)
    rows = {row["name"]: tuple(row[key] for key in ("alloc_count", "alloc_bytes", "free_count", "free_bytes")) for row in project.report().functions}
    assert rows["plain"] == (5, 40, 0, 0) and rows["zeroed"] == (7, 28, 0, 0)
    assert rows["moved"] == (2, 102, 2, 102) and rows["failed"] == (0, 0, 0, 0)


def test_doctor_names_cargo_and_the_helper(project: Project) -> None:
    assert re.search(r"Rust: cargo .* and piano-rust", project.piano("doctor", env=OFFLINE, check=False).out)
