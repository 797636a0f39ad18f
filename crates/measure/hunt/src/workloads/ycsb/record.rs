//! [`YcsbRecord`]: the recorded calls of all clients, and their check.

use latchwork_blink::TreeStatistics;

use super::step::{OneRecord, Step};
use crate::checks::CheckResult;
use crate::workloads::tree::{Calls, judge_keys};

/// The record of all clients.
#[derive(Default)]
pub(crate) struct YcsbRecord {
    pub(super) calls: Calls<Step>,
    pub(crate) statistics: Option<TreeStatistics>,
}

impl YcsbRecord {
    pub(crate) fn merge(&mut self, other: YcsbRecord) {
        self.calls.merge(other.calls);
        self.statistics = self.statistics.take().or(other.statistics);
    }

    pub(crate) fn judge(&self) -> CheckResult {
        judge_keys(&OneRecord, &self.calls)
    }
}
