//! The check of transactions, [`check`]: it calls the passes that build the graph, then reports the
//! cycles.

mod choice;
mod cycle;
mod graph;
pub(crate) mod index;
mod items;
mod presence;
mod ranges;
mod report;
mod snapshots;

pub use report::{Class, CycleStep, Dependency, HistoryReport, HistoryViolation};

use latchwork_strict::strict_assert;

use crate::{TransactionHistory, TransactionOutcome};
use graph::{Builder, NO_KEY, kind};
use index::Index;
use items::Items;
use presence::Times;
use ranges::Ranges;
use report::Findings;

/// What to check beside serializability, and how much to report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CheckOptions {
    /// Whether to check strict serializability too: if transaction A ended before transaction B
    /// began, A comes before B in the order.
    pub is_strict: bool,
    /// Maximum number of reported violations of each class.
    pub kept_max: usize,
}

impl Default for CheckOptions {
    fn default() -> CheckOptions {
        CheckOptions { is_strict: false, kept_max: 5 }
    }
}

/// Checks whether the committed transactions of a history could have run one after another.
///
/// The check builds Adya's direct serialization graph (Adya, Liskov, O'Neil, "Generalized isolation
/// level definitions", ICDE 2000, section 4.4). Timestamps order the versions of each key. Then the
/// check looks for cycles. Time and memory grow about with the number of operations times the
/// logarithm of the number of keys.
pub fn check(history: &TransactionHistory, options: CheckOptions) -> HistoryReport {
    analyze(history, options, false)
}

fn analyze(history: &TransactionHistory, options: CheckOptions, every_key: bool) -> HistoryReport {
    let index = Index::new(history);
    let mut findings = Findings { report: HistoryReport::default(), kept_max: options.kept_max };
    let report = &mut findings.report;
    for (transaction, counts) in history.transactions.iter().zip(&index.counts) {
        match transaction.outcome {
            TransactionOutcome::Committed { .. } => report.committed += 1,
            TransactionOutcome::Aborted { .. } => report.aborted += 1,
            TransactionOutcome::Unknown { .. } => {
                report.unknown += 1;
                report.unknown_seen += u64::from(*counts);
            }
        }
    }
    report.keys = index.keys.len() as u64;
    strict_assert!(
        report.committed + report.aborted + report.unknown == history.transactions.len() as u64,
        "a transaction has no outcome"
    );
    strict_assert!(
        report.unknown_seen <= report.unknown,
        "more unknown outcomes are seen than there are"
    );
    report.is_strict = options.is_strict;

    let times = Times::new(&index);
    let mut graph = Builder::new(history.transactions.len());
    let mut choices = Vec::new();
    Items {
        index: &index,
        times: &times,
        graph: &mut graph,
        findings: &mut findings,
        choices: &mut choices,
    }
    .add();
    Ranges {
        index: &index,
        times: &times,
        graph: &mut graph,
        findings: &mut findings,
        choices: &mut choices,
        every_key,
    }
    .add();
    if options.is_strict {
        real_time(&index, &mut graph);
    }
    let end = |node: u32| history.transactions.get(node as usize).map_or(0, |one| one.end);
    let mut built = graph.build();
    if !choices.is_empty() && built.cyclic(kind::ALL).is_empty() {
        drop(built);
        findings.report.undecided += choice::choose(&mut graph, choices, end);
        built = graph.build();
    }
    findings.report.dependencies =
        graph.edges.iter().filter(|edge| edge.key != NO_KEY).count() as u64;
    let transactions = graph.transactions;
    strict_assert!(graph.nodes >= transactions, "a transaction has no node");
    drop(graph);
    cycle::report(&built, &index, transactions, &mut findings);
    findings.report.violations.sort_by_key(|violation| violation.class);
    strict_assert!(
        findings.report.violations.len() as u64 <= findings.report.violations_found,
        "more violations are kept than were found"
    );
    findings.report
}

/// Adds the edges of real time, through a chain of helper nodes in the order in which transactions
/// ended. Each transaction has an edge to its own helper. Each transaction also has an edge from
/// the last helper whose transaction ended before it began.
fn real_time(index: &Index<'_>, graph: &mut Builder) {
    let mut ended: Vec<(u64, u32)> =
        index.counted().map(|(number, _)| (index.over(number), number)).collect();
    ended.sort_unstable();
    let first = graph.nodes;
    for (_, number) in &ended {
        let helper = graph.helper();
        strict_assert!(helper == graph.nodes - 1, "helpers are numbered in order");
        graph.edge(*number, helper, kind::REAL_TIME, NO_KEY);
        if helper > first {
            graph.edge(helper - 1, helper, kind::REAL_TIME, NO_KEY);
        }
    }
    for (number, transaction) in index.counted() {
        let before = ended.partition_point(|(end, _)| *end < transaction.begin);
        if before > 0 {
            graph.edge(first + before as u32 - 1, number, kind::REAL_TIME, NO_KEY);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Bound;

    use rand::{RngExt as _, SeedableRng as _};

    use super::*;
    use crate::{Direction, RecordedChange, Recording};

    const KEYS: u8 = 12;

    /// A random history of a store that executes each transaction at one instant between its begin
    /// and its end. In some histories, readers see old states of the store. In some, timestamps do
    /// not follow time.
    fn history(seed: u64) -> TransactionHistory {
        let mut rng = rand::rngs::SmallRng::seed_from_u64(seed);
        let recording = Recording::memory(0);
        let recorder = recording.recorder();
        let mut states: Vec<[(u64, bool); KEYS as usize]> = vec![[(0, false); KEYS as usize]];
        let is_late = rng.random_bool(0.7);
        let is_odd = rng.random_bool(0.3);
        let spread = [5, 30, 100][rng.random_range(0..3)];
        for number in 0..rng.random_range(5..40u64) {
            let now = number * 10 + 100;
            let mut record = recorder.begin(0, 0, now - rng.random_range(0..spread));
            // Where timestamps do not follow time, a later version has an earlier timestamp.
            let cts = (now + if is_odd { rng.random_range(0..60) } else { 0 }) * 64 + number;
            let mut state = *states.last().expect("the first");
            let old = if is_late && rng.random_bool(0.2) { rng.random_range(0..4) } else { 0 };
            let view = states[states.len().saturating_sub(1 + old)];
            if rng.random_bool(0.6) {
                let from = rng.random_range(0..KEYS);
                let to = rng.random_range(from..KEYS);
                let (low, high) = ([from], [to]);
                let bounds = (Bound::Included(&low[..]), Bound::Included(&high[..]));
                let scan = record.scan(1, bounds.0, bounds.1, Direction::Up);
                for key in from..=to {
                    let (version, is_there) = view[usize::from(key)];
                    if is_there {
                        record.saw(scan, &[key], Some(version));
                    }
                }
            }
            for _ in 0..rng.random_range(0..3) {
                let key = rng.random_range(0..KEYS);
                let is_there = rng.random_bool(0.6);
                record.write(
                    1,
                    &[key],
                    if is_there { RecordedChange::Put } else { RecordedChange::Delete },
                );
                state[usize::from(key)] = (cts, is_there);
            }
            states.push(state);
            let end = now + rng.random_range(0..spread);
            recorder.finish(record, TransactionOutcome::Committed { cts }, end);
        }
        recording.history()
    }

    /// The helper nodes of ranges give the same verdict as one edge for each key of each range.
    #[test]
    fn ranges_through_helper_nodes_are_ranges_key_by_key() {
        let (mut good, mut bad) = (0, 0);
        for seed in 0..6000 {
            let history = history(seed);
            for is_strict in [false, true] {
                let options = CheckOptions { is_strict, ..CheckOptions::default() };
                let report = analyze(&history, options, false);
                let plain = analyze(&history, options, true);
                let verdict = |report: &HistoryReport| (report.is_serializable(), report.undecided);
                assert_eq!(verdict(&report), verdict(&plain), "seed {seed}: {report}{plain}");
                *if report.is_serializable() { &mut good } else { &mut bad } += 1;
            }
        }
        assert!(good > 1500 && bad > 1500, "all alike: {good}, {bad}");
    }
}
