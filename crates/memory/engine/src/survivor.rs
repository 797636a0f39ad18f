//! A survivor's reaction to a node that is dead or has left.

use latchwork_verbs::{Target, VerbError};

use crate::inner::Inner;
use crate::protocol::{CoherenceProtocol, LineState};

impl<P: CoherenceProtocol> Inner<P> {
    /// Fails the lines that wait for an answer of a node that is dead or has left.
    #[inline]
    pub(crate) fn see_to_the_missed(&self) -> bool {
        self.node_core.gone.is_missed() && self.give_up_on_the_missed()
    }

    #[cold]
    fn give_up_on_the_missed(&self) -> bool {
        // An invalidation request that was sent before the report is in its record by now. A later
        // request fails at its post or at its completion.
        self.node_core.gone.settle(|gone| {
            for shard in self.node.records.shards() {
                let mut records = shard.lock();
                for (addr, record) in records.iter_mut() {
                    let asked = gone.iter().find(|peer| record.line.is_asking(**peer));
                    if let Some(&peer) = asked
                        && record.local.failed.is_none()
                    {
                        let target = Target::Compute(peer, self.node_core.arena.0);
                        record.local.fail(VerbError::Disconnected { target });
                        self.node.protocol.failed(&mut self.site(*addr, record));
                    }
                }
            }
        });
        true
    }
}
