//! [`Role`]: the role of a node.

use latchwork_verbs::{ComputeNodeId, MemoryNodeId};
use serde::{Deserialize, Serialize};

use crate::error::MembershipError;
use crate::name::NodeName;

/// The role of a node in a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A memory node.
    Memory {
        /// The size of the memory in bytes.
        bytes: u64,
        /// The size of the on-chip memory of its NIC in bytes.
        #[serde(default)]
        chip_bytes: u64,
    },
    /// A compute node: it caches lines and runs code.
    Compute,
}

impl Role {
    /// The node of this role with this id.
    pub(crate) fn node(self, id: u16) -> Result<NodeName, MembershipError> {
        match self {
            Role::Memory { .. } => Ok(NodeName::Memory(MemoryNodeId(id))),
            Role::Compute => u8::try_from(id)
                .ok()
                .and_then(ComputeNodeId::new)
                .map(NodeName::Compute)
                .ok_or(MembershipError::Id { id, kind: self.kind(), range: "1 to 58" }),
        }
    }

    /// All names that nodes of this role can have, in the order of the ids.
    pub(crate) fn nodes(self) -> Box<dyn Iterator<Item = NodeName>> {
        match self {
            Role::Memory { .. } => {
                Box::new((0..=u16::MAX).map(|id| NodeName::Memory(MemoryNodeId(id))))
            }
            Role::Compute => Box::new(
                (1..=ComputeNodeId::MAX).filter_map(ComputeNodeId::new).map(NodeName::Compute),
            ),
        }
    }

    pub(crate) fn kind(self) -> &'static str {
        match self {
            Role::Memory { .. } => "memory",
            Role::Compute => "compute",
        }
    }
}
