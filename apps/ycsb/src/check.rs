//! The checks at the end of every run. All workers walk the table together.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use latchwork_cluster::Member;
use latchwork_harness::outcome::RunCheck;
use latchwork_harness::{AppError, PhaseProgress};
use latchwork_index::IndexStatistics;
use latchwork_workload::ycsb::ContentKey;
use serde::{Deserialize, Serialize};

use crate::index::TableIndex;
use crate::run::Wrote;
use crate::sample_history::{self, History};
use crate::settings::Settings;

/// The expected contents of the table.
#[derive(Default)]
pub(crate) struct Expected {
    /// Whether there are nodes whose writes are unknown: dead ones, or others of the same table.
    /// The table may have any of these writes.
    pub(crate) is_partial: bool,
    /// Inserted records.
    pub(crate) records: u64,
    /// The sum of their keys' hashes.
    pub(crate) digest: u64,
    /// The number of fields that read-modify-writes wrote, if no other operation wrote a field.
    pub(crate) fields_modified: Option<u64>,
    /// Failed operations.
    pub(crate) failed: u64,
    /// The history of the sample, if one was recorded.
    pub(crate) history: Option<History>,
}

impl Expected {
    /// Adds what the workers of all nodes but the dead ones wrote. A node that died after it had
    /// told its results may have lost its last writes, so all that it wrote counts as unknown.
    /// `is_partial`: there are unknown writes.
    pub(crate) fn settle(
        &mut self,
        settings: &Settings,
        wrote: Vec<Wrote>,
        dead: &[usize],
        is_partial: bool,
    ) {
        self.is_partial = is_partial;
        let workload = &settings.workload;
        let (mix, mut modified) = (&workload.mix, 0);
        for worker in wrote.into_iter().filter(|worker| !dead.contains(&worker.node)) {
            self.records += worker.records;
            self.digest = self.digest.wrapping_add(worker.digest);
            modified += worker.fields_modified;
            if let Some(history) = &mut self.history {
                history.merge(worker.history);
            }
        }
        if let (Some(history), true) = (&mut self.history, self.is_partial) {
            sample_history::allow_unknown_writes(history);
        }
        let only_modifies = mix.update + mix.upsert == 0.0 && mix.read_modify_write > 0.0;
        let counts = only_modifies && workload.layout.keeps_whole_versions();
        self.fields_modified = counts.then_some(modified);
    }
}

/// What one worker found in its part of the table.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Found {
    records: u64,
    digest: u64,
    /// The sum of the versions of all fields.
    versions: u128,
    wrong: u64,
    first_wrong: Option<String>,
    /// The result of the walk over the index. Only the first worker has one.
    tree: Option<Result<IndexStatistics, String>>,
}

/// Checks one worker's parts of the table, by its place among those that check; the first worker
/// also walks the index.
pub(crate) async fn check<I: TableIndex>(
    settings: Arc<Settings>,
    phase: Arc<PhaseProgress>,
    (first, workers): (usize, usize),
    member: Member,
) -> Result<Found, AppError> {
    let index = I::open(&settings, &member).await?;
    let mut found = Found::default();
    let cuts = settings.workload.keys.cuts();
    for part in (first..cuts.len()).step_by(workers) {
        let (from, end) = (cuts[part].as_slice(), cuts.get(part + 1));
        let from = if from.is_empty() { Bound::Unbounded } else { Bound::Included(from) };
        let visit = |key: &[u8], record: &[u8]| {
            if phase.stopped() || end.is_some_and(|end| key >= end.as_slice()) {
                return ControlFlow::Break(());
            }
            phase.count(member.index);
            found.record(&settings, key, record);
            ControlFlow::Continue(())
        };
        let scanned = index.scan_up(from, usize::MAX, visit).await;
        scanned.map_err(|error| settings.index_error(&error))?;
    }
    if first == 0 {
        found.tree = Some(index.validate().await.map_err(|error| error.to_string()));
    }
    Ok(found)
}

impl Found {
    fn record(&mut self, settings: &Settings, key: &[u8], record: &[u8]) {
        let content = ContentKey::new(key);
        self.records += 1;
        self.digest = self.digest.wrapping_add(content.number());
        let versions = &mut self.versions;
        let count = |_, version: latchwork_workload::ycsb::ContentVersion| {
            *versions += u128::from(version.number());
        };
        if let Err(bad) = settings.workload.layout.verify(content, record, count) {
            self.wrong += 1;
            self.first_wrong
                .get_or_insert_with(|| format!("{}: {bad}", String::from_utf8_lossy(key)));
        }
    }

    /// Adds the findings of another worker.
    pub(crate) fn merge(&mut self, other: Found) {
        self.records += other.records;
        self.digest = self.digest.wrapping_add(other.digest);
        self.versions += other.versions;
        self.wrong += other.wrong;
        self.first_wrong = self.first_wrong.take().or(other.first_wrong);
        self.tree = self.tree.take().or(other.tree);
    }

    /// Compares the findings with the expected contents.
    pub(crate) fn judge(self, expected: &Expected) -> Vec<RunCheck> {
        // Nodes that have died may have inserted more.
        let has_all = match expected.is_partial {
            false => self.records == expected.records,
            true => self.records >= expected.records,
        };
        let mut checks = vec![
            RunCheck::new(
                "operations",
                expected.failed == 0,
                match expected.failed {
                    0 => "every operation did what it should".to_owned(),
                    failed => format!("{failed} operations failed"),
                },
            ),
            RunCheck::new(
                "records",
                has_all && (expected.is_partial || self.digest == expected.digest),
                if !has_all {
                    format!("{} records where {} belong", self.records, expected.records)
                } else if self.digest == expected.digest {
                    format!("the {} that were inserted", self.records)
                } else if expected.is_partial {
                    let known = expected.records;
                    format!("{}, and the {known} of living nodes can be among them", self.records)
                } else {
                    format!("{} records, but not those that were inserted", self.records)
                },
            ),
            RunCheck::new(
                "dataintegrity",
                self.wrong == 0,
                match &self.first_wrong {
                    None => "contents follow from keys".to_owned(),
                    Some(first) => format!("{} records are wrong; {first}", self.wrong),
                },
            ),
        ];
        let tree = match &self.tree {
            None => RunCheck::new("tree", false, "nobody walked it".to_owned()),
            Some(Err(error)) => RunCheck::new("tree", false, error.clone()),
            Some(Ok(tree)) => {
                let detail = format!(
                    "{} levels, {} pages, {:.0} % full",
                    tree.levels,
                    tree.pages,
                    100.0 * tree.fill()
                );
                if tree.entries == self.records {
                    RunCheck::new("tree", true, detail)
                } else {
                    let detail = format!("{} entries, {} by scanning", tree.entries, self.records);
                    RunCheck::new("tree", false, detail)
                }
            }
        };
        checks.push(tree);
        if let Some(modified) = expected.fields_modified {
            let good = match expected.is_partial {
                false => self.versions == u128::from(modified),
                true => self.versions >= u128::from(modified),
            };
            let detail = if good {
                format!("none of {modified} updates was lost")
            } else {
                format!("{modified} updates, but the records count {}", self.versions)
            };
            checks.push(RunCheck::new("readmodifywrite", good, detail));
        }
        checks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(records: u64, digest: u64, versions: u128) -> Found {
        let tree = IndexStatistics { entries: records, ..IndexStatistics::default() };
        Found { records, digest, versions, tree: Some(Ok(tree)), ..Found::default() }
    }

    fn failed(found: Found, expected: Expected) -> Vec<&'static str> {
        let checks = found.judge(&expected).into_iter();
        checks.filter(|c| !c.is_good()).map(|c| c.name).collect()
    }

    #[test]
    fn each_fault_fails_its_check() {
        let expected = || Expected {
            records: 10,
            digest: 77,
            fields_modified: Some(5),
            ..Expected::default()
        };
        assert!(failed(found(10, 77, 5), expected()).is_empty());
        assert_eq!(failed(found(9, 77, 5), expected()), ["records"]);
        assert_eq!(failed(found(10, 78, 5), expected()), ["records"]);
        assert_eq!(failed(found(10, 77, 4), expected()), ["readmodifywrite"]);
        assert_eq!(failed(found(10, 77, 6), expected()), ["readmodifywrite"]);
        assert_eq!(failed(found(10, 77, 5), Expected { failed: 1, ..expected() }), ["operations"]);
        let wrong = Found { wrong: 1, first_wrong: Some("x".into()), ..found(10, 77, 5) };
        assert_eq!(failed(wrong, expected()), ["dataintegrity"]);
        let broken = Found { tree: Some(Err("page".into())), ..found(10, 77, 5) };
        assert_eq!(failed(broken, expected()), ["tree"]);
        let unlike = Found {
            tree: Some(Ok(IndexStatistics { entries: 11, ..IndexStatistics::default() })),
            ..found(10, 77, 5)
        };
        assert_eq!(failed(unlike, expected()), ["tree"]);
    }

    #[test]
    fn what_dead_nodes_wrote_may_be_there_and_what_others_wrote_must_be() {
        let expected = || Expected {
            is_partial: true,
            records: 10,
            digest: 77,
            fields_modified: Some(5),
            ..Expected::default()
        };
        for (records, digest, versions) in [(10, 77, 5), (10, 77, 9), (12, 99, 5)] {
            assert!(failed(found(records, digest, versions), expected()).is_empty());
        }
        assert_eq!(failed(found(9, 66, 5), expected()), ["records"]);
        assert_eq!(failed(found(10, 77, 4), expected()), ["readmodifywrite"]);
    }
}
