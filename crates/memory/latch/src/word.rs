//! The latch word: one 64-bit word per line that names its owners (SELCC 4.3.1).
//!
//! ```text
//!   63        58 57                                           0
//!  +------------+----------------------------------------------+
//!  | exclusive  | shared: bit id-1 for compute node id (1..58) |
//!  | holder     |                                              |
//!  +------------+----------------------------------------------+
//!   0: no holder; 1..58: that node; 59..63: reserved
//! ```
//!
//! A node's shared bit means *shared ownership* (which may be pledged) while the exclusive field is
//! zero, and a *registered wait* while the field is not zero. The wait becomes ownership at the
//! instant at which the exclusive holder clears the field.

use std::fmt;

use latchwork_verbs::ComputeNodeId;

const SHARED_BITS: u32 = 58;
const SHARED_MASK: u64 = (1 << SHARED_BITS) - 1;
const _: () = assert!(SHARED_BITS + 6 == 64, "the exclusive field has 6 bits");
const _: () = assert!(ComputeNodeId::MAX as u32 == SHARED_BITS, "each node has a shared bit");
const _: () =
    assert!((ComputeNodeId::MAX as u64) < 1 << 6, "each node has a value of the exclusive field");
const _: () = assert!(LatchWord::FREE.exclusive().is_none() && LatchWord::FREE.shared().is_empty());
const _: () = assert!(
    LatchWord::EXCLUSIVE & SHARED_MASK == 0 && LatchWord::EXCLUSIVE | SHARED_MASK == u64::MAX
);

/// A value of a latch word.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LatchWord(u64);

impl LatchWord {
    /// The word of a line without an owner.
    pub const FREE: LatchWord = LatchWord(0);

    /// The bits of the exclusive field.
    pub const EXCLUSIVE: u64 = !SHARED_MASK;

    /// The word whose bits are `bits`.
    pub const fn from_bits(bits: u64) -> Self {
        LatchWord(bits)
    }

    /// Whether the exclusive field has a reserved id, which no word operation writes.
    pub const fn is_impossible(self) -> bool {
        self.0 & Self::EXCLUSIVE != 0 && self.exclusive().is_none()
    }

    /// The bits.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The word in which `id` is the exclusive holder, with no shared bits.
    pub const fn exclusively(id: ComputeNodeId) -> Self {
        LatchWord((id.get() as u64) << SHARED_BITS)
    }

    /// The word in which `id` is the only sharer.
    pub const fn shared_by(id: ComputeNodeId) -> Self {
        LatchWord(1 << (id.get() - 1))
    }

    /// The word in which these nodes are the sharers.
    pub const fn shared_among(nodes: NodeSet) -> Self {
        LatchWord(nodes.0)
    }

    /// The exclusive holder. A reserved id reads as no holder.
    pub const fn exclusive(self) -> Option<ComputeNodeId> {
        ComputeNodeId::new((self.0 >> SHARED_BITS) as u8)
    }

    /// The nodes whose bit is set.
    pub const fn shared(self) -> NodeSet {
        NodeSet(self.0 & SHARED_MASK)
    }

    /// The word without this dead node, to which its words are mended. `None`: the word does not
    /// name the node.
    pub const fn without(self, dead: ComputeNodeId) -> Option<Self> {
        let holds = self.0 >> SHARED_BITS == dead.get() as u64;
        if !holds && !self.shared().contains(dead) {
            return None;
        }
        let holder = if holds { 0 } else { self.0 & Self::EXCLUSIVE };
        Some(LatchWord(holder | self.shared().without(dead).0))
    }

    /// The word after adding `add`, as a fetch-and-add leaves it.
    #[must_use]
    pub const fn plus(self, add: u64) -> Self {
        LatchWord(self.0.wrapping_add(add))
    }
}

impl fmt::Debug for LatchWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.exclusive() {
            Some(id) => write!(f, "({id:?}, {:?})", self.shared()),
            None => write!(f, "({}, {:?})", self.0 >> SHARED_BITS, self.shared()),
        }
    }
}

/// A set of compute nodes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct NodeSet(u64);

impl NodeSet {
    /// No node.
    pub const EMPTY: NodeSet = NodeSet(0);

    /// The set of one node.
    pub const fn of(id: ComputeNodeId) -> Self {
        NodeSet(1 << (id.get() - 1))
    }

    /// The set with these bits: bit id-1 for each node. Other bits name no node.
    pub const fn from_bits(bits: u64) -> Self {
        NodeSet(bits & SHARED_MASK)
    }

    /// Bit id-1 for each node.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Whether `id` is in the set.
    pub const fn contains(self, id: ComputeNodeId) -> bool {
        self.0 & 1 << (id.get() - 1) != 0
    }

    /// The set without `id`.
    #[must_use]
    pub const fn without(self, id: ComputeNodeId) -> Self {
        NodeSet(self.0 & !(1 << (id.get() - 1)))
    }

    /// The set with `id`.
    #[must_use]
    pub const fn with(self, id: ComputeNodeId) -> Self {
        NodeSet(self.0 | 1 << (id.get() - 1))
    }

    /// The nodes that are in at least one of the two sets.
    #[must_use]
    pub const fn union(self, other: NodeSet) -> Self {
        NodeSet(self.0 | other.0)
    }

    /// The set without the nodes of `other`.
    #[must_use]
    pub const fn less(self, other: NodeSet) -> Self {
        NodeSet(self.0 & !other.0)
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The number of nodes in the set.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The nodes, in order of their ids.
    pub fn iter(self) -> impl Iterator<Item = ComputeNodeId> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let lowest = left.trailing_zeros();
            left &= left.wrapping_sub(1);
            ComputeNodeId::new(lowest as u8 + 1)
        })
    }
}

impl fmt::Debug for NodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: u8) -> ComputeNodeId {
        ComputeNodeId::new(id).expect("a valid id")
    }

    #[test]
    fn every_node_has_its_own_place_in_both_parts() {
        for id in 1..=ComputeNodeId::MAX {
            let x = LatchWord::exclusively(node(id));
            assert_eq!((x.exclusive(), x.shared()), (Some(node(id)), NodeSet::EMPTY));
            let s = LatchWord::shared_by(node(id));
            assert_eq!((s.exclusive(), s.shared()), (None, NodeSet::of(node(id))));
        }
        for reserved in 59..=63 {
            let word = LatchWord::from_bits(reserved << 58 | 5);
            assert!(word.exclusive().is_none() && word.is_impossible(), "reserved ids name nobody");
        }
        assert!(!LatchWord::from_bits(5).is_impossible());
        assert!(!LatchWord::exclusively(node(58)).plus(5).is_impossible());
    }

    #[test]
    fn a_word_loses_the_dead_node_and_nothing_else() {
        let (a, b, dead) = (node(1), node(58), node(7));
        let shared = |nodes: &[ComputeNodeId]| {
            LatchWord::shared_among(nodes.iter().fold(NodeSet::EMPTY, |set, id| set.with(*id)))
        };
        let held = |by, nodes: &[ComputeNodeId]| {
            LatchWord::from_bits(LatchWord::exclusively(by).bits() | shared(nodes).bits())
        };
        for (word, mended) in [
            (LatchWord::FREE, None),
            (shared(&[a, b]), None),
            (held(a, &[b]), None),
            (shared(&[dead]), Some(LatchWord::FREE)),
            (shared(&[a, dead, b]), Some(shared(&[a, b]))),
            (held(a, &[dead, b]), Some(held(a, &[b]))),
            (held(dead, &[]), Some(LatchWord::FREE)),
            (held(dead, &[a, b]), Some(shared(&[a, b]))),
        ] {
            assert_eq!(word.without(dead), mended, "{word:?}");
        }
    }

    #[test]
    fn sets_list_their_nodes_in_order() {
        let word = LatchWord::shared_by(node(58)).plus(LatchWord::shared_by(node(1)).bits());
        let ids: Vec<u8> = word.shared().iter().map(ComputeNodeId::get).collect();
        assert_eq!(ids, [1, 58]);
        assert_eq!(word.shared().without(node(1)), NodeSet::of(node(58)));
        assert!(NodeSet::EMPTY.iter().next().is_none());
    }
}
