//! Measures the cost of a poll with and without telemetry: tasks that only yield, alternately on a
//! plain runtime and on a traced one. Prints the nanoseconds of CPU time per poll, plain and traced.
//!
//!     polls hooks|wakes POLLS     wakes: this crate spawns the tasks, so that it reports wakes too

use std::io;
use std::time::Duration;

use piano_tokio::TracedRuntime;
use tokio::runtime::Builder;

const TASKS: usize = 10;
const TURN: usize = 20_000;

async fn work() {
    for _ in 0..TURN / TASKS {
        tokio::task::yield_now().await;
    }
}

/// CPU time of this thread, which runs both runtimes.
fn cpu_time() -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is used only during the call.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

async fn turn(wakes: bool) -> Duration {
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| if wakes { piano_tokio::spawn(work()) } else { tokio::spawn(work()) })
        .collect();
    let begin = cpu_time();
    for task in tasks {
        task.await.unwrap();
    }
    cpu_time() - begin
}

fn median(turns: &mut [Duration]) -> f64 {
    turns.sort();
    turns[turns.len() / 2].as_nanos() as f64 / TURN as f64
}

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let wakes = arguments.next().as_deref() == Some("wakes");
    let polls: usize = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let plain = Builder::new_current_thread().build()?;
    let told = TracedRuntime::builder().build(&mut Builder::new_current_thread())?;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..(polls / TURN).max(2) {
        without.push(plain.block_on(turn(false)));
        with.push(told.block_on(turn(wakes)));
    }
    println!("{:.2} {:.2}", median(&mut without), median(&mut with));
    Ok(())
}
