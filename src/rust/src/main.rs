//! Finds the functions of Rust crates for `piano build`. src/tool/build/rust.c runs it.
//!
//! Each argument is the root file of a crate. The output is lines of tab-separated words:
//!
//!     crate  PATH  std|no_std
//!     file   PATH
//!     fn     QUALIFIED  BARE  LINE  REASON  DEPTH  EDITS
//!     alloc  EDITS
//!     error  PATH  LINE  TEXT
//!
//! A `fn` belongs to the `file` before it. REASON says why piano leaves it alone; usually it is
//! empty. DEPTH is the number of modules around it in that file. `alloc` is the program's own
//! allocator. EDITS are `OFFSET:WHAT`, separated by blanks, in the order of their offsets. An offset is
//! in bytes, from the begin of the file. The caller inserts the text for WHAT there:
//!
//!     b        the begin of a function
//!     v,NAME,TYPE  a parameter NAME of the primitive TYPE; v,NAME: of another type; `m`: it is `mut`
//!     s,TYPE   opens the result, of the primitive TYPE
//!     h        opens a result of another type
//!     c        closes the result
//!     a,TYPE   the begin of an async function with a result of TYPE, with blanks as `\x01`
//!     z        the end of an async function
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
