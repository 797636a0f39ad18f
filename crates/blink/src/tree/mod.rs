//! The tree: a root address, and the way from there to a page.

mod bulk;
mod descend;
mod hot;
mod many;
mod operations;
mod scan;
mod spare;
mod split;
mod validate;
mod write;

pub use validate::TreeStatistics;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use latchwork_coherence::CoherentMemory;
use latchwork_verbs::GlobalAddr;

use crate::page::{Builder, Image, Tag};
use crate::{Limits, TreeConfig, TreeError};
use descend::Stop;
use hot::Hints;
use scan::Scratch;

/// One worker's handle on a B-link tree.
///
/// The tree is known by the address of its root page, which never changes. Handles are cheap to
/// clone and, like the memory handle inside, stay on their worker's thread.
pub struct Tree<M: CoherentMemory> {
    memory: M,
    root: GlobalAddr,
    tag: Tag,
    hints: Rc<Hints>,
    limits: Limits,
    config: TreeConfig,
    // Lines that were allocated for a split which then was not needed; clones share them.
    spares: Rc<RefCell<Vec<GlobalAddr>>>,
    scratch: Rc<Cell<Option<Scratch>>>,
}

impl<M: CoherentMemory> Clone for Tree<M> {
    fn clone(&self) -> Self {
        let (memory, spares) = (self.memory.clone(), self.spares.clone());
        let (hints, scratch) = (self.hints.clone(), self.scratch.clone());
        Tree { memory, hints, spares, scratch, ..*self }
    }
}

impl<M: CoherentMemory> fmt::Debug for Tree<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tree { root, config, .. } = self;
        f.debug_struct("Tree").field("root", root).field("config", config).finish_non_exhaustive()
    }
}

impl<M: CoherentMemory> Tree<M> {
    /// Makes an empty tree in `memory`. Other nodes open it at its [`root`](Tree::root). If this
    /// future is dropped, the line that it had allocated stays allocated.
    ///
    /// # Errors
    /// When memory fails or is full, and when its lines are too small for pages.
    pub async fn create(memory: M, config: TreeConfig) -> Result<Tree<M>, TreeError> {
        let limits = Limits::for_payload(memory.payload_len())?;
        let root = memory.allocate().await?;
        let tree = Tree::at(memory, root, limits, config);
        let image = Image::new(tree.memory.payload_len());
        let empty = Builder::new(image.words(), tree.tag, 0, &[], &[]);
        empty.map_err(|broken| tree.corrupt(root, broken))?.finish(GlobalAddr::NULL);
        tree.write_page(root, &image).await?;
        Ok(tree)
    }

    /// Opens the tree whose root is at `root`.
    ///
    /// # Errors
    /// [`TreeError::Corrupt`] when there is no tree's root, and when memory fails.
    pub async fn open(
        memory: M,
        root: GlobalAddr,
        config: TreeConfig,
    ) -> Result<Tree<M>, TreeError> {
        let limits = Limits::for_payload(memory.payload_len())?;
        let tree = Tree::at(memory, root, limits, config);
        let operation = tree.memory.enter().await?;
        tree.drive(|| tree.read_page(root, |_| Ok(()))).await?;
        drop(operation);
        Ok(tree)
    }

    fn at(memory: M, root: GlobalAddr, limits: Limits, config: TreeConfig) -> Tree<M> {
        let (hints, spares, scratch) = (Rc::default(), Rc::default(), Rc::default());
        Tree { memory, root, tag: Tag::of(root), hints, limits, config, spares, scratch }
    }

    /// The address that the tree is known by.
    pub fn root(&self) -> GlobalAddr {
        self.root
    }

    /// The longest key and value.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The memory that the tree lives in.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// Overwrites the whole page at `addr`, which no one else knows yet.
    async fn write_page(&self, addr: GlobalAddr, image: &Image) -> Result<(), TreeError> {
        self.drive(|| {
            let mut guard = self.memory.try_write(addr).map_err(Stop::Need)?;
            guard.words().copy_from(image.words());
            guard.mark_dirty(0..self.memory.payload_len());
            Ok(())
        })
        .await
    }
}
