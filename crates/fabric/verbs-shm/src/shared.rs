//! [`Shared`]: the nodes that a fabric knows, and the count of their changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use latchwork_runtime::sync::{AtomicU64, Mutex, Ordering, RwLock};
use latchwork_verbs::{ComputeNodeId, MemoryNodeId};

use crate::ShmConfig;
use crate::across::Directory;
use crate::node::{Memory, Node};

/// The state that all clones of a fabric and all of its endpoints share.
pub(crate) struct Shared {
    pub(crate) config: ShmConfig,
    pub(crate) memory: RwLock<BTreeMap<u16, Memory>>,
    pub(crate) nodes: RwLock<BTreeMap<ComputeNodeId, Arc<Node>>>,
    /// The directory that this process shares with other processes, if any.
    pub(crate) directory: Option<Directory>,
    changes: Changes,
    /// Compute nodes of other processes that were ever added, also without success. Each is
    /// recorded with the incarnation of its process: the random number that the process drew at its
    /// start.
    #[cfg_attr(any(not(target_os = "linux"), loom), allow(dead_code))]
    met: Mutex<BTreeSet<(u64, ComputeNodeId)>>,
}

/// The count of changes, on a CPU cache line of its own, because all endpoints read the count on
/// every post and ring.
#[repr(align(128))]
struct Changes(AtomicU64);

impl Shared {
    pub(crate) fn new(config: ShmConfig, directory: Option<Directory>) -> Self {
        let (memory, nodes, changes) =
            (RwLock::default(), RwLock::default(), Changes(AtomicU64::new(0)));
        Shared { config, memory, nodes, directory, changes, met: Mutex::default() }
    }

    /// Records that a node of another process is being added; false if the node was recorded before
    /// with the same incarnation.
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

    /// The number of changes: each cut-off of a memory node or of a compute node of another
    /// process, and each replacement of such a node. Endpoints compare the number on every post and
    /// ring.
    #[inline]
    pub(crate) fn changes(&self) -> u64 {
        // Relaxed is enough, because an endpoint that sees a new count reads the nodes under a lock
        // afterwards.
        self.changes.0.load(Ordering::Relaxed)
    }

    /// Counts a change. The caller has made the change before.
    pub(crate) fn count_change(&self) {
        self.changes.0.fetch_add(1, Ordering::Release);
    }
}
