//! The same load as the examples `workers` and `echo` of integrations/tokio, watched by dial9, which writes to FOLDER.
//!
//!     dial9-load polls plain|hooks|wakes POLLS FOLDER   says the nanoseconds of a poll: CPU time, and time that passed
//!     dial9-load serve events|samples FOLDER            says its port and process id; ends with its standard input

#[path = "../../../../integrations/tokio/examples/load/mod.rs"]
mod load;

use std::io;
use std::time::Duration;

use dial9::{recorder, Dial9HandleTokioExt, DiskBuffer, RecorderPerfExt, TokioAttachOptions};
use tokio::runtime::{Builder, Runtime};

const ROOM: u64 = 1 << 30;

/// A runtime that is watched, until RUN ends.
fn watched(
    folder: &str,
    with_samples: bool,
    workers: usize,
    run: impl FnOnce(&Runtime) -> io::Result<()>,
) -> io::Result<()> {
    let buffer = DiskBuffer::builder().base_path(folder).max_file_size(ROOM).max_total_size(ROOM);
    let recorder = recorder(buffer.build()?);
    let recorder = if with_samples {
        recorder
            .with_cpu_profiling(Default::default())
            .with_sched_events(Default::default())
            .build()
    } else {
        recorder.build()
    };
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(workers).enable_all();
    let options = TokioAttachOptions::builder().task_tracking_enabled(true).build();
    let runtime = recorder.handle().attach_tokio_runtime(builder, options)?;
    let done = run(&runtime);
    drop(runtime);
    recorder.graceful_shutdown(Duration::from_secs(20));
    done
}

fn polls(way: &str, polls: usize, folder: &str) -> io::Result<()> {
    if way == "plain" {
        let runtime = Builder::new_multi_thread().worker_threads(load::WORKERS).build()?;
        let all = load::yield_all(polls, |times| tokio::spawn(load::yields(times)));
        load::time_polls(polls, || runtime.block_on(all));
        return Ok(());
    }
    watched(folder, false, load::WORKERS, |runtime| {
        if way == "wakes" {
            let all = load::yield_all(polls, |times| dial9::spawn(load::yields(times)));
            load::time_polls(polls, || runtime.block_on(all));
        } else {
            let all = load::yield_all(polls, |times| tokio::spawn(load::yields(times)));
            load::time_polls(polls, || runtime.block_on(all));
        }
        Ok(())
    })
}

fn serve(with_samples: bool, folder: &str) -> io::Result<()> {
    watched(folder, with_samples, 1, |runtime| {
        runtime.block_on(load::serve(|stream| drop(dial9::spawn(load::echo(stream)))))?;
        load::await_end_of_input()
    })
}

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["polls", way, number, folder] => polls(way, number.parse().unwrap_or(1_000_000), folder),
        ["serve", way, folder] => serve(way == "samples", folder),
        _ => Err(io::Error::other("usage: see the source")),
    }
}
