//! What a poll costs on a runtime of two workers: tasks that do nothing but yield. Says the nanoseconds of one poll, CPU time of all
//! threads and time that passed.
//!
//!     workers plain|hooks|wakes POLLS     wakes: tasks spawned by this crate

mod load;

use std::io;

use piano_tokio::TracedRuntime;
use tokio::runtime::Builder;

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let way = words.first().map_or("plain", String::as_str);
    let polls = words.get(1).and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(load::WORKERS);
    if way == "plain" {
        let runtime = builder.build()?;
        let all = load::yield_all(polls, |times| tokio::spawn(load::yields(times)));
        load::time_polls(polls, || runtime.block_on(all));
    } else {
        let runtime = TracedRuntime::builder().build(&mut builder)?;
        let spawn = if way == "wakes" { piano_tokio::spawn } else { tokio::spawn };
        let all = load::yield_all(polls, |times| spawn(load::yields(times)));
        load::time_polls(polls, || runtime.block_on(all));
    }
    Ok(())
}
