//! Workers, tasks, polls, parks and wakes of Tokio, in recordings of the piano profiler.
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
//! libpiano is found when the program runs, where `piano record` has loaded it. Without it, nothing is told, and no hook is set.
//!
//! Build with `--cfg tokio_unstable`: only then does Tokio call for each task. Without it, the tasks that are spawned by this crate are
//! told, and no others.

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

/// Whether libpiano is loaded: else nothing is told.
#[must_use]
pub fn is_loaded() -> bool {
    api::piano().is_some()
}
