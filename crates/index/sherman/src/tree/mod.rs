//! The tree: its handles, and the READs of its nodes.

mod access;
mod anchor;
mod bulk;
mod detached;
mod locate;
mod lock;
mod ordered;
mod read;
mod scan;
mod split;
mod validate;
mod write;

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;

use latchwork_fabric::{Buffers, Port};
use latchwork_memnode::LineAllocator;
use latchwork_runtime::Handle;
use latchwork_runtime::sync::Arc;
use latchwork_verbs::GlobalAddr;

use crate::cache::IndexCache;
use crate::local::LocalLocks;
use crate::node::Layout;
use crate::{Config, ShermanError};

pub use access::Change;
pub use validate::Statistics;

/// What a worker gives its trees.
#[derive(Clone)]
pub struct Resources {
    /// The worker's port.
    pub port: Rc<Port>,
    /// Its executor.
    pub handle: Handle,
    /// The lines of its compute node. A node of the tree is one line.
    pub lines: Arc<LineAllocator>,
}

/// What the workers of one compute node share of a tree: the local locks, the cached inner nodes
/// and the root's address.
pub struct Shared {
    pub(crate) locks: LocalLocks,
    pub(crate) cache: IndexCache,
    /// The last known root. An older root is the first node of its level.
    root: AtomicU64,
    /// Counts the values of lock words, so that none comes twice in the life of this process.
    takes: AtomicU64,
}

impl Shared {
    /// The shared part for trees with this configuration.
    pub fn new(config: &Config) -> Arc<Shared> {
        Arc::new(Shared {
            locks: LocalLocks::default(),
            cache: IndexCache::new(config.cache_bytes),
            root: AtomicU64::new(0),
            takes: AtomicU64::new(0),
        })
    }

    /// The bytes of the cached inner nodes.
    pub fn cached_bytes(&self) -> usize {
        self.cache.bytes()
    }

    /// The number of locks that this compute node's tasks have.
    pub fn locked(&self) -> usize {
        self.locks.len()
    }
}

/// One worker's handle on a tree. Clones are cheap, and share the counters.
#[derive(Clone)]
pub struct Tree(pub(crate) Rc<Inner>);

pub(crate) struct Inner {
    resources: Resources,
    shared: Arc<Shared>,
    buffers: Buffers,
    layout: Layout,
    config: Config,
    anchor: GlobalAddr,
    tag: u32,
    pub(crate) counters: Cells,
}

/// The counts of one worker's operations.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// READs of nodes.
    pub reads: u64,
    /// Batches that wrote nodes or entries.
    pub writes: u64,
    /// Compare-and-swaps on locks.
    pub swaps: u64,
    /// Those that found the lock taken.
    pub swaps_failed: u64,
    /// Releases of locks by a request of their own.
    pub releases: u64,
    /// Locks that another task of the compute node handed over.
    pub handed_over: u64,
    /// READs that were torn or too long, and repeated.
    pub repeated: u64,
    /// Nodes that were read under their lock, after many tries.
    pub locked_reads: u64,
    /// Steps to a right sibling.
    pub right_steps: u64,
    /// Nodes that were split.
    pub splits: u64,
    /// Searches that began at a cached node.
    pub cache_hits: u64,
}

#[derive(Default)]
pub(crate) struct Cells(Cell<Counters>);

impl Cells {
    fn count(&self, add: impl FnOnce(&mut Counters)) {
        let mut counters = self.0.get();
        add(&mut counters);
        self.0.set(counters);
    }
}

impl Tree {
    /// The address that identifies the tree.
    pub fn anchor(&self) -> GlobalAddr {
        self.0.anchor
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.0.config
    }

    /// The executor of the handle's worker.
    pub fn handle(&self) -> &Handle {
        &self.0.resources.handle
    }

    /// What the workers of the compute node share.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }

    /// The counts of this worker so far.
    pub fn counters(&self) -> Counters {
        self.0.counters.0.get()
    }

    fn check_key(&self, key: &[u8]) -> Result<(), ShermanError> {
        let expected = self.0.layout.key_len;
        if key.len() == expected {
            Ok(())
        } else {
            Err(ShermanError::Key { len: key.len(), expected })
        }
    }
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree").field("anchor", &self.0.anchor).finish_non_exhaustive()
    }
}
