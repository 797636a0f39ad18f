//! [`LinesRecord`]: the recorded calls of all clients, and their check.

use super::call::{LineCall, Stamp};
use crate::checks::Verdict;
use crate::checks::counter::{self, Addition};
use crate::checks::history;

/// The record of all clients.
#[derive(Default)]
pub(crate) struct LinesRecord {
    pub(super) calls: Vec<LineCall>,
    pub(super) additions: Vec<Addition>,
    pub(super) counted: Option<u64>,
}

impl LinesRecord {
    pub(crate) fn merge(&mut self, other: LinesRecord) {
        self.calls.extend(other.calls);
        self.additions.extend(other.additions);
        self.counted = self.counted.or(other.counted);
    }

    pub(crate) fn judge(&self) -> Verdict {
        counter::check(&self.additions, self.counted)?;
        history::check(Stamp::default(), &self.calls)
    }
}
