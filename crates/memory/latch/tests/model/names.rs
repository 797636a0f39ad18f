//! The check of `symmetry.rs`: nodes with the same behaviour can exchange their ids. The check
//! tries all steps of settings that are searched completely.

use latchwork_latch::Rules;
use latchwork_verbs::ComputeNodeId;

use crate::client::Client;
use crate::graph;
use crate::setting::Setting;
use crate::symmetry::{digest, renamed};
use crate::world::World;

/// The first state in which the exchange of two ids does not commute with some step, if one exists.
fn broken(setting: &Setting, one: u8, two: u8) -> Option<World> {
    let [one, two] = [one, two].map(|id| ComputeNodeId::new(id).expect("a valid id"));
    let swap = |id| match id {
        id if id == one => two,
        id if id == two => one,
        id => id,
    };
    let results = |world: &World| {
        let mut steps = Vec::new();
        setting.steps(world, &mut steps);
        steps.into_iter().filter_map(|step| setting.take(world, step)).collect::<Vec<_>>()
    };
    let digests = |worlds: &mut dyn Iterator<Item = World>| {
        let mut digests: Vec<u64> = worlds.map(|world| digest(&world)).collect();
        digests.sort_unstable();
        digests
    };
    let mut known = std::collections::HashSet::new();
    let mut open = vec![setting.first()];
    while let Some(world) = open.pop() {
        let next = results(&world);
        let other = results(&renamed(&world, &swap));
        let here = digests(&mut next.iter().map(|world| renamed(world, &swap)));
        if here != digests(&mut other.into_iter()) {
            return Some(world);
        }
        open.extend(next.into_iter().filter(|world| known.insert(digest(world))));
    }
    println!("{} states, each with all its steps", known.len());
    None
}

#[test]
fn readers_can_change_names() {
    let clients = [Client::both(1), Client::reader(2), Client::reader(3)];
    let clients = clients.map(|client| client.keeping().patient());
    let setting = Setting::discipline(&clients, 1);
    assert_eq!(broken(&setting, 2, 3), None);
    assert_eq!(broken(&setting.with_takeover(), 2, 3), None);
    // The ids can be exchanged also where the connection of one node fails.
    assert_eq!(broken(&Setting::discipline(&clients, 0).failing(1), 2, 3), None);
}

#[test]
fn writers_can_change_names_if_no_node_reads() {
    let setting = Setting::discipline(&[1, 2, 3].map(Client::writer), 1);
    assert_eq!(broken(&setting, 1, 2), None);
}

#[test]
fn upgrading_nodes_cannot_change_names_and_the_check_sees_it() {
    let both = Setting::discipline(&[Client::both(1), Client::both(2)], 0);
    assert!(broken(&both, 1, 2).is_some());
    let clients = [Client::writer(1), Client::writer(2), Client::reader(3)];
    assert!(broken(&Setting::discipline(&clients, 0), 1, 2).is_some(), "they upgrade too");
}

#[test]
fn a_search_up_to_names_takes_half_of_the_states_and_says_the_same() {
    let clients = [Client::both(1), Client::reader(2), Client::reader(3)];
    let clients = clients.map(|client| client.keeping().patient());
    let setting = Setting::discipline(&clients, 1);
    let (whole, half) = (graph::search(&setting), graph::search(&setting.clone().up_to_names()));
    println!("{} states, {} up to names", whole.states, half.states);
    assert!(whole.wrong.is_none() && half.wrong.is_none());
    assert!(2 * half.states >= whole.states && 5 * half.states < 3 * whole.states);
    // Without rule R4 there is a counterexample. A search up to names finds one of the same length.
    let broken = Setting {
        rules: Rules { settle: false, ..setting.rules },
        ..Setting::discipline(&[Client::both(1), Client::reader(2), Client::reader(3)], 0)
    };
    let wrong = |setting: &Setting| {
        let (property, steps) = graph::search(setting).wrong.expect("a counterexample");
        (property, steps.len())
    };
    assert_eq!(wrong(&broken), wrong(&broken.clone().up_to_names()), "the shortest way to it");
}
