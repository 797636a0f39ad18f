//! The figures of a run.

use latchwork_engine::Counters;
use latchwork_harness::{Went, driver};
use latchwork_report::histogram::Latencies;

use crate::client::Done;
use crate::settings::Settings;

/// What is measured besides operations and latencies.
pub(crate) struct Figures {
    pub(crate) warm_ups: u64,
    /// The number of windows of a warm-up that goes on until the hit ratio is steady.
    warm_up_windows: usize,
    /// Operations of each node up to the end of each interval.
    pub(crate) series: Vec<Vec<u64>>,
}

impl Figures {
    /// The measurements of all workers.
    pub(crate) fn new(
        settings: &Settings,
        done: &[Done],
        went: &Went,
    ) -> (Figures, driver::Figures) {
        let nodes = settings.common.cluster.compute_nodes;
        let mut latencies = Latencies::new();
        let mut node_ops = vec![0; nodes];
        let steps = done.iter().map(|done| done.series.len()).max().unwrap_or(0);
        let mut series = vec![vec![0; steps]; if settings.series.is_some() { nodes } else { 0 }];
        for worker in done {
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
        let ends = [went.last(done.iter().map(|worker| worker.end))];
        let figures = driver::Figures::between(latencies.ok(), went.from, ends);
        let figures = driver::Figures { latencies: latencies.measured(), node_ops, ..figures };
        let warm_up_windows = went.hit_ratios.len();
        (Figures { warm_ups: went.warm_ups, warm_up_windows, series }, figures)
    }

    /// Average costs per operation, by name. All values are finite.
    pub(crate) fn measures(
        &self,
        counters: &[Counters],
        node_ops: &[u64],
    ) -> Vec<(&'static str, f64)> {
        let total: Counters = counters.iter().copied().sum();
        let ops = (node_ops.iter().sum::<u64>()).max(1) as f64;
        let per_op = |count: u64| count as f64 / ops;
        let ops_of =
            |f: fn(u64, u64) -> u64| node_ops.iter().copied().reduce(f).unwrap_or(0) as f64;
        vec![
            ("warm_up_ops", self.warm_ups as f64),
            ("warm_up_windows", self.warm_up_windows as f64),
            ("hit_ratio", 1.0 - per_op(total.cache_misses).min(1.0)),
            ("invalidation_share", per_op(total.accesses_invalidating).min(1.0)),
            ("invalidations_per_op", per_op(total.invalidations_sent)),
            ("node_ops_min", ops_of(u64::min)),
            ("node_ops_max", ops_of(u64::max)),
            ("jain_index", jain(node_ops)),
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

/// Jain's index of fairness: 1 when all counts are equal, 1 / n when one node has everything (Jain,
/// Chiu, Hawe: DEC-TR-301, 1984).
pub(crate) fn jain(counts: &[u64]) -> f64 {
    let sum: f64 = counts.iter().map(|count| *count as f64).sum();
    let squares: f64 = counts.iter().map(|count| (*count as f64).powi(2)).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (counts.len() as f64 * squares) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use latchwork_runtime::Time;

    use latchwork_workload::micro::MicroKind;

    use super::*;
    use crate::sample_history::History;

    #[test]
    fn the_index_is_one_when_all_are_alike_and_a_share_when_one_has_all() {
        assert_eq!(jain(&[5, 5, 5, 5]), 1.0);
        assert_eq!(jain(&[8, 0, 0, 0]), 0.25);
        assert_eq!(jain(&[0, 0]), 1.0);
        assert!((jain(&[1, 2, 3]) - 36.0 / 42.0).abs() < 1e-12);
    }

    /// Bug: a short timed run had too high a rate. Mechanism: the count had accesses that ended
    /// after the measured time, by which the count was divided. Fix: the measured time ends with
    /// the last access of the last worker.
    #[test]
    fn the_rate_is_of_the_time_until_the_last_access_has_ended() {
        let arguments = ["microbench", "--time", "0.001", "--threads", "1"];
        let flags = <crate::args::Flags as clap::Parser>::try_parse_from(arguments).expect("flags");
        let settings = Settings::new(flags).expect("settings");
        let at = |us: u64| Time::from_nanos(us * 1_000);
        let worker = |node, end| {
            let mut latencies = Latencies::new();
            (0..100)
                .for_each(|_| latencies.record(MicroKind::Read, Duration::from_micros(10), None));
            Done {
                node,
                latencies,
                series: Vec::new(),
                writes: Vec::new(),
                garbage: None,
                looked_at: 0,
                history: History::default(),
                end,
            }
        };
        let went = Went {
            from: at(500),
            end: at(1_500),
            warm_ups: 0,
            hit_ratios: Vec::new(),
            counters: Vec::new(),
        };
        let figures = |ends: [Time; 2]| {
            let done = vec![worker(0, ends[0]), worker(1, ends[1])];
            Figures::new(&settings, &done, &went).1.phase
        };
        assert_eq!(figures([at(1_400), at(1_450)]).elapsed_s, 0.001, "not before its end");
        let late = figures([at(1_400), at(2_500)]);
        assert_eq!((late.elapsed_s, late.throughput_ops_s), (0.002, 100_000.0));
    }
}
