//! [`CoherenceNode`]: a compute node, with the records of its lines.

use std::ops::Deref;
use std::sync::Arc;

use latchwork_runtime::sync::Mutex;
use latchwork_verbs::GlobalAddr;

use crate::node_core::{NodeCore, NodeParts};
use crate::protocol::CoherenceProtocol;
use crate::record::{RecordTable, Records};

/// A compute node: its cache and the records of its lines. All workers of the node share it.
pub struct CoherenceNode<P: CoherenceProtocol> {
    pub(crate) core: Arc<NodeCore>,
    pub(crate) protocol: P,
    pub(crate) records: RecordTable<P::Line>,
}

impl<P: CoherenceProtocol> CoherenceNode<P> {
    /// Builds a node from its parts.
    pub fn new(parts: NodeParts, protocol: P) -> Arc<CoherenceNode<P>> {
        let core = Arc::new(NodeCore::new(parts, protocol.lazy_release()));
        Arc::new(CoherenceNode { core, protocol, records: RecordTable::new() })
    }

    /// Whether this line has a record: see [`CoherenceNode::lines_in_flight`]. An evicted line
    /// keeps its record after it has left its frame, until its changes have arrived in memory.
    pub fn is_in_flight(&self, line: GlobalAddr) -> bool {
        self.records.shard(line).lock().contains_key(&line)
    }

    /// The number of lines with a record: lines that are being obtained, released or requested,
    /// lines in a hold-off, and failed lines. Zero on a node at rest without failed lines.
    pub fn lines_in_flight(&self) -> usize {
        self.records.len()
    }

    /// The number of frames of failed lines. Such a frame serves no other line, for example because
    /// an answer to an invalidation request may still be written into it.
    pub fn lost_frames(&self) -> usize {
        let lost = |shard: &Mutex<Records<P::Line>>| {
            let records = shard.lock();
            let locals = records.values().map(|record| &record.local);
            locals.filter(|local| local.failed.is_some() && local.frame.is_some()).count()
        };
        self.records.shards().map(lost).sum()
    }
}

/// The fields and functions of [`NodeCore`] are those of the node.
impl<P: CoherenceProtocol> Deref for CoherenceNode<P> {
    type Target = NodeCore;

    fn deref(&self) -> &NodeCore {
        &self.core
    }
}
