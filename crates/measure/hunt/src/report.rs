//! [`WorldReport`]: the result of a world, which is one simulated cluster with its faults.

use std::fmt;
use std::time::Duration;

use latchwork_blink::TreeStatistics;
use latchwork_simulation::Time;
use latchwork_verbs_sim::FaultCounts;

/// The counts of a world, and its first failure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorldReport {
    /// The scenario's seed.
    pub seed: u64,
    /// The event hash: the hash of all events.
    pub hash: u64,
    /// Events of the simulation.
    pub events: u64,
    /// Work requests that took effect at their targets.
    pub verbs: u64,
    /// The virtual time at the end of the world.
    pub virtual_time: Duration,
    /// Operations of the workload that ended with an answer.
    pub operations: u64,
    /// Operations that ended with an error that the world's faults permit.
    pub clean_errors: u64,
    /// Keys for which the check of linearizability gave up, because too many of their calls
    /// overlap.
    pub undecided: u64,
    /// The number of injected faults of batches and messages, by kind.
    pub faults: FaultCounts,
    /// The injected faults of whole nodes.
    pub node_faults: NodeFaults,
    /// The statistics of the tree at the end, if there was one.
    pub tree: Option<TreeStatistics>,
    /// The first failure, if there was one.
    pub failure: Option<WorldFailure>,
}

impl WorldReport {
    /// A report without events, for a world that did not run.
    pub(crate) fn of_seed(seed: u64) -> WorldReport {
        WorldReport {
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

/// Injected faults of whole nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeFaults {
    /// Compute nodes paused.
    pub pauses: u64,
    /// Compute nodes that crashed.
    pub deaths: u64,
    /// Compute nodes that lost their lease and kept running.
    pub lapses: u64,
    /// Dead compute nodes whose epoch slots were emptied.
    pub reclaims: u64,
    /// Nodes that joined under the ids of dead ones.
    pub replacements: u64,
    /// Memory nodes lost.
    pub lost_memory: u64,
    /// Compute nodes slowed down.
    pub slow: u64,
}

/// The failure of a world.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorldFailure {
    /// The check that failed.
    pub check: WorldCheck,
    /// The finding, as text.
    pub text: String,
    /// The virtual time of the finding.
    pub at: Time,
}

/// The checks of a world.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum WorldCheck {
    /// After every event: each line has one writer or many readers, and the latch word names them.
    Owners,
    /// After every event: each node that may read a line has the value that was written last.
    Values,
    /// For each line or key, one order of the calls explains all answers and agrees with time.
    Linearizability,
    /// One order of all calls explains all answers and keeps each task's own order.
    SequentialConsistency,
    /// Reads of buffered writes agree with total or partial store order, as the write buffer
    /// promises, and every lost write is reported.
    StoreOrder,
    /// One order of all committed transactions explains everything that they read, and agrees with
    /// time.
    Serializability,
    /// The tree is valid at the end.
    Tree,
    /// At the end no operation is in progress, and each frame and each line of the pool is free or
    /// in known use.
    Leak,
    /// An operation took too long, or a worker did not finish its work.
    Starvation,
    /// Code panicked.
    Panic,
    /// An operation failed with an error that the world's faults do not permit.
    Error,
    /// The scenario is invalid.
    Scenario,
}

impl fmt::Display for WorldCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WorldCheck::Owners => "owners",
            WorldCheck::Values => "values",
            WorldCheck::Linearizability => "linearizability",
            WorldCheck::SequentialConsistency => "sequential consistency",
            WorldCheck::StoreOrder => "store order",
            WorldCheck::Serializability => "serializability",
            WorldCheck::Tree => "tree",
            WorldCheck::Leak => "leak",
            WorldCheck::Starvation => "starvation",
            WorldCheck::Panic => "panic",
            WorldCheck::Error => "error",
            WorldCheck::Scenario => "scenario",
        })
    }
}

impl fmt::Display for WorldFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.check, self.at, self.text)
    }
}
