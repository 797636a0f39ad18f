//! [`Scheme`]: how transactions are kept apart.

use std::fmt;
use std::str::FromStr;

/// A concurrency control. All transactions of a database use the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Scheme {
    /// Two-phase locking without waiting: what is read is locked to read, what is written to write,
    /// until the transaction ends. Whoever meets a lock aborts.
    #[default]
    TwoPhaseLocking,
    /// Timestamp ordering: transactions take effect in the order of the timestamps that they drew
    /// at their begin. Whoever comes too late for its timestamp aborts.
    TimestampOrdering,
    /// Optimistic: nothing is locked until the commit, which finds out whether anything that was
    /// read has changed.
    Optimistic,
}

impl Scheme {
    /// All of them.
    pub const ALL: [Scheme; 3] =
        [Scheme::TwoPhaseLocking, Scheme::TimestampOrdering, Scheme::Optimistic];

    /// As the root of a database has it.
    pub(crate) fn code(self) -> u64 {
        match self {
            Scheme::TwoPhaseLocking => 1,
            Scheme::TimestampOrdering => 2,
            Scheme::Optimistic => 3,
        }
    }

    /// As flags have it.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::TwoPhaseLocking => "2pl",
            Scheme::TimestampOrdering => "to",
            Scheme::Optimistic => "occ",
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Scheme {
    type Err = String;

    fn from_str(given: &str) -> Result<Scheme, String> {
        let found = Scheme::ALL.into_iter().find(|scheme| scheme.name() == given);
        found.ok_or_else(|| {
            format!("there is no concurrency control {given}: 2pl, to and occ are possible")
        })
    }
}
