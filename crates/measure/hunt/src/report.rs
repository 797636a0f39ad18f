//! [`Report`]: what came of a world.

use std::fmt;
use std::time::Duration;

use latchwork_blink::TreeStatistics;
use latchwork_simulation::Time;
use latchwork_verbs_sim::FaultCounts;

/// What a world was like, and what was wrong with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// The scenario's seed.
    pub seed: u64,
    /// The hash of all that happened.
    pub hash: u64,
    /// Events of the kernel.
    pub events: u64,
    /// Requests that took effect at their targets.
    pub verbs: u64,
    /// How long the world lasted, in its own time.
    pub virtual_time: Duration,
    /// Operations of the workload that ended with an answer.
    pub operations: u64,
    /// Operations that ended with an error, where errors are allowed.
    pub clean_errors: u64,
    /// Keys of which the judge of linearizability could not tell: too many of their calls overlap.
    pub undecided: u64,
    /// How often each fault struck that strikes by chance.
    pub faults: FaultCounts,
    /// Which faults struck whole nodes.
    pub node_faults: NodeFaults,
    /// What the tree was like in the end, where there was one.
    pub tree: Option<TreeStatistics>,
    /// The first thing that was wrong, if anything was.
    pub failure: Option<Failure>,
}

impl Report {
    /// Of a world in which nothing has happened.
    pub(crate) fn of_seed(seed: u64) -> Report {
        Report {
            seed,
            hash: 0,
            events: 0,
            verbs: 0,
            virtual_time: Duration::ZERO,
            operations: 0,
            clean_errors: 0,
            undecided: 0,
            faults: FaultCounts::default(),
            node_faults: NodeFaults::default(),
            tree: None,
            failure: None,
        }
    }
}

/// Faults of whole nodes that struck.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeFaults {
    /// Compute nodes paused.
    pub pauses: u64,
    /// Compute nodes that died.
    pub deaths: u64,
    /// Compute nodes that lost their lease while they ran.
    pub lapses: u64,
    /// Compute nodes that were buried.
    pub burials: u64,
    /// Memory nodes lost.
    pub lost_memory: u64,
    /// Compute nodes slowed down.
    pub slow: u64,
}

/// What was wrong with a world.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Which check said so.
    pub check: Check,
    /// What it said, for a person.
    pub text: String,
    /// When.
    pub at: Time,
}

/// The checks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Check {
    /// At every step: one writer or many readers, and as the latch words say.
    Owners,
    /// At every step: whoever may read a line has the last value written.
    Values,
    /// One order per line or key explains all answers, in real time.
    Linearizability,
    /// One order of all calls explains all answers, in each task's own order.
    SequentialConsistency,
    /// What is seen of buffered writes is what their order promises, and none is lost untold.
    StoreOrder,
    /// The tree is whole at the end.
    Tree,
    /// At the end nothing is under way, and every line and frame is accounted for.
    Leak,
    /// A worker did not end its work.
    Starvation,
    /// Something panicked.
    Panic,
    /// An operation failed where none may fail.
    Error,
    /// The scenario describes no world.
    Scenario,
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Check::Owners => "owners",
            Check::Values => "values",
            Check::Linearizability => "linearizability",
            Check::SequentialConsistency => "sequential consistency",
            Check::StoreOrder => "store order",
            Check::Tree => "tree",
            Check::Leak => "leak",
            Check::Starvation => "starvation",
            Check::Panic => "panic",
            Check::Error => "error",
            Check::Scenario => "scenario",
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.check, self.at, self.text)
    }
}
