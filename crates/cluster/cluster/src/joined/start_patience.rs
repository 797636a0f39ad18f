//! [`StartPatience`]: how long a starting node waits for other nodes. [`StartWait`]: the event that
//! the node waits for.

use std::fmt;
use std::time::Duration;

use latchwork_membership::NodeName;

/// How long a starting node waits for other nodes.
#[derive(Clone, Copy)]
pub struct StartPatience<'a> {
    /// The limit of each wait.
    pub limit: Duration,
    /// Called with the awaited event several times a second. The wait ends when it returns false.
    pub goes_on: &'a dyn Fn(&StartWait) -> bool,
}

impl From<Duration> for StartPatience<'static> {
    fn from(limit: Duration) -> Self {
        StartPatience { limit, goes_on: &|_| true }
    }
}

impl fmt::Debug for StartPatience<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Patience").field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// The event that a starting node waits for. As text, the event follows "waits for".
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StartWait {
    /// Memory nodes are missing.
    Memory {
        /// The number of memory nodes that are there.
        there: usize,
        /// The number that the configuration needs.
        wanted: usize,
    },
    /// A memory node is a member, but cannot be reached.
    Reach {
        /// The node.
        node: NodeName,
        /// The result of the last attempt.
        why: String,
    },
    /// Members have not reported yet that they know this node.
    Introductions,
    /// The memory nodes are not formatted yet.
    Format {
        /// The node that formats them.
        maker: String,
    },
    /// Compute nodes of the same run are missing.
    Compute {
        /// The nodes that have come, with this node.
        there: Vec<NodeName>,
        /// The number that the run needs.
        wanted: usize,
        /// The nodes in a run that began without this node.
        begun: Vec<NodeName>,
    },
}

impl fmt::Display for StartWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = |there: usize, wanted: usize, kind: &str| {
            let missing = wanted.saturating_sub(there);
            let s = if missing == 1 { "" } else { "s" };
            format!("{missing} more {kind} node{s}")
        };
        match self {
            StartWait::Memory { there, wanted } => {
                write!(f, "{}: start memnode with the same --join", more(*there, *wanted, "memory"))
            }
            StartWait::Reach { node, why } => write!(f, "{node}, which it cannot reach: {why}"),
            StartWait::Introductions => write!(f, "nodes that are there to learn of this one"),
            StartWait::Format { maker } => write!(f, "{maker} to format the memory nodes"),
            StartWait::Compute { there, wanted, begun } => {
                write!(f, "{}", more(there.len(), *wanted, "compute"))?;
                write!(f, "; here: {}", listed(there))?;
                if !begun.is_empty() {
                    write!(f, "; {} began a run without it", listed(begun))?;
                }
                Ok(())
            }
        }
    }
}

/// A list of names for messages.
pub(crate) fn listed(nodes: &[NodeName]) -> String {
    nodes.iter().map(NodeName::to_string).collect::<Vec<_>>().join(", ")
}
