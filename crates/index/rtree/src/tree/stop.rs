//! [`Stop`]: the reason why a step did not finish.

use latchwork_coherence::Need;
use latchwork_verbs::GlobalAddr;

use crate::page::Broken;

/// The reason why a step did not finish.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stop {
    /// A line is not here. The caller obtains the line and calls again.
    Need(Need),
    /// The page is corrupt, by a validated read or under its write guard.
    Broken(GlobalAddr, Broken),
}
