//! What holds in every world, whatever runs in it. Violations panic, and name the world's seed.

use std::collections::BTreeMap;

use latchwork_cache::Ownership;
use latchwork_cluster::Simulated;
use latchwork_latch::LatchWord;

/// At every step: who may write a line is alone with it.
pub(crate) fn check_step(cluster: &Simulated, seed: u64) {
    let mut owners = BTreeMap::<_, (u32, u32)>::new();
    for node in cluster.nodes() {
        for (addr, state) in node.cache().lines() {
            let (readers, writers) = owners.entry(addr).or_default();
            match state.ownership() {
                Ownership::Invalid => {}
                Ownership::Shared => *readers += 1,
                Ownership::Exclusive => *writers += 1,
            }
        }
    }
    for (addr, (readers, writers)) in owners {
        let alone = writers == 0 || (writers, readers) == (1, 0);
        assert!(alone, "seed {seed}: {addr} has {writers} writers and {readers} readers");
    }
}

/// Nothing is under way, and each latch word names exactly the nodes whose caches hold the line.
pub(crate) fn check_at_rest(cluster: &Simulated, seed: u64) {
    let mut lines = BTreeMap::<_, LatchWord>::new();
    for node in cluster.nodes() {
        assert_eq!(node.lines_under_way(), 0, "seed {seed}: {:?} is not at rest", node.id());
        for (addr, state) in node.cache().lines() {
            let word = lines.entry(addr).or_insert(LatchWord::FREE);
            *word = word.plus(match state.ownership() {
                Ownership::Invalid => 0,
                Ownership::Shared => LatchWord::shared_by(node.id()).bits(),
                Ownership::Exclusive => LatchWord::exclusively(node.id()).bits(),
            });
        }
    }
    let geometry = cluster.config().check().expect("checked before");
    for (addr, held) in lines {
        let latch = geometry.latch_addr(addr);
        let memory = cluster.fabric().memory(latch.node()).expect("a memory node");
        let word = LatchWord::from_bits(memory.words().u64(latch.offset() as usize));
        assert_eq!(word, held, "seed {seed}: the latch word of {addr}");
    }
}
