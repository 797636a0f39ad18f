//! Worlds that differ only by the ids of nodes with the same behaviour: one world stands for all of
//! them.
//!
//! # Why that is sound
//!
//! The machines compare ids only where writers meet at a shared line:
//!
//! - an upgrading node that gets a request (`must_give_way_to`),
//! - a sharer's choice among the requests to it (`serve_from_shared`),
//! - a pledger that gets a request of another writer (`answer_of_pledger`).
//!
//! Two clients with the same behaviour can exchange their ids if neither reaches these places:
//!
//! 1. Among clients that only read: all comparisons concern writers.
//! 2. Among clients that only write where no client reads: only a reader makes a holder share.
//!
//! Then every step of a world is a step of the renamed world, with the renamed result. No property
//! depends on ids. So a state is bad, or has no path to a good state, exactly if the same is true
//! of its representative. `names.rs` checks the claim about steps, in settings that are searched
//! completely.
//!
//! Ids also decide which bit of the word belongs to a node, and a sum that carries treats
//! neighbours differently. A carry is a fault, and worlds with a fault keep their ids.

use std::hash::{Hash, Hasher};

use latchwork_verbs::ComputeNodeId;

use crate::client::Client;
use crate::digest::Digest;
use crate::world::{Flight, Node, Packet, World};

/// Groups of clients that can exchange ids. Each group has at least two clients, with ids in order.
pub(crate) fn groups(clients: &[Client]) -> Vec<Vec<ComputeNodeId>> {
    let nobody_reads = clients.iter().all(|client| !client.reads());
    let mut groups: Vec<(Client, Vec<ComputeNodeId>)> = Vec::new();
    for client in clients.iter().filter(|client| nobody_reads || !client.writes()) {
        let id = ComputeNodeId::new(client.id).expect("a valid id");
        match groups.iter_mut().find(|(other, _)| client.does_as(other)) {
            Some((_, group)) => group.push(id),
            None => groups.push((*client, vec![id])),
        }
    }
    groups.into_iter().map(|(_, group)| group).filter(|group| group.len() > 1).collect()
}

/// The world that stands for `world` and for all worlds that differ from it by ids within the
/// groups.
///
/// Members of a group are ordered by their views of the world. Members with the same view keep
/// their order. So two worlds that differ only by ids may get two representatives. That costs
/// states, and is no error.
pub(crate) fn representative(world: World, groups: &[Vec<ComputeNodeId>]) -> World {
    if world.fault.is_some() {
        return world;
    }
    groups.iter().fold(world, |world, group| {
        let mut order = group.clone();
        order.sort_by_cached_key(|&id| view(&world, group, id));
        if order == *group {
            return world;
        }
        let place = |id| order.iter().position(|&other| other == id);
        renamed(&world, &|id| place(id).map_or(id, |at| group[at]))
    })
}

/// The view of the world from a member of a group, which cannot distinguish the other members.
fn view(world: &World, group: &[ComputeNodeId], me: ComputeNodeId) -> u64 {
    let (myself, others) = (group[0], group[1]);
    let name = |id| match id {
        id if id == me => myself,
        id if group.contains(&id) => others,
        id => id,
    };
    let nodes = world.nodes.iter().map(|node| digest(&rename_node(node, &name)));
    let wire = world.wire.iter().map(|packet| digest(&rename_packet(packet, &name)));
    // A sum, because neither the nodes nor the packets have an order that all members see.
    let parts = nodes.chain(wire).fold(0, u64::wrapping_add);
    digest(&(parts, world.word.renamed(&name)))
}

pub(crate) fn digest(value: &impl Hash) -> u64 {
    let mut digest = Digest::default();
    value.hash(&mut digest);
    digest.finish()
}

/// The same world where node `id` is called `name(id)`, one to one.
pub(crate) fn renamed(world: &World, name: &impl Fn(ComputeNodeId) -> ComputeNodeId) -> World {
    let mut nodes: Vec<Node> = world.nodes.iter().map(|node| rename_node(node, name)).collect();
    // The position of a client identifies it, and positions follow the order of ids.
    nodes.sort_unstable_by_key(|node| node.id);
    let mut wire: Vec<_> = world.wire.iter().map(|packet| rename_packet(packet, name)).collect();
    wire.sort_unstable();
    World { word: world.word.renamed(name), nodes, wire, ..*world }
}

fn rename_node(node: &Node, name: &impl Fn(ComputeNodeId) -> ComputeNodeId) -> Node {
    let flight = |flight: &Flight| Flight {
        op: flight.op.renamed(name),
        old: flight.old.renamed(name),
        ..*flight
    };
    let ids = (1..=ComputeNodeId::MAX).filter_map(ComputeNodeId::new);
    let awaited = ids.filter(|id| node.awaited & 1 << id.index() != 0);
    Node {
        id: name(node.id),
        line: node.line.renamed(name),
        frame: node.frame,
        flights: node.flights.iter().map(flight).collect(),
        wanted: node.wanted,
        pausing: node.pausing,
        awaited: awaited.fold(0, |bits, id| bits | 1 << name(id).index()),
        unsettled: node.unsettled,
        pledged: node.pledged.map(|(to, seq)| (name(to), seq)),
        no_wait: node.no_wait,
        dead: node.dead,
        round: node.round,
    }
}

fn rename_packet(packet: &Packet, name: &impl Fn(ComputeNodeId) -> ComputeNodeId) -> Packet {
    Packet {
        to: name(packet.to),
        message: packet.message.renamed(name),
        forwarded: packet.forwarded,
        sender: packet.sender.map(|(id, round)| (name(id), round)),
    }
}

#[test]
fn groups_are_of_nodes_that_do_the_same() {
    let ids = |clients: &[Client]| {
        let ids = |group: Vec<ComputeNodeId>| group.into_iter().map(ComputeNodeId::get).collect();
        groups(clients).into_iter().map(ids).collect::<Vec<Vec<u8>>>()
    };
    let [both, writer, reader] = [Client::both, Client::writer, Client::reader];
    assert_eq!(ids(&[both(1), both(2), reader(3), reader(4)]), [[3, 4]]);
    assert_eq!(ids(&[reader(1), writer(2), writer(3), reader(4).keeping()]), [[0; 0]; 0]);
    assert_eq!(ids(&[writer(1), writer(2), writer(3)]), [[1, 2, 3]]);
}
