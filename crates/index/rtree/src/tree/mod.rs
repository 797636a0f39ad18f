//! The tree: a root address, and how operations on several nodes change it together.
//!
//! # Reading
//!
//! A reader takes a copy of what it needs of a page, and visits each child that may have results.
//! The copy says for each child which sequence number the parent expects. A child with another
//! number was split after the parent's entry was written. Its right siblings, up to the one with
//! the expected number, have the entries that the split moved. So a reader sees every entry that
//! stays, once, whatever is split meanwhile (Kornacker and Banks, R-link trees).
//!
//! The numbers are counted for each page, and no counter is shared. That suffices:
//!
//! 1. A split of a page with number `n` gives the page the number `n + 1`, and its new right
//!    sibling the number `n`.
//! 2. Take the pages that came from one page since it had the number `e`, in the order of their
//!    right links. The last of them has the number `e`, and all others have higher ones. This holds
//!    for one page. A split of the last page leaves it in front of a page with `e`. A split of
//!    another page, with a number above `e`, makes two pages with numbers above `e`.
//! 3. So the first page with the number `e` is the last of them.
//!
//! # Writing
//!
//! Every write changes one page under its write guard, and no guard is held across an await. An
//! entry must never be in a leaf before all boxes above contain it. So each page has a *cover*:
//!
//! > The box of the parent's entry contains the cover. The cover contains the boxes of the page's
//! > entries.
//!
//! An insert that needs a larger cover *grows* the page from above:
//!
//! - G0: read the page's number of shrinks.
//! - G1: make the parent's entry larger, and count a grow in its link. The parent's cover must
//!   contain the box already. Otherwise grow the parent first.
//! - G2: make the cover larger, if the number of shrinks is still that of G0, and the page was not
//!   split.
//!
//! A remove may *shrink* a page from below:
//!
//! - S1: read the link of the parent's entry.
//! - S2: make the cover smaller, and count a shrink.
//! - S3: make the parent's entry as small as the cover of S2, if the link is still that of S1, and
//!   if the entry is not smaller already by a later shrink.
//!
//! Growing and shrinking do not undo each other. A cover that its parent's entry does not contain
//! needs an S3 behind a G1, and a G2 that still succeeds:
//!
//! 1. The link has not changed between S1 and S3. So G1 comes before S1, and S1 before S2.
//! 2. G2 succeeds, and G0 comes before G1, so before S2. So G2 comes before S2, because S2 counts a
//!    shrink.
//! 3. S2 then sets the cover that S3 writes above. What G2 had added is outside of it again, and no
//!    entry is there: an insert looks at the cover under the guard under which it adds the entry.
//!
//! # Splits
//!
//! A full page gives entries to a new right sibling. The new page is filled from an image of the
//! full one. The full page is cut only if it has not changed since.
//!
//! A later step *posts* the new pages: in the parent, the entry of the page is replaced by one that
//! expects its present number, and one for its right siblings. A writer that finds a page with an
//! unexpected number posts it first. So the covers of pages that are not posted never grow, and the
//! covers read at any time before are large enough for the new entries.
//!
//! The root keeps its address: its halves move to two new pages, and it becomes their parent.
//!
//! # Empty pages
//!
//! A page that loses its last entry is *dead*: it takes no entries any more. Its entry is removed
//! from the parent, if the parent expects its number, and then its line is freed. An earlier
//! operation may still come to the line. The pool gives the line away only when all those
//! operations have ended. A right link to the line stays. No reader follows that link: a page that
//! was posted is the first of its own entry's pages, and readers of the entry before stop in front
//! of it.
//!
//! # Deaths
//!
//! Where a death returns lines of its node to older versions, each by itself, any subset must leave
//! a whole tree. So memory has
//!
//! - D1: a new page before a link leads to it.
//! - D2: a page that was cut before a writer follows its right link, and before its siblings are
//!   posted. They are persisted after their covers were read.
//! - D3: the entry of G1, and the root above it, before the cover of G2.
//! - D4: the cover of S2 before the entry of S3.
//! - D5: a dead page before its parent loses the entry, because a departed entry may lead to the
//!   page. And that parent, and the root above it, before the page is freed.
//! - D6: the entry of a move in the one leaf before the next step of the move in the other one. The
//!   steps are those of the [update](update). The root says that entries move before any does.
//!
//! In all versions that can return, the box of an entry then contains the cover of its child:
//!
//! 1. A cover grows after its entry, by D3, and before an entry that is smaller, by D4.
//! 2. An entry that a split moved to another page may have grown there. The page that had the entry
//!    does not return to before the split: by D2, or by D3 if that page is the root.
//! 3. Pages that are not posted do not grow. So the boxes of a post are large enough for all
//!    versions since those that it has read, and D2 excludes the versions before.

mod bulk;
mod drive;
mod far;
mod frame;
mod grow;
mod hilbert;
mod insert;
mod join;
mod levels;
mod moves;
mod nearest;
mod pack;
mod post;
mod probe;
mod query;
mod remove;
mod removed;
mod scratch;
mod seen;
mod shrink;
mod spares;
mod split;
mod stop;
mod tidy;
mod unlink;
mod update;
mod validate;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;

use latchwork_cache::Hint;
use latchwork_coherence::CoherentMemory;
use latchwork_verbs::GlobalAddr;

pub use levels::{PageLink, TreeWalk, WalkedPage};
pub use validate::RTreeStatistics;

use crate::page::{Image, Layout};
use crate::{RTreeConfig, RTreeError, Rect};
use removed::Removed;
use scratch::Scratch;

/// One worker's handle on an R-tree in `D` dimensions.
///
/// The address of the root page identifies the tree and never changes. A handle is cheap to clone.
/// Like the memory handle inside, it stays on its worker's thread.
pub struct RTree<M: CoherentMemory, const D: usize> {
    memory: M,
    root: GlobalAddr,
    layout: Layout,
    config: RTreeConfig,
    hints: Rc<Hints>,
    /// Lines that were allocated and not used. All clones of the handle share them.
    spares: Rc<RefCell<Vec<GlobalAddr>>>,
    /// Lines that have left the tree and are not freed yet.
    removed: Rc<RefCell<Vec<Removed>>>,
    scratch: Rc<Cell<Option<Box<Scratch<D>>>>>,
    /// Entries may move between leaves, as far as the handle knows.
    moves: Rc<Cell<bool>>,
    /// Leaves in which all entries have departed: the box of one, and the number of its move.
    left: Rc<RefCell<VecDeque<(Rect<D>, u64)>>>,
    /// Calls since the last one that tidied such a leaf.
    calls: Rc<Cell<u32>>,
}

/// Hints for pages whose hint is in no parent.
#[derive(Debug, Default)]
struct Hints {
    root: Hint,
    /// A hint for pages without one. It is nearly always wrong.
    other: Hint,
}

impl<M: CoherentMemory, const D: usize> Clone for RTree<M, D> {
    fn clone(&self) -> Self {
        RTree {
            memory: self.memory.clone(),
            hints: self.hints.clone(),
            spares: self.spares.clone(),
            removed: self.removed.clone(),
            scratch: self.scratch.clone(),
            moves: self.moves.clone(),
            left: self.left.clone(),
            calls: self.calls.clone(),
            ..*self
        }
    }
}

impl<M: CoherentMemory, const D: usize> fmt::Debug for RTree<M, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RTree { root, config, .. } = self;
        f.debug_struct("RTree").field("root", root).field("config", config).finish_non_exhaustive()
    }
}

impl<M: CoherentMemory, const D: usize> RTree<M, D> {
    /// Creates an empty tree in `memory`. Other nodes open the tree at its [`root`](RTree::root).
    /// If this future fails or is dropped, its allocated line stays allocated.
    ///
    /// # Errors
    /// [`RTreeError::LineTooSmall`], and when memory fails or is full.
    pub async fn create(memory: M, config: RTreeConfig) -> Result<RTree<M, D>, RTreeError> {
        Layout::new(GlobalAddr::NULL, memory.payload_len(), D, &config)?;
        let root = memory.allocate().await?;
        let tree = RTree::at(memory, root, config)?;
        let image = Image::new(&tree.layout, 0, &Rect::<D>::EVERYTHING);
        tree.fill(root, |page| page.replace(image.words())).await?;
        tree.memory.persist(root).await?;
        Ok(tree)
    }

    /// Opens the tree whose root is at `root`.
    ///
    /// # Errors
    /// [`RTreeError::Corrupt`] when no root of such a tree is there, [`RTreeError::LineTooSmall`],
    /// and when memory fails.
    pub async fn open(
        memory: M,
        root: GlobalAddr,
        config: RTreeConfig,
    ) -> Result<RTree<M, D>, RTreeError> {
        let tree: RTree<M, D> = RTree::at(memory, root, config)?;
        let operation = tree.memory.enter().await?;
        tree.read(root, |_| ()).await?;
        drop(operation);
        Ok(tree)
    }

    fn at(memory: M, root: GlobalAddr, config: RTreeConfig) -> Result<RTree<M, D>, RTreeError> {
        let layout = Layout::new(root, memory.payload_len(), D, &config)?;
        let (hints, spares, removed, scratch) = Default::default();
        let (moves, left, calls) = Default::default();
        Ok(RTree {
            memory,
            root,
            layout,
            config,
            hints,
            spares,
            removed,
            scratch,
            moves,
            left,
            calls,
        })
    }

    /// The address of the root page, which identifies the tree.
    pub fn root(&self) -> GlobalAddr {
        self.root
    }

    /// The memory of the tree.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// The most entries of a leaf and the most children of an inner page.
    pub fn fan_out(&self) -> (usize, usize) {
        (self.layout.max(0, &self.config), self.layout.max(1, &self.config))
    }

    fn max(&self, level: u8) -> usize {
        self.layout.max(level, &self.config)
    }
}
