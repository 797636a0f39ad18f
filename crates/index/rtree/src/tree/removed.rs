//! [`Removed`]: a line that waits to be freed.

use latchwork_verbs::GlobalAddr;

/// A line that has left the tree, and the page that had its entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Removed {
    pub(super) page: GlobalAddr,
    pub(super) holder: GlobalAddr,
}
