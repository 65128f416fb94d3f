//! CPU samples from inside the program: `piano_cpu_start`.

use std::io;

use crate::api::{Api, CpuOptions};

/// The clock that triggers samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventSource {
    /// The kernel's CPU clock, through perf.
    #[default]
    SwCpuClock,
    /// Cycles of the processor, through perf, if the processor can count them.
    HwCpuCycles,
    /// A timer for each thread. Needs no privileges. As exact as the kernel's tick.
    Timers,
}

/// Options of CPU sampling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuProfilingConfig {
    /// Samples per second of a thread's CPU time, 1 to 10000. The default is 99.
    pub frequency_hz: u64,
    /// If the kernel refuses perf, timers replace it.
    pub event_source: EventSource,
    /// Also samples the kernel, with its frames. Needs perf.
    pub include_kernel: bool,
}

impl Default for CpuProfilingConfig {
    fn default() -> Self {
        Self { frequency_hz: 99, event_source: EventSource::default(), include_kernel: false }
    }
}

/// The result of `with_cpu_profiling`.
#[derive(Debug)]
#[non_exhaustive]
pub enum CpuProfiling {
    /// Sampling was not requested, or libpiano is not loaded.
    Off,
    /// Sampling runs with this source: [`EventSource::Timers`] if the kernel refused perf.
    Sampling(EventSource),
    /// `piano record --cpu` or another runtime of this program samples already.
    Elsewhere,
    /// Sampling failed to start.
    Refused(io::Error),
}

/// Sampling stops when this is dropped.
pub(crate) struct Sampler {
    piano: Option<&'static Api>,
    pub state: CpuProfiling,
}

const EBUSY: i32 = 16;
const EINVAL: i32 = 22;
const EALREADY: i32 = 114;

impl Sampler {
    pub(crate) fn start(piano: Option<&'static Api>, config: Option<&CpuProfilingConfig>) -> Self {
        let state = match (piano, config) {
            (Some(piano), Some(config)) => begin(piano, config),
            _ => CpuProfiling::Off,
        };
        Self { piano, state }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        if let (Some(piano), CpuProfiling::Sampling(_)) = (self.piano, &self.state) {
            piano.cpu_stop();
        }
    }
}

fn begin(piano: &Api, config: &CpuProfilingConfig) -> CpuProfiling {
    let source = config.event_source;
    match ask(piano, config, source, config.include_kernel) {
        0 => CpuProfiling::Sampling(source),
        EBUSY | EALREADY => CpuProfiling::Elsewhere,
        err if err == EINVAL || source == EventSource::Timers => refused(err),
        err => match ask(piano, config, EventSource::Timers, false) {
            0 => CpuProfiling::Sampling(EventSource::Timers),
            _ => refused(err),
        },
    }
}

fn refused(errno: i32) -> CpuProfiling {
    CpuProfiling::Refused(io::Error::from_raw_os_error(errno))
}

/// Returns 0 or an errno.
fn ask(piano: &Api, config: &CpuProfilingConfig, source: EventSource, kernel: bool) -> i32 {
    let Ok(frequency_hz @ 1..) = u32::try_from(config.frequency_hz) else {
        return EINVAL; // 0 means the default there
    };
    -piano.cpu_start(&CpuOptions {
        size: size_of::<CpuOptions>(),
        frequency_hz,
        source: match source {
            EventSource::SwCpuClock => 1,
            EventSource::HwCpuCycles => 2,
            EventSource::Timers => 3,
        },
        include_kernel: kernel.into(),
    })
}
