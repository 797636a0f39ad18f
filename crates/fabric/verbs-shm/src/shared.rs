//! [`Shared`]: the nodes that a fabric knows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use latchwork_runtime::sync::{AtomicU64, Mutex, Ordering, RwLock};
use latchwork_verbs::{ComputeNodeId, MemoryNodeId};

use crate::Config;
use crate::across::Directory;
use crate::node::{Memory, Node};

/// What all clones of a fabric and all of its endpoints share.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) memory: RwLock<BTreeMap<u16, Memory>>,
    pub(crate) nodes: RwLock<BTreeMap<ComputeNodeId, Arc<Node>>>,
    /// Where this process meets others, if it does.
    pub(crate) directory: Option<Directory>,
    changes: Changes,
    /// Compute nodes elsewhere that are or were known, by the start of their processes.
    #[cfg_attr(any(not(target_os = "linux"), loom), allow(dead_code))]
    met: Mutex<BTreeSet<(u64, ComputeNodeId)>>,
}

/// On a cache line of its own: everybody reads it all the time.
#[repr(align(128))]
struct Changes(AtomicU64);

impl Shared {
    pub(crate) fn new(config: Config, directory: Option<Directory>) -> Self {
        let (memory, nodes, changes) =
            (RwLock::default(), RwLock::default(), Changes(AtomicU64::new(0)));
        Shared { config, memory, nodes, directory, changes, met: Mutex::default() }
    }

    /// Notes that a node elsewhere becomes known; false when that start of it was before.
    #[cfg(all(target_os = "linux", not(loom)))]
    pub(crate) fn meet(&self, node: (u64, ComputeNodeId)) -> bool {
        self.met.lock().insert(node)
    }

    pub(crate) fn memory(&self, node: MemoryNodeId) -> Option<Memory> {
        self.memory.read().get(&node.0).cloned()
    }

    pub(crate) fn node(&self, node: ComputeNodeId) -> Option<Arc<Node>> {
        self.nodes.read().get(&node).cloned()
    }

    /// How often a node has gone, or taken the place of one that was gone. Endpoints compare it on
    /// every ring.
    #[inline]
    pub(crate) fn changes(&self) -> u64 {
        // Relaxed: whoever finds that it has changed looks under a lock.
        self.changes.0.load(Ordering::Relaxed)
    }

    /// Counts a change, when it has been made.
    pub(crate) fn count_change(&self) {
        self.changes.0.fetch_add(1, Ordering::Release);
    }
}
