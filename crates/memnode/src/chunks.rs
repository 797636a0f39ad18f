//! [`Claims`]: taking whole chunks of the pool, one-sidedly.

use latchwork_fabric::Port;
use latchwork_verbs::{ComputeNodeId, GlobalAddr, MemoryNodeId};

use crate::again::repeatedly;
use crate::{Pool, PoolError, layout};

/// Owner words that are read at a time.
const WINDOW: u32 = 64;

/// A compute node's position in the memory nodes' owner tables.
///
/// Chunk `k` of a memory node is taken by a compare-and-swap of owner word `k` from 0 to the tag of
/// the compute node's registration, lowest free chunk first, and is never given back. A counter
/// would take one verb instead of two, but a fetch-and-add whose answer is lost loses a chunk: here
/// the table says who has it.
///
/// That is what makes cancellation safe. Chunks below the cursor are settled; the cursor moves with
/// the result in hand and no await in between. A claim whose future was dropped concerns the chunk
/// at or behind the cursor, whichever way it ended, and the next claim tries that chunk again: it
/// finds 0, or the tag of its own registration, and the chunk is its own either way. A claim whose end is
/// ambiguous is tried again at once, for the same reason.
#[derive(Debug)]
pub(crate) struct Claims {
    tag: u64,
    /// Where the next claim starts, so that the load spreads over the memory nodes.
    next: usize,
    /// Per memory node, the first chunk that is not known to be taken.
    cursors: Vec<u32>,
    taken: u64,
}

impl Claims {
    pub(crate) fn new(pool: &Pool, node: ComputeNodeId, registration: u64) -> Claims {
        let nodes = pool.memory_nodes();
        Claims {
            tag: u64::from(node.get()) << 56 | registration,
            next: usize::from(node.get()) % nodes,
            cursors: vec![0; nodes],
            taken: 0,
        }
    }

    /// How many chunks this node has taken.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Takes a chunk: round robin over the memory nodes, beginning with the node's id modulo their
    /// number. `None` when no memory node has one; that costs no verb the next time.
    pub(crate) async fn claim(
        &mut self,
        port: &Port,
        pool: &Pool,
    ) -> Result<Option<GlobalAddr>, PoolError> {
        for _ in 0..self.cursors.len() {
            let node = self.next;
            if let Some(index) = self.claim_on(port, pool, node).await? {
                self.next = (node + 1) % self.cursors.len();
                self.taken += 1;
                return Ok(Some(pool.geometry().chunk_addr(MemoryNodeId(node as u16), index)));
            }
            self.next = (node + 1) % self.cursors.len();
        }
        Ok(None)
    }

    /// Enters the tag where nobody's is; what stood there.
    async fn take(&self, port: &Port, owner: GlobalAddr) -> Result<u64, PoolError> {
        let claim = async || port.compare_swap(owner, 0, self.tag).await;
        Ok(repeatedly(claim).await?)
    }

    async fn claim_on(
        &mut self,
        port: &Port,
        pool: &Pool,
        node: usize,
    ) -> Result<Option<u32>, PoolError> {
        let id = MemoryNodeId(node as u16);
        let chunks = pool.chunks(id);
        // Every turn moves the cursor, by one chunk at least.
        while self.cursors[node] < chunks {
            let first = self.cursors[node];
            let count = WINDOW.min(chunks - first);
            let owners = port.read_words(layout::owner(id, first), count as usize).await?;
            for (index, owner) in (first..).zip(owners) {
                let owner = match owner {
                    0 => self.take(port, layout::owner(id, index)).await?,
                    taken => taken,
                };
                self.cursors[node] = index + 1;
                if owner == 0 || owner == self.tag {
                    return Ok(Some(index));
                }
            }
        }
        Ok(None)
    }
}
