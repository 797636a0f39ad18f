//! [`Checks`]: which checks a world has.

use serde::{Deserialize, Serialize};

/// The checks of a world. Checks change nothing in the world, but take most of the real time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Checks {
    /// All checks, after every event and at the end.
    #[default]
    All,
    /// Checks at the end: histories, the tree, and leaks.
    End,
    /// Only panics, forbidden errors, and progress.
    None,
}

impl Checks {
    pub(super) fn are_all(&self) -> bool {
        *self == Checks::All
    }
}
