//! Wakers that are woken late or more than once, and more wakers than the crate has slots. A line with
//! `place:` spawns the task that it names; the test checks the wakes of each.

use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::{channel, Sender};
use std::task::{Context, Poll, Waker};

use piano_tokio::TracedRuntime;
use tokio::runtime::Builder;
use tokio::task::JoinHandle;

const MANY: usize = 6000;

/// Sends its waker away at the first poll, and ends at the second.
struct Twice(Option<Sender<Waker>>);

impl Future for Twice {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(sender) = self.0.take() else {
            return Poll::Ready(());
        };
        sender.send(cx.waker().clone()).unwrap();
        Poll::Pending
    }
}

// The worker is another thread than the one of this future, so this future may block.
async fn run() {
    let (sender, receiver) = channel();
    let twice = || Twice(Some(sender.clone()));

    let late = piano_tokio::spawn(twice()); // place: late
    let waker = receiver.recv().unwrap();
    let another = waker.clone();
    waker.wake();
    late.await.unwrap();
    another.wake_by_ref();
    another.wake();

    let often = piano_tokio::spawn(twice()); // place: often
    let waker = receiver.recv().unwrap();
    let waking = tokio::spawn(async move {
        waker.wake_by_ref();
        waker.clone().wake();
        waker.wake();
    });
    waking.await.unwrap();
    often.await.unwrap();

    let spawn = |_| piano_tokio::spawn(twice()); // place: many
    let many: Vec<JoinHandle<()>> = (0..MANY).map(spawn).collect();
    let wakers: Vec<Waker> = (0..MANY).map(|_| receiver.recv().unwrap()).collect();
    wakers.into_iter().for_each(Waker::wake);
    for task in many {
        task.await.unwrap();
    }
}

fn main() {
    let runtime = TracedRuntime::builder()
        .build(Builder::new_multi_thread().worker_threads(1).enable_all())
        .unwrap();
    runtime.block_on(run());
    println!("done");
}
