//! [`Plan`]: the work of the repair of a directory on one segment.

/// The work of the repair on one segment.
pub(super) enum Plan {
    /// Remove the segment: it was never begun, or it lies behind an accepted loss.
    Remove(String),
    /// Remove the segment when the checkpoint, which covers all of it, is durable.
    Forget(String),
    /// Keep only the first bytes of the segment, up to this length.
    Rewrite(String, u64),
}
