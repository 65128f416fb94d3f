//! A future whose wakes are told: it is polled with a waker that tells them, and then wakes the one behind it.

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
    Traced::new(future, Location::caller(), !cfg!(tokio_unstable), false)
}

/// The same of a future that Tokio has as a task, with nothing around it.
#[track_caller]
pub(crate) fn whole<F: Future>(future: F) -> Traced<F> {
    Traced::new(future, Location::caller(), !cfg!(tokio_unstable), true)
}

impl<F: Future> Traced<F> {
    /// APART: it is a task that Tokio has no hooks for. WHOLE: it is all there is of the task.
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

/// The first poll, one for another waker than before, and all of a task that Tokio has no hooks for.
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
    /// It was not polled yet.
    Unknown(&'static Location<'static>),
    /// Tokio's hooks tell what becomes of it.
    Tokio(u64),
    Own(Own),
}

impl Who {
    /// The task, which it is known to be from now on.
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

/// The waker that tells, kept from poll to poll.
struct Told {
    whom: Whom,
    /// By way of a slot, it is on loan from the poll, and not to be dropped.
    waker: ManuallyDrop<Waker>,
    by: By,
}

enum By {
    Slot(&'static Slot),
    /// One allocation for a task.
    Behind(Arc<Behind>),
}

impl Told {
    #[cold]
    fn new(piano: &'static Api, task: u64, waker: &Waker, whole: bool) -> Self {
        let (ours, by) = if let Some(slot) = Slot::take(waker, task, whole) {
            // SAFETY: it is for this waker.
            (unsafe { waker_for(waker) }, By::Slot(slot))
        } else {
            let is_woken = AtomicBool::new(false);
            let behind = Arc::new(Behind { piano, task, is_woken, waker: waker.clone() });
            (ManuallyDrop::new(Waker::from(behind.clone())), By::Behind(behind))
        };
        Self { whom: Whom::of(waker), waker: ours, by }
    }

    /// For a poll that begins now, by the very waker this was made for.
    #[inline]
    fn context(&self) -> Context<'_> {
        match &self.by {
            By::Slot(slot) => slot.is_polled(),
            By::Behind(behind) => behind.is_woken.store(false, Ordering::Relaxed),
        }
        Context::from_waker(&self.waker)
    }
}

/// Wakers outlive their tasks; such wakes are not told.
impl Drop for Told {
    fn drop(&mut self) {
        match &self.by {
            By::Slot(slot) => slot.give(),
            By::Behind(behind) => {
                behind.is_woken.store(true, Ordering::Relaxed);
                // SAFETY: it is used by nobody from here on.
                unsafe { ManuallyDrop::drop(&mut self.waker) };
            }
        }
    }
}

/// Which waker it is that is woken in the end: as `will_wake` would say, which loads both words at once. Tokio has just written them one by
/// one, and the processor waits for that. In this order, which is not a waker's own, they stay apart.
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
    /// Since the last poll: the first wake is when the task could go on, and more of them change nothing.
    is_woken: AtomicBool,
    waker: Waker,
}

impl Behind {
    /// Looked at and set in two steps, which is a fifth of the price of one: of two wakes at the same instant both may be told.
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

    // Told first: the task may be polled before the other `wake` comes back.
    #[inline]
    fn wake_by_ref(self: &Arc<Self>) {
        self.tell();
        self.waker.wake_by_ref();
    }
}
