//! Several nodes with a part of the rows each, in virtual time. Random transactions run over one
//! part or several, and their history must be that of some serial run over all parts.

mod mix;
mod world;

use std::time::Duration;

use latchwork_txn::Scheme;
use latchwork_verbs_sim::{Faults, SimConfig};

use world::{Shape, World};

#[test]
fn what_transactions_see_on_all_nodes_is_some_serial_run() {
    for scheme in Scheme::ALL {
        for seed in 0..8 {
            let nodes = 2 + seed as usize % 3;
            let shape = Shape { seed, scheme, nodes, logged: seed % 2 == 0, ..Shape::default() };
            let report = World::run(&shape);
            assert!(report.commits > 60, "{shape:?}: {report:?}");
            assert!(report.stats.distributed > 20, "{shape:?}: {report:?}");
            assert!(report.stats.shipped > 5 && report.stats.local > 5, "{shape:?}: {report:?}");
            assert_eq!(report.stats.decided > 0, shape.logged, "{shape:?}: {report:?}");
        }
    }
}

/// A part that is validated before all parts have locked would fail here.
#[test]
fn reads_on_one_node_and_writes_on_another() {
    for scheme in Scheme::ALL {
        for seed in 60..80 {
            let (network, nodes, keys, skew) = (SimConfig::rough(), 3, 1, true);
            let shape = Shape { seed, scheme, network, nodes, keys, skew, ..Shape::default() };
            World::run(&shape);
        }
    }
}

#[test]
fn on_a_rough_network() {
    for scheme in Scheme::ALL {
        let network = SimConfig::rough();
        World::run(&Shape { seed: 5, scheme, network, ..Shape::default() });
    }
}

#[test]
fn messages_that_are_lost_late_or_duplicated() {
    for scheme in Scheme::ALL {
        for seed in 20..24 {
            let faults = Faults {
                delay_one_in: 20,
                delay: Duration::from_micros(50),
                lose_one_in: 0,
                repeat_one_in: 20,
                // The protocol sends its messages again then; user messages are lost.
                fail_one_in: 40,
            };
            let shape = Shape { seed, scheme, faults, logged: true, ..Shape::default() };
            let report = World::run(&shape);
            assert!(report.stats.repeated > 0, "{shape:?}: {report:?}");
        }
    }
}

#[test]
fn a_node_that_pauses_at_any_moment() {
    let mut asked = 0;
    for scheme in Scheme::ALL {
        for seed in 40..44 {
            let pauses = true;
            let shape = Shape { seed, scheme, pauses, logged: true, nodes: 3, ..Shape::default() };
            asked += World::run(&shape).stats.asked;
        }
    }
    assert!(asked > 0, "somebody has voted and then heard nothing");
}

#[test]
fn the_same_seed_is_the_same_history() {
    for scheme in Scheme::ALL {
        let shape = Shape { seed: 3, scheme, ..Shape::default() };
        assert_eq!(World::run(&shape), World::run(&shape), "{scheme}");
    }
}

/// More of them: `WORLDS=1000..2000 cargo test --release -p latchwork-partition --test suite
/// worlds:: -- --ignored`.
#[test]
#[ignore = "a long hunt"]
fn more_worlds() {
    let range = std::env::var("WORLDS").unwrap_or_else(|_| "100..200".into());
    let (from, to) = range.split_once("..").expect("WORLDS=FROM..TO");
    let (from, to): (u64, u64) = (from.parse().expect("a number"), to.parse().expect("a number"));
    for seed in from..to {
        for scheme in Scheme::ALL {
            let nodes = 2 + seed as usize % 3;
            let network = if seed % 3 == 0 { SimConfig::rough() } else { SimConfig::default() };
            let keys = [2, 6, 30][seed as usize % 3];
            let (pauses, logged) = (seed % 5 == 0, seed % 2 == 0);
            let shape =
                Shape { seed, scheme, nodes, network, keys, pauses, logged, ..Shape::default() };
            World::run(&shape);
        }
    }
}
