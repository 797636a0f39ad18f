//! Writes of several nodes to the same lines, in a world with a NIC profile.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use latchwork_cache::Cache;
use latchwork_cluster::{ClusterConfig, Member, Protocol, Simulated};
use latchwork_coherence::CoherentMemory;
use latchwork_engine::Counters;
use latchwork_verbs::GlobalAddr;
use latchwork_verbs_sim::{NicProfile, SimConfig};
use latchwork_workload::random::WorkloadRandom;

const LIMIT: Duration = Duration::from_secs(10);
pub(crate) const NODES: usize = 4;
pub(crate) const LINES: usize = 256;
const WRITES: usize = 2_000;
/// The number of writes of all workers together.
pub(crate) const ALL: u64 = (NODES * 2 * WRITES) as u64;

/// Chooses the next line of a worker, by the worker's previous line.
pub(crate) type Next = fn(&Member, &mut WorkloadRandom, usize) -> usize;

/// The load of four nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// The number of lines that each cache has room for.
    pub(crate) frames: usize,
    /// Of a hundred accesses, the number of reads.
    pub(crate) reads: u64,
    /// The workers of each node.
    pub(crate) workers: usize,
}

impl Default for Load {
    /// Only writes, with caches that have room for all lines.
    fn default() -> Self {
        Load { frames: 2 * LINES, reads: 0, workers: 2 }
    }
}

/// The time and the counters of the writes, when all lines fit into each cache.
pub(crate) fn writes(
    protocol: Protocol,
    settings: &[(&str, &str)],
    next: Next,
) -> (Duration, Counters) {
    accesses(Load::default(), protocol, settings, next)
}

/// The time and the counters of a load.
pub(crate) fn accesses(
    load: Load,
    protocol: Protocol,
    settings: &[(&str, &str)],
    next: Next,
) -> (Duration, Counters) {
    let mut config = ClusterConfig {
        compute_nodes: NODES,
        memory_nodes: NODES,
        workers: load.workers,
        memory_bytes: 8 << 20,
        cache_bytes: Cache::footprint(load.frames, 512),
        line_size: 512,
        chunk_size: 64 << 10,
        ..ClusterConfig::default()
    };
    config.protocol = protocol;
    for (name, value) in settings {
        config.set(name, value).expect("a known setting");
    }
    let profile = NicProfile::named("connectx3").expect("it comes with the crate");
    let cluster = Simulated::start(config, SimConfig::nic(profile)).expect("a good configuration");
    let lines: Rc<RefCell<Vec<GlobalAddr>>> = Rc::default();
    let made = lines.clone();
    let make = move |member: Member| {
        let made = made.clone();
        async move {
            for _ in 0..if member.index == 0 { LINES } else { 0 } {
                let line = member.memory.allocate().await.expect("a pool with room");
                member
                    .memory
                    .write(line, |guard| guard.words().clear(0..8))
                    .await
                    .expect("no faults");
                made.borrow_mut().push(line);
            }
        }
    };
    cluster.run_on(1, LIMIT, make).expect("no worker fails");
    let before = cluster.counters();
    let used = lines.clone();
    let work = move |member: Member| {
        let lines = used.clone();
        async move {
            let (mut random, mut at) = (WorkloadRandom::for_stream(7, member.index as u64), 0);
            let (start, mut written) = (member.handle.now(), 0);
            for _ in 0..WRITES {
                at = next(&member, &mut random, at);
                let line = lines.borrow()[at];
                if load.reads > 0 && random.below(100) < load.reads {
                    member.memory.read(line, |words| words.u64(0)).await.expect("no faults");
                    continue;
                }
                written += 1;
                let add = member.memory.write(line, |guard| {
                    let words = guard.words();
                    words.set_u64(0, words.u64(0) + 1);
                    guard.mark_dirty(0..8);
                });
                add.await.expect("no faults");
            }
            (member.handle.now() - start, written)
        }
    };
    let done = cluster.run(LIMIT, work).expect("no worker fails");
    let counters = cluster.counters() - before;
    let sum = move |member: Member| {
        let lines = lines.clone();
        async move {
            let mut sum = 0;
            for at in 0..if member.index == 0 { LINES } else { 0 } {
                let line = lines.borrow()[at];
                sum += member.memory.read(line, |words| words.u64(0)).await.expect("no faults");
            }
            sum
        }
    };
    let sums = cluster.run_on(1, LIMIT, sum).expect("no worker fails");
    let written: u64 = done.iter().map(|(_, written)| written).sum();
    assert_eq!(sums[0], written, "no write is lost");
    (done.iter().map(|(time, _)| *time).max().expect("some workers"), counters)
}

/// Any line, with uniform chance.
pub(crate) fn anywhere(_: &Member, random: &mut WorkloadRandom, _: usize) -> usize {
    random.below(LINES as u64) as usize
}
