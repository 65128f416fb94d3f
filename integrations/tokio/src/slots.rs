//! Wakers of Tokio's tasks that tell, without memory of their own behind them: the pointer in one is Tokio's, and only its functions
//! are ours. So it is Tokio that counts them, and a wake has the task's own memory on its way at once.
//!
//! What is to be told is in a table, by that pointer. A task whose place there is taken has none, and gets a waker of the
//! other sort (traced.rs). As long as there is a waker, Tokio keeps the memory it points to: no other task has that pointer, and one whose
//! task is gone finds its place empty, or another pointer in it.

use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::atomic::{fence, AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::task::{RawWaker, RawWakerVTable, Waker};

use crate::api::piano;

const BITS: u32 = 12;
const BUSY: usize = 1;

#[repr(align(32))]
pub(crate) struct Slot {
    /// The pointer of its task; 0: nobody's.
    pointer: AtomicUsize,
    task: AtomicU64,
    /// Since the last poll.
    is_woken: AtomicBool,
}

static SLOTS: [Slot; 1 << BITS] = [const {
    Slot { pointer: AtomicUsize::new(0), task: AtomicU64::new(0), is_woken: AtomicBool::new(false) }
}; 1 << BITS];

/// The functions of the wakers behind: those that the first task came with, which all of Tokio's tasks share. Others have no place here.
static BEHIND: AtomicPtr<RawWakerVTable> = AtomicPtr::new(ptr::null_mut());

static OURS: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, forget);

impl Slot {
    /// A place for TASK, which WAKER wakes; None: there is none. KNOWN: it is Tokio itself that polls with this waker.
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
        fence(Ordering::Release); // who finds what is written now finds it busy, or ours
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

/// One that tells, in place of WAKER: it wakes what that does, and is valid as long as that is.
///
/// # Safety
///
/// A slot was taken for WAKER.
pub(crate) unsafe fn waker_for(waker: &Waker) -> ManuallyDrop<Waker> {
    // SAFETY: our functions hand the pointer to those it came with.
    ManuallyDrop::new(unsafe { Waker::new(waker.data(), &OURS) })
}

/// The waker that POINTER came from, which is this one's own: it is counted once for both.
///
/// # Safety
///
/// POINTER is that of a waker of ours. Those are made when BEHIND is known, by `waker_for` and `clone`.
#[inline]
unsafe fn behind(pointer: *const ()) -> Waker {
    // SAFETY: both are of one waker; a pointer to its functions is never taken back.
    unsafe { Waker::new(pointer, &*BEHIND.load(Ordering::Acquire)) }
}

/// The first wake since the last poll is when the task could go on, and more of them change nothing. Looked at and set in two steps,
/// which is cheaper than one: of two at the same instant both may be told.
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
        return; // the task has just ended, and the number may be another's
    }
    slot.is_woken.store(true, Ordering::Relaxed);
    if let Some(piano) = piano() {
        piano.wake(task);
    }
}

// SAFETY, of all four: the pointer is that of a waker of ours, since only those have these functions.

unsafe fn clone(pointer: *const ()) -> RawWaker {
    // SAFETY: see above; it stays counted.
    let mine = ManuallyDrop::new(unsafe { behind(pointer) });
    let other = ManuallyDrop::new(Waker::clone(&mine));
    // Tokio's are all alike; one that is not is passed on as it is.
    if other.will_wake(&mine) {
        RawWaker::new(pointer, &OURS)
    } else {
        RawWaker::new(other.data(), other.vtable())
    }
}

// Told first: the task may be polled before the wake comes back.
unsafe fn wake(pointer: *const ()) {
    tell(pointer);
    // SAFETY: see above.
    unsafe { behind(pointer) }.wake();
}

unsafe fn wake_by_ref(pointer: *const ()) {
    tell(pointer);
    // SAFETY: see above; it stays counted.
    ManuallyDrop::new(unsafe { behind(pointer) }).wake_by_ref();
}

unsafe fn forget(pointer: *const ()) {
    // SAFETY: see above.
    drop(unsafe { behind(pointer) });
}
