//! A survivor's reaction to a node that is dead or has left.

use latchwork_verbs::GlobalAddr;

use crate::inner::Inner;
use crate::protocol::CoherenceProtocol;

impl<P: CoherenceProtocol> Inner<P> {
    /// Reports nodes that are dead or have left to all lines with a record.
    #[inline]
    pub(crate) fn see_to_the_missed(&self) -> bool {
        self.node_core.gone.is_missed() && self.give_up_on_the_missed()
    }

    #[cold]
    fn give_up_on_the_missed(&self) -> bool {
        // A request that was sent before the report is in its record by now. A later request fails
        // at its post or at its completion.
        self.node_core.gone.settle(|gone| {
            for shard in self.node.records.shards() {
                let mut records = shard.lock();
                let lines: Vec<GlobalAddr> = records.keys().copied().collect();
                for addr in lines {
                    for &peer in gone {
                        if let Some(record) = records.get_mut(&addr) {
                            self.node.protocol.peer_gone(&mut self.site(addr, record), peer);
                        }
                    }
                    if self.node.protocol.acts_on_deaths() {
                        self.finish(&mut records, addr);
                    }
                }
            }
        });
        true
    }
}
