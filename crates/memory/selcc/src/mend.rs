//! [`mend`]: takes a dead node out of a latch word.

use latchwork_engine::WorkerCore;
use latchwork_fabric::Port;
use latchwork_latch::{LatchWord, NodeSet, WordOp};
use latchwork_verbs::{ComputeNodeId, GlobalAddr, VerbError};

/// Takes the dead node out of the latch word at `addr`, which was `word`, by a compare-and-swap of
/// the exact word. All nodes have closed the dead node. Other nodes may change the word at the same
/// time, also to the same end. Returns the word from which this call took the dead node.
///
/// # Errors
/// Failures of the fabric. Then the word may have changed.
pub async fn mend(
    port: &Port,
    addr: GlobalAddr,
    mut word: LatchWord,
    dead: ComputeNodeId,
) -> Result<Option<LatchWord>, VerbError> {
    while let Some(mended) = word.without(dead) {
        match port.compare_swap(addr, word.bits(), mended.bits()).await {
            Ok(old) if old == word.bits() => return Ok(Some(word)),
            Ok(old) => word = LatchWord::from_bits(old),
            Err(VerbError::Ambiguous { .. }) => {
                word = LatchWord::from_bits(port.read_word(addr).await?);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Mends the word of a line ahead of the sweep, if an operation has found a dead node in its way in
/// `word`. A failure is left to the sweep.
#[cold]
pub(crate) fn mend_for_waiter(worker: &WorkerCore, line: GlobalAddr, op: WordOp, word: LatchWord) {
    let (node, port) = (worker.node.clone(), worker.port.clone());
    let dead = NodeSet::from_bits(node.mendable());
    let in_the_way = match word.exclusive() {
        Some(holder) => NodeSet::of(holder),
        None if op.expected(node.id()).is_some_and(|expected| expected != word) => word.shared(),
        None => NodeSet::EMPTY,
    };
    let Some(dead) = in_the_way.iter().find(|id| dead.contains(*id)) else { return };
    if node.begin_mend(line, dead) {
        drop(worker.handle.spawn_finisher(async move {
            let latch = node.geometry().latch_addr(line);
            let _ = mend(&port, latch, word, dead).await;
            node.end_mend(line);
        }));
    }
}
