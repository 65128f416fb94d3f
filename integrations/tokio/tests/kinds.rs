//! Spawns a task in every possible way. A line with `place:` spawns the task that it names; the test
//! checks the polls of each.

use std::sync::mpsc::channel;

use piano_tokio::TracedRuntime;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::{block_in_place, yield_now, JoinSet, LocalSet};

async fn yields(times: u32) {
    for _ in 0..times {
        yield_now().await;
    }
}

async fn on_workers() {
    tokio::spawn(yields(2)).await.unwrap(); // place: plain
    piano_tokio::spawn(yields(2)).await.unwrap(); // place: traced
    let mut set = JoinSet::new();
    set.spawn(piano_tokio::traced(yields(1))); // place: set
    set.join_next().await.unwrap().unwrap();

    let (begin, begun) = oneshot::channel();
    let endless = async move {
        begin.send(()).unwrap();
        std::future::pending::<()>().await
    };
    let aborted = piano_tokio::spawn(endless); // place: aborted
    begun.await.unwrap();
    aborted.abort();
    assert!(aborted.await.unwrap_err().is_cancelled());
    let panics = async { std::panic::resume_unwind(Box::new(())) };
    assert!(piano_tokio::spawn(panics).await.is_err_and(|error| error.is_panic())); // place: panics
    assert_eq!(piano_tokio::spawn_blocking(|| 7).await.unwrap(), 7); // place: blocking

    // There is one worker, so the second task can run only after the worker moved to another thread.
    let (sender, receiver) = channel();
    let moving = async move { block_in_place(|| receiver.recv().unwrap()) };
    let moving = piano_tokio::spawn(moving); // place: moving
    let moved = piano_tokio::spawn(async move { sender.send(()) }); // place: moved
    moving.await.unwrap();
    moved.await.unwrap().unwrap();
}

fn main() {
    let many = TracedRuntime::builder()
        .build(Builder::new_multi_thread().worker_threads(1).enable_all())
        .unwrap();
    many.block_on(on_workers()); // place: first
    let last = many.spawn_blocking(|| ()); // place: last
    many.block_on(last).unwrap();
    drop(many);

    let one = TracedRuntime::builder().build(Builder::new_current_thread().enable_all()).unwrap();
    let local = async {
        piano_tokio::spawn_local(yields(2)).await.unwrap(); // place: local
        tokio::spawn(yields(1)).await.unwrap(); // place: one
    };
    one.block_on(LocalSet::new().run_until(local)); // place: second
    drop(one);

    let foreign = Builder::new_current_thread().build().unwrap();
    foreign.block_on(async {
        piano_tokio::spawn(yields(2)).await.unwrap(); // place: foreign
    });
    println!("done, {}", if piano_tokio::is_loaded() { "told" } else { "not told" });
}
