//! [`Scheme`]: the concurrency control of a database.

use std::fmt;
use std::str::FromStr;

/// A concurrency control. All transactions of a database use the same scheme.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Scheme {
    /// Two-phase locking without waits. A read takes a read lock and a write takes a write lock.
    /// Read locks are kept at least until the validation, write locks until after the install. A
    /// transaction that meets a lock aborts.
    #[default]
    TwoPhaseLocking,
    /// Timestamp ordering: transactions take effect in the order of their timestamps, which they
    /// draw at their begin. A transaction that comes too late takes a later timestamp if it can,
    /// and otherwise aborts.
    TimestampOrdering,
    /// Optimistic concurrency control: nothing is locked until the commit. The commit locks the
    /// written rows, and validates that everything that was read is unchanged.
    Optimistic,
}

impl Scheme {
    /// All schemes.
    pub const ALL: [Scheme; 3] =
        [Scheme::TwoPhaseLocking, Scheme::TimestampOrdering, Scheme::Optimistic];

    /// The code of the scheme in the root of a database.
    pub(crate) fn code(self) -> u64 {
        match self {
            Scheme::TwoPhaseLocking => 1,
            Scheme::TimestampOrdering => 2,
            Scheme::Optimistic => 3,
        }
    }

    /// The name of the scheme in flags.
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
