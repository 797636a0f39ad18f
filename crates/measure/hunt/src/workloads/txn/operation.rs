//! [`Operation`]: a transaction, drawn once for all attempts.

use std::fmt;
use std::time::Duration;

use super::rows::Content;

/// A step of a transaction. A step that writes has its content.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Get(u64),
    /// Replaces a row without a read before.
    Update(u64, Content),
    /// Reads a row, and changes its head.
    Change(u64, Content),
    Insert(u64, Content),
    /// Adds a row without a lookup.
    InsertBlind(u64, Content),
    Delete(u64),
    Scan {
        from: u64,
        to: u64,
        limit: usize,
        descending: bool,
    },
    /// A range of the secondary index.
    Buckets {
        from: u8,
        to: u8,
        descending: bool,
    },
}

/// A transaction.
pub(in crate::workloads) struct Operation {
    pub(super) steps: Vec<Step>,
    /// The transaction aborts after its last step.
    pub(super) gives_up: bool,
    /// The time after which the transaction is dropped.
    pub(super) patience: Option<Duration>,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("of")?;
        for step in &self.steps {
            match step {
                Step::Get(n) => write!(f, " get {n}"),
                Step::Update(n, _) => write!(f, " update {n}"),
                Step::Change(n, _) => write!(f, " change {n}"),
                Step::Insert(n, _) => write!(f, " insert {n}"),
                Step::InsertBlind(n, _) => write!(f, " insert {n} blindly"),
                Step::Delete(n) => write!(f, " delete {n}"),
                Step::Scan { from, to, .. } => write!(f, " scan {from}..{to}"),
                Step::Buckets { from, to, .. } => write!(f, " buckets {from}..{to}"),
            }?;
            f.write_str(",")?;
        }
        f.write_str(if self.gives_up { " abort" } else { " commit" })
    }
}
