//! Homes at compute nodes: what a line of the own memory costs, what a line of another node costs,
//! the loads of all ways to resolve conflicts, and the death of a home.

use std::time::Duration;

use latchwork_cache::WriteGuard;
use latchwork_cluster::{
    ClusterConfig, ConfigError, Embedded, Member, Protocol, Simulated, SimulatedNode,
};
use latchwork_coherence::{AccessMode, CoherentMemory, MemoryError, Need};
use latchwork_engine::Counters;
use latchwork_verbs::{GlobalAddr, MemoryNodeId};
use latchwork_verbs_sim::SimConfig;

use crate::common::{Load, hammer, read_counters, small, totals};

const LIMIT: Duration = Duration::from_secs(10);

const WITH_HOMES: [Protocol; 2] = [Protocol::Gam, Protocol::ScaleStore];

fn config(protocol: Protocol, nodes: usize, frames: usize) -> ClusterConfig {
    let config = small(nodes, 1, frames, 1);
    let mut config = ClusterConfig { protocol, memory_nodes: nodes, ..config };
    config.set("home", "compute").expect("a value");
    config
}

fn simulated(config: ClusterConfig) -> Simulated {
    Simulated::start(config, SimConfig::default()).expect("a configuration")
}

/// The messages and the verbs with bytes of lines.
fn traffic(counters: Counters) -> [u64; 3] {
    [counters.messages, counters.forwards, counters.verbs_write]
}

/// Writes a word of a line.
async fn set(member: &Member, line: GlobalAddr, at: usize, value: u64) -> Result<(), MemoryError> {
    let write = |guard: &mut WriteGuard<'_>| {
        guard.words().set_u64(at, value);
        guard.mark_dirty(at..at + 8);
    };
    member.memory.write(line, write).await
}

/// Allocates a line and writes it, and then obtains it from memory to read and to write, and
/// upgrades its copy. Returns the line.
async fn use_own(member: &Member) -> GlobalAddr {
    let memory = &member.memory;
    let _operation = memory.enter().await.expect("no faults");
    let line = memory.allocate().await.expect("an empty pool");
    set(member, line, 64, 7).await.expect("no faults");
    assert!(memory.evict(line), "nothing else uses it");
    let read = memory.read(line, |words| words.u64(64)).await.expect("no faults");
    assert_eq!(read, 7, "the memory has the change");
    set(member, line, 64, 8).await.expect("an upgrade");
    assert!(memory.evict(line), "nothing else uses it");
    set(member, line, 72, 9).await.expect("no faults");
    line
}

#[test]
fn a_line_of_the_own_memory_costs_no_message() {
    for protocol in WITH_HOMES {
        let cluster = simulated(config(protocol, 3, 16));
        let lines = cluster.run(LIMIT, |member| async move { use_own(&member).await });
        let lines = lines.expect("no worker fails");
        let own: Vec<_> = (0..3).map(MemoryNodeId).collect();
        assert_eq!(lines.iter().map(|line| line.node()).collect::<Vec<_>>(), own, "{protocol}");
        assert_eq!(traffic(cluster.counters()), [0; 3], "{protocol}");
        assert!(cluster.counters().cache_misses >= 9, "{protocol}: the accesses were misses");
        assert_eq!(cluster.agents().count(), 0);
    }
}

/// The bytes are at the home, so a reader of another node's line needs the request and the reply.
/// Under GAM the home reports to itself that it has given a copy.
#[test]
fn a_line_of_another_node_costs_its_messages() {
    for (protocol, of_changed) in [(Protocol::Gam, 2), (Protocol::ScaleStore, 4)] {
        let cluster = simulated(config(protocol, 2, 16));
        let lines = cluster.run(LIMIT, |member| async move { use_own(&member).await });
        let line = lines.expect("no worker fails")[0];
        let messages = || {
            cluster.settle(Duration::from_millis(1));
            cluster.counters().messages
        };
        let read = || {
            let before = messages();
            let read = cluster.run(LIMIT, move |member| async move {
                if member.node == 0 {
                    return 9;
                }
                let _operation = member.memory.enter().await.expect("no faults");
                member.memory.read(line, |words| words.u64(72)).await.expect("no faults")
            });
            assert_eq!(read.expect("no worker fails"), [9; 2], "{protocol}");
            messages() - before
        };
        let evicts = |node| {
            let before = messages();
            let gone = cluster.run(LIMIT, move |member| async move {
                member.node != node || member.memory.evict(line)
            });
            assert_eq!(gone.expect("no worker fails"), [true; 2], "{protocol}");
            messages() - before
        };
        assert_eq!(read(), of_changed, "{protocol}: the home's node has changes");
        assert_eq!((evicts(1), evicts(0)), (2, 0), "{protocol}");
        assert_eq!(read(), 2, "{protocol}: the memory is current");
    }
}

#[test]
fn worlds_and_threads_lose_no_write() {
    let settings = [("chaining", "on"), ("chaining", "fifo"), ("chaining", "polling")];
    let settings = settings.into_iter().chain([("reader-takes", "move")]);
    let of_scalestore = settings.map(|setting| (Protocol::ScaleStore, Some(setting)));
    for (protocol, setting) in of_scalestore.chain([(Protocol::Gam, None)]) {
        let load = Load { lines: 8, operations: 200, tasks: 4, writes: 40, dropped: 10 };
        let mut config = config(protocol, 3, 8);
        setting.iter().for_each(|(name, text)| config.set(name, text).expect("a value"));
        for seed in 0..4 {
            let cluster = simulated(ClusterConfig { seed, ..config.clone() });
            let counts = cluster.run(LIMIT, move |member| hammer(member, load));
            let counts = totals(&counts.expect("no worker fails"));
            let reads = cluster
                .run(LIMIT, move |member| async move { read_counters(&member, load.lines).await });
            for read in reads.expect("no worker fails") {
                assert_eq!(read, counts, "a write was lost: {protocol} {setting:?} {seed}");
            }
        }
        let cluster = Embedded::start(config).expect("a configuration");
        let counts = cluster.run(|member| hammer(member, load)).expect("no worker fails");
        let reads = cluster.run(|member| async move { read_counters(&member, load.lines).await });
        for read in reads.expect("no worker fails") {
            assert_eq!(read, totals(&counts), "a write was lost: {protocol} {setting:?}");
        }
    }
}

/// C3 dies. A copy of its line goes on, a line without a copy is lost at once, and the lines of the
/// other homes go on, also one whose changes C3 had shared.
#[test]
fn the_lines_of_a_dead_home_are_lost_and_copies_of_them_go_on() {
    for protocol in WITH_HOMES {
        let cluster = simulated(config(protocol, 3, 16));
        let lines = cluster.run(LIMIT, |member| async move {
            let line = use_own(&member).await;
            (line, use_own(&member).await)
        });
        let lines = lines.expect("no worker fails");
        let (first, copied, lost) = (lines[0].0, lines[2].0, lines[2].1);
        let read = move |member: Member| async move {
            let _operation = member.memory.enter().await.expect("no faults");
            for line in [first, copied] {
                member.memory.read(line, |words| words.u64(72)).await.expect("no faults");
            }
        };
        cluster.run(LIMIT, read).expect("no worker fails");
        cluster.kill(2);
        for by in 0..2 {
            cluster.fence(SimulatedNode::Compute(by), 2);
            cluster.fence(SimulatedNode::Memory(MemoryNodeId(by as u16)), 2);
            cluster.forget(by, 2);
        }
        cluster.settle(Duration::from_millis(1));
        let (actor, member) = cluster.start_worker((1, 0, 1)).expect("room for a port");
        let begin = cluster.kernel().now();
        let work = async move {
            let memory = &member.memory;
            let ends = memory.ensure(Need { addr: lost, mode: AccessMode::Shared }).await.map(drop);
            let hit = memory.read(copied, |words| words.u64(72)).await;
            let own = set(&member, first, 72, 10).await;
            (ends, hit, own)
        };
        let (ends, hit, own) = actor.run(LIMIT, work).expect("it ends");
        assert!(matches!(ends, Err(MemoryError::Fabric(_))), "{protocol}: {ends:?}");
        assert_eq!(hit.ok(), Some(9), "{protocol}");
        assert!(own.is_ok(), "{protocol}: {own:?}");
        assert!(cluster.kernel().now() - begin < Duration::from_millis(1), "{protocol}: at once");
    }
}

#[test]
fn what_is_impossible_is_one_line() {
    let wrong = |change: &dyn Fn(&mut ClusterConfig)| {
        let mut config = config(Protocol::Gam, 3, 16);
        change(&mut config);
        config.check().expect_err("a wrong configuration")
    };
    let few = wrong(&|config| config.memory_nodes = 1);
    assert_eq!(few, ConfigError::ComputeHomes { compute: 3, memory: 1 });
    assert!(few.to_string().contains("use 3 memory nodes"), "{few}");
    let cores = wrong(&|config| config.set("home-cores", "2").expect("a value"));
    assert!(cores.to_string().starts_with("home-cores needs agents: "), "{cores}");
    let latch_words = wrong(&|config| config.protocol = Protocol::Selcc);
    assert!(latch_words.to_string().contains("use gam or scalestore"), "{latch_words}");
}
