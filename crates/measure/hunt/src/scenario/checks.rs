//! [`Checks`]: how closely a world is looked at.

use serde::{Deserialize, Serialize};

/// Which checks a world has. They change nothing in it, but they take most of the real time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Checks {
    /// After every event, and at the end.
    #[default]
    All,
    /// At the end: histories, the tree, what is left over.
    End,
    /// Only that nothing panics, no operation fails that may not, and everybody gets on.
    None,
}

impl Checks {
    pub(super) fn are_all(&self) -> bool {
        *self == Checks::All
    }
}
