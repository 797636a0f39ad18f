//! The agents of the memory nodes: their cores, the messages of each way to resolve conflicts, and
//! the counters.

use std::time::Duration;

use latchwork_cluster::{ClusterConfig, ClusterError, ConfigError, Embedded, Protocol, Simulated};
use latchwork_coherence::CoherentMemory;
use latchwork_engine::Counters;
use latchwork_runtime::Time;
use latchwork_verbs_sim::{CpuProfile, NicProfile, SimConfig};

use crate::common::{Load, hammer, read_counters, small, totals};

const LIMIT: Duration = Duration::from_secs(10);
const SPAN: Duration = Duration::from_millis(2);

/// The homes of these protocols.
const WITH_HOMES: [Protocol; 2] = [Protocol::Gam, Protocol::ScaleStore];

/// A cluster with one home, and so many nodes that the home can be the bottleneck.
fn config(protocol: Protocol, settings: &[(&str, &str)]) -> ClusterConfig {
    let mut config = small(12, 1, 64, 1);
    (config.memory_nodes, config.protocol) = (1, protocol);
    settings.iter().for_each(|(name, text)| config.set(name, text).expect("a value"));
    config
}

/// The time of one miss at an agent, and the CPU times of a profile in which only agents and
/// posting count.
fn cost() -> (Duration, CpuProfile) {
    let cpu = CpuProfile { message_ns: 500, post_ns: 200, poll_ns: 100, ..CpuProfile::default() };
    // A miss is a request, and an eviction. The line comes in a batch of two requests.
    let nanos = 2 * cpu.message_ns + (2 + 1) * cpu.post_ns + 2 * cpu.poll_ns;
    (Duration::from_nanos(nanos), cpu)
}

/// The misses of all nodes in a second, each with an eviction. The nodes share no line.
fn misses(protocol: Protocol, cpu: CpuProfile, settings: &[(&str, &str)]) -> f64 {
    let profile = NicProfile::named("connectx5").expect("it comes with the crate");
    let network = SimConfig::nic(NicProfile { cpu, ..profile });
    let cluster = Simulated::start(config(protocol, settings), network).expect("a configuration");
    let begin = Time::ZERO + Duration::from_millis(1);
    let done = cluster.run(LIMIT, move |member| async move {
        let (memory, handle) = (&member.memory, &member.handle);
        let _operation = memory.enter().await.expect("no faults");
        let line = memory.allocate().await.expect("an empty pool");
        memory.write(line, |guard| guard.words().set_u64(0, 1)).await.expect("no faults");
        assert!(memory.evict(line));
        handle.sleep_until(begin).await;
        let mut done = 0_u32;
        while handle.now() < begin + SPAN {
            memory.read(line, |words| words.u64(0)).await.expect("no faults");
            assert!(memory.evict(line), "nothing else uses it");
            done += 1;
        }
        done
    });
    let done: u32 = done.expect("no worker fails").into_iter().sum();
    f64::from(done) / SPAN.as_secs_f64()
}

#[test]
fn an_agent_pays_for_its_messages_and_its_cores_add_up() {
    let (cost, cpu) = cost();
    let most = 1.0 / cost.as_secs_f64();
    for protocol in WITH_HOMES {
        let rate = |settings: &[(&str, &str)]| misses(protocol, cpu, settings) / most;
        let one = rate(&[]);
        let two = rate(&[("home-cores", "2")]);
        let half = rate(&[("home-share", "50")]);
        let both = rate(&[("home-cores", "2"), ("home-share", "50")]);
        println!("{protocol}: {one:.3}, two cores {two:.3}, half {half:.3}, both {both:.3}");
        assert!((0.9..1.02).contains(&one), "{protocol}: {one} of {most} misses a second");
        assert!((1.8..2.04).contains(&two), "{protocol}: two cores give {two}");
        assert!((0.45..0.51).contains(&half), "{protocol}: half a core gives {half}");
        assert!((0.9..1.02).contains(&both), "{protocol}: two halves give {both}");
    }
}

#[test]
fn an_agent_has_the_nic_of_its_memory_node() {
    let profile = NicProfile::named("connectx5").expect("it comes with the crate");
    for protocol in Protocol::ALL {
        let config = ClusterConfig { protocol, ..small(3, 1, 64, 1) };
        let memory_nodes = config.memory_nodes;
        let network = SimConfig::nic(profile.clone());
        let cluster = Simulated::start(config, network).expect("a configuration");
        let usage = cluster.usage();
        assert_eq!(usage.nics.len(), 3 + memory_nodes, "{protocol}");
        let agents = if protocol.has_homes() { memory_nodes } else { 0 };
        assert_eq!(usage.agents.len(), agents, "{protocol}");
        let has_atomics = usage.nics.iter().any(|nic| !nic.atomics.is_empty());
        assert_eq!(has_atomics, !protocol.has_homes(), "{protocol}: atomics are of latch words");
    }
}

#[test]
fn a_compute_node_has_the_nic_of_its_memory_node_where_they_are_to_share_it() {
    let profile = NicProfile::named("connectx5-stalling").expect("it comes with the crate");
    for (protocol, colocate) in Protocol::ALL.into_iter().flat_map(|p| [(p, false), (p, true)]) {
        let config = ClusterConfig { protocol, colocate, memory_nodes: 4, ..small(3, 1, 64, 1) };
        let network = SimConfig::nic(profile.clone());
        let cluster = Simulated::start(config.clone(), network).expect("a configuration");
        let nics = cluster.usage().nics.len();
        assert_eq!(nics, if colocate { 4 } else { 3 + 4 }, "{protocol}");
        let load = Load { lines: 4, operations: 50, tasks: 2, writes: 40, dropped: 0 };
        cluster.run(LIMIT, move |member| hammer(member, load)).expect("no worker fails");
        let refused = Embedded::start(config).map(drop);
        assert_eq!(refused.is_err(), colocate, "threads have no NICs");
    }
}

/// The counters of a load in which five nodes write and read a few lines, with these settings.
fn contended(settings: &[(&str, &str)]) -> (Counters, Counters) {
    let profile = NicProfile::named("connectx3").expect("it comes with the crate");
    let mut config = ClusterConfig { protocol: Protocol::ScaleStore, ..small(5, 1, 64, 1) };
    settings.iter().for_each(|(name, text)| config.set(name, text).expect("a value"));
    let cluster = Simulated::start(config, SimConfig::nic(profile)).expect("a configuration");
    let load = Load { lines: 4, operations: 200, tasks: 2, writes: 40, dropped: 0 };
    let counts = cluster.run(LIMIT, move |member| hammer(member, load)).expect("no worker fails");
    let reads =
        cluster.run(LIMIT, move |member| async move { read_counters(&member, load.lines).await });
    for read in reads.expect("no worker fails") {
        assert_eq!(read, totals(&counts), "a write was lost with {settings:?}");
    }
    let of_agents = cluster.agents().map(|agent| agent.counters()).sum();
    (cluster.counters(), of_agents)
}

/// Chaining saves the report to the home, and a refusal costs messages of its own. A reader that
/// takes the line leaves no copy that a later writer has to invalidate.
#[test]
fn each_way_to_resolve_conflicts_has_messages_of_its_own() {
    let messages = |settings: &[(&str, &str)]| contended(settings).0.messages;
    let on = messages(&[]);
    assert_eq!(on, messages(&[("chaining", "on"), ("reader-takes", "copy")]), "the defaults");
    let (fifo, polling) = (messages(&[("chaining", "fifo")]), messages(&[("chaining", "polling")]));
    let taken = messages(&[("reader-takes", "move")]);
    println!("messages: on {on}, fifo {fifo}, polling {polling}; readers take {taken}");
    assert!(on < fifo && fifo < polling, "on {on}, fifo {fifo}, polling {polling}");
    assert_ne!(taken, on);
}

#[test]
fn the_counters_of_a_cluster_have_those_of_the_agents() {
    let (all, agents) = contended(&[]);
    assert!(agents.messages > 0 && agents.messages < all.messages, "{agents:?}");
    assert!(agents.bytes_written > 0 && agents.verbs_write > 0, "{agents:?}");
    assert_eq!(agents.cache_misses, 0, "an agent accesses no line");
}

/// Several handlers take the messages of one line in any order.
#[test]
fn threads_lose_no_write_with_several_cores_and_in_any_way_of_conflict() {
    let settings = [("chaining", "on"), ("chaining", "fifo"), ("chaining", "polling")];
    let settings = settings.into_iter().chain([("reader-takes", "move")]);
    let of_scalestore = settings.map(|setting| (Protocol::ScaleStore, Some(setting)));
    for (protocol, setting) in of_scalestore.chain([(Protocol::Gam, None)]) {
        let load = Load { lines: 8, operations: 200, tasks: 4, writes: 40, dropped: 10 };
        let mut config = ClusterConfig { protocol, ..small(3, 1, 8, 1) };
        config.set("home-cores", "3").expect("a value");
        setting.iter().for_each(|(name, text)| config.set(name, text).expect("a value"));
        let cluster = Embedded::start(config).expect("a configuration");
        let counts = cluster.run(|member| hammer(member, load)).expect("no worker fails");
        let reads = cluster.run(|member| async move { read_counters(&member, load.lines).await });
        for read in reads.expect("no worker fails") {
            assert_eq!(read, totals(&counts), "a write was lost: {protocol} {setting:?}");
        }
        let agents: Counters = cluster.agents().map(|agent| agent.counters()).sum();
        assert!(agents.messages > 0, "{protocol} {setting:?}");
    }
}

#[test]
fn threads_have_no_share_of_a_core() {
    let config = config(Protocol::Gam, &[("home-share", "50")]);
    let refused = Embedded::start(config).err().expect("it would change nothing");
    let given = matches!(refused, ClusterError::Config(ConfigError::HomeShare { given: 50 }));
    assert!(given, "{refused}");
}
