//! The nodes that are dead or have left, as a survivor knows them.

use latchwork_runtime::sync::{AtomicU64, Ordering};
use latchwork_verbs::ComputeNodeId;

/// The nodes that are dead or have left, one bit for each.
#[derive(Default)]
pub(crate) struct Gone {
    /// A bit is set until a worker has failed the lines that wait for the node.
    missed: AtomicU64,
    /// A bit is set until another node of the id is admitted.
    gone: AtomicU64,
}

pub(crate) fn bit(node: ComputeNodeId) -> u64 {
    1 << node.index()
}

impl Gone {
    /// Notes that a node is dead or has left.
    pub(crate) fn miss(&self, peer: ComputeNodeId) {
        self.gone.fetch_or(bit(peer), Ordering::Relaxed);
        // Release ordering: the caller has cut the peer off before. A worker that sees the bit sees
        // the cut as well, so its later verbs to the peer fail.
        self.missed.fetch_or(bit(peer), Ordering::Release);
    }

    /// Notes that another node of the id is admitted.
    pub(crate) fn forget(&self, peer: ComputeNodeId) {
        self.gone.fetch_and(!bit(peer), Ordering::Relaxed);
    }

    /// Whether this node knows that the compute node is dead or has left, so that no request to it
    /// is of use.
    pub(crate) fn contains(&self, peer: ComputeNodeId) -> bool {
        // Relaxed: a worker that does not see the bit yet sends a request, and the request fails.
        self.gone.load(Ordering::Relaxed) & bit(peer) != 0
    }

    /// All nodes that are dead or have left: bit id-1 for each.
    pub(crate) fn bits(&self) -> u64 {
        self.gone.load(Ordering::Relaxed)
    }

    /// Whether the lines that wait for the node have not failed yet.
    pub(crate) fn minds(&self, peer: ComputeNodeId) -> bool {
        self.missed.load(Ordering::Acquire) & bit(peer) != 0
    }

    /// Whether lines may wait for any node that is dead or has left. Called on every sweep.
    #[inline]
    pub(crate) fn is_missed(&self) -> bool {
        self.missed.load(Ordering::Acquire) != 0
    }

    /// Runs `fail`, which fails the lines that wait for one of the nodes.
    pub(crate) fn settle(&self, fail: impl FnOnce(&[ComputeNodeId])) {
        let missed = self.missed.load(Ordering::Acquire);
        let all = (1..=ComputeNodeId::MAX).filter_map(ComputeNodeId::new);
        let gone: Vec<_> = all.filter(|peer| missed & bit(*peer) != 0).collect();
        fail(&gone);
        // Release ordering: a thread that sees the bits cleared sees the failed lines. That thread
        // may admit another node of the id.
        self.missed.fetch_and(!missed, Ordering::Release);
    }
}
