//! [`roll_forward`]: completes the write-backs that the death of a node has torn.

use latchwork_fabric::Port;
use latchwork_latch::LatchWord;
use latchwork_memnode::{Pool, PoolError, journal};
use latchwork_verbs::{ComputeNodeId, MemoryNodeId};

/// Writes the bytes of each valid journal slot of a dead node on memory node `node` to its line, if
/// the dead node still holds the line. Returns the number of these lines.
///
/// The memory node has fenced the dead node. And no latch word that named the dead node as the
/// holder when it was fenced changes before this call has ended on all nodes that make it: neither
/// is the field cleared, nor does a receiver take the place of the dead node. Otherwise the call
/// could overwrite a newer line. So several nodes may make the call, also at the same time, and
/// each may repeat it.
///
/// # Errors
/// Failures of the fabric. Then the call is repeated, or another node makes it.
pub async fn roll_forward(
    port: &Port,
    pool: &Pool,
    node: MemoryNodeId,
    dead: ComputeNodeId,
) -> Result<usize, PoolError> {
    let mut lines = 0;
    for entry in journal::entries(port, pool, node, dead).await? {
        let word = port.read_word(pool.geometry().latch_addr(entry.line)).await?;
        // The slot of an operation is clear before its atomic takes effect. So a valid slot and a
        // word that still names the dead node belong to its last write-back of the line. Any other
        // word shows that the slot was kept by an operation that the node could not complete, or
        // that the line was freed since.
        if LatchWord::from_bits(word).exclusive() == Some(dead) {
            port.write_words(entry.addr(), &entry.words).await?;
            lines += 1;
        }
    }
    Ok(lines)
}
