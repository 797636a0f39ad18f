//! [`Cursor`]: the state of a change on the path to its page.

use latchwork_verbs::GlobalAddr;

use super::descent::{Descent, Post};
use super::prepared::Prepared;
use super::spare::Spare;
use crate::leaf_stamp::Split;

/// The slot at which a search found its key, or the slot for the key.
pub(super) type Found = Result<usize, usize>;

/// The state of a change on the path to its page.
#[derive(Debug)]
pub(super) struct Cursor<'k> {
    pub(super) key: &'k [u8],
    pub(super) level: u8,
    /// The page that the change posts, if it is a post.
    pub(super) child: Option<GlobalAddr>,
    /// The number of looks at that page for which its line was not here.
    pub(super) looks: u8,
    pub(super) at: Descent,
    /// Whether `at` is on `level`.
    pub(super) arrived: bool,
    pub(super) spares: Vec<Spare>,
    pub(super) prepared: Option<Prepared>,
    /// The last split of a leaf.
    pub(super) split: Option<Split>,
}

/// The progress of a step.
pub(super) enum Progress<R> {
    /// The change is done.
    Done(R),
    /// The page was split. The value is the post for its parent, or `None` if the page was the
    /// root. The change is not done yet.
    Split(Option<Post>),
    /// The split needs this many spare lines in total.
    Spares(usize),
    /// The split needs its prepared pages in memory.
    Persist,
    /// The page to post has left the tree, or it stays unposted for now.
    Gone,
}
