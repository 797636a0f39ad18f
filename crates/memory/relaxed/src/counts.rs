//! [`WriteBufferCounts`]: the counters of a write buffer.

use std::time::Duration;

/// The counters of a write buffer.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct WriteBufferCounts {
    /// Writes that the buffer took; at [`Consistency::Sequential`](crate::Consistency::Sequential),
    /// writes that were begun.
    pub writes: u64,
    /// Writes that were merged into an access in the buffer.
    pub merged: u64,
    /// Accesses that became visible.
    pub applied: u64,
    /// Lines that were latched for these accesses. Accesses to one line that became visible
    /// together count once.
    pub lines: u64,
    /// Reads for which the buffer had every byte.
    pub forwarded: u64,
    /// Waits of a write for room, or for an update.
    pub waits: u64,
    /// Pieces of lines that were lost.
    pub lost: u64,
    /// The longest time from a write to the instant at which it became visible.
    pub longest: Duration,
}
