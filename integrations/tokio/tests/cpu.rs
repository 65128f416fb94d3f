//! Prints the result of `with_cpu_profiling` for a first runtime, for a second one beside it, and for
//! a third after both ended.
//!
//!     cpu clock|cycles|timers HZ [kernel]

use piano_tokio::{CpuProfilingConfig, EventSource, TracedRuntime};
use tokio::runtime::Builder;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let config = CpuProfilingConfig {
        event_source: match words[0].as_str() {
            "clock" => EventSource::SwCpuClock,
            "cycles" => EventSource::HwCpuCycles,
            _ => EventSource::Timers,
        },
        frequency_hz: words[1].parse().unwrap(),
        include_kernel: words.get(2).is_some(),
    };
    let make = || {
        TracedRuntime::builder()
            .with_cpu_profiling(config.clone())
            .build(&mut Builder::new_current_thread())
            .unwrap()
    };
    let (first, second) = (make(), make());
    println!("{:?}", first.cpu_profiling());
    println!("{:?}", second.cpu_profiling());
    drop((first, second));
    println!("{:?}", make().cpu_profiling());
}
