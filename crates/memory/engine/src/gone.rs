//! The nodes that are dead or have left, as a survivor knows them.
//!
//! A node may leave something in lines that only it could finish, such as a row of a transaction.
//! Such a thing has the *signature* of its node: the member epoch above the id. So a later holder
//! of the id has another signature. A survivor that meets a signature asks whether its node has
//! *ended*: the node is dead or has left, no action of it can have an effect any more, and its
//! lines are recovered.

use latchwork_runtime::sync::{AtomicU64, Ordering};
use latchwork_strict::strict_assert;
use latchwork_verbs::ComputeNodeId;

/// The nodes that are dead or have left, one bit for each.
#[derive(Default)]
pub(crate) struct Gone {
    /// A bit is set until a worker has failed the lines that wait for the node.
    missed: AtomicU64,
    /// A bit is set until another node of the id is admitted.
    gone: AtomicU64,
    /// For each id, the member epoch below which all holders of the id have ended.
    ended: Ended,
}

struct Ended([AtomicU64; ComputeNodeId::MAX as usize]);

impl Default for Ended {
    fn default() -> Ended {
        Ended(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

/// The bits of a signature that have the index of the id.
const ID_BITS: u32 = 6;
const _: () = assert!((ComputeNodeId::MAX as u64) <= 1 << ID_BITS, "each id has its signatures");

/// The signature of a node. Never 0, because no member epoch is 0.
pub(crate) fn signature(node: ComputeNodeId, member_epoch: u64) -> u64 {
    strict_assert!(member_epoch > 0 && member_epoch < 1 << (64 - ID_BITS), "no member epoch");
    member_epoch << ID_BITS | node.index() as u64
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

    /// Notes that all holders of the id before this member epoch have ended.
    pub(crate) fn end_before(&self, node: ComputeNodeId, member_epoch: u64) {
        if let Some(ended) = self.ended.0.get(node.index()) {
            ended.fetch_max(member_epoch, Ordering::Relaxed);
        }
    }

    /// Whether the node with this signature has ended.
    pub(crate) fn has_ended(&self, signature: u64) -> bool {
        let index = (signature & ((1 << ID_BITS) - 1)) as usize;
        // Relaxed: the answer says nothing of other memory. A caller that gets the old answer asks
        // again later. What the ended node has left came here with its line, by the protocol.
        let ended = self.ended.0.get(index).map_or(0, |ended| ended.load(Ordering::Relaxed));
        signature != 0 && signature >> ID_BITS < ended
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_later_holder_of_an_id_has_not_ended_with_an_earlier_one() {
        let [one, last] = [1, ComputeNodeId::MAX].map(|id| ComputeNodeId::new(id).expect("an id"));
        let gone = Gone::default();
        assert!(!gone.has_ended(signature(one, 1)) && !gone.has_ended(0));
        for node in [last, one] {
            gone.end_before(node, 8);
            assert!(gone.has_ended(signature(node, 7)) && gone.has_ended(signature(node, 1)));
            assert!(!gone.has_ended(signature(node, 8)) && !gone.has_ended(0));
            gone.end_before(node, 5);
            assert!(gone.has_ended(signature(node, 7)), "an end is final");
        }
        assert!(!gone.has_ended(signature(ComputeNodeId::new(2).expect("an id"), 1)));
    }
}
