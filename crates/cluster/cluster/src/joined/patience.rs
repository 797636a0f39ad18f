//! [`Patience`]: how long a node that starts waits for others, and what it waits for meanwhile.

use std::fmt;
use std::time::Duration;

use latchwork_membership::NodeName;

use super::group::listed;

/// How long to wait for others.
#[derive(Clone, Copy)]
pub struct Patience<'a> {
    /// For each of them at most so long.
    pub limit: Duration,
    /// Hears, several times a second, what is waited for. Not any more once it says no.
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

/// What a node that starts waits for. In words, it follows "waits for".
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Waiting {
    /// Memory nodes.
    Memory {
        /// Those that are there.
        there: usize,
        /// Those that are wanted.
        wanted: usize,
    },
    /// A memory node that is there, and cannot be reached.
    Reach {
        /// The node.
        node: NodeName,
        /// What came of the last attempt.
        why: String,
    },
    /// Nodes that are there, and have to learn of this one.
    Introductions,
    /// The memory nodes are formatted.
    Format {
        /// By this node.
        maker: String,
    },
    /// Compute nodes of the same run.
    Compute {
        /// Those that are there, this one among them.
        there: Vec<NodeName>,
        /// How many are wanted.
        wanted: usize,
        /// Those that are at a run which began without this one.
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
