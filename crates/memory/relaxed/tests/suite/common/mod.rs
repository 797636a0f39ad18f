//! Shared code of the tests of write buffers: small worlds, and a barrier.

pub(crate) mod programs;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use latchwork_cluster::{ClusterConfig, Member, Protocol, Simulated};
use latchwork_coherence::CoherentMemory;
use latchwork_relaxed::{Consistency, WriteBufferSettings};
use latchwork_verbs::GlobalAddr;
use latchwork_verbs_sim::{NicProfile, SimConfig};

pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A different kind of world for each seed. The protocol is SELCC or SEL. The network is calm, lets
/// every message overtake others, or has the times of NICs. The four workers are on four nodes or
/// on two. Caches have a few lines.
pub(crate) fn world(seed: u64) -> Simulated {
    let network = match seed % 3 {
        0 => SimConfig::rough(),
        1 => SimConfig::default(),
        _ => SimConfig::nic(NicProfile::named("connectx3").expect("it comes along")),
    };
    let (nodes, workers) = if (seed / 6).is_multiple_of(2) { (4, 1) } else { (2, 2) };
    start(config(nodes, workers, seed, protocol(seed)), network)
}

/// The protocol of the world of a seed.
pub(crate) fn protocol(seed: u64) -> Protocol {
    Protocol::ALL[seed as usize / 3 % Protocol::ALL.len()]
}

pub(crate) fn start(config: ClusterConfig, network: SimConfig) -> Simulated {
    Simulated::start(config, network).expect("a good configuration")
}

pub(crate) fn config(nodes: usize, workers: usize, seed: u64, protocol: Protocol) -> ClusterConfig {
    let mut config = ClusterConfig {
        compute_nodes: nodes,
        memory_nodes: 2,
        workers,
        inflight: 16,
        memory_bytes: 1 << 20,
        cache_bytes: latchwork_cache::Cache::footprint(12, 512),
        line_size: 512,
        chunk_size: 64 << 10,
        seed,
        ..ClusterConfig::default()
    };
    config.protocol = protocol;
    config
}

/// Settings that differ from world to world, with a deadline that every world meets.
pub(crate) fn settings(consistency: Consistency, seed: u64) -> WriteBufferSettings {
    WriteBufferSettings {
        consistency,
        deadline: Duration::from_secs(1),
        linger: Duration::from_micros([0, 2, 30][(seed / 2 % 3) as usize]),
        batch: [8, 2, 4, 1][(seed / 5 % 4) as usize],
        entries: 8,
        hold: Duration::from_micros([0, 10][(seed % 2) as usize]),
        ..WriteBufferSettings::default()
    }
}

/// A barrier of all workers of a world.
#[derive(Default)]
pub(crate) struct Meeting {
    pub(crate) came: Cell<usize>,
    lines: RefCell<Vec<GlobalAddr>>,
}

impl Meeting {
    /// Waits until all `workers` have reached the barrier for the `times`th time.
    pub(crate) async fn meet(&self, member: &Member, workers: usize, times: &mut usize) {
        *times += 1;
        self.came.set(self.came.get() + 1);
        while self.came.get() < workers * *times {
            member.handle.sleep(Duration::from_micros(2)).await;
        }
    }

    /// Lines full of zeros, which the first worker makes.
    pub(crate) async fn lines(&self, member: &Member, count: usize) -> Vec<GlobalAddr> {
        let memory = &member.memory;
        if member.index == 0 {
            let mut lines = Vec::new();
            for _ in 0..count {
                let line = memory.allocate().await.expect("a pool with room");
                clear(&member.memory, line).await;
                lines.push(line);
            }
            self.lines.replace(lines);
        }
        while self.lines.borrow().is_empty() {
            member.handle.sleep(Duration::from_micros(2)).await;
        }
        self.lines.borrow().clone()
    }
}

pub(crate) async fn clear(memory: &impl CoherentMemory, line: GlobalAddr) {
    let zero = |guard: &mut latchwork_cache::WriteGuard<'_>| {
        let end = guard.words().len();
        guard.words().clear(0..end);
        guard.mark_dirty(0..end);
    };
    memory.write(line, zero).await.expect("a line");
}

/// Lets no time, a little time or much time pass.
pub(crate) async fn pause(member: &Member) {
    let longest = [1, 600, 4_000, 20_000][member.handle.random_below(4) as usize];
    member.handle.sleep(Duration::from_nanos(member.handle.random_below(longest))).await;
}

pub(crate) fn rc<T>(value: T) -> Rc<RefCell<T>> {
    Rc::new(RefCell::new(value))
}
