//! [`Patience`]: how long a starting node waits for other nodes, and for which event.

use std::fmt;
use std::time::Duration;

use latchwork_membership::NodeName;

use super::group::listed;

/// How long to wait for other nodes.
#[derive(Clone, Copy)]
pub struct Patience<'a> {
    /// The limit of each wait.
    pub limit: Duration,
    /// Gets the awaited event several times a second. The wait ends when this returns false.
    pub goes_on: &'a dyn Fn(&Waiting) -> bool,
}

impl From<Duration> for Patience<'static> {
    fn from(limit: Duration) -> Self {
        Patience { limit, goes_on: &|_| true }
    }
}

impl fmt::Debug for Patience<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Patience").field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// The event that a starting node waits for. Its text follows "waits for".
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Waiting {
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
    /// Members have not learned of this node yet.
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

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = |there: usize, wanted: usize, kind: &str| {
            let missing = wanted.saturating_sub(there);
            let s = if missing == 1 { "" } else { "s" };
            format!("{missing} more {kind} node{s}")
        };
        match self {
            Waiting::Memory { there, wanted } => {
                write!(f, "{}: start memnode with the same --join", more(*there, *wanted, "memory"))
            }
            Waiting::Reach { node, why } => write!(f, "{node}, which it cannot reach: {why}"),
            Waiting::Introductions => write!(f, "nodes that are there to learn of this one"),
            Waiting::Format { maker } => write!(f, "{maker} to format the memory nodes"),
            Waiting::Compute { there, wanted, begun } => {
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
