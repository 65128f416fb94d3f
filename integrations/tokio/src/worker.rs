//! Determines which worker a thread is. Tokio knows this only inside its scheduler, and a worker moves
//! to another thread when its task calls `block_in_place`. So this is checked at every poll and park,
//! and reported when it has changed.

use std::cell::Cell;
use std::ffi::CString;

use crate::api::Api;

const NONE: u64 = u64::MAX;

thread_local! {
    static SELF: Cell<u64> = const { Cell::new(NONE) };
}

/// Reports the worker if it has changed. RUNTIME is counted from 0.
#[inline]
pub(crate) fn notice(piano: &Api, runtime: u64) {
    let Some(index) = tokio::runtime::worker_index() else {
        return;
    };
    let worker = runtime << 16 | index as u64;
    if SELF.get() != worker {
        start(piano, worker);
    }
}

#[cold]
#[inline(never)]
fn start(piano: &Api, worker: u64) {
    SELF.set(worker);
    let (runtime, index) = (worker >> 16, worker & 0xffff);
    let name = match runtime {
        0 => format!("tokio worker {index}"),
        _ => format!("tokio worker {index} of runtime {}", runtime + 1),
    };
    piano.worker_start(worker, &CString::new(name).unwrap_or_default());
}

pub(crate) fn stop(piano: &Api) {
    if SELF.replace(NONE) != NONE {
        piano.worker_stop();
    }
}

/// Held during `block_on`: a thread that became a worker in it stops being one at its end.
pub(crate) struct Visit(Option<&'static Api>);

impl Visit {
    pub(crate) fn new(piano: Option<&'static Api>) -> Self {
        Self(piano.filter(|_| SELF.get() == NONE))
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        if let Some(piano) = self.0 {
            stop(piano);
        }
    }
}
