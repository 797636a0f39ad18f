//! [`HomePlace`]: where the homes of the lines are.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use latchwork_verbs::{ComputeNodeId, GlobalAddr, MemoryNodeId, Region, RegionKey, Words};

/// The compute node that is the agent of this memory node. Agents have the highest ids. `None`:
/// there are more memory nodes than ids.
pub fn agent(memory: MemoryNodeId) -> Option<ComputeNodeId> {
    u8::try_from(memory.0)
        .ok()
        .and_then(|index| ComputeNodeId::MAX.checked_sub(index))
        .and_then(ComputeNodeId::new)
}

/// The compute node in the process of this memory node, where the homes are at compute nodes.
/// `None`: there are more memory nodes than ids.
pub fn beside(memory: MemoryNodeId) -> Option<ComputeNodeId> {
    memory.0.checked_add(1).and_then(|id| u8::try_from(id).ok()).and_then(ComputeNodeId::new)
}

/// Where the homes of the lines are.
#[derive(Clone, Default)]
pub enum HomePlace {
    /// Agents of the memory nodes.
    #[default]
    Agents,
    /// The compute nodes. Each has a memory node in its process, and is the home of its lines.
    Compute {
        /// The memory of the memory node.
        memory: Arc<Region>,
        /// The key of that memory, which is the same at all compute nodes.
        key: RegionKey,
    },
}

impl HomePlace {
    /// The home of the lines of a memory node.
    pub(crate) fn home(&self, memory: MemoryNodeId) -> Option<ComputeNodeId> {
        match self {
            HomePlace::Agents => agent(memory),
            HomePlace::Compute { .. } => beside(memory),
        }
    }

    /// The key of the memory of homes. An agent's arena is the memory of its memory node.
    pub(crate) fn key(&self, arena: RegionKey) -> RegionKey {
        match self {
            HomePlace::Agents => arena,
            HomePlace::Compute { key, .. } => *key,
        }
    }

    /// Bytes of a line in this node's own memory. `None`: the memory does not have them.
    pub(crate) fn bytes(&self, line: GlobalAddr, range: Range<usize>) -> Option<Words<'_>> {
        let HomePlace::Compute { memory, .. } = self else { return None };
        let first = usize::try_from(line.offset()).ok()?;
        let end = first.checked_add(range.end)?;
        (end <= memory.len()).then(|| memory.words().slice(first + range.start..end))
    }
}

impl fmt::Debug for HomePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HomePlace::Agents => "Agents",
            HomePlace::Compute { .. } => "Compute",
        })
    }
}
