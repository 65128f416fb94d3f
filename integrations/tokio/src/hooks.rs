//! Connects each of Tokio's hooks with one function of `piano.h`.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::runtime::Builder;

use crate::api::Api;
use crate::worker;

/// Returns the number of the runtime, counted from 0.
pub(crate) fn install(piano: &'static Api, builder: &mut Builder) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let runtime = NEXT.fetch_add(1, Ordering::Relaxed);
    builder
        .on_thread_park(move || {
            worker::notice(piano, runtime);
            piano.park();
        })
        .on_thread_unpark(move || piano.unpark())
        .on_thread_stop(move || worker::stop(piano));
    #[cfg(tokio_unstable)]
    tasks(piano, builder, runtime);
    runtime
}

#[cfg(tokio_unstable)]
fn tasks(piano: &'static Api, builder: &mut Builder, runtime: u64) {
    use crate::task;

    builder
        .on_task_spawn(move |meta| task::spawned(piano, task::number(meta.id()), meta.spawned_at()))
        .on_before_task_poll(move |meta| {
            worker::notice(piano, runtime);
            task::begin(piano, task::number(meta.id()));
        })
        .on_after_task_poll(move |_| task::end(piano, 0))
        .on_task_terminate(move |meta| piano.task_end(task::number(meta.id())));
}
