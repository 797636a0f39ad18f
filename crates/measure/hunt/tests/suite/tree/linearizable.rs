//! Random operations of many workers on many nodes: one order per key explains all answers.

use latchwork_cluster::Protocol;
use latchwork_hunt::Scenario;

use crate::tree::{clean, crowded, drawn, seeds, with_load};

#[test]
fn every_answer_is_explained_by_one_order_in_hundreds_of_worlds() {
    for seed in seeds(0, 300) {
        clean(drawn(seed, Protocol::Selcc));
    }
}

#[test]
fn the_same_holds_without_a_cache() {
    for seed in seeds(1 << 20, 150) {
        clean(drawn(seed, Protocol::Sel));
    }
}

#[test]
fn a_handful_of_keys_that_all_clients_want() {
    for seed in seeds(2 << 20, 20) {
        let protocol = Protocol::ALL[seed as usize % 2];
        let scenario = with_load(drawn(seed, protocol), |load| (load.keys, load.loaded) = (4, 0));
        clean(Scenario { compute_nodes: 4, workers: 2, tasks: 2, operations: 15, ..scenario });
    }
}

#[test]
fn crowds_with_hardly_any_cache_on_a_bad_network() {
    for seed in seeds(6 << 20, 16) {
        clean(crowded(seed, Protocol::ALL[seed as usize % 2]));
    }
}

#[test]
fn the_same_seed_is_the_same_world() {
    for protocol in Protocol::ALL {
        let hash = |seed| {
            let scenario = with_load(drawn(seed, protocol), |load| load.dropped = 10);
            clean(Scenario { compute_nodes: 3, workers: 2, ..scenario }).hash
        };
        assert_eq!(hash(7), hash(7));
        assert_ne!(hash(7), hash(8), "different seeds, different worlds");
    }
}
