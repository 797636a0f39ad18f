//! [`Usage`]: the load of a simulated cluster, which shows the bottleneck of a run.

use std::time::Duration;

use latchwork_simulation::Time;
use latchwork_verbs_sim::NicWork;

use crate::Simulated;

/// The working time of NICs, workers and agents from the start of the world up to one time. The
/// difference of two values is the work between their times.
#[derive(Clone, Debug)]
pub struct Usage {
    /// The end of the counted time.
    pub at: Time,
    /// The NICs of all nodes. Their atomics count only if the protocol has latch words.
    pub nics: Vec<NicWork>,
    /// The CPU time of each worker that exists now, without handlers, with the index of its compute
    /// node.
    pub workers: Vec<(usize, Duration)>,
    /// The CPU time of each core of each agent, with the index of its memory node.
    pub agents: Vec<(usize, Duration)>,
}

impl Simulated {
    /// The working time of NICs, workers and agents so far.
    pub fn usage(&self) -> Usage {
        let mut nics = self.network().nic_work();
        if self.config().protocol.has_homes() {
            // Such a protocol has no latch words. The few atomics are about the memory pool.
            nics.iter_mut().for_each(|nic| nic.atomics.clear());
        }
        let (workers, agents) = (self.worked(), self.agents_worked());
        Usage { at: self.kernel().now(), nics, workers, agents }
    }
}
