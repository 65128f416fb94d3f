//! Adds Tokio's workers, tasks, polls, parks and wakes to recordings of the piano profiler.
//!
//! ```no_run
//! use piano_tokio::{CpuProfilingConfig, TracedRuntime};
//!
//! let runtime = TracedRuntime::builder()
//!     .with_cpu_profiling(CpuProfilingConfig::default())
//!     .build(tokio::runtime::Builder::new_multi_thread().enable_all())?;
//! runtime.block_on(async {
//!     piano_tokio::spawn(async { /* ... */ }).await.unwrap();
//! });
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! ```text
//! piano record -- target/release/service
//! piano report --polls
//! ```
//!
//! This crate uses libpiano if `piano record` has loaded it into the program. Without libpiano it
//! sets no hooks and reports nothing.
//!
//! Build with `--cfg tokio_unstable`, because Tokio calls the hooks of tasks only then. Without it,
//! this crate reports only the tasks that it spawns itself.

mod api;
mod cpu;
mod hooks;
mod metrics;
mod runtime;
mod slots;
mod task;
mod traced;
mod worker;

pub use cpu::{CpuProfiling, CpuProfilingConfig, EventSource};
pub use runtime::{spawn, spawn_blocking, spawn_local, TracedRuntime, TracedRuntimeBuilder};
pub use traced::{traced, Traced};

/// Whether libpiano is loaded. If not, nothing is reported.
#[must_use]
pub fn is_loaded() -> bool {
    api::piano().is_some()
}
