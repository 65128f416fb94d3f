//! A Tokio runtime with hooks in it.

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

/// A Tokio runtime that tells piano what its workers do. It can do whatever a [`Runtime`] can.
///
/// Where libpiano is not loaded, it is that runtime and nothing else.
pub struct TracedRuntime {
    metrics: Option<Reader>, // goes first: its last reading is of a runtime that still exists
    runtime: Runtime,        // goes before `cpu`: what it does until then is sampled
    cpu: Sampler,
}

/// What is asked of a [`TracedRuntime`].
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
    /// The CPU is sampled as long as the runtime exists, all threads of the program. Under a `piano record` that samples it
    /// anyway, that is left to it.
    pub fn with_cpu_profiling(mut self, config: CpuProfilingConfig) -> Self {
        self.cpu = Some(config);
        self
    }

    /// How often the depths of Tokio's queues are read, by a thread of its own; its other metrics are read a tenth as often.
    /// [`Duration::ZERO`]: never. Without this, every 10 ms.
    pub fn with_metrics_every(mut self, interval: Duration) -> Self {
        self.metrics_every = interval;
        self
    }

    /// The runtime that `builder` makes. Hooks that were set in it are replaced, where libpiano is loaded: those of threads
    /// (stop, park, unpark) and of tasks.
    ///
    /// # Errors
    ///
    /// Those of [`Builder::build`].
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
    /// Without CPU samples, unless the builder is told otherwise.
    pub fn builder() -> TracedRuntimeBuilder {
        TracedRuntimeBuilder::default()
    }

    /// As [`Runtime::block_on`]. The future is a task like others, spawned here.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let _visit = Visit::new(piano());
        self.runtime.block_on(Traced::new(future, Location::caller(), true, false))
    }

    /// As [`Runtime::spawn`], with wakes.
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.runtime.spawn(whole(future))
    }

    /// As [`Runtime::spawn_blocking`].
    #[track_caller]
    pub fn spawn_blocking<F, R>(&self, work: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.runtime.spawn_blocking(told(work))
    }

    /// What became of [`TracedRuntimeBuilder::with_cpu_profiling`].
    pub fn cpu_profiling(&self) -> &CpuProfiling {
        &self.cpu.state
    }

    /// As [`Runtime::shutdown_timeout`].
    pub fn shutdown_timeout(self, duration: Duration) {
        drop(self.metrics);
        self.runtime.shutdown_timeout(duration);
    }

    /// As [`Runtime::shutdown_background`].
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

/// As [`tokio::spawn`], with wakes.
#[track_caller]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    tokio::spawn(whole(future))
}

/// As [`tokio::task::spawn_local`]. Tokio has no hooks for these tasks; only what is spawned by this is told.
#[track_caller]
pub fn spawn_local<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    tokio::task::spawn_local(Traced::new(future, Location::caller(), true, true))
}

/// As [`tokio::task::spawn_blocking`]. Tokio has no hooks for these tasks; only what is spawned by this is told.
#[track_caller]
pub fn spawn_blocking<F, R>(work: F) -> JoinHandle<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    tokio::task::spawn_blocking(told(work))
}

/// A task of one poll.
#[track_caller]
fn told<F: FnOnce() -> R, R>(work: F) -> impl FnOnce() -> R {
    let at = Location::caller();
    let own = piano().map(|piano| Own::new(piano, at));
    move || {
        let _poll = own.as_ref().map(Own::poll);
        work()
    }
}
