//! [`Claims`]: taking whole chunks of the pool, one-sidedly, and giving them back.

use std::collections::{BTreeMap, BTreeSet};

use latchwork_fabric::Port;
use latchwork_verbs::{ComputeNodeId, GlobalAddr, MemoryNodeId};

use crate::again::repeatedly;
use crate::{Pool, PoolError, layout};

/// Owner words that are read at a time.
const WINDOW: u32 = 64;

/// Latch words that are read at a time.
const LATCHES: u32 = 512;

/// In the place of a compute node's id: nobody owns the chunk, and its first lines are in use.
const REST: u64 = 63;

/// A chunk, or what is left of one: its lines from index `next` on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fresh {
    pub(crate) chunk: GlobalAddr,
    pub(crate) next: u32,
}

/// A compute node's position in the memory nodes' owner tables.
///
/// ```text
///  owner word     63     56 55                          0
///    free         |   0    |  0                          |
///    owned        |   id   |  number of the registration |  of compute node `id`, 1 to 58
///    a rest       |   63   |  first free line            |  the lines before it are in use
/// ```
///
/// Chunk `k` of a memory node is taken by a compare-and-swap of owner word `k` from free, or from a
/// rest, to the tag of the compute node's registration, lowest chunk first. A counter would take
/// one verb instead of two, but a fetch-and-add whose answer is lost loses a chunk: here the table
/// says who has it.
///
/// That is what makes cancellation safe. Chunks below the cursor are settled; the cursor moves with
/// the result in hand and no await in between. A claim whose future was dropped concerns the chunk
/// at or behind the cursor, whichever way it ended, and the next claim tries that chunk again: it
/// finds what stood there, or the tag of its own registration, and the chunk is its own either way.
/// Which of its lines are, it remembers: nobody but itself has changed the word in between. A claim
/// whose end is ambiguous is tried again at once, for the same reason.
///
/// A chunk is given back by a compare-and-swap from the tag: as a whole when nothing in it is in
/// use by anybody, else as a rest. Only its owner does that, at its end, when no claim of its own
/// is in flight.
#[derive(Debug)]
pub(crate) struct Claims {
    tag: u64,
    /// Where the next claim starts, so that the load spreads over the memory nodes.
    next: usize,
    /// Per memory node, the first chunk that is not known to be taken.
    cursors: Vec<u32>,
    /// The chunks of this registration, by memory node.
    owned: BTreeSet<(u16, u32)>,
    /// Chunks that were claimed and of which nobody learned how that ended, with what stood there
    /// before.
    tried: BTreeMap<(u16, u32), u64>,
}

impl Claims {
    pub(crate) fn new(pool: &Pool, node: ComputeNodeId, registration: u64) -> Claims {
        let nodes = pool.memory_nodes();
        Claims {
            tag: u64::from(node.get()) << 56 | registration,
            next: usize::from(node.get()) % nodes,
            cursors: vec![0; nodes],
            owned: BTreeSet::new(),
            tried: BTreeMap::new(),
        }
    }

    /// How many chunks this node has taken.
    pub(crate) fn taken(&self) -> u64 {
        self.owned.len() as u64
    }

    /// Looks at all chunks once more: some may have been given back.
    pub(crate) fn rewind(&mut self) {
        self.cursors.fill(0);
    }

    /// Takes a chunk: round robin over the memory nodes, beginning with the node's id modulo their
    /// number. `None` when no memory node has one; that costs no verb the next time.
    pub(crate) async fn claim(
        &mut self,
        port: &Port,
        pool: &Pool,
    ) -> Result<Option<Fresh>, PoolError> {
        for _ in 0..self.cursors.len() {
            let node = self.next;
            let found = self.claim_on(port, pool, node).await?;
            self.next = (node + 1) % self.cursors.len();
            if let Some((index, next)) = found {
                let chunk = pool.geometry().chunk_addr(MemoryNodeId(node as u16), index);
                return Ok(Some(Fresh { chunk, next }));
            }
        }
        Ok(None)
    }

    /// The chunk that was taken, and its first free line.
    async fn claim_on(
        &mut self,
        port: &Port,
        pool: &Pool,
        node: usize,
    ) -> Result<Option<(u32, u32)>, PoolError> {
        let id = MemoryNodeId(node as u16);
        let chunks = pool.chunks(id);
        // Every turn moves the cursor, by one chunk at least.
        while self.cursors[node] < chunks {
            let first = self.cursors[node];
            let count = WINDOW.min(chunks - first);
            let owners = port.read_words(layout::owner(id, first), count as usize).await?;
            for (index, owner) in (first..).zip(owners) {
                let has = self.owned.contains(&(id.0, index));
                let taken = if has { None } else { self.take(port, id, index, owner).await? };
                self.cursors[node] = index + 1;
                if let Some(next) = taken {
                    self.owned.insert((id.0, index));
                    return Ok(Some((index, next)));
                }
            }
        }
        Ok(None)
    }

    /// Enters the tag where nobody's is; the first free line, if the chunk is this node's now.
    async fn take(
        &mut self,
        port: &Port,
        id: MemoryNodeId,
        index: u32,
        owner: u64,
    ) -> Result<Option<u32>, PoolError> {
        let chunk = (id.0, index);
        if owner == self.tag {
            return Ok(self.tried.remove(&chunk).map(first_free));
        }
        if owner != 0 && owner >> 56 != REST {
            return Ok(None);
        }
        self.tried.insert(chunk, owner);
        let word = layout::owner(id, index);
        let found = repeatedly(async || port.compare_swap(word, owner, self.tag).await).await?;
        self.tried.remove(&chunk);
        Ok((found == owner || found == self.tag).then(|| first_free(owner)))
    }

    /// Gives back what is left of a chunk of this node. It has given out no line of it from `next`
    /// on, and gives out none any more.
    pub(crate) async fn give_back_rest(
        &mut self,
        port: &Port,
        pool: &Pool,
        rest: Fresh,
    ) -> Result<(), PoolError> {
        let id = rest.chunk.node();
        let index = pool.geometry().chunk_index(rest.chunk).map_or(u32::MAX, |index| index as u32);
        let word = if rest.next == 0 { 0 } else { REST << 56 | u64::from(rest.next) };
        self.give_back(port, id, index, word).await
    }

    /// Gives back what claims have taken of whose end nobody learned. None is in flight any more.
    pub(crate) async fn give_back_tried(&mut self, port: &Port) -> Result<(), PoolError> {
        for ((node, index), before) in self.tried.clone() {
            self.give_back(port, MemoryNodeId(node), index, before).await?;
            self.tried.remove(&(node, index));
        }
        Ok(())
    }

    /// Gives back all chunks of this node, with whatever is in them, and says how many that were. A
    /// chunk in which a latch word names somebody stays: whoever that is may come for it, or has
    /// died with it.
    pub(crate) async fn give_back_all(
        &mut self,
        port: &Port,
        pool: &Pool,
    ) -> Result<u64, PoolError> {
        let mut given = 0;
        for (node, index) in self.owned.clone() {
            let id = MemoryNodeId(node);
            if is_unlatched(port, pool, id, index).await? {
                self.give_back(port, id, index, 0).await?;
                given += 1;
            }
        }
        Ok(given)
    }

    async fn give_back(
        &mut self,
        port: &Port,
        id: MemoryNodeId,
        index: u32,
        word: u64,
    ) -> Result<(), PoolError> {
        // The tag stands there until this succeeds. Where that had happened already, and nobody
        // knew, others may have changed the word since: then it is left alone.
        let owner = layout::owner(id, index);
        repeatedly(async || port.compare_swap(owner, self.tag, word).await).await?;
        self.owned.remove(&(id.0, index));
        Ok(())
    }
}

fn first_free(owner: u64) -> u32 {
    if owner >> 56 == REST { owner as u32 } else { 0 }
}

/// Whether no latch word of a chunk names anybody.
async fn is_unlatched(
    port: &Port,
    pool: &Pool,
    id: MemoryNodeId,
    index: u32,
) -> Result<bool, PoolError> {
    let geometry = pool.geometry();
    let chunk = geometry.chunk_addr(id, index);
    let lines = geometry.lines_per_chunk();
    for first in (0..lines).step_by(LATCHES as usize) {
        let count = LATCHES.min(lines - first) as usize;
        let words = geometry.latch_addr(geometry.line_addr(chunk, first));
        if port.read_words(words, count).await?.iter().any(|word| *word != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}
