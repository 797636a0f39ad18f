//! [`open_or_make`]: one index for each name, although any number of workers may ask for the name
//! at the same time.
//!
//! 1. A worker that finds the name in the catalogue opens that index.
//! 2. Otherwise one worker of each compute node makes an index and registers the index. A name is
//!    registered once, so exactly one of these workers succeeds. Its index is complete before the
//!    registration.
//! 3. A worker that did not succeed frees the root that it made. No other worker has seen this
//!    root, because only the catalogue leads to a root. The worker continues at step 1.
//! 4. The other workers of each node look the name up again until the name is registered. If the
//!    worker that makes the index fails, another worker of its node makes an index.

use std::cell::Cell;
use std::time::Duration;

use latchwork_blink::{Tree, TreeConfig};
use latchwork_cluster::Member;
use latchwork_cluster::Worker;
use latchwork_coherence::CoherentMemory;
use latchwork_memnode::{ObjectKind, PoolError};
use latchwork_rtree::{RTree, RTreeConfig};
use latchwork_strict::strict_assert;
use latchwork_verbs::GlobalAddr;

use super::error::{Error, Result};
use super::names::Names;

/// An index that has a name.
pub(super) trait NamedIndex: Sized {
    /// The kind of the name.
    const KIND: ObjectKind;
    /// The settings of a handle.
    type Config: Copy;

    async fn create(memory: Worker, config: Self::Config) -> Result<Self>;

    async fn open(memory: Worker, root: GlobalAddr, config: Self::Config) -> Result<Self>;

    fn root(&self) -> GlobalAddr;
}

impl NamedIndex for Tree<Worker> {
    const KIND: ObjectKind = ObjectKind::TREE;
    type Config = TreeConfig;

    async fn create(memory: Worker, config: TreeConfig) -> Result<Self> {
        Ok(Tree::create(memory, config).await?)
    }

    async fn open(memory: Worker, root: GlobalAddr, config: TreeConfig) -> Result<Self> {
        Ok(Tree::open(memory, root, config).await?)
    }

    fn root(&self) -> GlobalAddr {
        Tree::root(self)
    }
}

impl<const D: usize> NamedIndex for RTree<Worker, D> {
    const KIND: ObjectKind = ObjectKind::RTREE;
    type Config = RTreeConfig;

    async fn create(memory: Worker, config: RTreeConfig) -> Result<Self> {
        Ok(RTree::create(memory, config).await?)
    }

    async fn open(memory: Worker, root: GlobalAddr, config: RTreeConfig) -> Result<Self> {
        Ok(RTree::open(memory, root, config).await?)
    }

    fn root(&self) -> GlobalAddr {
        RTree::root(self)
    }
}

/// The interval at which a worker looks the name up while another worker of its node makes the
/// index.
const LOOK: Duration = Duration::from_micros(100);

/// Opens the index with this name, or makes it, within `patience`. If the deadline passes while a
/// root is being made, the line of that root stays allocated.
pub(super) async fn open_or_make<T: NamedIndex>(
    member: &Member,
    names: &Names,
    (name, config): (&str, T::Config),
    patience: Duration,
) -> Result<T> {
    let step = Cell::new("the catalogue");
    let deadline = member.handle.now() + patience;
    // Boxed, because the future is large, and each worker needs it once for each name.
    let opened = Box::pin(attempts(member, names, (name, config), &step));
    let late = |_| Error::Late { name: name.to_owned(), step: step.get(), waited: patience };
    member.handle.timeout(deadline, opened).await.map_err(late)?
}

async fn attempts<T: NamedIndex>(
    member: &Member,
    names: &Names,
    (name, config): (&str, T::Config),
    step: &Cell<&'static str>,
) -> Result<T> {
    let (memory, port) = (&member.memory, member.memory.port());
    let catalogue = names.catalogue(member);
    // The deadline of the caller ends the rounds.
    loop {
        step.set("the catalogue, to look the name up");
        if let Some(entry) = catalogue.lookup(port, name).await? {
            if entry.kind != T::KIND {
                let (found, wanted) = (entry.kind, T::KIND);
                return Err(Error::OtherKind { name: name.to_owned(), found, wanted });
            }
            step.set("the root page");
            let root = GlobalAddr::from_bits(entry.value);
            return T::open(memory.clone(), root, config).await;
        }
        let Some(_claim) = names.claim(member, name) else {
            step.set("another worker of its compute node, which makes the tree");
            member.handle.sleep(LOOK).await;
            continue;
        };
        step.set("a line for the root page");
        let index = T::create(memory.clone(), config).await?;
        step.set("the catalogue, to register the name");
        let root = index.root();
        strict_assert!(!root.is_null(), "a name would lead to no line");
        match catalogue.register(port, name, T::KIND, root.bits()).await {
            Ok(()) => return Ok(index),
            Err(PoolError::AlreadyExists { .. }) => {
                step.set("the release of a root page that was not needed");
                memory.free(root).await?;
            }
            // These errors are certain: the name does not lead to this root.
            Err(error @ (PoolError::Name { .. } | PoolError::CatalogueFull { .. })) => {
                memory.free(root).await?;
                return Err(error.into());
            }
            // The registration may have taken effect, so the root stays.
            Err(error) => return Err(error.into()),
        }
    }
}
