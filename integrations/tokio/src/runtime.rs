//! A Tokio runtime with piano's hooks.

use std::future::Future;
use std::io;
use std::ops::Deref;
use std::panic::Location;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use crate::api::piano;
use crate::cpu::{CpuProfiling, CpuProfilingConfig, Sampler};
use crate::hooks;
use crate::task::Own;
use crate::traced::{whole, Traced};
use crate::worker::Visit;

/// A Tokio runtime that reports to piano what its workers do. It offers all that a [`Runtime`] does.
///
/// If libpiano is not loaded, it only forwards calls to the [`Runtime`].
pub struct TracedRuntime {
    runtime: Runtime, // dropped first, so that its shutdown is sampled too
    cpu: Sampler,
}

/// Builds a [`TracedRuntime`].
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct TracedRuntimeBuilder {
    cpu: Option<CpuProfilingConfig>,
}

impl TracedRuntimeBuilder {
    /// Samples the CPU in all threads of the program as long as the runtime exists. If
    /// `piano record` samples the CPU, this does nothing.
    pub fn with_cpu_profiling(mut self, config: CpuProfilingConfig) -> Self {
        self.cpu = Some(config);
        self
    }

    /// Builds the runtime with `builder`. If libpiano is loaded, this replaces the hooks of threads
    /// (stop, park, unpark) and of tasks that were set in `builder`.
    ///
    /// # Errors
    ///
    /// The errors of [`Builder::build`].
    pub fn build(self, builder: &mut Builder) -> io::Result<TracedRuntime> {
        if let Some(piano) = piano() {
            hooks::install(piano, builder);
        }
        let cpu = Sampler::start(piano(), self.cpu.as_ref());
        Ok(TracedRuntime { runtime: builder.build()?, cpu })
    }
}

impl TracedRuntime {
    /// Returns a builder. It samples the CPU only after `with_cpu_profiling`.
    pub fn builder() -> TracedRuntimeBuilder {
        TracedRuntimeBuilder::default()
    }

    /// Like [`Runtime::block_on`]. The future is recorded as a task that was spawned here.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let _visit = Visit::new(piano());
        self.runtime.block_on(Traced::new(future, Location::caller(), true, false))
    }

    /// Like [`Runtime::spawn`]; records wakes too.
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.runtime.spawn(whole(future))
    }

    /// Like [`Runtime::spawn_blocking`].
    #[track_caller]
    pub fn spawn_blocking<F, R>(&self, work: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.runtime.spawn_blocking(told(work))
    }

    /// The result of [`TracedRuntimeBuilder::with_cpu_profiling`].
    pub fn cpu_profiling(&self) -> &CpuProfiling {
        &self.cpu.state
    }

    /// Like [`Runtime::shutdown_timeout`].
    pub fn shutdown_timeout(self, duration: Duration) {
        self.runtime.shutdown_timeout(duration);
    }

    /// Like [`Runtime::shutdown_background`].
    pub fn shutdown_background(self) {
        self.runtime.shutdown_background();
    }
}

impl Deref for TracedRuntime {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        &self.runtime
    }
}

/// Like [`tokio::spawn`]; records wakes too.
#[track_caller]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    tokio::spawn(whole(future))
}

/// Like [`tokio::task::spawn_local`]. Tokio has no hooks for these tasks, so piano records only those
/// that this function spawns.
#[track_caller]
pub fn spawn_local<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    tokio::task::spawn_local(Traced::new(future, Location::caller(), true, true))
}

/// Like [`tokio::task::spawn_blocking`]. Tokio has no hooks for these tasks, so piano records only
/// those that this function spawns.
#[track_caller]
pub fn spawn_blocking<F, R>(work: F) -> JoinHandle<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    tokio::task::spawn_blocking(told(work))
}

/// Runs a blocking function as a task of one poll.
#[track_caller]
fn told<F: FnOnce() -> R, R>(work: F) -> impl FnOnce() -> R {
    let at = Location::caller();
    let own = piano().map(|piano| Own::new(piano, at));
    move || {
        let _poll = own.as_ref().map(Own::poll);
        work()
    }
}
