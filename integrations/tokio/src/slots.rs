//! Wakers that report wakes and need no allocation. Such a waker holds Tokio's data pointer and our
//! functions. Tokio keeps the reference count, and a wake touches no memory beyond the task's.
//!
//! A table maps the data pointer to the task's number. If the slot of a task is taken, the task gets
//! an allocated waker (traced.rs). Tokio keeps the memory of the pointer as long as a waker exists, so
//! no two tasks have the same pointer. A waker whose task has ended finds its slot empty, or with
//! another pointer.

use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::atomic::{fence, AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::task::{RawWaker, RawWakerVTable, Waker};

use crate::api::piano;

const BITS: u32 = 12;
const BUSY: usize = 1;

#[repr(align(32))]
pub(crate) struct Slot {
    /// The data pointer of its task, or 0 if the slot is free.
    pointer: AtomicUsize,
    task: AtomicU64,
    /// Whether the task was woken since its last poll.
    is_woken: AtomicBool,
}

static SLOTS: [Slot; 1 << BITS] = [const {
    Slot { pointer: AtomicUsize::new(0), task: AtomicU64::new(0), is_woken: AtomicBool::new(false) }
}; 1 << BITS];

/// The functions of Tokio's own wakers, taken from the first task. All of Tokio's tasks share them.
/// Wakers with other functions get no slot.
static BEHIND: AtomicPtr<RawWakerVTable> = AtomicPtr::new(ptr::null_mut());

static OURS: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, forget);

impl Slot {
    /// Takes the slot of TASK, which WAKER wakes. None if the slot is taken. KNOWN: WAKER is Tokio's.
    pub(crate) fn take(waker: &Waker, task: u64, known: bool) -> Option<&'static Self> {
        let functions = ptr::from_ref(waker.vtable()).cast_mut();
        if known {
            let none = ptr::null_mut();
            let _ = BEHIND.compare_exchange(none, functions, Ordering::AcqRel, Ordering::Relaxed);
        }
        if BEHIND.load(Ordering::Acquire) != functions {
            return None;
        }
        let slot = Self::of(waker.data());
        slot.pointer.compare_exchange(0, BUSY, Ordering::Acquire, Ordering::Relaxed).ok()?;
        // A reader that sees the stores below also sees BUSY or our pointer (pairs with the fence
        // in `tell`).
        fence(Ordering::Release);
        slot.task.store(task, Ordering::Relaxed);
        slot.is_woken.store(false, Ordering::Relaxed);
        slot.pointer.store(waker.data() as usize, Ordering::Release);
        Some(slot)
    }

    pub(crate) fn give(&self) {
        self.pointer.store(0, Ordering::Release);
    }

    #[inline]
    pub(crate) fn is_polled(&self) {
        self.is_woken.store(false, Ordering::Relaxed);
    }

    #[inline]
    fn of(pointer: *const ()) -> &'static Self {
        let hash = (pointer as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - BITS);
        &SLOTS[hash as usize]
    }
}

/// A waker that reports wakes and then wakes WAKER's task. It is valid as long as WAKER.
///
/// # Safety
///
/// The caller took a slot for WAKER.
pub(crate) unsafe fn waker_for(waker: &Waker) -> ManuallyDrop<Waker> {
    // SAFETY: our functions pass the pointer only to WAKER's own functions.
    ManuallyDrop::new(unsafe { Waker::new(waker.data(), &OURS) })
}

/// Tokio's waker for POINTER. It shares one reference count with our waker.
///
/// # Safety
///
/// POINTER comes from one of our wakers. `waker_for` and `clone` make those after BEHIND was set.
#[inline]
unsafe fn behind(pointer: *const ()) -> Waker {
    // SAFETY: pointer and functions belong to one waker, and BEHIND never changes once it is set.
    unsafe { Waker::new(pointer, &*BEHIND.load(Ordering::Acquire)) }
}

/// Reports the first wake since the last poll. More wakes do not matter, because the task is ready
/// already. A load and a store are cheaper than an atomic exchange; two wakes at the same instant may
/// both be reported.
#[inline]
fn tell(pointer: *const ()) {
    let slot = Slot::of(pointer);
    if slot.pointer.load(Ordering::Acquire) != pointer as usize
        || slot.is_woken.load(Ordering::Relaxed)
    {
        return;
    }
    let task = slot.task.load(Ordering::Relaxed);
    fence(Ordering::Acquire);
    if slot.pointer.load(Ordering::Relaxed) != pointer as usize {
        return; // the task has just ended, and the number may belong to another task
    }
    slot.is_woken.store(true, Ordering::Relaxed);
    if let Some(piano) = piano() {
        piano.wake(task);
    }
}

// SAFETY of all four: the pointer comes from one of our wakers, because only they have these functions.

unsafe fn clone(pointer: *const ()) -> RawWaker {
    // SAFETY: see above. ManuallyDrop leaves the reference count unchanged.
    let mine = ManuallyDrop::new(unsafe { behind(pointer) });
    let other = ManuallyDrop::new(Waker::clone(&mine));
    // If Tokio returned another kind of waker, pass it on unchanged.
    if other.will_wake(&mine) {
        RawWaker::new(pointer, &OURS)
    } else {
        RawWaker::new(other.data(), other.vtable())
    }
}

// Reports first, because the task may be polled before `wake` returns.
unsafe fn wake(pointer: *const ()) {
    tell(pointer);
    // SAFETY: see above.
    unsafe { behind(pointer) }.wake();
}

unsafe fn wake_by_ref(pointer: *const ()) {
    tell(pointer);
    // SAFETY: see above. ManuallyDrop leaves the reference count unchanged.
    ManuallyDrop::new(unsafe { behind(pointer) }).wake_by_ref();
}

unsafe fn forget(pointer: *const ()) {
    // SAFETY: see above.
    drop(unsafe { behind(pointer) });
}
