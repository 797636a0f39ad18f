//! A node with its protocol, as the code that knows no protocol sees it, and the start of its
//! workers.

use std::rc::Rc;
use std::sync::Arc;

use latchwork_fabric::{AnyInbox, Port};
use latchwork_runtime::Handle;
use latchwork_runtime::sync::Mutex;
use latchwork_verbs::{ComputeNodeId, GlobalAddr};

use crate::alarms::Alarm;
use crate::inner::{Inner, Kept};
use crate::lines::{Node, NodeLines, Worker};
use crate::node::CoherenceNode;
use crate::node_core::NodeParts;
use crate::poller::Pump;
use crate::protocol::{CoherenceProtocol, LineState};
use crate::record::{Record, Records};
use crate::worker_core::Role;

impl Node {
    /// Builds a node that runs this protocol from its parts.
    pub fn new(parts: NodeParts, protocol: impl CoherenceProtocol) -> Arc<Node> {
        Self::of(&CoherenceNode::new(parts, protocol))
    }

    pub(crate) fn of<P: CoherenceProtocol>(node: &Arc<CoherenceNode<P>>) -> Arc<Node> {
        Arc::new(Node { core: node.core.clone(), lines: node.clone() })
    }
}

/// Whether the record is more than the entry of a home for other nodes.
fn is_in_flight<L: LineState>(record: &Record<L>) -> bool {
    !(record.line.is_for_others() && record.local.is_over())
}

impl<P: CoherenceProtocol> NodeLines for CoherenceNode<P> {
    fn is_in_flight(&self, line: GlobalAddr) -> bool {
        self.records.shard(line).lock().get(&line).is_some_and(is_in_flight)
    }

    fn in_flight(&self) -> usize {
        let own = |shard: &Mutex<Records<P::Line>>| {
            shard.lock().values().filter(|record| is_in_flight(record)).count()
        };
        self.records.shards().map(own).sum()
    }

    fn lost_frames(&self) -> usize {
        let lost = |shard: &Mutex<Records<P::Line>>| {
            let records = shard.lock();
            let locals = records.values().map(|record| &record.local);
            locals.filter(|local| local.failed.is_some() && local.frame.is_some()).count()
        };
        self.records.shards().map(lost).sum()
    }

    fn recovers_from(&self, peer: ComputeNodeId) -> bool {
        let recovers = |record: &Record<P::Line>| record.line.recovers_from(peer);
        self.records.shards().any(|shard| shard.lock().values().any(recovers))
    }

    fn survives(&self) -> bool {
        self.protocol.survives()
    }

    fn gives(&self) -> bool {
        let gone = self.core.gone();
        let gives = |record: &Record<P::Line>| record.line.gives(gone);
        self.records.shards().any(|shard| shard.lock().values().any(gives))
    }

    fn is_clear_of(&self, line: GlobalAddr, dead: ComputeNodeId) -> bool {
        let is_clear = |record: &Record<P::Line>| {
            record.local.failed.is_some() || record.line.is_clear_of(dead)
        };
        self.records.shard(line).lock().get(&line).is_none_or(is_clear)
    }

    fn start(
        self: Arc<Self>,
        role: Role,
        node: &Arc<Node>,
        port: Rc<Port>,
        inbox: AnyInbox,
        handle: &Handle,
    ) -> Worker {
        let kept = Rc::new(Kept::<P>::default());
        let inner = Inner::new(role, (node, &self), port, inbox, handle, &kept);
        handle.add_poller(Rc::new(Pump { inner: Rc::downgrade(&inner), kept }));
        let core = inner.core.clone();
        core.lines.replace(Some(inner));
        if role == Role::Handler
            && let Some(cleaner) = &core.node.cleaner
        {
            let first = cleaner.start(handle.now());
            core.node.timers.set(first, GlobalAddr::NULL, Alarm::Clean);
        }
        Worker { core }
    }
}
