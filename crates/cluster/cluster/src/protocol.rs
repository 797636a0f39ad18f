//! [`Protocol`]: the coherence protocol of a cluster, chosen at run time.
//!
//! This is the one place between the engine and the programs that names the protocols. All other
//! code there uses the types of this file. The worlds of hunts draw from some protocols by name
//! (`latchwork_hunt::Scenario::from_seed`), and so do some tests.

use std::fmt;
use std::sync::Arc;

use latchwork_engine::{NodeParts, Truth};
use latchwork_memnode::Geometry;
pub(crate) use latchwork_selcc::ARENA_MAX;
use latchwork_selcc::{LatchWords, Selcc};
pub use latchwork_selcc::{Policy, describe, describe_atomic, describe_word, read_message};
use latchwork_verbs::Region;

/// A compute node of a cluster.
pub type Node = latchwork_engine::CoherenceNode<Selcc>;
/// One worker's view of its node's coherent memory.
pub type Worker = latchwork_engine::Worker<Selcc>;
/// The right of an access to use a line once before the line may leave its node.
pub type Ticket = latchwork_engine::Ticket<Selcc>;
/// A line lock of a transaction, which keeps the line at its node.
pub type Lock = latchwork_engine::Lock<Selcc>;

/// Builds a compute node that runs the protocol of this policy.
pub(crate) fn new_node(parts: NodeParts, policy: Policy) -> Arc<Node> {
    let protocol = Selcc::new(policy, &parts.settings);
    Node::new(parts, protocol)
}

/// What the protocol itself says of the lines of a pool, whose memory nodes have these memories.
pub(crate) fn truth(geometry: Geometry, memories: Vec<Arc<Region>>) -> Box<dyn Truth> {
    Box::new(LatchWords::new(geometry, memories))
}

/// A coherence protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Protocol {
    /// SELCC: lines stay in the cache until another node requests them.
    #[default]
    Selcc,
    /// SEL: the baseline, which releases a line after every access.
    Sel,
}

impl Protocol {
    /// All protocols.
    pub const ALL: [Protocol; 2] = [Protocol::Selcc, Protocol::Sel];

    /// The names of all protocols, for messages.
    pub(crate) fn names() -> String {
        Self::ALL.map(Protocol::name).join(" and ")
    }

    /// The protocol's name.
    pub const fn name(self) -> &'static str {
        self.policy().name
    }

    /// The policy with which [`Node`] runs this protocol.
    pub const fn policy(self) -> Policy {
        match self {
            Protocol::Selcc => Policy::SELCC,
            Protocol::Sel => Policy::SEL,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
