//! [`CoherenceNode`]: a compute node with its protocol.

use std::ops::Deref;
use std::sync::Arc;

use crate::node_core::{NodeCore, NodeParts};
use crate::protocol::CoherenceProtocol;
use crate::record::RecordTable;

/// A compute node with its protocol.
pub(crate) struct CoherenceNode<P: CoherenceProtocol> {
    pub(crate) core: Arc<NodeCore>,
    pub(crate) protocol: P,
    pub(crate) records: RecordTable<P::Line>,
}

impl<P: CoherenceProtocol> CoherenceNode<P> {
    pub(crate) fn new(parts: NodeParts, protocol: P) -> Arc<CoherenceNode<P>> {
        let core = Arc::new(NodeCore::new(
            parts,
            protocol.lazy_release(),
            protocol.clears_copies_at_once(),
            protocol.persists(),
        ));
        Arc::new(CoherenceNode { core, protocol, records: RecordTable::new() })
    }
}

impl<P: CoherenceProtocol> Deref for CoherenceNode<P> {
    type Target = NodeCore;

    fn deref(&self) -> &NodeCore {
        &self.core
    }
}
