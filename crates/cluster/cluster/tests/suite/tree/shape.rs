//! Shapes of worlds: the number of nodes, the cache size, the number of operations.

use std::time::Duration;

use latchwork_blink::{TreeConfig, TreeRules};
use latchwork_cluster::{ClusterConfig, Protocol};
use latchwork_verbs_sim::{Drawn, SimConfig};

use crate::common::small;

/// Pages with few entries, so that they split often.
pub(crate) const FAN_OUT_3: TreeConfig = TreeConfig {
    stamped: false,
    max_entries_leaf: Some(3),
    max_entries_inner: Some(3),
    rules: TreeRules::ALL,
};

/// The seeds of a test: `count` seeds from `first` on. With `LATCHWORK_WORLDS=100` in the
/// environment there are a hundred times as many, for a long search.
pub(crate) fn seeds(first: u64, count: u64) -> std::ops::Range<u64> {
    let times = std::env::var("LATCHWORK_WORLDS").ok().and_then(|times| times.parse().ok());
    first..first + count * times.unwrap_or(1)
}

/// The kind of a simulated network.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Network {
    /// A network with short and nearly equal times.
    Calm,
    /// A network in which every message may overtake others.
    Rough,
    /// Like `Rough`, and many messages are late by a multiple of the usual time.
    Harsh,
}

/// The shape of one world.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) seed: u64,
    pub(crate) nodes: usize,
    pub(crate) workers: usize,
    /// The frames of each node's cache.
    pub(crate) frames: usize,
    pub(crate) protocol: Protocol,
    pub(crate) network: Network,
}

impl Shape {
    /// A small shape that the seed chooses.
    pub(crate) fn drawn(seed: u64, protocol: Protocol) -> Shape {
        let mut random = latchwork_workload::random::WorkloadRandom::new(seed);
        let mut between = |least: u64, most: u64| least + random.below(most - least + 1);
        Shape {
            seed,
            nodes: between(2, 4) as usize,
            workers: between(1, 2) as usize,
            frames: between(4, 12) as usize,
            protocol,
            network: [Network::Calm, Network::Rough, Network::Harsh][between(0, 2) as usize],
        }
    }

    pub(crate) fn config(&self) -> ClusterConfig {
        let mut config = small(self.nodes, self.workers, self.frames, self.seed);
        config.protocol = self.protocol;
        config
    }

    pub(crate) fn network(&self) -> SimConfig {
        match self.network {
            Network::Calm => SimConfig::default(),
            Network::Rough => SimConfig::rough(),
            Network::Harsh => {
                let tail = Duration::from_micros(200);
                SimConfig::drawn(Drawn { tail_one_in: 4, tail, ..Drawn::rough() })
            }
        }
    }
}
