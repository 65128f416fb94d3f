//! The functions of `piano.h`. `dlsym` finds them when the program runs, so the program is not
//! linked with libpiano.

use std::ffi::{c_char, c_int, c_void, CStr};
use std::sync::OnceLock;

/// `struct piano_cpu_options`
#[repr(C)]
pub(crate) struct CpuOptions {
    pub size: usize,
    pub frequency_hz: u32,
    pub source: u32,
    pub include_kernel: u32,
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn symbol(name: &CStr) -> Option<*mut c_void> {
    extern "C" {
        fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    }
    const RTLD_DEFAULT: *mut c_void = std::ptr::null_mut();
    // SAFETY: the name is a C string, and the handle is a constant of glibc.
    let found = unsafe { dlsym(RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn symbol(_name: &CStr) -> Option<*mut c_void> {
    None
}

macro_rules! functions {
    ($($name:ident = $symbol:literal: fn($($type:ty),*) $(-> $result:ty)?;)*) => {
        pub(crate) struct Api {
            $($name: unsafe extern "C" fn($($type),*) $(-> $result)?,)*
        }

        impl Api {
            /// None if any function is missing.
            fn find() -> Option<Self> {
                Some(Self {
                    $($name: {
                        let found = symbol($symbol)?;
                        // SAFETY: piano.h declares this function with these arguments.
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($type),*) $(-> $result)?,
                            >(found)
                        }
                    },)*
                })
            }
        }
    };
}

functions! {
    worker_start = c"piano_worker_start": fn(u64, *const c_char);
    worker_stop = c"piano_worker_stop": fn();
    task_spawn = c"piano_task_spawn": fn(u64, *const c_char, *const c_char);
    task_end = c"piano_task_end": fn(u64);
    poll_begin = c"piano_poll_begin": fn(u64);
    poll_end = c"piano_poll_end": fn();
    park = c"piano_park": fn();
    unpark = c"piano_unpark": fn();
    wake = c"piano_wake": fn(u64);
    queue_depth = c"piano_queue_depth": fn(u64, u64);
    value = c"piano_value": fn(*const c_char, i64);
    cpu_start = c"piano_cpu_start": fn(*const CpuOptions) -> c_int;
    cpu_stop = c"piano_cpu_stop": fn() -> c_int;
}

static API: OnceLock<Option<Api>> = OnceLock::new();

/// None if libpiano is not loaded.
pub(crate) fn piano() -> Option<&'static Api> {
    API.get_or_init(Api::find).as_ref()
}

// SAFETY of all calls below: any thread may call these functions at any time. They do not keep the
// pointers that they get.
#[allow(clippy::undocumented_unsafe_blocks)]
impl Api {
    pub(crate) fn worker_start(&self, worker: u64, name: &CStr) {
        unsafe { (self.worker_start)(worker, name.as_ptr()) }
    }

    pub(crate) fn worker_stop(&self) {
        unsafe { (self.worker_stop)() }
    }

    /// Spawns a task without a name. Reports distinguish such tasks by their place.
    pub(crate) fn task_spawn(&self, task: u64, place: &CStr) {
        unsafe { (self.task_spawn)(task, std::ptr::null(), place.as_ptr()) }
    }

    pub(crate) fn task_end(&self, task: u64) {
        unsafe { (self.task_end)(task) }
    }

    pub(crate) fn poll_begin(&self, task: u64) {
        unsafe { (self.poll_begin)(task) }
    }

    pub(crate) fn poll_end(&self) {
        unsafe { (self.poll_end)() }
    }

    pub(crate) fn park(&self) {
        unsafe { (self.park)() }
    }

    pub(crate) fn unpark(&self) {
        unsafe { (self.unpark)() }
    }

    pub(crate) fn wake(&self, task: u64) {
        unsafe { (self.wake)(task) }
    }

    pub(crate) fn queue_depth(&self, queue: u64, depth: u64) {
        unsafe { (self.queue_depth)(queue, depth) }
    }

    pub(crate) fn value(&self, name: &CStr, value: u64) {
        unsafe { (self.value)(name.as_ptr(), i64::try_from(value).unwrap_or(i64::MAX)) }
    }

    /// 0 or a negative errno.
    pub(crate) fn cpu_start(&self, options: &CpuOptions) -> c_int {
        unsafe { (self.cpu_start)(options) }
    }

    pub(crate) fn cpu_stop(&self) -> c_int {
        unsafe { (self.cpu_stop)() }
    }
}
