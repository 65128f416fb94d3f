//! Numbers of tasks and texts of places.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::api::Api;

thread_local! {
    /// The task that this thread polls, or 0 if it polls no reported task.
    static NOW: Cell<u64> = const { Cell::new(0) };
    static PLACES: RefCell<HashMap<usize, CString>> = RefCell::new(HashMap::new());
}

pub(crate) fn now() -> u64 {
    NOW.get()
}

/// Reports that the poll of TASK begins. Polls may be nested: pass the result to `end`.
#[inline]
pub(crate) fn begin(piano: &Api, task: u64) -> u64 {
    let before = NOW.replace(task);
    piano.poll_begin(task);
    before
}

#[inline]
pub(crate) fn end(piano: &Api, before: u64) {
    NOW.set(before);
    piano.poll_end();
}

pub(crate) fn spawned(piano: &Api, task: u64, at: &'static Location<'static>) {
    let text = || CString::new(format!("{}:{}", at.file(), at.line())).unwrap_or_default();
    let known = PLACES.try_with(|places| {
        let mut places = places.borrow_mut();
        let place: &CStr = places.entry(std::ptr::from_ref(at) as usize).or_insert_with(text);
        piano.task_spawn(task, place);
    });
    if known.is_err() {
        piano.task_spawn(task, &text()); // the thread's PLACES are destroyed already
    }
}

/// Tokio's tasks have even numbers, and ours have odd ones.
#[cfg(tokio_unstable)]
pub(crate) fn number(id: tokio::task::Id) -> u64 {
    use std::hash::{Hash, Hasher};

    /// Extracts the number of an id. Only `Hash` gives access to it.
    struct Taken(u64);
    impl Hasher for Taken {
        fn write(&mut self, bytes: &[u8]) {
            for byte in bytes {
                self.write_u64(u64::from(*byte));
            }
        }
        fn write_u64(&mut self, part: u64) {
            self.0 = self.0.wrapping_mul(31).wrapping_add(part);
        }
        fn finish(&self) -> u64 {
            self.0
        }
    }

    let mut taken = Taken(0);
    id.hash(&mut taken);
    taken.finish() << 1
}

/// A task that Tokio has no hooks for. It ends when this is dropped.
pub(crate) struct Own {
    piano: &'static Api,
    pub task: u64,
}

impl Own {
    pub(crate) fn new(piano: &'static Api, at: &'static Location<'static>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let task = NEXT.fetch_add(1, Ordering::Relaxed) << 1 | 1;
        spawned(piano, task, at);
        Self { piano, task }
    }

    pub(crate) fn poll(&self) -> Poll {
        Poll { piano: self.piano, before: begin(self.piano, self.task) }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.piano.task_end(self.task);
    }
}

/// A poll. It ends when this is dropped, also by a panic.
pub(crate) struct Poll {
    piano: &'static Api,
    before: u64,
}

impl Drop for Poll {
    fn drop(&mut self) {
        end(self.piano, self.before);
    }
}
