//! [`Child`]: a page on the fast path.

use latchwork_cache::Hint;
use latchwork_verbs::GlobalAddr;

use super::descent::Descent;
use crate::page::LEVEL_MAX;

/// Stands for the unknown level of the root. Only the root may be on any level.
pub(super) const ANY_LEVEL: u8 = LEVEL_MAX + 1;
const _: () = assert!(ANY_LEVEL > LEVEL_MAX, "no page has the mark of any level");

/// A page on the path, with a hint for its frame.
#[derive(Clone, Copy)]
pub(super) struct Child<'m> {
    pub(super) addr: GlobalAddr,
    pub(super) hint: &'m Hint,
    /// Hints for the right siblings of the page under the same parent, in order.
    pub(super) siblings: &'m [Hint],
    pub(super) level: u8,
}

impl Child<'_> {
    /// A descent of the slow path that begins at this page, or at the root if the page has left the
    /// tree since.
    #[inline]
    pub(super) fn descent(self) -> Descent {
        Descent::new(self.addr, (self.level != ANY_LEVEL).then_some(self.level))
    }
}
