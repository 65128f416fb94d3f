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
use crate::metrics::Reader;
use crate::task::Own;
use crate::traced::{whole, Traced};
use crate::worker::Visit;

/// A Tokio runtime that reports to piano what its workers do. It offers all that a [`Runtime`] does.
///
/// If libpiano is not loaded, it only forwards calls to the [`Runtime`].
pub struct TracedRuntime {
    metrics: Option<Reader>, // dropped first: its last reading is of a runtime that still exists
    runtime: Runtime,        // dropped before `cpu`, so that its shutdown is sampled too
    cpu: Sampler,
}

/// Builds a [`TracedRuntime`].
#[derive(Clone, Debug)]
#[must_use]
pub struct TracedRuntimeBuilder {
    cpu: Option<CpuProfilingConfig>,
    metrics_every: Duration,
}

impl Default for TracedRuntimeBuilder {
    fn default() -> Self {
        Self { cpu: None, metrics_every: Duration::from_millis(10) }
    }
}

impl TracedRuntimeBuilder {
    /// Samples the CPU in all threads of the program as long as the runtime exists. If
    /// `piano record` samples the CPU, this does nothing.
    pub fn with_cpu_profiling(mut self, config: CpuProfilingConfig) -> Self {
        self.cpu = Some(config);
        self
    }

    /// Sets how often a thread reads the depths of Tokio's queues; it reads the other metrics a tenth as often. The default is
    /// 10 ms. [`Duration::ZERO`] turns this off.
    pub fn with_metrics_every(mut self, interval: Duration) -> Self {
        self.metrics_every = interval;
        self
    }

    /// Builds the runtime with `builder`. If libpiano is loaded, this replaces the hooks of threads
    /// (stop, park, unpark) and of tasks that were set in `builder`.
    ///
    /// # Errors
    ///
    /// The errors of [`Builder::build`].
    pub fn build(self, builder: &mut Builder) -> io::Result<TracedRuntime> {
        let hooked = piano().map(|piano| (piano, hooks::install(piano, builder)));
        let cpu = Sampler::start(piano(), self.cpu.as_ref());
        let runtime = builder.build()?;
        let every = self.metrics_every;
        let metrics = hooked
            .filter(|_| !every.is_zero())
            .map(|(piano, number)| Reader::start(piano, runtime.handle(), number, every));
        Ok(TracedRuntime { metrics, runtime, cpu })
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
        drop(self.metrics);
        self.runtime.shutdown_timeout(duration);
    }

    /// Like [`Runtime::shutdown_background`].
    pub fn shutdown_background(self) {
        drop(self.metrics);
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
