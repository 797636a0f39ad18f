//! [`LocksRecord`]: the recorded calls of all clients, and their check.

use crate::checks::{Verdict, history};
use crate::workloads::lines::{LineCall, Stamp};

/// The record of all clients.
#[derive(Default)]
pub(crate) struct LocksRecord {
    pub(super) calls: Vec<LineCall>,
}

impl LocksRecord {
    pub(crate) fn merge(&mut self, other: LocksRecord) {
        self.calls.extend(other.calls);
    }

    pub(crate) fn judge(&self) -> Verdict {
        history::check(Stamp::default(), &self.calls)
    }
}
