//! The starts of operations under a target rate.

use latchwork_simulation::Time;

/// The schedule of one worker: evenly spaced starts, interleaved with the starts of other workers.
///
/// The schedule has no clock. The caller waits until the intended start that
/// [`next_start`](Pacer::next_start) gives. If the intended start is past, the caller begins at
/// once. The caller records the latency from the real start and from the intended start.
///
/// ```
/// use latchwork_simulation::Time;
/// use latchwork_workload::pacing::Pacer;
///
/// // Two workers share 1000 operations per second: every 2 ms one of each.
/// let mut first = Pacer::new(1000.0, 0, 2, Time::ZERO);
/// let mut second = Pacer::new(1000.0, 1, 2, Time::ZERO);
/// assert_eq!(first.next_start(), Time::ZERO);
/// assert_eq!(second.next_start(), Time::from_nanos(1_000_000));
/// assert_eq!(first.next_start(), Time::from_nanos(2_000_000));
/// ```
#[derive(Clone, Debug)]
pub struct Pacer {
    begin: Time,
    /// Nanoseconds between two operations of all workers together.
    spacing_ns: f64,
    worker: u64,
    workers: u64,
    started: u64,
}

impl Pacer {
    /// The schedule of worker `worker` (from 0) of `workers`, beginning at `begin`. `target_ops_s`
    /// is the rate of all workers together, in operations per second. With a target of zero or
    /// less, no operation starts.
    pub fn new(target_ops_s: f64, worker: u64, workers: u64, begin: Time) -> Pacer {
        let spacing_ns = if target_ops_s > 0.0 { 1e9 / target_ops_s } else { f64::INFINITY };
        Pacer { begin, spacing_ns, worker, workers, started: 0 }
    }

    /// The intended start of the worker's next operation. Without a rate, [`Time::MAX`].
    #[inline]
    pub fn next_start(&mut self) -> Time {
        // Each start follows from its number, not from the previous start, so that rounding errors
        // do not add up.
        let number = self.started as f64 * self.workers as f64 + self.worker as f64;
        self.started += 1;
        if self.spacing_ns.is_infinite() {
            return Time::MAX;
        }
        let since = (number * self.spacing_ns) as u64;
        Time::from_nanos(self.begin.as_nanos().saturating_add(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_workers_together_keep_the_rate() {
        let begin = Time::from_nanos(5_000);
        let mut starts: Vec<u64> = (0..3)
            .flat_map(|worker| {
                let mut pacer = Pacer::new(7.0, worker, 3, begin);
                (0..7_000).map(move |_| pacer.next_start().as_nanos())
            })
            .collect();
        starts.sort();
        assert_eq!(starts[0], 5_000);
        for (number, start) in starts.iter().enumerate() {
            let exact = 5_000 + (number as u128 * 1_000_000_000 / 7) as u64;
            assert!(start.abs_diff(exact) <= 1, "{number}: {start} {exact}");
        }
    }

    #[test]
    fn no_rate_means_never() {
        assert_eq!(Pacer::new(0.0, 0, 1, Time::ZERO).next_start(), Time::MAX);
        assert_eq!(Pacer::new(f64::NAN, 0, 1, Time::ZERO).next_start(), Time::MAX);
    }
}
