//! A future whose wakes are told: it is polled with a waker that tells them, and then wakes the one behind it.

use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use pin_project_lite::pin_project;

use crate::api::{piano, Api};
use crate::task::{now, Own};

pin_project! {
    /// A future whose wakes are told, made by [`traced`].
    #[must_use = "futures do nothing unless polled"]
    pub struct Traced<F> {
        #[pin]
        future: F,
        teller: Option<Teller>,
    }
}

/// `future`, with its wakes told to piano: for ways to spawn that this crate has no function for, such as a `JoinSet`.
#[track_caller]
pub fn traced<F: Future>(future: F) -> Traced<F> {
    Traced::new(future, Location::caller(), !cfg!(tokio_unstable))
}

impl<F: Future> Traced<F> {
    /// APART: it is a task that Tokio has no hooks for.
    pub(crate) fn new(future: F, at: &'static Location<'static>, apart: bool) -> Self {
        let teller = piano().map(|piano| Teller {
            piano,
            who: if apart { Who::Own(Own::new(piano, at)) } else { Who::Unknown(at) },
            waker: None,
        });
        Self { future, teller }
    }
}

impl<F: Future> Future for Traced<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let Some(teller) = this.teller else {
            return this.future.poll(cx);
        };
        let task = teller.task();
        let _poll = match &teller.who {
            Who::Own(own) => Some(own.poll()),
            _ => None,
        };
        let waker = waker_of(&mut teller.waker, teller.piano, task, cx.waker());
        this.future.poll(&mut Context::from_waker(waker))
    }
}

struct Teller {
    piano: &'static Api,
    who: Who,
    waker: Option<Told>,
}

enum Who {
    /// It was not polled yet.
    Unknown(&'static Location<'static>),
    /// Tokio's hooks tell what becomes of it.
    Tokio(u64),
    Own(Own),
}

impl Teller {
    fn task(&mut self) -> u64 {
        if let Who::Unknown(at) = self.who {
            self.who = match now() {
                0 => Who::Own(Own::new(self.piano, at)), // a runtime without our hooks
                task => Who::Tokio(task),
            };
        }
        match &self.who {
            Who::Own(own) => own.task,
            Who::Tokio(task) => *task,
            Who::Unknown(_) => 0,
        }
    }
}

/// The waker that tells, kept from poll to poll: one allocation for a task.
struct Told {
    waker: Waker,
    behind: Arc<Behind>,
}

struct Behind {
    piano: &'static Api,
    task: u64,
    /// Since the last poll: the first wake is when the task could go on, and more of them change nothing.
    is_woken: AtomicBool,
    waker: Waker,
}

fn waker_of<'a>(
    kept: &'a mut Option<Told>,
    piano: &'static Api,
    task: u64,
    waker: &Waker,
) -> &'a Waker {
    if kept.as_ref().is_some_and(|told| !told.behind.waker.will_wake(waker)) {
        *kept = None;
    }
    let told = kept.get_or_insert_with(|| {
        let behind = Arc::new(Behind {
            piano,
            task,
            is_woken: AtomicBool::new(false),
            waker: waker.clone(),
        });
        Told { waker: Waker::from(behind.clone()), behind }
    });
    told.behind.is_woken.store(false, Ordering::Relaxed);
    &told.waker
}

impl Behind {
    fn tell(&self) {
        if !self.is_woken.swap(true, Ordering::Relaxed) {
            self.piano.wake(self.task);
        }
    }
}

impl Wake for Behind {
    // Told first: the task may be polled before `wake` comes back.
    fn wake(self: Arc<Self>) {
        self.tell();
        match Arc::try_unwrap(self) {
            Ok(behind) => behind.waker.wake(),
            Err(shared) => shared.waker.wake_by_ref(),
        }
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.tell();
        self.waker.wake_by_ref();
    }
}

/// Wakers outlive their tasks; such wakes are not told.
impl Drop for Told {
    fn drop(&mut self) {
        self.behind.is_woken.store(true, Ordering::Relaxed);
    }
}
