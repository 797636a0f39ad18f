//! A survivor's reaction to a node that is dead or has left.

use latchwork_runtime::sync::Ordering;
use latchwork_verbs::{ComputeNodeId, Target, VerbError};

use crate::node::bit;
use crate::worker_core::Inner;

impl Inner {
    /// Fails the lines that wait for an answer of a node that is dead or has left.
    #[inline]
    pub(crate) fn see_to_the_missed(&self) -> bool {
        let missed = self.node.missed.load(Ordering::Acquire);
        missed != 0 && self.give_up_on(missed)
    }

    #[cold]
    fn give_up_on(&self, missed: u64) -> bool {
        let gone = (1..=ComputeNodeId::MAX).filter_map(ComputeNodeId::new);
        let gone: Vec<_> = gone.filter(|peer| missed & bit(*peer) != 0).collect();
        // An invalidation request that was sent before is in its record by now. A later request
        // fails when it is posted.
        for shard in self.node.records.shards() {
            let mut records = shard.lock();
            for (addr, record) in records.iter_mut() {
                let asked = gone.iter().find(|peer| record.line.is_asking(**peer));
                if let Some(&peer) = asked
                    && record.failed.is_none()
                {
                    let target = Target::Compute(peer, self.node.arena.0);
                    record.fail(VerbError::Disconnected { target });
                    self.abandon_pledges(*addr, record);
                }
            }
        }
        // Release ordering: a thread that sees the bits cleared may admit another node of that id.
        self.node.missed.fetch_and(!missed, Ordering::Release);
        true
    }
}
