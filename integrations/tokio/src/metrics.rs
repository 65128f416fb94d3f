//! Reports Tokio's own metrics: the depths of its queues, and what it counts.
//!
//! A thread reads them from time to time. So workers spend no time on it, and the metrics of a runtime whose workers are all stuck are
//! read too. Of each metric, only changes are reported.

use std::ffi::CString;
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeMetrics};

use crate::api::Api;

/// Queues are read each time, the other metrics once in so many times.
const OTHERS_EVERY: u32 = 10;

/// Reads until this is dropped.
pub(crate) struct Reader {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    /// RUNTIME: counted from 0. Reports nothing if the thread cannot be started.
    pub(crate) fn start(
        piano: &'static Api,
        handle: &Handle,
        runtime: u64,
        every: Duration,
    ) -> Self {
        let tokio = handle.metrics();
        let (stop, stopped) = channel();
        let work = move || {
            let mut metrics = Metrics::new(piano, tokio, runtime);
            let mut turn = 0;
            metrics.report(true);
            while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                turn = (turn + 1) % OTHERS_EVERY;
                metrics.report(turn == 0);
            }
            metrics.report(true);
        };
        let thread = Builder::new().name("piano-tokio".into()).spawn(work).ok();
        Self { stop: Some(stop), thread }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // it reads once more and ends
        }
    }
}

struct Metric {
    name: CString,
    read: Box<dyn Fn(&RuntimeMetrics) -> u64 + Send>,
    reported: Option<u64>,
}

struct Metrics {
    piano: &'static Api,
    tokio: RuntimeMetrics,
    runtime: u64,
    queues: Vec<Metric>,
    others: Vec<Metric>,
    global: GlobalQueue,
}

impl Metrics {
    fn new(piano: &'static Api, tokio: RuntimeMetrics, runtime: u64) -> Self {
        let workers = tokio.num_workers();
        let of = Of { runtime };
        let (queues, others) = (of.queues(workers), of.others(workers));
        Self { piano, tokio, runtime, queues, others, global: GlobalQueue::default() }
    }

    fn report(&mut self, with_others: bool) {
        let depth = self.tokio.global_queue_depth() as u64;
        if let Some(least) = self.global.next(depth) {
            self.piano.queue_depth(self.runtime, least);
        }
        let others = if with_others { &mut self.others[..] } else { &mut [] };
        for metric in self.queues.iter_mut().chain(others) {
            let value = (metric.read)(&self.tokio);
            if metric.reported.replace(value) != Some(value) {
                self.piano.value(&metric.name, value);
            }
        }
    }
}

/// The depth of the global queue for piano's red flags. Piano takes a depth to last until the next event, but between two readings the
/// queue may have been empty. So the lower one of two readings in a row is reported.
#[derive(Default)]
struct GlobalQueue {
    read: u64,
    reported: Option<u64>,
}

impl GlobalQueue {
    /// None: as reported before.
    fn next(&mut self, depth: u64) -> Option<u64> {
        let least = depth.min(std::mem::replace(&mut self.read, depth));
        (self.reported.replace(least) != Some(least)).then_some(least)
    }
}

/// Makes metrics of one runtime, with names like those of its workers.
struct Of {
    runtime: u64,
}

impl Of {
    fn metric(&self, what: &str, read: impl Fn(&RuntimeMetrics) -> u64 + Send + 'static) -> Metric {
        let name = match self.runtime {
            0 => format!("tokio {what}"),
            _ => format!("tokio {what} of runtime {}", self.runtime + 1),
        };
        Metric {
            name: CString::new(name).unwrap_or_default(),
            read: Box::new(read),
            reported: None,
        }
    }

    #[cfg(not(tokio_unstable))]
    fn queues(&self, _workers: usize) -> Vec<Metric> {
        vec![self.metric("global queue", |m| m.global_queue_depth() as u64)]
    }

    #[cfg(tokio_unstable)]
    fn queues(&self, workers: usize) -> Vec<Metric> {
        let mut found = vec![
            self.metric("global queue", |m| m.global_queue_depth() as u64),
            self.metric("blocking queue", |m| m.blocking_queue_depth() as u64),
        ];
        for n in 0..workers {
            let read = move |m: &RuntimeMetrics| m.worker_local_queue_depth(n) as u64;
            found.push(self.metric(&format!("worker {n} queue"), read));
        }
        found
    }

    fn others(&self, workers: usize) -> Vec<Metric> {
        let mut found = vec![self.metric("alive tasks", |m| m.num_alive_tasks() as u64)];
        #[cfg(tokio_unstable)]
        found.extend([
            self.metric("blocking threads", |m| m.num_blocking_threads() as u64),
            self.metric("idle blocking threads", |m| m.num_idle_blocking_threads() as u64),
        ]);
        for n in 0..workers {
            self.add_totals(n, &mut found);
        }
        found
    }

    /// Totals since the runtime began. Tokio updates them when the worker parks.
    #[cfg(target_has_atomic = "64")]
    fn add_totals(&self, n: usize, found: &mut Vec<Metric>) {
        let busy_us = move |m: &RuntimeMetrics| m.worker_total_busy_duration(n).as_micros() as u64;
        found.push(self.metric(&format!("worker {n} busy us"), busy_us));
        found.push(self.metric(&format!("worker {n} parks"), move |m| m.worker_park_count(n)));
        #[cfg(tokio_unstable)]
        found.push(self.metric(&format!("worker {n} stolen"), move |m| m.worker_steal_count(n)));
    }

    #[cfg(not(target_has_atomic = "64"))]
    fn add_totals(&self, _n: usize, _found: &mut Vec<Metric>) {}
}
