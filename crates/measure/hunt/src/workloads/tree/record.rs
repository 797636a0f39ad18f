//! [`TreeRecord`]: the recorded calls of all clients, and their check.

use latchwork_blink::TreeStatistics;

use super::content::{Content, Operation, TreeKey};
use super::judge::judge_keys;
use super::recorder::Calls;
use crate::WorldCheck;
use crate::checks::CheckResult;

/// The record of all clients.
#[derive(Default)]
pub(crate) struct TreeRecord {
    pub(super) calls: Calls<Operation>,
    /// All entries of the tree, as each node read them at the end.
    pub(super) ends: Vec<Vec<(u64, Content)>>,
    pub(crate) statistics: Option<TreeStatistics>,
}

impl TreeRecord {
    pub(crate) fn merge(&mut self, other: TreeRecord) {
        self.calls.merge(other.calls);
        self.ends.extend(other.ends);
        self.statistics = self.statistics.take().or(other.statistics);
    }

    pub(crate) fn judge(&self) -> CheckResult {
        if let Some((first, other)) = self.ends.first().and_then(|first| {
            self.ends.iter().find(|other| *other != first).map(|other| (first, other))
        }) {
            let text = format!("at rest, nodes see different trees: {first:?} and {other:?}");
            return Err((WorldCheck::Tree, text));
        }
        if let (Some(statistics), Some(end)) = (&self.statistics, self.ends.first())
            && statistics.entries != end.len() as u64
        {
            let (entries, seen) = (statistics.entries, end.len());
            let text = format!("the tree has {entries} entries, and {seen} keys are found");
            return Err((WorldCheck::Tree, text));
        }
        judge_keys(&TreeKey, &self.calls)
    }
}
