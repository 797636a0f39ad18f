//! [`Stop`]: why a step over lines that are here did not finish.

use latchwork_coherence::Need;
use latchwork_verbs::GlobalAddr;

use crate::page::Broken;

/// The reason why a step did not finish.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A line is not here. The caller obtains the line and calls again.
    Need(Need),
    /// The page is corrupt; its read was validated.
    Broken(GlobalAddr, Broken),
    /// The row changed or moved during the read.
    Moved,
}
