//! [`NodeName`] and [`NodeIncarnation`]: the names of nodes, without and with a member epoch.

use std::fmt;
use std::str::FromStr;

use latchwork_verbs::{ComputeNodeId, MemoryNodeId};

/// The name of a node in a cluster, written `M0` or `C7`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeName {
    /// A memory node. The ids begin at 0.
    Memory(MemoryNodeId),
    /// A compute node. The ids are 1 to 58.
    Compute(ComputeNodeId),
}

impl NodeName {
    /// "memory" or "compute".
    pub fn kind(self) -> &'static str {
        match self {
            NodeName::Memory(_) => "memory",
            NodeName::Compute(_) => "compute",
        }
    }

    /// The id of a compute node, or `None`.
    pub fn compute(self) -> Option<ComputeNodeId> {
        match self {
            NodeName::Compute(id) => Some(id),
            NodeName::Memory(_) => None,
        }
    }

    /// The id of a memory node, or `None`.
    pub fn memory(self) -> Option<MemoryNodeId> {
        match self {
            NodeName::Memory(id) => Some(id),
            NodeName::Compute(_) => None,
        }
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeName::Memory(id) => write!(f, "M{}", id.0),
            NodeName::Compute(id) => write!(f, "C{}", id.get()),
        }
    }
}

impl fmt::Debug for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for NodeName {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let canonical = |digits: &str| !digits.starts_with(['0', '+']) || digits == "0";
        match text.split_at_checked(1) {
            Some(("M", id)) if canonical(id) => {
                id.parse().map(|id| NodeName::Memory(MemoryNodeId(id))).map_err(drop)
            }
            Some(("C", id)) if canonical(id) => {
                let id = id.parse().ok().and_then(ComputeNodeId::new);
                id.map(NodeName::Compute).ok_or(())
            }
            _ => Err(()),
        }
    }
}

/// A node with its member epoch, written `C7@41`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeIncarnation {
    /// The node.
    pub node: NodeName,
    /// The member epoch of the node.
    pub epoch: u64,
}

impl fmt::Display for NodeIncarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.node, self.epoch)
    }
}

impl FromStr for NodeIncarnation {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (node, epoch) = text.split_once('@').ok_or(())?;
        Ok(NodeIncarnation { node: node.parse()?, epoch: epoch.parse().map_err(drop)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_read_as_it_is_written_and_nothing_else_is() {
        for text in ["M0", "M65535", "C1", "C58"] {
            assert_eq!(text.parse::<NodeName>().unwrap().to_string(), text);
        }
        for text in ["", "C", "M", "C0", "C59", "C01", "M00", "M65536", "M+1", "X1", "m1", "ä1"] {
            assert!(text.parse::<NodeName>().is_err(), "{text:?}");
        }
    }
}
