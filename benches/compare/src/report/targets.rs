//! The targets of our tree relative to the other structures, in the same run.

use serde_json::{Value, json};

use crate::args::{Structure, Workload};
use crate::report::names::name;
use crate::results::{Results, What};

/// One target with its measurement.
pub(crate) struct Target {
    pub(crate) what: String,
    pub(crate) wanted: String,
    pub(crate) got: f64,
    pub(crate) met: bool,
}

impl Target {
    fn end(&self) -> &'static str {
        if self.met { "met" } else { "missed" }
    }

    /// The line `target, wanted, got, met|missed`.
    pub(crate) fn line(&self) -> String {
        let Target { what, wanted, got, .. } = self;
        format!("{what}, {wanted}, {got:.2}, {}", self.end())
    }

    pub(crate) fn document(&self) -> Value {
        let Target { what, wanted, got, .. } = self;
        json!({"target": what, "wanted": wanted, "got": got, "end": self.end()})
    }
}

/// The lines of all targets.
pub(crate) fn lines(results: &Results) -> Vec<String> {
    targets(results).iter().map(Target::line).collect()
}

/// The targets with a measurement. Targets of a single operation are ratios of throughput.
pub(crate) fn targets(results: &Results) -> Vec<Target> {
    let mut targets = Vec::new();
    for what in results.whats() {
        match what.workload {
            Workload::Load => at_least(results, what, Structure::Ferntree, what, 1.1, &mut targets),
            Workload::Read => {
                at_least(results, what, Structure::Ferntree, what, 1.5, &mut targets);
                at_least(results, what, Structure::SccTree, what, 2.1, &mut targets);
            }
            Workload::Update => {
                at_least(results, what, Structure::Ferntree, what, 1.3, &mut targets);
            }
            Workload::Scan => {
                let rivals = results.structures().into_iter().filter(|structure| {
                    !matches!(structure, Structure::Latchwork | Structure::LatchworkTwo)
                });
                for rival in rivals {
                    at_least(results, what, rival, what, 2.0, &mut targets);
                }
            }
            Workload::Interleaved => {
                let reads = What { workload: Workload::Read, ..what };
                at_least(results, what, Structure::Ferntree, reads, 3.0, &mut targets);
            }
            Workload::Memory => targets.extend(memory(results, what)),
            Workload::Tasks => {}
        }
    }
    targets
}

fn at_least(
    results: &Results,
    ours: What,
    rival: Structure,
    theirs: What,
    wanted: f64,
    targets: &mut Vec<Target>,
) {
    if let Some(got) = results.ratio(ours, rival, theirs) {
        let beside = if ours == theirs { "" } else { " read" };
        let what = format!("{} to {}{beside}", describe(ours), name(rival));
        targets.push(Target { what, wanted: format!(">= {wanted}"), got, met: got >= wanted });
    }
}

/// 40 bytes for a key of 8 with a value of 8, frame headers included. For values of 100 bytes, one
/// and a half times the data.
fn memory(results: &Results, what: What) -> Option<Target> {
    let got = results.cell(Structure::Latchwork, what)?.median;
    let most = if what.value_size == 8 { 40.0 } else { 1.5 * (8 + what.value_size) as f64 };
    let wanted = format!("<= {most}");
    Some(Target { what: format!("{} per key", describe(what)), wanted, got, met: got <= most })
}

/// A measurement in words without a comma.
pub(crate) fn describe(what: What) -> String {
    let What { value_size, threads, workload, distribution } = what;
    let mut words = format!("{value_size} bytes: {}", workload.name());
    if let Some(distribution) = distribution {
        words += &format!(" {}", distribution.name());
    }
    match threads {
        Some(1) => words += " 1 thread",
        Some(threads) => words += &format!(" {threads} threads"),
        None => {}
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::results;

    #[test]
    fn a_target_is_met_or_missed_by_the_ratio_of_its_own_group() {
        use Structure::{Ferntree, Latchwork, SccTree};
        let results = results(&[
            (Latchwork, Workload::Read, 0, 3.0),
            (Latchwork, Workload::Interleaved, 0, 5.0),
            (Ferntree, Workload::Read, 0, 2.0),
            (SccTree, Workload::Read, 0, 1.5),
        ]);
        let expected = [
            "8 bytes: read uniform 1 thread to ferntree, >= 1.5, 1.50, met",
            "8 bytes: read uniform 1 thread to scc::TreeIndex, >= 2.1, 2.00, missed",
            "8 bytes: 16 reads uniform 1 thread to ferntree read, >= 3, 2.50, missed",
        ];
        assert_eq!(lines(&results), expected);
    }

    #[test]
    fn memory_has_a_ceiling() {
        for (bytes, end) in [(39.9, "met"), (40.1, "missed")] {
            let lines = lines(&results(&[(Structure::Latchwork, Workload::Memory, 0, bytes)]));
            assert!(lines[0].ends_with(end), "{lines:?}");
        }
    }
}
