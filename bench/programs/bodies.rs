//! bodies.c in Rust: functions of known length, for checking what a profiler says about them.
//!
//! Each has a twin that does the same and is never instrumented: profilers leave alone what `macro_rules!` makes, or are told so. The
//! program times the twins itself (a clock around many calls, nothing inside), in turns with calls of the others, and prints
//! `name calls least mean` lines: the truth, of the same moments as what the profiler saw.
use std::arch::asm;
use std::ffi::c_void;
use std::process::ExitCode;
use std::time::Instant;

const CHILDREN: u32 = 50_000; // of each call of a parent
const PARENTS: u32 = 20;

static mut STATE: u64 = 1;

/// A chain of dependent multiplications, as in chain.h: its length does not depend on what runs around it.
macro_rules! chain {
    ($steps:expr) => {
        unsafe {
            let mut x = STATE;
            for _ in 0..$steps {
                x = x.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                asm!("/* {0} */", inout(reg) x, options(nomem, nostack, preserves_flags));
            }
            STATE = x;
        }
    };
}

#[inline(never)]
fn body_empty() {
    chain!(0)
}
#[inline(never)]
fn body_12ns() {
    chain!(10)
}
#[inline(never)]
fn body_30ns() {
    chain!(25)
}
#[inline(never)]
fn body_100ns() {
    chain!(85)
}
#[inline(never)]
fn body_300ns() {
    chain!(255)
}
#[inline(never)]
fn body_1us() {
    chain!(850)
}
#[inline(never)]
fn body_3us() {
    chain!(2550)
}
#[inline(never)]
fn body_10us() {
    chain!(8500)
}
#[inline(never)]
fn body_100us() {
    chain!(85_000)
}
#[inline(never)]
fn body_1ms() {
    chain!(850_000)
}
#[inline(never)]
fn short_call() {
    chain!(10)
}

macro_rules! calls {
    ($child:ident) => {{
        for _ in 0..CHILDREN {
            $child();
        }
        chain!(850_000)
    }};
}

#[inline(never)]
fn parent_of_calls() {
    calls!(short_call)
}

macro_rules! allocations {
    ($malloc:ident, $free:ident) => {{
        for _ in 0..CHILDREN {
            unsafe {
                let block = $malloc(64);
                asm!("/* {0} */", in(reg) block, options(nostack, preserves_flags));
                $free(block);
            }
        }
        chain!(850_000)
    }};
}

// What a profiler puts in place of malloc is not the twin's.
extern "C" {
    fn malloc(size: usize) -> *mut c_void;
    fn free(block: *mut c_void);
    fn __libc_malloc(size: usize) -> *mut c_void;
    fn __libc_free(block: *mut c_void);
}

#[inline(never)]
fn parent_of_allocs() {
    allocations!(malloc, free)
}

macro_rules! twins {
    ($($twin:ident: $body:expr;)*) => {
        $(#[inline(never)]
        fn $twin() {
            $body
        })*
    };
}
twins! {
    twin_of_body_empty: chain!(0);
    twin_of_body_12ns: chain!(10);
    twin_of_body_30ns: chain!(25);
    twin_of_body_100ns: chain!(85);
    twin_of_body_300ns: chain!(255);
    twin_of_body_1us: chain!(850);
    twin_of_body_3us: chain!(2550);
    twin_of_body_10us: chain!(8500);
    twin_of_body_100us: chain!(85_000);
    twin_of_body_1ms: chain!(850_000);
    twin_of_short_call: chain!(10);
    twin_of_parent_of_calls: calls!(twin_of_short_call);
    twin_of_parent_of_allocs: allocations!(__libc_malloc, __libc_free);
}

struct Spent {
    least: f64, // of a hundred pieces: interruptions only ever add, and there is one in every millisecond or two
    mean: f64,  // what a profiler that adds up everything can know
}

#[inline(never)]
fn call(body: fn(), calls: u32) {
    for _ in 0..calls {
        body();
    }
}

/// Of the TWIN. BODY is called as often, before or after it.
fn per_call(body: fn(), twin: fn(), calls: u32) -> Spent {
    let mut ns = Spent { least: f64::MAX, mean: 0.0 };
    for batch in 0..10 {
        if batch % 2 == 1 {
            call(body, calls / 10);
        }
        let piece = if calls >= 100 { calls / 100 } else { 1 };
        let pieces = calls / 10 / piece;
        for _ in 0..pieces {
            let start = Instant::now();
            call(twin, piece);
            let spent = start.elapsed().as_nanos() as f64 / f64::from(piece);
            ns.least = ns.least.min(spent);
            ns.mean += spent / 10.0 / f64::from(pieces);
        }
        if batch % 2 == 0 {
            call(body, calls / 10);
        }
    }
    ns
}

/// What the calls cost is the caller's; DIFFERENT is what of NS is not the function's own.
fn tell(name: &str, calls: u32, ns: &Spent, different: f64) {
    println!("{name} {calls} {:.2} {:.2}", ns.least - different, ns.mean - different);
}

fn main() -> ExitCode {
    let cases: [(&str, fn(), fn(), u32); 9] = [
        ("body_12ns", body_12ns, twin_of_body_12ns, 1_000_000),
        ("body_30ns", body_30ns, twin_of_body_30ns, 500_000),
        ("body_100ns", body_100ns, twin_of_body_100ns, 200_000),
        ("body_300ns", body_300ns, twin_of_body_300ns, 100_000),
        ("body_1us", body_1us, twin_of_body_1us, 50_000),
        ("body_3us", body_3us, twin_of_body_3us, 20_000),
        ("body_10us", body_10us, twin_of_body_10us, 5_000),
        ("body_100us", body_100us, twin_of_body_100us, 500),
        ("body_1ms", body_1ms, twin_of_body_1ms, 50),
    ];
    let empty = per_call(body_empty, twin_of_body_empty, 100_000).least;
    let short = per_call(short_call, twin_of_short_call, 100_000);
    for (name, body, twin, calls) in cases {
        tell(name, calls, &per_call(body, twin, calls), empty);
    }
    let children = f64::from(CHILDREN) * (short.least - empty);
    tell("short_call", 100_000 + PARENTS * CHILDREN, &short, empty);
    let calls = per_call(parent_of_calls, twin_of_parent_of_calls, PARENTS);
    tell("parent_of_calls", PARENTS, &calls, empty + children);
    let allocs = per_call(parent_of_allocs, twin_of_parent_of_allocs, PARENTS);
    tell("parent_of_allocs", PARENTS, &allocs, empty);
    ExitCode::from(u8::from(unsafe { STATE } == 0))
}
