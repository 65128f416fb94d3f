//! A future that reports its wakes. It is polled with a waker that reports each wake and then wakes
//! the original waker.

use std::future::Future;
use std::mem::ManuallyDrop;
use std::panic::Location;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use pin_project_lite::pin_project;

use crate::api::{piano, Api};
use crate::slots::{waker_for, Slot};
use crate::task::{now, Own};

pin_project! {
    /// A future that reports its wakes. [`traced`] returns it.
    #[must_use = "futures do nothing unless polled"]
    pub struct Traced<F> {
        #[pin]
        future: F,
        teller: Option<Teller>,
    }
}

/// Wraps `future` so that its wakes are reported to piano. Use it where this crate has no function
/// that spawns, for example with a `JoinSet`.
#[track_caller]
pub fn traced<F: Future>(future: F) -> Traced<F> {
    Traced::new(future, Location::caller(), !cfg!(tokio_unstable), false)
}

/// Like `traced`, for a future that is a whole task of Tokio.
#[track_caller]
pub(crate) fn whole<F: Future>(future: F) -> Traced<F> {
    Traced::new(future, Location::caller(), !cfg!(tokio_unstable), true)
}

impl<F: Future> Traced<F> {
    /// APART: the future is a task that Tokio has no hooks for. WHOLE: the future is the whole task.
    pub(crate) fn new(future: F, at: &'static Location<'static>, apart: bool, whole: bool) -> Self {
        let teller = piano().map(|piano| Teller {
            piano,
            whole,
            who: if apart { Who::Own(Own::new(piano, at)) } else { Who::Unknown(at) },
            told: None,
        });
        Self { future, teller }
    }
}

impl<F: Future> Future for Traced<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        match this.teller {
            None => this.future.poll(cx),
            Some(Teller { who: Who::Tokio(_), told: Some(told), .. })
                if told.whom.is(cx.waker()) =>
            {
                this.future.poll(&mut told.context())
            }
            Some(teller) => poll_and_tell(this.future, teller, cx),
        }
    }
}

/// The slow path of `poll`: the first poll, a poll with another waker than before, and all polls of a
/// task that Tokio has no hooks for.
#[inline(never)]
fn poll_and_tell<F: Future>(
    future: Pin<&mut F>,
    teller: &mut Teller,
    cx: &mut Context<'_>,
) -> Poll<F::Output> {
    let Teller { piano, whole, who, told } = teller;
    let told = match told {
        Some(told) if told.whom.is(cx.waker()) => told,
        _ => told.insert(Told::new(piano, who.task(piano), cx.waker(), *whole)),
    };
    let _poll = match who {
        Who::Own(own) => Some(own.poll()),
        _ => None,
    };
    future.poll(&mut told.context())
}

struct Teller {
    piano: &'static Api,
    whole: bool,
    who: Who,
    /// None until the first poll.
    told: Option<Told>,
}

enum Who {
    /// Not polled yet.
    Unknown(&'static Location<'static>),
    /// Tokio's hooks report this task.
    Tokio(u64),
    Own(Own),
}

impl Who {
    /// Returns the task. Determines it at the first call.
    #[cold]
    fn task(&mut self, piano: &'static Api) -> u64 {
        if let Who::Unknown(at) = *self {
            *self = match now() {
                0 => Who::Own(Own::new(piano, at)), // a runtime without our hooks
                task => Who::Tokio(task),
            };
        }
        match self {
            Who::Own(own) => own.task,
            Who::Tokio(task) => *task,
            Who::Unknown(_) => 0,
        }
    }
}

/// The reporting waker, kept from poll to poll.
struct Told {
    whom: Whom,
    /// With a slot, the poll's waker holds the reference, so this one must not be dropped.
    waker: ManuallyDrop<Waker>,
    by: By,
}

enum By {
    Slot(&'static Slot),
    /// One allocation per task.
    Behind(Arc<Behind>),
}

impl Told {
    #[cold]
    fn new(piano: &'static Api, task: u64, waker: &Waker, whole: bool) -> Self {
        let (ours, by) = if let Some(slot) = Slot::take(waker, task, whole) {
            // SAFETY: the slot was taken for this waker.
            (unsafe { waker_for(waker) }, By::Slot(slot))
        } else {
            let is_woken = AtomicBool::new(false);
            let behind = Arc::new(Behind { piano, task, is_woken, waker: waker.clone() });
            (ManuallyDrop::new(Waker::from(behind.clone())), By::Behind(behind))
        };
        Self { whom: Whom::of(waker), waker: ours, by }
    }

    /// The context of a poll that begins now, with the waker that this was made for.
    #[inline]
    fn context(&self) -> Context<'_> {
        match &self.by {
            By::Slot(slot) => slot.is_polled(),
            By::Behind(behind) => behind.is_woken.store(false, Ordering::Relaxed),
        }
        Context::from_waker(&self.waker)
    }
}

/// Wakers outlive their tasks; wakes after the end of a task are not reported.
impl Drop for Told {
    fn drop(&mut self) {
        match &self.by {
            By::Slot(slot) => slot.give(),
            By::Behind(behind) => {
                behind.is_woken.store(true, Ordering::Relaxed);
                // SAFETY: the waker is not used after this.
                unsafe { ManuallyDrop::drop(&mut self.waker) };
            }
        }
    }
}

/// Identifies the original waker, like `will_wake`. That one loads both words of a waker with one
/// instruction, which stalls, because Tokio has just written them one by one (store forwarding fails).
/// Here the words have another order than in a waker, so the compiler loads them separately.
#[repr(C)]
#[derive(PartialEq)]
struct Whom {
    data: usize,
    vtable: usize,
}

impl Whom {
    #[inline]
    fn of(waker: &Waker) -> Self {
        Self { data: waker.data() as usize, vtable: std::ptr::from_ref(waker.vtable()) as usize }
    }

    #[inline]
    fn is(&self, waker: &Waker) -> bool {
        *self == Self::of(waker)
    }
}

struct Behind {
    piano: &'static Api,
    task: u64,
    /// Whether the task was woken since its last poll. Only the first wake is reported.
    is_woken: AtomicBool,
    waker: Waker,
}

impl Behind {
    /// A load and a store cost a fifth of an atomic exchange. Two wakes at the same instant may both be
    /// reported.
    #[inline]
    fn tell(&self) {
        if !self.is_woken.load(Ordering::Relaxed) {
            self.is_woken.store(true, Ordering::Relaxed);
            self.piano.wake(self.task);
        }
    }
}

impl Wake for Behind {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    // Reports first, because the task may be polled before the other `wake` returns.
    #[inline]
    fn wake_by_ref(self: &Arc<Self>) {
        self.tell();
        self.waker.wake_by_ref();
    }
}
