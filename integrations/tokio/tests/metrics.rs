//! Queues of known depths: tasks that wait for the only worker, and calls that wait for the only blocking thread. Says how many
//! threads read metrics.

use std::fs;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::time::Duration;

use piano_tokio::TracedRuntime;
use tokio::runtime::Builder;

const TASKS: usize = 20;
const CALLS: usize = 5;
const READINGS: u64 = 25;

/// The contents of /proc/self/task/TID/status of each thread that reads metrics.
fn readers() -> Vec<String> {
    fs::read_dir("/proc/self/task")
        .unwrap()
        .filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("status")).ok())
        .filter(|status| status.starts_with("Name:\tpiano-tokio\n"))
        .collect()
}

/// How often the first of them has waited so far, which it does after each reading.
fn waits() -> Option<u64> {
    let status = readers().into_iter().next()?;
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
    line.trim().parse().ok()
}

/// The thread that reads has its name only once it runs.
fn await_reader() {
    let is_recorded = piano_tokio::is_loaded();
    while is_recorded && readers().is_empty() {
        std::thread::yield_now();
    }
}

fn await_readings() {
    await_reader();
    if let Some(before) = waits() {
        while waits().is_some_and(|now| now < before + READINGS) {
            std::thread::yield_now();
        }
    }
}

/// Begins, says so, and ends when the other end of the channel is dropped.
fn hold(begun: &Sender<()>, held: &Receiver<()>) {
    begun.send(()).unwrap();
    let _ = held.recv();
}

fn many() {
    let runtime = TracedRuntime::builder()
        .with_metrics_every(Duration::from_millis(1))
        .build(Builder::new_multi_thread().worker_threads(1).max_blocking_threads(1))
        .unwrap();
    let (begin, begun) = channel();
    let (free, held) = channel();
    let (free_call, held_call) = channel();
    let begin_call = begin.clone();
    let mut tasks = vec![runtime.spawn(async move { hold(&begin, &held) })];
    tasks.push(runtime.spawn_blocking(move || hold(&begin_call, &held_call)));
    begun.recv().unwrap();
    begun.recv().unwrap();
    tasks.extend((0..TASKS).map(|_| runtime.spawn(async {})));
    tasks.extend((0..CALLS).map(|_| runtime.spawn_blocking(|| ())));
    await_readings();
    println!("{}", readers().len());
    drop((free, free_call));
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
}

fn main() {
    many();
    let without = TracedRuntime::builder()
        .with_metrics_every(Duration::ZERO)
        .build(&mut Builder::new_current_thread())
        .unwrap();
    drop(without);
    let one = TracedRuntime::builder().build(&mut Builder::new_current_thread()).unwrap();
    one.block_on(async { tokio::spawn(async {}).await.unwrap() });
    one.shutdown_background();
}
