//! [`Truth`]: what the protocol itself says of a line, for checks of simulated worlds.

use std::fmt;

use latchwork_cache::Ownership;
use latchwork_verbs::{ComputeNodeId, GlobalAddr};

/// The protocol's own record of the owners of lines: latch words, or a directory. A check compares
/// it with the caches. It reads the record from outside, so a world must stand still meanwhile.
pub trait Truth {
    /// What holds the record of a line, for messages, such as `latch word`.
    fn name(&self) -> &'static str;

    /// The recorded owners of a line. Checks call this after every event, so it must be fast.
    fn owners(&self, line: GlobalAddr) -> Owners;

    /// The node that has the newest bytes of a line, which has these owners. `None`: the memory
    /// node has them.
    fn newest(&self, line: GlobalAddr, owners: Owners) -> Option<ComputeNodeId>;

    /// Whether the copies of a dead node no longer count: other nodes get the lines that it held.
    fn outlives_holders(&self) -> bool {
        false
    }

    /// Whether `node` may own its copy in this way while the record says `owners`. The two may
    /// differ while an operation is in flight. `gives` tells whether a node has no copy, and has an
    /// operation in progress.
    fn permits(
        &self,
        owners: Owners,
        node: ComputeNodeId,
        copy: Ownership,
        gives: &dyn Fn(ComputeNodeId) -> bool,
    ) -> bool;
}

/// The owners of one line.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Owners {
    /// The id of the exclusive holder, or 0. An id of no compute node is an error of the protocol.
    pub exclusive: u8,
    /// The nodes with shared ownership, and those that wait for it: bit id-1 for each node.
    pub shared: u64,
}

impl Owners {
    /// The owners with the copy of one more node.
    #[must_use]
    pub const fn with(self, node: ComputeNodeId, copy: Ownership) -> Owners {
        match copy {
            Ownership::Invalid => self,
            Ownership::Shared => Owners { shared: self.shared | 1 << node.index(), ..self },
            Ownership::Exclusive => {
                Owners { exclusive: self.exclusive.wrapping_add(node.get()), ..self }
            }
        }
    }

    /// The exclusive holder, if the id is that of a compute node.
    pub const fn holder(self) -> Option<ComputeNodeId> {
        ComputeNodeId::new(self.exclusive)
    }

    /// Whether this node has shared ownership or waits for it.
    pub const fn is_shared_by(self, node: ComputeNodeId) -> bool {
        self.shared & 1 << node.index() != 0
    }

    /// All named nodes: the exclusive holder, then the others in the order of their ids.
    pub fn named(self) -> impl Iterator<Item = ComputeNodeId> {
        self.holder().into_iter().chain(self.sharers())
    }

    fn sharers(self) -> impl Iterator<Item = ComputeNodeId> {
        (1..=ComputeNodeId::MAX)
            .filter_map(ComputeNodeId::new)
            .filter(move |n| self.is_shared_by(*n))
    }
}

impl fmt::Debug for Owners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.holder() {
            Some(id) => write!(f, "({id:?}, {{")?,
            None => write!(f, "({}, {{", self.exclusive)?,
        }
        for (at, id) in self.sharers().enumerate() {
            write!(f, "{}{id:?}", if at > 0 { ", " } else { "" })?;
        }
        f.write_str("})")
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn owners_name_the_holder_first_and_then_the_others() {
        let node = |id| ComputeNodeId::new(id).expect("a valid id");
        let shared = Owners::default().with(node(9), Ownership::Shared);
        let shared = shared.with(node(1), Ownership::Shared).with(node(4), Ownership::Invalid);
        assert_eq!(format!("{shared:?}"), "(0, {C1, C9})");
        assert!(shared.is_shared_by(node(9)) && !shared.is_shared_by(node(4)));
        let owned = shared.with(node(2), Ownership::Exclusive);
        assert_eq!(format!("{owned:?}"), "(C2, {C1, C9})");
        assert_eq!(owned.named().collect::<Vec<_>>(), [node(2), node(1), node(9)]);
        assert_eq!(Owners { exclusive: 63, shared: 0 }.holder(), None);
    }
}
