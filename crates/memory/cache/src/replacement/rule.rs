//! [`Replacement`]: a replacement policy in operation.

use latchwork_verbs::GlobalAddr;

use crate::FrameId;
use crate::frame::Frame;

/// A replacement policy in operation. Any thread may call these functions at any time. During a
/// call the frame may change to another line, so all information about a frame is a guess.
pub(crate) trait Replacement {
    /// The frame got a line.
    fn enter(&self, frames: &[Frame], id: FrameId);

    /// The frame's line was used, and [`Policy::is_noted`](super::Policy::is_noted) does not cover
    /// that use yet.
    fn touch(&self, frames: &[Frame], id: FrameId);

    /// The frame is free.
    fn leave(&self, frames: &[Frame], id: FrameId);

    /// Adds up to `wanted` lines that are not in use to `out`: those with the oldest last use, as
    /// far as the policy knows.
    fn victims(&self, frames: &[Frame], wanted: usize, out: &mut Vec<GlobalAddr>);
}

/// The line in the frame, if the line may be a victim: not while it is fetched, written, reserved
/// or kept by a lock.
pub(super) fn evictable(frame: &Frame) -> Option<GlobalAddr> {
    let free = frame.state().is_readable() && !frame.is_reserved() && !frame.is_kept();
    Some(frame.addr()).filter(|addr| free && !addr.is_null())
}
