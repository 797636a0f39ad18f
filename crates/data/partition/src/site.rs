//! [`Site`]: what the workers of a compute node share.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Add;
use std::sync::Arc;

use latchwork_history::Record;
use latchwork_runtime::sync::{AtomicU64, Mutex, Ordering};
use latchwork_txn::{Timestamp, TxnError};
use latchwork_verbs::ComputeNodeId;

use crate::Settings;
use crate::message::Fate;
use crate::post::Queue;

/// What the workers of a compute node share: their letters, and what was decided by coordinators
/// there.
pub struct Site {
    pub(crate) settings: Settings,
    pub(crate) queues: Vec<Arc<Queue>>,
    /// Transactions that are being decided, or of whose participants not all have said that they
    /// have heard. Any other is aborted, or through (presumed abort).
    fates: Mutex<BTreeMap<Timestamp, Fate>>,
    pub(crate) gathering: Option<Arc<Gathering>>,
    /// The compute nodes that are the nodes 0, 1, .. of the database.
    nodes: Vec<ComputeNodeId>,
    /// Whether the node's letters come here.
    pub(crate) has_box: Mutex<bool>,
    counts: Counts,
}

/// Records of participants on their way to their coordinator: for tests and checks that run all
/// nodes in one process.
///
/// A transaction over several nodes is one in the history, but each node knows its own part only.
#[derive(Default)]
pub struct Gathering(Mutex<BTreeMap<Timestamp, Vec<Record>>>);

impl Gathering {
    pub(crate) fn bring(&self, id: Timestamp, record: Record) {
        self.0.lock().entry(id).or_default().push(record);
    }

    pub(crate) fn take(&self, id: Timestamp) -> Vec<Record> {
        self.0.lock().remove(&id).unwrap_or_default()
    }
}

impl fmt::Debug for Gathering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Gathering").field(&self.0.lock().len()).finish()
    }
}

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        #[derive(Default)]
        pub(crate) struct Counts { $(pub(crate) $name: AtomicU64,)* }

        /// What has happened on a node.
        #[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        pub struct Stats { $($(#[$doc])* pub $name: u64,)* }

        impl Add for Stats {
            type Output = Stats;

            fn add(self, other: Stats) -> Stats {
                Stats { $($name: self.$name + other.$name,)* }
            }
        }

        impl Counts {
            // Relaxed: counts, which order nothing.
            fn stats(&self) -> Stats {
                Stats { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counts! {
    /// Messages sent.
    messages,
    /// Letters that these took.
    letters,
    /// Messages that were sent again, since no answer had come.
    repeated,
    /// Transactions that committed at several nodes.
    distributed,
    /// Transactions that committed at one other node.
    shipped,
    /// Transactions that committed here alone.
    local,
    /// Prepare records written.
    prepared,
    /// Decision records written.
    decided,
    /// Participants that were given up, since they had heard nothing for long.
    abandoned,
    /// Questions after a decision.
    asked,
}

impl Site {
    /// A node of so many workers.
    pub fn new(workers: u8, settings: Settings) -> Site {
        let queues = (0..workers.max(1)).map(|_| Arc::default()).collect();
        let (fates, has_box, counts) = Default::default();
        let nodes = (1..=ComputeNodeId::MAX).filter_map(ComputeNodeId::new).collect();
        Site { settings, queues, fates, gathering: None, nodes, has_box, counts }
    }

    /// Node 0, 1, .. of the database is the compute node with this id, and not the one with id 1,
    /// 2, ..
    #[must_use]
    pub fn among(self, nodes: Vec<ComputeNodeId>) -> Site {
        Site { nodes, ..self }
    }

    /// The compute node that is node `node` of the database.
    pub(crate) fn compute_node(&self, node: u8) -> Result<ComputeNodeId, TxnError> {
        let id = self.nodes.get(usize::from(node)).copied();
        id.ok_or(TxnError::NodeId { node })
    }

    /// The node of the database that a compute node is.
    pub(crate) fn node_of(&self, id: ComputeNodeId) -> Option<u8> {
        self.nodes.iter().position(|node| *node == id).map(|node| node as u8)
    }

    /// Transactions over several nodes go to the recorder of their coordinator's database as one.
    #[must_use]
    pub fn gathering(self, gathering: Arc<Gathering>) -> Site {
        Site { gathering: Some(gathering), ..self }
    }

    /// What has happened here.
    pub fn stats(&self) -> Stats {
        self.counts.stats()
    }

    /// Transactions without a decision, or of which not all participants have heard it.
    pub fn open(&self) -> usize {
        self.fates.lock().len()
    }

    pub(crate) fn count(&self, which: impl FnOnce(&Counts) -> &AtomicU64, n: u64) {
        which(&self.counts).fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn fate(&self, id: Timestamp) -> Fate {
        self.fates.lock().get(&id).copied().unwrap_or(Fate::Aborted)
    }

    pub(crate) fn set_fate(&self, id: Timestamp, fate: Fate) {
        match fate {
            Fate::Aborted => self.fates.lock().remove(&id),
            fate => self.fates.lock().insert(id, fate),
        };
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Site");
        out.field("open", &self.open()).field("stats", &self.stats()).finish_non_exhaustive()
    }
}
