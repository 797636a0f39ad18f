//! The results of a worker's transactions.

use latchwork_report::histogram::OperationKindSet as _;
use latchwork_txn::Conflict;
use latchwork_workload::tpcc::{Statistics, TransactionKind};
use serde::{Deserialize, Serialize};

/// The results of the transactions of one worker, or of many.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Tally {
    /// Statistics of the measured part.
    pub(crate) statistics: Statistics,
    /// Aborts in the measured part by conflict, in the order of [`Conflict::ALL`].
    conflicts: [u64; Conflict::ALL.len()],
    /// Districts in which a delivery of the measured part found no new order.
    pub(crate) skipped: u64,
    /// Committed transactions by type, warm-up included.
    pub(crate) committed: [u64; TransactionKind::ALL.len()],
    /// Transactions that were given up, warm-up included.
    pub(crate) given_up: Failures,
    /// Transactions that a log refused, warm-up included.
    pub(crate) refused: Failures,
    /// Why a log refuses transactions even at the end of the run.
    pub(crate) still_refused: Option<String>,
}

/// Transactions that ended without a commit for one kind of reason.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Failures {
    pub(crate) count: u64,
    /// The reason of the first of them.
    pub(crate) why: Option<String>,
}

impl Failures {
    /// Counts one more.
    pub(crate) fn note(&mut self, why: String) {
        self.count += 1;
        self.why.get_or_insert(why);
    }

    fn merge(&mut self, other: Failures) {
        self.count += other.count;
        self.why = self.why.take().or(other.why);
    }
}

impl Tally {
    /// Counts a conflict of an attempt.
    pub(crate) fn met(&mut self, conflict: Conflict) {
        let at = Conflict::ALL.iter().position(|one| *one == conflict);
        at.into_iter().for_each(|at| self.conflicts[at] += 1);
    }

    /// Counts a commit.
    #[inline]
    pub(crate) fn committed(&mut self, kind: TransactionKind) {
        self.committed[kind.index()] += 1;
    }

    /// Committed transactions of a type.
    pub(crate) fn commits(&self, kind: TransactionKind) -> u64 {
        self.committed[kind.index()]
    }

    /// Aborts by conflict, with the conflict's name.
    pub(crate) fn conflicts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Conflict::ALL.into_iter().map(name).zip(self.conflicts)
    }

    /// Adds the counts of another worker.
    pub(crate) fn merge(&mut self, other: Tally) {
        self.statistics.merge(&other.statistics);
        let add = |mine: &mut [u64], theirs: &[u64]| {
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine += theirs);
        };
        add(&mut self.conflicts, &other.conflicts);
        add(&mut self.committed, &other.committed);
        self.skipped += other.skipped;
        self.given_up.merge(other.given_up);
        self.refused.merge(other.refused);
        self.still_refused = self.still_refused.take().or(other.still_refused);
    }
}

fn name(conflict: Conflict) -> &'static str {
    match conflict {
        Conflict::Locked => "aborts_locked",
        Conflict::Changed => "aborts_changed",
        Conflict::Phantom => "aborts_phantom",
        Conflict::TooLate => "aborts_too_late",
        Conflict::Unreachable => "aborts_unreachable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tallies_add_up() {
        let (mut one, mut other) = (Tally::default(), Tally::default());
        one.met(Conflict::Phantom);
        one.committed(TransactionKind::Payment);
        other.met(Conflict::Phantom);
        other.met(Conflict::TooLate);
        other.committed(TransactionKind::Payment);
        other.given_up.note("why".to_owned());
        one.merge(other);
        let conflicts: Vec<_> = one.conflicts().filter(|(_, count)| *count > 0).collect();
        assert_eq!(conflicts, [("aborts_phantom", 2), ("aborts_too_late", 1)]);
        assert_eq!(one.commits(TransactionKind::Payment), 2);
        assert_eq!((one.given_up.count, one.given_up.why.as_deref()), (1, Some("why")));
    }
}
