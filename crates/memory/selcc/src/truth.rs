//! [`LatchWords`]: the latch words of a simulated pool, as the [`Truth`] for checks.

use std::sync::Arc;

use latchwork_cache::Ownership;
use latchwork_engine::{Owners, Truth};
use latchwork_latch::LatchWord;
use latchwork_memnode::Geometry;
use latchwork_verbs::{ComputeNodeId, GlobalAddr, Region};

/// The latch words in the memory of all memory nodes.
#[derive(Debug)]
pub struct LatchWords {
    geometry: Geometry,
    memories: Vec<Arc<Region>>,
    survives: bool,
}

impl LatchWords {
    /// The latch words of a pool with this geometry, in the memories of its nodes, in their order.
    /// `survives`: the lines of dead nodes are recovered.
    pub fn new(geometry: Geometry, memories: Vec<Arc<Region>>, survives: bool) -> LatchWords {
        LatchWords { geometry, memories, survives }
    }
}

/// The latch word and the cache of a node N differ only while a word operation is in flight, and
/// only in these ways:
///
/// ```text
///   cache of N   word                          meanwhile
///   ----------   ---------------------------   ------------------------------------------------
///   exclusive    names another node A          A hands the line over to N: A's cache has no
///                                              copy, and A has an operation in progress
///   shared       names N as exclusive holder   N downgrades
///   nothing      anything                      N obtains the line, or gives it up
/// ```
///
/// Two rules follow. If the word names no exclusive holder, no cache has an exclusive copy. If a
/// cache has a shared copy, the word has the node's shared bit or names the node as exclusive
/// holder.
impl Truth for LatchWords {
    fn name(&self) -> &'static str {
        "latch word"
    }

    fn owners(&self, line: GlobalAddr) -> Owners {
        let latch = self.geometry.latch_addr(line);
        let memory = &self.memories[usize::from(latch.node().0)];
        let bits = memory.words().u64(latch.offset() as usize);
        let exclusive = (bits >> LatchWord::EXCLUSIVE.trailing_zeros()) as u8;
        Owners { exclusive, shared: bits & !LatchWord::EXCLUSIVE }
    }

    /// A batch that clears the exclusive field first writes all changes back. So while the field is
    /// clear, memory is current, even with verbs in flight.
    fn newest(&self, _line: GlobalAddr, owners: Owners) -> Option<ComputeNodeId> {
        owners.holder()
    }

    fn outlives_holders(&self) -> bool {
        self.survives
    }

    fn permits(
        &self,
        owners: Owners,
        node: ComputeNodeId,
        copy: Ownership,
        gives: &dyn Fn(ComputeNodeId) -> bool,
    ) -> bool {
        match copy {
            Ownership::Invalid => true,
            Ownership::Shared => owners.is_shared_by(node) || owners.holder() == Some(node),
            Ownership::Exclusive => {
                owners.holder().is_some_and(|holder| holder == node || gives(holder))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use latchwork_verbs::MemoryNodeId;

    use super::*;

    fn node(id: u8) -> ComputeNodeId {
        ComputeNodeId::new(id).expect("a valid id")
    }

    #[test]
    fn the_word_of_a_line_names_its_owners() {
        let geometry = Geometry::new(64 << 10, 512).expect("good sizes");
        let memory = || Region::zeroed(3 * (64 << 10)).expect("memory");
        let memories = vec![memory(), memory()];
        let line = geometry.line_addr(geometry.chunk_addr(MemoryNodeId(1), 0), 7);
        let truth = LatchWords::new(geometry, memories.clone(), false);
        assert_eq!(truth.owners(line), Owners::default());
        let word = LatchWord::exclusively(node(3)).plus(LatchWord::shared_by(node(5)).bits());
        let latch = geometry.latch_addr(line).offset() as usize;
        memories[1].words().set_u64(latch, word.bits());
        let owners = Owners::default().with(node(3), Ownership::Exclusive);
        let owners = owners.with(node(5), Ownership::Shared);
        assert_eq!(truth.owners(line), owners);
        assert_eq!(format!("{owners:?}"), format!("{word:?}"));
        assert_eq!(truth.newest(line, owners), Some(node(3)));
    }

    #[test]
    fn a_copy_differs_from_the_word_only_while_an_operation_is_in_flight() {
        let truth = LatchWords::new(Geometry::default(), Vec::new(), false);
        let word = Owners::default().with(node(3), Ownership::Exclusive);
        let word = word.with(node(5), Ownership::Shared);
        let permits = |id, copy, gives| truth.permits(word, node(id), copy, &|_| gives);
        assert!(permits(3, Ownership::Exclusive, false) && permits(3, Ownership::Shared, false));
        assert!(permits(5, Ownership::Shared, false) && !permits(5, Ownership::Exclusive, false));
        assert!(permits(5, Ownership::Exclusive, true), "the holder hands the line over");
        assert!(!permits(4, Ownership::Shared, true) && permits(4, Ownership::Invalid, false));
    }
}
