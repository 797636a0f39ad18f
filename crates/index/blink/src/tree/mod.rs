//! The tree: a root address, and the path from the root to a page.

mod bulk;
mod careful;
mod child;
mod cursor;
mod descend;
mod descent;
mod fast;
mod hints;
mod leaving;
mod many;
mod operations;
mod ordered;
mod prepared;
mod recent;
mod scan;
mod scratch;
mod spare;
mod spares;
mod split;
mod stamped;
mod unchanged;
mod unlink;
mod validate;
mod write;

pub use validate::TreeStatistics;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use latchwork_coherence::CoherentMemory;
use latchwork_strict::strict_assert;
use latchwork_verbs::{GlobalAddr, LINE_HEADER, WORD, Words};

use crate::leaf_stamp::{LeafStamp, STAMP};
use crate::page::{Broken, Builder, Image, Page, Tag};
use crate::{TreeConfig, TreeError, TreeLimits};
use descent::Stop;
use hints::Hints;
use leaving::Leaving;
use scratch::Scratch;

/// One worker's handle on a B-link tree.
///
/// The address of the root page identifies the tree and never changes. A handle is cheap to clone.
/// Like the memory handle inside, it stays on its worker's thread.
pub struct Tree<M: CoherentMemory> {
    memory: M,
    root: GlobalAddr,
    tag: Tag,
    // The word of a line at which its page starts.
    page_at: usize,
    hints: Rc<Hints>,
    limits: TreeLimits,
    config: TreeConfig,
    // Lines that were allocated for a split that did not need them. All clones of the handle share
    // them.
    spares: Rc<RefCell<Vec<GlobalAddr>>>,
    leaving: Rc<Leaving>,
    scratch: Rc<Cell<Option<Scratch>>>,
}

/// The damage of a root that belongs to a tree of the other kind.
const WITH_STAMPS: Broken =
    Broken("the root of a tree with stamps: open it with TreeConfig { stamped: true, .. }");
const WITHOUT_STAMPS: Broken =
    Broken("the root of a tree without stamps: open it with TreeConfig { stamped: false, .. }");

/// The tag of a tree's pages, and the word of a line at which a page starts.
fn layout(root: GlobalAddr, stamped: bool) -> (Tag, usize) {
    let (tag, page_at) = (Tag::of(root), LINE_HEADER / WORD);
    if stamped { (tag.stamped(), page_at + STAMP / WORD) } else { (tag, page_at) }
}

impl<M: CoherentMemory> Clone for Tree<M> {
    fn clone(&self) -> Self {
        let (memory, spares) = (self.memory.clone(), self.spares.clone());
        let (hints, scratch) = (self.hints.clone(), self.scratch.clone());
        Tree { memory, hints, spares, leaving: self.leaving.clone(), scratch, ..*self }
    }
}

impl<M: CoherentMemory> fmt::Debug for Tree<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tree { root, config, .. } = self;
        f.debug_struct("Tree").field("root", root).field("config", config).finish_non_exhaustive()
    }
}

impl<M: CoherentMemory> Tree<M> {
    /// Creates an empty tree in `memory`. Other nodes open the tree at its [`root`](Tree::root). If
    /// this future fails or is dropped, its allocated line stays allocated.
    ///
    /// # Errors
    /// When memory fails or is full, and when its lines are too small for pages.
    pub async fn create(memory: M, config: TreeConfig) -> Result<Tree<M>, TreeError> {
        let limits = config.limits(memory.payload_len())?;
        let root = memory.allocate().await?;
        let tree = Tree::at(memory, root, limits, config);
        let image = tree.image();
        let empty = Builder::new(tree.image_page(&image), tree.tag, 0, &[], &[]);
        empty.map_err(|broken| tree.corrupt(root, broken))?.finish(GlobalAddr::NULL);
        tree.stamp_image(&image, LeafStamp::FIRST);
        tree.write_page(root, &image).await?;
        tree.memory.persist(root).await?;
        Ok(tree)
    }

    /// Opens the tree whose root is at `root`.
    ///
    /// # Errors
    /// [`TreeError::Corrupt`] when no root of a tree is there, and when memory fails.
    pub async fn open(
        memory: M,
        root: GlobalAddr,
        config: TreeConfig,
    ) -> Result<Tree<M>, TreeError> {
        let limits = config.limits(memory.payload_len())?;
        let tree = Tree::at(memory, root, limits, config);
        let operation = tree.memory.enter().await?;
        tree.drive(|| tree.open_root()).await?;
        drop(operation);
        Ok(tree)
    }

    fn at(memory: M, root: GlobalAddr, limits: TreeLimits, config: TreeConfig) -> Tree<M> {
        let (hints, spares, scratch) = (Rc::default(), Rc::default(), Rc::default());
        let leaving = Rc::default();
        strict_assert!(!root.is_null(), "a tree without a root");
        let (tag, page_at) = layout(root, config.stamped);
        strict_assert!(page_at * WORD >= LINE_HEADER, "a page begins in the header of its line");
        Tree { memory, root, tag, page_at, hints, limits, config, spares, leaving, scratch }
    }

    /// Checks that the root of a tree of this handle's kind is there.
    fn open_root(&self) -> Result<(), Stop> {
        let opened = self.read_page(self.root, |_| Ok(()));
        let Err(Stop::Broken(root, broken)) = opened else { return opened };
        // The root may belong to a tree of the other kind.
        let (tag, page_at) = layout(root, !self.config.stamped);
        let seen = self.memory.try_read(root).map_err(Stop::Need)?;
        let other = Page::open(seen.line().skip(page_at), tag).is_ok() && seen.validate();
        let stamps = if self.config.stamped { WITHOUT_STAMPS } else { WITH_STAMPS };
        Err(Stop::Broken(root, if other { stamps } else { broken }))
    }

    /// The page in a line of this tree.
    #[inline]
    fn page_words<'a>(&self, line: Words<'a>) -> Words<'a> {
        line.skip(self.page_at)
    }

    /// The address of the root page, which identifies the tree.
    pub fn root(&self) -> GlobalAddr {
        self.root
    }

    /// The longest key and value of the tree.
    pub fn limits(&self) -> TreeLimits {
        self.limits
    }

    /// The memory of the tree.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// Overwrites the whole page at `addr`, which no other operation can reach yet.
    async fn write_page(&self, addr: GlobalAddr, image: &Image) -> Result<(), TreeError> {
        self.drive(|| {
            let mut guard = self.memory.try_write(addr).map_err(Stop::Need)?;
            strict_assert!(
                image.words().len() == self.memory.payload_len(),
                "the image is no whole page"
            );
            guard.words().copy_from(image.words());
            guard.mark_dirty(0..self.memory.payload_len());
            Ok(())
        })
        .await
    }
}
