//! Scenarios from seeds: swarm testing (Groce and others, ISSTA 2012). Each world has a random few of
//! all features, so that what one of them hides, others show.

use latchwork_cluster::Protocol;
use latchwork_workload::random::Random;

use super::{FaultPlan, LinesLoad, Network, Scenario, Workload, WorkloadKind};

/// What [`Scenario::from_seed`] may choose from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Choice {
    /// The workloads; none for all there are.
    pub workloads: Vec<WorkloadKind>,
    /// The networks; none for all that need no profile.
    pub networks: Vec<Network>,
    /// Whether faults strike.
    pub faults: bool,
}

impl Default for Choice {
    fn default() -> Self {
        Choice { workloads: Vec::new(), networks: Vec::new(), faults: true }
    }
}

struct Draw(Random);

impl Draw {
    fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.0.below(most - least + 1)
    }

    fn one_of<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.0.below(of.len() as u64) as usize].clone()
    }

    fn chance(&mut self, one_in: u64) -> bool {
        self.0.below(one_in) == 0
    }
}

impl Scenario {
    /// The scenario of a seed, within `of`: small, and unlike its neighbours.
    pub fn from_seed(seed: u64, of: &Choice) -> Scenario {
        let mut draw = Draw(Random::for_stream(seed, 0));
        let kinds =
            if of.workloads.is_empty() { &[WorkloadKind::Lines][..] } else { &of.workloads };
        let kind = draw.one_of(kinds);
        let networks = [Network::Calm, Network::Rough, Network::Harsh];
        let networks = if of.networks.is_empty() { &networks[..] } else { &of.networks };
        let mut scenario = Scenario {
            seed,
            compute_nodes: draw.between(2, 6) as usize,
            memory_nodes: draw.between(1, 3) as usize,
            workers: draw.between(1, 3) as usize,
            tasks: draw.between(1, 3) as usize,
            operations: 0,
            protocol: if draw.chance(6) { Protocol::Sel } else { Protocol::Selcc },
            network: draw.one_of(networks),
            frames: draw.between(4, 32) as usize,
            line_size: draw.one_of(&[512, 1024]),
            workload: draw.workload(kind),
            ..Scenario::default()
        };
        let tasks = (scenario.compute_nodes * scenario.workers * scenario.tasks) as u64;
        scenario.operations = (draw.between(200, 800) / tasks).max(5);
        if of.faults {
            scenario.faults = draw.faults(&scenario);
        }
        scenario
    }
}

impl Draw {
    fn workload(&mut self, kind: WorkloadKind) -> Workload {
        match kind {
            WorkloadKind::Lines => {
                let writes = self.one_of(&[0, 10, 30, 50]);
                Workload::Lines(LinesLoad {
                    lines: self.one_of(&[1, 2, 4, 8, 16, 40]),
                    writes,
                    upgrades: self.one_of(&[0, 10, 30]),
                    dropped: self.one_of(&[0, 0, 15]),
                    atomics: self.one_of(&[0, 5]),
                    zipfian: self.chance(2),
                })
            }
        }
    }

    fn faults(&mut self, _of: &Scenario) -> FaultPlan {
        FaultPlan::default()
    }
}
