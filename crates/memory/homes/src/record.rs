//! [`Homes`]: the entries of all agents, as the [`Truth`] for checks of simulated worlds.

use std::collections::HashMap;
use std::sync::Arc;

use latchwork_cache::Ownership;
use latchwork_directory::Home;
use latchwork_engine::{Owners, Truth};
use latchwork_runtime::sync::Mutex;
use latchwork_verbs::{ComputeNodeId, GlobalAddr};

/// The holders in the entries of an agent, and the node that has the newest bytes.
#[derive(Debug, Default)]
pub struct Holders {
    lines: Mutex<HashMap<GlobalAddr, (Owners, Option<ComputeNodeId>)>>,
}

impl Holders {
    /// Notes the entry of a line after a step.
    pub(crate) fn note(&self, line: GlobalAddr, home: &Home) {
        let mut lines = self.lines.lock();
        if home.is_absent() {
            lines.remove(&line);
            return;
        }
        // The dead node keeps a lost line.
        let owners = match home.exclusive().or(home.lost()) {
            Some(holder) => Owners::default().with(holder, Ownership::Exclusive),
            None => Owners { exclusive: 0, shared: home.shared().bits() },
        };
        lines.insert(line, (owners, home.source().or(home.lost())));
    }

    fn entry(&self, line: GlobalAddr) -> (Owners, Option<ComputeNodeId>) {
        self.lines.lock().get(&line).copied().unwrap_or_default()
    }
}

/// The entries of all agents.
#[derive(Debug)]
pub struct Homes(Vec<Arc<Holders>>);

impl Homes {
    /// The entries of the agents, in the order of their memory nodes.
    pub fn new(agents: Vec<Arc<Holders>>) -> Homes {
        Homes(agents)
    }

    fn entry(&self, line: GlobalAddr) -> (Owners, Option<ComputeNodeId>) {
        let agent = self.0.get(usize::from(line.node().0));
        agent.map(|agent| agent.entry(line)).unwrap_or_default()
    }
}

/// The home names a node as soon as its tenure begins, and no longer as soon as the tenure is
/// directed to end. So a cache may have a copy that the home has directed away, as long as another
/// node waits for that copy or for its end. No cache has a copy of a line without an entry.
impl Truth for Homes {
    fn name(&self) -> &'static str {
        "entry"
    }

    fn owners(&self, line: GlobalAddr) -> Owners {
        self.entry(line).0
    }

    /// A node writes its changes back before the message that ends its tenure. So while the home
    /// names no source, memory is current, even with verbs in flight.
    fn newest(&self, line: GlobalAddr, _owners: Owners) -> Option<ComputeNodeId> {
        self.entry(line).1
    }

    fn outlives_holders(&self) -> bool {
        true
    }

    fn permits(
        &self,
        owners: Owners,
        _node: ComputeNodeId,
        copy: Ownership,
        _gives: &dyn Fn(ComputeNodeId) -> bool,
    ) -> bool {
        copy == Ownership::Invalid || owners != Owners::default()
    }
}
