//! When lines are given back: early where other nodes would take them away anyway, at once under SEL, and
//! else not before they are asked for. In worlds that keep a NIC's time.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use latchwork_cache::Cache;
use latchwork_cluster::{ClusterConfig, Member, Protocol, Simulated};
use latchwork_coherence::CoherentMemory;
use latchwork_selcc::Counters;
use latchwork_verbs::GlobalAddr;
use latchwork_verbs_sim::{NicProfile, SimConfig};
use latchwork_workload::random::Random;

const LIMIT: Duration = Duration::from_secs(10);
const NODES: usize = 4;
const LINES: usize = 256;
const WRITES: usize = 2_000;

/// Which line a worker writes next: of all lines, after the one that it wrote last.
type Next = fn(&Member, &mut Random, usize) -> usize;

/// What writes of four nodes take, and what they count, when all lines fit into each cache.
fn writes(protocol: Protocol, release: &str, next: Next) -> (Duration, Counters) {
    let mut config = ClusterConfig {
        compute_nodes: NODES,
        memory_nodes: NODES,
        workers: 2,
        memory_bytes: 8 << 20,
        cache_bytes: Cache::footprint(2 * LINES, 512),
        line_size: 512,
        chunk_size: 64 << 10,
        ..ClusterConfig::default()
    };
    config.node.policy = protocol.policy();
    config.node.set("release", release).expect("a known value");
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
            let (mut random, mut at) = (Random::for_stream(7, member.index as u64), 0);
            let start = member.handle.now();
            for _ in 0..WRITES {
                at = next(&member, &mut random, at);
                let line = lines.borrow()[at];
                let add = member.memory.write(line, |guard| {
                    let words = guard.words();
                    words.set_u64(0, words.u64(0) + 1);
                    guard.mark_dirty(0..8);
                });
                add.await.expect("no faults");
            }
            member.handle.now() - start
        }
    };
    let times = cluster.run(LIMIT, work).expect("no worker fails");
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
    assert_eq!(sums[0] as usize, NODES * 2 * WRITES, "no write is lost");
    (times.into_iter().max().expect("some workers"), counters)
}

fn anywhere(_: &Member, random: &mut Random, _: usize) -> usize {
    random.below(LINES as u64) as usize
}

/// Every other write is of the line of the last one.
fn often_again(member: &Member, random: &mut Random, last: usize) -> usize {
    if random.below(2) == 0 { last } else { anywhere(member, random, last) }
}

/// Each node has lines of its own.
fn at_home(member: &Member, random: &mut Random, _: usize) -> usize {
    let share = LINES / NODES;
    member.node * share + random.below(share as u64) as usize
}

#[test]
fn lines_that_nodes_write_in_turn_go_early() {
    let (lazy_time, lazy) = writes(Protocol::Selcc, "lazy", anywhere);
    let (time, adaptive) = writes(Protocol::Selcc, "adaptive", anywhere);
    assert_eq!(lazy.early_releases, 0);
    let all = (NODES * 2 * WRITES) as u64;
    assert!(adaptive.early_releases > all / 2, "{adaptive:?}");
    assert!(adaptive.handovers < lazy.handovers / 3, "{adaptive:?}\n{lazy:?}");
    assert!(time < lazy_time, "{time:?} after {lazy_time:?}");
}

#[test]
fn what_is_used_again_at_once_is_still_there() {
    let (_, counters) = writes(Protocol::Selcc, "adaptive", often_again);
    let all = (NODES * 2 * WRITES) as u64;
    assert!(counters.early_releases > all / 4, "{counters:?}");
    assert!(counters.cache_misses < all * 55 / 100, "half of the writes hit: {counters:?}");
}

#[test]
fn what_nobody_else_uses_stays() {
    let (_, counters) = writes(Protocol::Selcc, "adaptive", at_home);
    // Once each, and what one node made.
    assert!(counters.cache_misses <= 2 * LINES as u64, "{counters:?}");
    assert!(counters.early_releases <= LINES as u64, "{counters:?}");
}

#[test]
fn under_sel_every_access_is_a_remote_one() {
    let (_, counters) = writes(Protocol::Sel, "lazy", often_again);
    let all = (NODES * 2 * WRITES) as u64;
    // But for two workers of a node that meet at a line: they share what one of them got.
    assert!(counters.evictions > all * 98 / 100, "{counters:?}");
    assert!(counters.verbs_cas > all * 98 / 100, "{counters:?}");
    assert_eq!((counters.invalidations_sent, counters.early_releases), (0, 0));
}
