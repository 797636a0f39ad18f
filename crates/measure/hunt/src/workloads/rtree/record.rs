//! [`BoxesRecord`]: the calls of all clients, and their check.

use std::collections::BTreeSet;

use latchwork_rtree::RTreeStatistics;

use super::model::{BoxModel, BoxOperation, Place};
use crate::WorldCheck;
use crate::checks::CheckResult;
use crate::workloads::tree::{Calls, judge_keys};

/// Boxes as a query found them. A box that was removed and inserted again during the query may be
/// found twice, from both inserts.
pub(super) type Found = BTreeSet<Place>;

/// The record of all clients.
#[derive(Default)]
pub(crate) struct BoxesRecord {
    pub(super) calls: Calls<BoxOperation>,
    /// All boxes of the tree, as each node read them at the end.
    pub(super) ends: Vec<Found>,
    pub(super) statistics: Option<RTreeStatistics>,
}

impl BoxesRecord {
    pub(crate) fn merge(&mut self, other: BoxesRecord) {
        self.calls.merge(other.calls);
        self.ends.extend(other.ends);
        self.statistics = self.statistics.take().or(other.statistics);
    }

    pub(crate) fn judge(&self) -> CheckResult {
        if let Some(first) = self.ends.first()
            && let Some(other) = self.ends.iter().find(|other| *other != first)
        {
            let text = format!("at rest, nodes see different boxes: {first:?} and {other:?}");
            return Err((WorldCheck::Tree, text));
        }
        if let (Some(statistics), Some(end)) = (&self.statistics, self.ends.first())
            && statistics.entries != end.len() as u64
        {
            let (entries, seen) = (statistics.entries, end.len());
            let text = format!("the R-tree has {entries} entries, and {seen} boxes are found");
            return Err((WorldCheck::Tree, text));
        }
        judge_keys(&BoxModel, &self.calls)
    }
}
