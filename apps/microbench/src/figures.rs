//! The figures of a run.

use crate::client::Done;
use crate::settings::Settings;
use latchwork_harness::Went;
use latchwork_selcc::Counters;
use latchwork_workload::histogram::Latencies;
use latchwork_workload::micro::MicroKind;
use latchwork_workload::result::Phase;

/// Everything that was measured.
pub(crate) struct Figures {
    pub(crate) phase: Phase,
    pub(crate) latencies: Latencies<MicroKind>,
    /// Operations of each node.
    pub(crate) node_ops: Vec<u64>,
    /// What each node counted.
    pub(crate) counters: Vec<Counters>,
    pub(crate) warm_ups: u64,
    /// Windows of a warm-up until steady.
    pub(crate) warm_up_windows: usize,
    /// Operations of each node up to the end of each interval.
    pub(crate) series: Vec<Vec<u64>>,
}

impl Figures {
    pub(crate) fn new(settings: &Settings, done: Vec<Done>, went: Went) -> Figures {
        let nodes = settings.cluster.compute_nodes;
        let mut latencies = Latencies::new();
        let mut node_ops = vec![0; nodes];
        let steps = done.iter().map(|done| done.series.len()).max().unwrap_or(0);
        let mut series = vec![vec![0; steps]; if settings.series.is_some() { nodes } else { 0 }];
        for worker in &done {
            latencies.merge(&worker.latencies);
            node_ops[worker.node] += worker.latencies.ok() + worker.latencies.failed();
            if let Some(of_node) = series.get_mut(worker.node) {
                of_node.iter_mut().zip(&worker.series).for_each(|(all, one)| *all += one);
            }
        }
        for of_node in &mut series {
            let mut sum = 0;
            for step in of_node {
                sum += *step;
                *step = sum;
            }
        }
        let phase = Phase::new(latencies.ok(), went.elapsed_s());
        Figures {
            phase,
            latencies,
            node_ops,
            counters: went.counters,
            warm_ups: went.warm_ups,
            warm_up_windows: went.hit_ratios.len(),
            series,
        }
    }

    /// What an operation took on average, by name; all finite.
    pub(crate) fn measures(&self) -> Vec<(&'static str, f64)> {
        let total: Counters = self.counters.iter().copied().sum();
        let ops = (self.node_ops.iter().sum::<u64>()).max(1) as f64;
        let per_op = |count: u64| count as f64 / ops;
        let ops_of =
            |f: fn(u64, u64) -> u64| self.node_ops.iter().copied().reduce(f).unwrap_or(0) as f64;
        vec![
            ("warm_up_ops", self.warm_ups as f64),
            ("warm_up_windows", self.warm_up_windows as f64),
            ("hit_ratio", 1.0 - per_op(total.cache_misses).min(1.0)),
            ("invalidation_share", per_op(total.accesses_invalidating).min(1.0)),
            ("invalidations_per_op", per_op(total.invalidations_sent)),
            ("node_ops_min", ops_of(u64::min)),
            ("node_ops_max", ops_of(u64::max)),
            ("jain_index", jain(&self.node_ops)),
            ("reads_per_op", per_op(total.verbs_read)),
            ("writes_per_op", per_op(total.verbs_write)),
            ("cas_per_op", per_op(total.verbs_cas)),
            ("faa_per_op", per_op(total.verbs_faa)),
            ("messages_per_op", per_op(total.messages)),
            ("bytes_read_per_op", per_op(total.bytes_read)),
            ("bytes_written_per_op", per_op(total.bytes_written)),
        ]
    }
}

/// Jain's index of fairness: 1 when all are alike, 1 / n when one has everything (Jain, Chiu, Hawe: DEC-TR-301, 1984).
pub(crate) fn jain(counts: &[u64]) -> f64 {
    let sum: f64 = counts.iter().map(|count| *count as f64).sum();
    let squares: f64 = counts.iter().map(|count| (*count as f64).powi(2)).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (counts.len() as f64 * squares) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_is_one_when_all_are_alike_and_a_share_when_one_has_all() {
        assert_eq!(jain(&[5, 5, 5, 5]), 1.0);
        assert_eq!(jain(&[8, 0, 0, 0]), 0.25);
        assert_eq!(jain(&[0, 0]), 1.0);
        assert!((jain(&[1, 2, 3]) - 36.0 / 42.0).abs() < 1e-12);
    }
}
