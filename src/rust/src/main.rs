//! Finds the functions of Rust crates for `piano build`. src/tool/build/rust.c runs it.
//!
//! Each argument is the root file of a crate. The output is lines of tab-separated words:
//!
//!     crate  PATH  std|no_std
//!     file   PATH  CONDITION
//!     fn     QUALIFIED  BARE  LINE  REASON  DEPTH  EDITS  CONDITION  LAST
//!     alloc  EDITS  CONDITION
//!     error  PATH  LINE  TEXT
//!
//! A `fn` belongs to the `file` before it. REASON says why piano leaves it alone; usually it is
//! empty. DEPTH is the number of modules around it in that file. LAST is its last line. `alloc` is the
//! program's own allocator. CONDITION is the argument of `cfg()` under which the file, or the function
//! in its file, is compiled; empty if always. EDITS are `OFFSET:WHAT`, separated by blanks. An offset is
//! in bytes, from the begin of the file. The caller inserts the text for WHAT there:
//!
//!     b        the begin of a function
//!     v,NAME,TYPE  a parameter NAME of the primitive TYPE; v,NAME: of another type; `m`: it is `mut`
//!     r,TYPE   begins a variable with the result, of TYPE with blanks as `\x01`
//!     e,KIND   ends it, and the function; KIND: `s,TYPE` or `h` as below, `n`: a pointer, `u`: ()
//!     s,TYPE   opens a value that is returned, of the primitive TYPE
//!     h        opens one of another type
//!     c        closes the value
//!     a,TYPE   the begin of an async function with a result of TYPE
//!     z        the end of an async function
//!     A        opens an async block
//!     G, g, E  around the type of an allocator, and before its value
mod crates;
mod functions;

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let roots: Vec<_> = std::env::args_os().skip(1).collect();
    if roots.is_empty() {
        eprintln!("usage: piano-rust ROOT_FILE...");
        return ExitCode::from(2);
    }
    let mut out = String::new();
    for root in &roots {
        crates::describe(root.as_ref(), &mut out);
    }
    match std::io::stdout().write_all(out.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
