//! [`Measure`]: a measurement. [`Sizes`]: the sizes of the data.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

/// The sizes of the data.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) far_lines: usize,
    pub(crate) far_keys: u64,
    /// Whether the program makes one measurement once, for a profiler, and does nothing else.
    pub(crate) once: bool,
}

impl Sizes {
    /// The compute nodes of a measurement on the first one. A second node is idle, but it looks for
    /// messages, and a profiler would count that.
    pub(crate) fn nodes(self) -> usize {
        if self.once { 1 } else { 2 }
    }
}

/// A measurement.
pub(crate) struct Measure {
    pub(crate) name: String,
    /// Whether one thread does all the work, so that a profiler can count it.
    pub(crate) alone: bool,
    /// The time of this number of executions.
    pub(crate) time: Box<dyn Fn(u64) -> Duration>,
}

impl Measure {
    pub(crate) fn new(
        name: impl Into<String>,
        time: impl Fn(u64) -> Duration + 'static,
    ) -> Measure {
        Measure { name: name.into(), alone: true, time: Box::new(time) }
    }

    /// A measurement of threads that wait for each other.
    pub(crate) fn between(
        name: impl Into<String>,
        time: impl Fn(u64) -> Duration + 'static,
    ) -> Measure {
        Measure { alone: false, ..Measure::new(name, time) }
    }
}

/// The result of `work`. scripts/instructions.sh counts what happens in [`poll`] and nothing else:
/// what the executor does meanwhile, as to count epochs, depends on the clock.
pub(crate) async fn counted<F: Future>(work: F) -> F::Output {
    let mut work = pin!(work);
    poll_fn(|context| poll(work.as_mut(), context)).await
}

#[inline(never)]
fn poll<F: Future>(work: Pin<&mut F>, context: &mut Context<'_>) -> Poll<F::Output> {
    work.poll(context)
}

pub(crate) fn nanos(time: Duration, count: u64) -> f64 {
    time.as_secs_f64() * 1e9 / count as f64
}

/// Lines that fit, with their headers, into a core's second-level cache and not into the first.
pub(crate) const HOT_LINES: usize = 256;

/// Keys of a tree that fits into the second-level cache.
pub(crate) const HOT_KEYS: u64 = 20_000;
