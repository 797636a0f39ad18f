//! Several nodes on one database in virtual time, under every scheme and both protocols. Random
//! transactions get in each other's way, and their history must be that of a serial run.

mod mix;
mod world;

use latchwork_cluster::Protocol;
use latchwork_txn::Scheme;
use latchwork_verbs_sim::SimConfig;

use world::{Shape, World};

fn schemes() -> impl Iterator<Item = (Scheme, Protocol)> {
    let protocols = [Protocol::Selcc, Protocol::Sel];
    Scheme::ALL.into_iter().flat_map(move |scheme| protocols.map(|protocol| (scheme, protocol)))
}

#[test]
fn what_transactions_see_is_some_serial_run() {
    for (scheme, protocol) in schemes() {
        for seed in 0..6 {
            let shape = Shape { seed, scheme, protocol, ..Shape::default() };
            let report = World::run(&shape);
            assert!(report.commits > 100, "{shape:?}: {report:?}");
        }
    }
}

#[test]
fn one_node_and_four_nodes() {
    for (scheme, protocol) in schemes() {
        for nodes in [1, 4] {
            let shape = Shape { seed: 77, scheme, protocol, nodes, ..Shape::default() };
            World::run(&shape);
        }
    }
}

#[test]
fn with_logs_and_early_release() {
    for scheme in Scheme::ALL {
        for seed in 0..6 {
            let nodes = [2, 1, 4][seed as usize % 3];
            let shape = Shape { seed, scheme, nodes, early: true, ..Shape::default() };
            let report = World::run(&shape);
            assert!(report.commits > 60 * nodes, "{shape:?}: {report:?}");
        }
    }
}

#[test]
fn on_a_rough_network() {
    for (scheme, protocol) in schemes() {
        let network = SimConfig::rough();
        let shape = Shape { seed: 5, scheme, protocol, network, ..Shape::default() };
        World::run(&shape);
    }
}

#[test]
fn the_same_seed_is_the_same_history() {
    for scheme in Scheme::ALL {
        let shape = Shape { seed: 3, scheme, ..Shape::default() };
        assert_eq!(World::run(&shape), World::run(&shape), "{scheme}");
    }
}

/// More worlds: `WORLDS=1000..2000 cargo test --release -p latchwork-txn --test suite worlds:: --
/// --ignored`.
#[test]
#[ignore = "a long hunt"]
fn more_worlds() {
    let range = std::env::var("WORLDS").unwrap_or_else(|_| "100..200".into());
    let (from, to) = range.split_once("..").expect("WORLDS=FROM..TO");
    let (from, to): (u64, u64) = (from.parse().expect("a number"), to.parse().expect("a number"));
    for seed in from..to {
        for (scheme, protocol) in schemes() {
            let nodes = 1 + seed as usize % 4;
            let network = if seed % 3 == 0 { SimConfig::rough() } else { SimConfig::default() };
            let keys = [4, 12, 60][seed as usize % 3];
            let early = protocol == Protocol::Selcc && seed / 12 % 2 == 1;
            let shape =
                Shape { seed, scheme, protocol, nodes, network, keys, early, ..Shape::default() };
            World::run(&shape);
        }
    }
}
