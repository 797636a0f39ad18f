//! [`Site`]: the state that the workers of a compute node share.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Add;
use std::sync::Arc;

use latchwork_record::Record;
use latchwork_runtime::sync::{AtomicU64, Mutex, Ordering};
use latchwork_txn::{Timestamp, TxnError};
use latchwork_verbs::ComputeNodeId;

use crate::PartitionSettings;
use crate::fragments::Queue;
use crate::message::Fate;

/// The state that the workers of a compute node share: their queues of user messages, and the
/// decisions of coordinators on this node.
pub struct Site {
    pub(crate) settings: PartitionSettings,
    pub(crate) queues: Vec<Arc<Queue>>,
    /// The transactions of this node's coordinators that have no decision, or that have committed
    /// without the confirmation of all participants. Any other transaction counts as aborted
    /// (presumed abort).
    fates: Mutex<BTreeMap<Timestamp, Fate>>,
    pub(crate) prepare_collector: Option<Arc<PrepareCollector>>,
    /// The compute node ids of the nodes 0, 1, .. of the database.
    nodes: Vec<ComputeNodeId>,
    /// Whether this site is the receiver of the node's user messages.
    pub(crate) has_box: Mutex<bool>,
    counts: Counts,
}

/// The history records of participants, until the coordinator takes them. The collector is for
/// tests and checks that run all nodes in one process.
///
/// A transaction over several nodes is one transaction in the history, but each node knows only its
/// own part.
#[derive(Default)]
pub struct PrepareCollector(Mutex<BTreeMap<Timestamp, Vec<Record>>>);

impl PrepareCollector {
    pub(crate) fn bring(&self, id: Timestamp, record: Record) {
        self.0.lock().entry(id).or_default().push(record);
    }

    pub(crate) fn take(&self, id: Timestamp) -> Vec<Record> {
        self.0.lock().remove(&id).unwrap_or_default()
    }
}

impl fmt::Debug for PrepareCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Gathering").field(&self.0.lock().len()).finish()
    }
}

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        #[derive(Default)]
        pub(crate) struct Counts { $(pub(crate) $name: AtomicU64,)* }

        /// Counts of events on a node.
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
            // Relaxed: no other memory depends on the counts.
            fn stats(&self) -> Stats {
                Stats { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counts! {
    /// Messages sent.
    messages,
    /// User messages that these messages took.
    letters,
    /// Messages sent again, because no answer had arrived.
    repeated,
    /// Transactions that committed on several nodes.
    distributed,
    /// Transactions that committed on one other node.
    shipped,
    /// Transactions that committed on this node alone.
    local,
    /// Prepare records written.
    prepared,
    /// Decision records written.
    decided,
    /// Participants given up, because they had heard nothing for too long.
    abandoned,
    /// Requests for a decision.
    asked,
}

impl Site {
    /// A site of a node with `workers` workers.
    pub fn new(workers: u8, settings: PartitionSettings) -> Site {
        let queues = (0..workers.max(1)).map(|_| Arc::default()).collect();
        let (fates, has_box, counts) = Default::default();
        let nodes: Vec<ComputeNodeId> =
            (1..=ComputeNodeId::MAX).filter_map(ComputeNodeId::new).collect();
        Site { settings, queues, fates, prepare_collector: None, nodes, has_box, counts }
    }

    /// Sets the compute node ids of the nodes 0, 1, .. of the database. By default node n has the
    /// id n + 1.
    #[must_use]
    pub fn among(self, nodes: Vec<ComputeNodeId>) -> Site {
        Site { nodes, ..self }
    }

    /// The compute node that is node `node` of the database.
    pub(crate) fn compute_node(&self, node: u8) -> Result<ComputeNodeId, TxnError> {
        let id = self.nodes.get(usize::from(node)).copied();
        id.ok_or(TxnError::NodeId { node })
    }

    /// The node of the database that is this compute node.
    pub(crate) fn node_of(&self, id: ComputeNodeId) -> Option<u8> {
        self.nodes.iter().position(|node| *node == id).map(|node| node as u8)
    }

    /// Makes the recorder record a transaction over several nodes as one transaction, that of its
    /// coordinator. All sites share one collector.
    #[must_use]
    pub fn prepare_collector(self, gathering: Arc<PrepareCollector>) -> Site {
        Site { prepare_collector: Some(gathering), ..self }
    }

    /// The counts of this node so far.
    pub fn stats(&self) -> Stats {
        self.counts.stats()
    }

    /// The count of transactions without a decision, and of committed ones that some participant
    /// has not confirmed.
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
