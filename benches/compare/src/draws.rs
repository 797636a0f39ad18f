//! The keys that a thread requests. They are drawn before the measurement, because a draw may cost
//! a tenth of an operation.

use latchwork_workload::WorkloadError;
use latchwork_workload::distribution::{YCSB_THETA, Zipfian};
use latchwork_workload::random::WorkloadRandom;

use crate::args::Distribution;
use crate::content::key;

/// Operations between two clock readings.
pub(crate) const BATCH: usize = 64;
/// Scans between two clock readings.
pub(crate) const SCANS: usize = 4;
/// Entries of a scan.
pub(crate) const SCANNED: usize = 100;

/// Draws of a thread. They repeat from the start when all are used.
const POINTS: usize = 1 << 20;
const RANGES: usize = 1 << 15;

/// The first key of a scan, and the hundredth key from there on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) from: u64,
    pub(crate) last: u64,
}

/// The requests of one thread.
#[derive(Debug)]
pub(crate) struct Draws {
    keys: Vec<u64>,
    // A bit per key: whether a workload that updates half of the keys updates this one.
    coins: Vec<u64>,
    ranges: Vec<Range>,
}

impl Draws {
    /// The `n`-th keys, and a bit for each.
    #[inline]
    pub(crate) fn points(&self, n: usize) -> (&[u64], u64) {
        let n = n % (POINTS / BATCH);
        (&self.keys[n * BATCH..(n + 1) * BATCH], self.coins[n])
    }

    /// The `n`-th scans.
    #[inline]
    pub(crate) fn ranges(&self, n: usize) -> &[Range] {
        let n = n % (RANGES / SCANS);
        &self.ranges[n * SCANS..(n + 1) * SCANS]
    }
}

/// Draws from `keys` loaded keys.
pub(crate) struct Source {
    keys: u64,
    // All keys in order, for the expected results of scans.
    sorted: Vec<u64>,
    // The key of each rank. Popular keys are spread over the order of insertion as well.
    by_rank: Vec<u32>,
}

impl Source {
    /// A source for the keys `0..keys`; at least a hundred, and less than 2^32.
    pub(crate) fn new(keys: u64, seed: u64) -> Source {
        let mut sorted: Vec<u64> = (0..keys).map(key).collect();
        sorted.sort_unstable();
        let mut by_rank: Vec<u32> = (0..keys as u32).collect();
        shuffle(&mut by_rank, &mut WorkloadRandom::for_stream(seed, 1));
        Source { keys, sorted, by_rank }
    }

    /// The draws of thread number `thread`.
    pub(crate) fn draws(
        &self,
        distribution: Distribution,
        seed: u64,
        thread: usize,
    ) -> Result<Draws, WorkloadError> {
        let mut random = WorkloadRandom::for_stream(seed, 2 + thread as u64);
        let zipfian = Zipfian::new(self.keys, YCSB_THETA)?;
        let draw = |random: &mut WorkloadRandom| match distribution {
            Distribution::Uniform => key(random.below(self.keys)),
            Distribution::Zipf => key(self.by_rank[zipfian.draw(random) as usize].into()),
        };
        let keys = (0..POINTS).map(|_| draw(&mut random)).collect();
        let coins = (0..POINTS / BATCH).map(|_| random.next_u64()).collect();
        let highest = self.sorted.len() - SCANNED;
        let ranges = (0..RANGES).map(|_| {
            let at = self.sorted.partition_point(|key| *key < draw(&mut random)).min(highest);
            Range { from: self.sorted[at], last: self.sorted[at + SCANNED - 1] }
        });
        Ok(Draws { keys, coins, ranges: ranges.collect() })
    }
}

/// Fisher and Yates.
pub(crate) fn shuffle<T>(items: &mut [T], random: &mut WorkloadRandom) {
    for i in (1..items.len()).rev() {
        items.swap(i, random.below(i as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashMap};

    use super::*;

    #[test]
    fn draws_are_of_loaded_keys_and_scans_end_where_the_hundredth_key_is() {
        let loaded: BTreeSet<u64> = (0..1000).map(key).collect();
        let source = Source::new(1000, 1);
        for distribution in [Distribution::Uniform, Distribution::Zipf] {
            let draws = source.draws(distribution, 1, 0).unwrap();
            assert!(draws.keys.iter().all(|key| loaded.contains(key)));
            for range in &draws.ranges {
                assert_eq!(loaded.range(range.from..=range.last).count(), SCANNED);
            }
        }
    }

    #[test]
    fn the_hottest_of_a_zipfian_has_its_share_and_threads_draw_differently() {
        let source = Source::new(100_000, 1);
        let draws = source.draws(Distribution::Zipf, 1, 0).unwrap();
        let mut counts = HashMap::<u64, usize>::new();
        draws.keys.iter().for_each(|key| *counts.entry(*key).or_default() += 1);
        let share = *counts.values().max().unwrap() as f64 / POINTS as f64;
        let expected = 1.0 / latchwork_workload::distribution::zeta(100_000, YCSB_THETA);
        assert!((share - expected).abs() < 0.002, "{share} {expected}");
        assert_ne!(draws.keys, source.draws(Distribution::Zipf, 1, 1).unwrap().keys);
    }
}
