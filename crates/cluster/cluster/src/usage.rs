//! [`Usage`]: how much of a simulated cluster was in use, which says what limits a run.

use std::time::Duration;

use latchwork_simulation::Time;
use latchwork_verbs_sim::NicWork;

use crate::Simulated;

/// How long NICs and workers have worked, up to one time. What they did in between two times is the
/// difference.
#[derive(Clone, Debug)]
pub struct Usage {
    /// Up to when.
    pub at: Time,
    /// The NICs of all nodes.
    pub nics: Vec<NicWork>,
    /// The workers that there are, without handlers, with the index of their compute node.
    pub workers: Vec<(usize, Duration)>,
}

impl Simulated {
    /// How long NICs and workers have worked so far.
    pub fn usage(&self) -> Usage {
        Usage { at: self.kernel().now(), nics: self.network().nic_work(), workers: self.worked() }
    }
}
