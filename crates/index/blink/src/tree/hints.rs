//! [`Hints`]: hints of a handle for the frames of pages.

use latchwork_cache::Hint;

use super::recent::Recent;

/// Hints that are not stored with a page.
#[derive(Debug, Default)]
pub(super) struct Hints {
    pub(super) root: Hint,
    pub(super) recent: Recent,
    /// The hint that all children of pages without stored hints share. It is mostly wrong, which
    /// costs time only.
    pub(super) spare: Hint,
}
