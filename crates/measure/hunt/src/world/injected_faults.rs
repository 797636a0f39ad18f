//! The injected faults of whole nodes, and the draw of their times.

use std::time::Duration;

use latchwork_cluster::Simulated;
use latchwork_verbs::MemoryNodeId;
use latchwork_workload::random::WorkloadRandom;

use crate::{NodeFaults, Scenario};

/// A fault of a whole node. Nodes count from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Strike {
    Pause {
        node: usize,
        lasts: Duration,
    },
    Death {
        node: usize,
    },
    /// A crash of a node. Its submitted requests stay in flight.
    Silence {
        node: usize,
    },
    /// The end of a node's lease. The node keeps running.
    Lapse {
        node: usize,
    },
    LostMemory {
        node: usize,
    },
    Slow {
        node: usize,
        times: u32,
    },
}

/// The random stream of the faults. Faults have a stream of their own, so that the tasks draw the
/// same operations with and without faults.
const STREAM: u64 = u64::MAX;

/// The faults of a scenario, with their times since the start of the workload, in order.
pub(super) fn strikes(scenario: &Scenario) -> Vec<(Duration, Strike)> {
    let plan = &scenario.faults;
    let mut random = WorkloadRandom::for_stream(scenario.seed, STREAM);
    let until = plan.until_us * 1_000;
    let mut strikes = Vec::new();
    let mut add = |random: &mut WorkloadRandom, strike: Strike| {
        strikes.push((Duration::from_nanos(random.below(until)), strike));
    };
    for _ in 0..plan.pauses {
        let node = random.below(scenario.compute_nodes as u64) as usize;
        let lasts = Duration::from_nanos(1 + random.below(plan.pause_us * 1_000));
        add(&mut random, Strike::Pause { node, lasts });
    }
    let dead = some(&mut random, scenario.compute_nodes, plan.deaths);
    for &node in &dead {
        add(&mut random, Strike::Death { node });
    }
    for node in some(&mut random, scenario.memory_nodes, plan.lost_memory) {
        add(&mut random, Strike::LostMemory { node });
    }
    for node in some(&mut random, scenario.compute_nodes, plan.slow) {
        add(&mut random, Strike::Slow { node, times: plan.slow_factor });
    }
    let left: Vec<_> = (0..scenario.compute_nodes).filter(|node| !dead.contains(node)).collect();
    for at in some(&mut random, left.len(), plan.lapses) {
        add(&mut random, Strike::Lapse { node: left[at] });
    }
    if plan.told_us > 0 {
        // Requests of a dead node that stay in flight test fencing, so they exist only in worlds
        // with death notices.
        for (_, strike) in &mut strikes {
            if let &mut Strike::Death { node } = strike
                && random.below(2) == 0
            {
                *strike = Strike::Silence { node };
            }
        }
    }
    strikes.sort_by_key(|(at, _)| *at);
    // A pause ends before the end of all faults.
    for (at, strike) in &mut strikes {
        if let Strike::Pause { lasts, .. } = strike {
            *lasts = (*lasts).min(plan.until() - *at);
        }
    }
    strikes
}

/// `count` different random nodes out of `of` nodes.
fn some(random: &mut WorkloadRandom, of: usize, count: u32) -> Vec<usize> {
    let mut nodes: Vec<usize> = (0..of).collect();
    let count = (count as usize).min(of);
    for at in 0..count {
        let other = at + random.below((of - at) as u64) as usize;
        nodes.swap(at, other);
    }
    nodes.truncate(count);
    nodes
}

impl Strike {
    pub(super) fn hit(self, cluster: &Simulated, counts: &mut NodeFaults) {
        match self {
            Strike::Pause { node, lasts } => {
                cluster.pause(node, lasts);
                counts.pauses += 1;
            }
            Strike::Death { node } => {
                cluster.kill(node);
                counts.deaths += 1;
            }
            Strike::Silence { node } => {
                cluster.silence(node);
                counts.deaths += 1;
            }
            Strike::Lapse { node } => {
                // Where other nodes get the lines of a dead node, a node that runs without a lease
                // may read copies that are no longer current. Such a node ends here.
                match cluster.config().protocol.has_homes() {
                    true => cluster.silence(node),
                    false => cluster.lapse(node),
                }
                counts.lapses += 1;
            }
            Strike::LostMemory { node } => {
                let lost = cluster.lose_memory_node(MemoryNodeId(node as u16));
                counts.lost_memory += u64::from(lost.is_ok());
            }
            Strike::Slow { node, times } => {
                cluster.slow_down(node, times);
                counts.slow += 1;
            }
        }
    }

    /// The compute node that the fault removes from the cluster, if it does.
    pub(super) fn loses_node(self) -> Option<usize> {
        match self {
            Strike::Death { node } | Strike::Silence { node } | Strike::Lapse { node } => {
                Some(node)
            }
            Strike::Pause { .. } | Strike::LostMemory { .. } | Strike::Slow { .. } => None,
        }
    }

    /// Ends a fault that does not end by itself: a slow node becomes fast again.
    pub(super) fn heal(self, cluster: &Simulated) {
        if let Strike::Slow { node, .. } = self {
            cluster.slow_down(node, 1);
        }
    }

    /// The fault as text for the trace, and the compute node to show it at.
    pub(super) fn notified(self) -> (usize, String) {
        match self {
            Strike::Pause { node, lasts } => (node, format!("pauses for {lasts:?}")),
            Strike::Death { node } => (node, "dies".to_owned()),
            Strike::Silence { node } => (node, "dies, and what it has sent goes on".to_owned()),
            Strike::Lapse { node } => (node, "loses its lease".to_owned()),
            Strike::LostMemory { node } => (0, format!("memory node {node} is lost")),
            Strike::Slow { node, times } => (node, format!("takes {times} times as long")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FaultPlan;

    #[test]
    fn every_planned_fault_strikes_before_the_end_and_each_node_once() {
        for seed in 0..200 {
            let faults = FaultPlan {
                pauses: 3,
                deaths: 1,
                lapses: 1,
                told_us: seed % 2,
                lost_memory: 1,
                slow: 2,
                ..FaultPlan::default()
            };
            let scenario =
                Scenario { seed, compute_nodes: 4, memory_nodes: 2, faults, ..Scenario::default() };
            let (until, strikes) = (scenario.faults.until(), strikes(&scenario));
            assert!(strikes.is_sorted_by_key(|(at, _)| *at));
            assert!(strikes.iter().all(|(at, _)| *at < until));
            let mut dead = Vec::new();
            let mut counts = [0; 4];
            for (at, strike) in strikes {
                match strike {
                    Strike::Pause { lasts, .. } => {
                        assert!(at + lasts <= until);
                        counts[0] += 1;
                    }
                    Strike::Death { node } | Strike::Silence { node } | Strike::Lapse { node } => {
                        dead.push(node);
                    }
                    Strike::LostMemory { .. } => counts[2] += 1,
                    Strike::Slow { .. } => counts[3] += 1,
                }
            }
            assert_eq!(counts, [3, 0, 1, 2]);
            assert!(dead.len() == 2 && dead[0] != dead[1], "{dead:?}");
        }
    }
}
