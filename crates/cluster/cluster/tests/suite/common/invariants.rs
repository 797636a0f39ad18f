//! Invariants of every world, with any workload. A violation panics with the seed of the world.

use std::collections::BTreeMap;

use latchwork_cache::Ownership;
use latchwork_cluster::Simulated;
use latchwork_engine::Owners;

/// Checks that each line with an exclusive owner has no other owner.
pub(crate) fn check_step(cluster: &Simulated, seed: u64) {
    // Under a directory protocol, other nodes get the lines of a dead node.
    let counts = |at: usize| !cluster.config().protocol.has_homes() || cluster.lives(at);
    let nodes = cluster.nodes().iter().enumerate().filter(|(at, _)| counts(*at));
    let lines = nodes.flat_map(|(_, node)| node.cache().lines());
    // The check runs after every event, so it must be fast.
    let mut owned: Vec<_> = lines
        .map(|(addr, state)| (addr, state.ownership()))
        .filter(|(_, ownership)| *ownership != Ownership::Invalid)
        .collect();
    owned.sort_unstable_by_key(|(addr, _)| *addr);
    for pair in owned.windows(2) {
        let ((addr, first), (other, second)) = (pair[0], pair[1]);
        let alone = addr != other || (first, second) == (Ownership::Shared, Ownership::Shared);
        assert!(alone, "seed {seed}: {addr} is {first:?} and {second:?} at once");
    }
}

/// Checks that no operation is in progress, and that the protocol's record names exactly the nodes
/// whose caches own the line.
pub(crate) fn check_at_rest(cluster: &Simulated, seed: u64) {
    let mut lines = BTreeMap::<_, Owners>::new();
    for node in cluster.nodes() {
        assert_eq!(node.lines_in_flight(), 0, "seed {seed}: {:?} is not at rest", node.id());
        for (addr, state) in node.cache().lines() {
            let owners = lines.entry(addr).or_default();
            *owners = owners.with(node.id(), state.ownership());
        }
    }
    let truth = cluster.truth();
    for (addr, held) in lines {
        assert_eq!(truth.owners(addr), held, "seed {seed}: the {} of {addr}", truth.name());
    }
}
