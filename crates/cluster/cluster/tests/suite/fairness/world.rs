//! A world in which all nodes access one line and do nothing else.

use std::time::Duration;

use latchwork_cluster::{ClusterConfig, Member, Simulated};
use latchwork_coherence::CoherentMemory;
use latchwork_engine::Counters;
use latchwork_memnode::ObjectKind;
use latchwork_verbs::GlobalAddr;
use latchwork_verbs_sim::{NicProfile, SimConfig};

/// The accesses of a node's workers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Does {
    Reads,
    Writes,
}

/// A world.
#[derive(Clone, Debug)]
pub(crate) struct World {
    /// The accesses of each node.
    pub(crate) nodes: Vec<Does>,
    pub(crate) workers: usize,
    pub(crate) lasts: Duration,
    /// The profile of the NICs.
    pub(crate) nic: &'static str,
    pub(crate) seed: u64,
    pub(crate) settings: Vec<(String, String)>,
}

/// The result of a world.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// The number of accesses of each node.
    pub(crate) accesses: Vec<u64>,
    /// The longest wait of a worker of each node for one access.
    pub(crate) longest: Vec<Duration>,
    pub(crate) counters: Counters,
}

impl Outcome {
    pub(crate) fn all(&self) -> u64 {
        self.accesses.iter().sum()
    }

    /// Jain's index: 1 when all nodes had equally many accesses, 1 / nodes when one node had all.
    pub(crate) fn jain(&self) -> f64 {
        let squares: f64 = self.accesses.iter().map(|n| (n * n) as f64).sum();
        (self.all() as f64).powi(2) / (squares * self.accesses.len() as f64)
    }
}

impl World {
    pub(crate) fn of(nodes: &[Does], workers: usize) -> World {
        let (nodes, settings) = (nodes.to_vec(), Vec::new());
        World {
            nodes,
            workers,
            lasts: Duration::from_millis(4),
            nic: "connectx3",
            seed: 1,
            settings,
        }
    }

    /// The world with this setting.
    pub(crate) fn with(mut self, name: &str, value: &str) -> World {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn run(&self) -> Outcome {
        let mut config = ClusterConfig {
            compute_nodes: self.nodes.len(),
            workers: self.workers,
            cache_bytes: 1 << 20,
            memory_bytes: 32 << 20,
            seed: self.seed,
            ..ClusterConfig::default()
        };
        for (name, value) in &self.settings {
            config.set(name, value).expect("a setting");
        }
        let profile = NicProfile::named(self.nic).expect("it comes with the crate");
        let cluster =
            Simulated::start(config, SimConfig::nic(profile)).expect("a good configuration");
        let (does, lasts) = (self.nodes.clone(), self.lasts);
        let ends = cluster.run(Duration::from_secs(60), move |member| {
            let does = does[member.node];
            async move { work(member, does, lasts).await }
        });
        let mut outcome = Outcome {
            accesses: vec![0; self.nodes.len()],
            longest: vec![Duration::ZERO; self.nodes.len()],
            counters: cluster.counters(),
        };
        for (worker, (accesses, longest)) in ends.expect("nobody fails").into_iter().enumerate() {
            let node = worker / self.workers;
            outcome.accesses[node] += accesses;
            outcome.longest[node] = outcome.longest[node].max(longest);
        }
        outcome
    }
}

async fn the_line(member: &Member) -> GlobalAddr {
    let memory = &member.memory;
    if member.index == 0 {
        let line = memory.allocate().await.expect("a pool with room");
        memory.write(line, |guard| guard.words().set_u64(0, 0)).await.expect("a new line");
        let kind = ObjectKind(7);
        member.catalogue.register(memory.port(), "line", kind, line.bits()).await.expect("new");
    }
    let deadline = member.handle.now() + Duration::from_secs(1);
    let found = member.catalogue.wait_for(memory.port(), &member.handle, "line", deadline).await;
    GlobalAddr::from_bits(found.expect("no faults").value)
}

/// The number of accesses, and the time of the longest one.
async fn work(member: Member, does: Does, lasts: Duration) -> (u64, Duration) {
    const BEGIN: Duration = Duration::from_millis(20);
    let line = the_line(&member).await;
    let (memory, handle) = (&member.memory, &member.handle);
    let _operation = memory.enter().await.expect("no faults");
    let begin = latchwork_runtime::Time::ZERO + BEGIN;
    assert!(handle.now() < begin, "all find the line by then");
    handle.sleep_until(begin).await;
    let (mut accesses, mut longest) = (0, Duration::ZERO);
    while handle.now() < begin + lasts {
        let since = handle.now();
        match does {
            Does::Reads => _ = memory.read(line, |words| words.u64(0)).await.expect("no faults"),
            Does::Writes => {
                let write = memory.write(line, |guard| {
                    let next = guard.words().u64(0) + 1;
                    guard.words().set_u64(0, next);
                    guard.mark_dirty(0..8);
                });
                write.await.expect("no faults");
            }
        }
        longest = longest.max(handle.now() - since);
        accesses += 1;
        handle.coop().await;
    }
    (accesses, longest)
}
