//! Single runs of one machine, step by step.

use std::collections::BTreeSet;

use latchwork_peers::{
    ClusterView, NodeEpoch,
    NodeState::{self, Dead, Joined, Left},
    NodeView, PeerEffect, PeerInput, PeerReport, PeerRules, Peers,
};

type Effects = Vec<PeerEffect<u8>>;

fn of(node: u8, epoch: u64) -> NodeEpoch<u8> {
    NodeEpoch { node, epoch }
}

fn view(nodes: &[(u8, u64, NodeState, &[PeerReport<u8>])]) -> ClusterView<u8> {
    let node = |&(node, epoch, state, reports): &(u8, u64, NodeState, &[PeerReport<u8>])| {
        let (has_slot, is_reachable) = (node > 0, true);
        let reports: BTreeSet<_> = reports.iter().copied().collect();
        (node, NodeView { epoch, state, has_slot, is_reachable, reports })
    };
    ClusterView { nodes: nodes.iter().map(node).collect() }
}

fn machine(node: u8, epoch: u64) -> Peers<u8> {
    Peers::new(of(node, epoch), node > 0, PeerRules::default())
}

fn step(peers: &mut Peers<u8>, input: PeerInput<'_, u8>) -> Effects {
    let mut out = Vec::new();
    peers.step(input, &mut out);
    out
}

fn end(peers: &mut Peers<u8>, effect: PeerEffect<u8>, done: bool) -> Effects {
    step(peers, PeerInput::Ended { effect, done })
}

#[test]
fn a_dead_node_is_reclaimed_when_all_members_report_its_last_epoch() {
    let mut peers = machine(1, 2);
    step(&mut peers, PeerInput::Serving);
    let (dead, fenced) = (of(3, 7), PeerReport::Fenced(of(3, 7)));
    let other = [PeerReport::Fenced(of(4, 7)), PeerReport::Fenced(of(3, 6))];
    let nodes = |reports: &[PeerReport<u8>], of_left: NodeState| {
        view(&[
            (0, 1, Joined, reports),
            (1, 2, Joined, &[fenced]),
            (2, 3, of_left, &[]),
            (3, 7, Dead, &[]),
        ])
    };
    let asked = step(&mut peers, PeerInput::View(&nodes(&[], Left)));
    assert!(asked.contains(&PeerEffect::Fence(dead)), "{asked:?}");
    // The fabric never knew the dead node, so the machine asks for no `Forget`.
    let report = PeerEffect::Report(fenced);
    assert_eq!(end(&mut peers, PeerEffect::Fence(dead), true), [report]);
    assert_eq!(end(&mut peers, report, true), []);
    assert_eq!(step(&mut peers, PeerInput::View(&nodes(&other, Left))), []);
    // The machine does not wait for a member that has died or left.
    let asked = step(&mut peers, PeerInput::View(&nodes(&[fenced], Left)));
    assert_eq!(asked, [PeerEffect::Reclaim(dead)]);
    assert_eq!(end(&mut peers, PeerEffect::Reclaim(dead), true), []);
    assert_eq!(step(&mut peers, PeerInput::Retry), []);
}

#[test]
fn a_memory_node_reclaims_no_node_and_a_dead_memory_node_is_not_reclaimed() {
    for (me, dead) in [(0, of(1, 2)), (1, of(0, 1))] {
        let mut peers = machine(me, 3);
        step(&mut peers, PeerInput::Serving);
        let fenced = PeerReport::Fenced(dead);
        let seen = view(&[(me, 3, Joined, &[fenced]), (dead.node, dead.epoch, Dead, &[])]);
        assert_eq!(step(&mut peers, PeerInput::View(&seen)), [PeerEffect::Fence(dead)]);
        let report = PeerEffect::Report(fenced);
        assert_eq!(end(&mut peers, PeerEffect::Fence(dead), true), [report]);
        assert_eq!(end(&mut peers, report, true), []);
        assert_eq!(step(&mut peers, PeerInput::View(&seen)), []);
    }
}

#[test]
fn a_fence_that_fails_is_repeated_and_the_peer_is_forgotten_meanwhile() {
    let mut peers = machine(1, 2);
    let peer = of(2, 1);
    step(&mut peers, PeerInput::View(&view(&[(2, 1, Joined, &[])])));
    end(&mut peers, PeerEffect::Admit(peer), true);
    assert_eq!(peers.known(2), Some(1));
    let fence = PeerEffect::Fence(peer);
    assert_eq!(step(&mut peers, PeerInput::View(&view(&[(2, 1, Dead, &[])]))), [fence]);
    let forget = PeerEffect::Forget { peer, has_left: false };
    assert_eq!(end(&mut peers, fence, false), [forget]);
    assert!(peers.has_failed());
    // The fabric is removing the peer, so the next attempt to fence waits.
    assert_eq!(step(&mut peers, PeerInput::Retry), []);
    assert_eq!(end(&mut peers, forget, true), []);
    assert_eq!(step(&mut peers, PeerInput::Retry), [fence]);
    let report = PeerEffect::Report(PeerReport::Fenced(peer));
    assert_eq!(end(&mut peers, fence, true), [report]);
    assert_eq!(end(&mut peers, report, false), []);
    assert_eq!(step(&mut peers, PeerInput::Retry), [report]);
    assert_eq!(end(&mut peers, report, true), []);
    assert!(!peers.has_failed());
}

#[test]
fn a_refused_peer_is_asked_for_again_and_a_refused_peer_that_dies_is_not() {
    let mut peers = machine(1, 2);
    let admit = PeerEffect::Admit(of(0, 1));
    assert_eq!(step(&mut peers, PeerInput::View(&view(&[(0, 1, Joined, &[])]))), [admit]);
    assert_eq!(end(&mut peers, admit, false), []);
    assert!(peers.has_failed() && peers.known(0).is_none());
    assert_eq!(step(&mut peers, PeerInput::Retry), [admit]);
    assert_eq!(end(&mut peers, admit, false), []);
    let fence = PeerEffect::Fence(of(0, 1));
    assert_eq!(step(&mut peers, PeerInput::View(&view(&[(0, 1, Dead, &[])]))), [fence]);
    assert!(!peers.has_failed());
}

#[test]
fn a_peer_that_left_is_forgotten_before_the_next_holder_of_its_id_is_admitted() {
    let mut peers = machine(1, 2);
    let (peer, next) = (of(2, 1), of(2, 9));
    step(&mut peers, PeerInput::View(&view(&[(2, 1, Joined, &[])])));
    end(&mut peers, PeerEffect::Admit(peer), true);
    // The view in which the peer has left is skipped.
    let forget = PeerEffect::Forget { peer, has_left: false };
    let seen = view(&[(2, 9, Joined, &[])]);
    assert_eq!(step(&mut peers, PeerInput::View(&seen)), [forget]);
    assert_eq!(step(&mut peers, PeerInput::View(&seen)), []);
    assert_eq!(end(&mut peers, forget, true), [PeerEffect::Admit(next)]);
    let report = PeerEffect::Report(PeerReport::Knows(next));
    assert_eq!(end(&mut peers, PeerEffect::Admit(next), true), [report]);
    let forget = PeerEffect::Forget { peer: next, has_left: true };
    assert_eq!(step(&mut peers, PeerInput::View(&view(&[(2, 9, Left, &[])]))), [forget]);
}

/// The node with the higher member epoch waits, the node with the lower one does not.
#[test]
fn a_node_waits_for_the_members_before_it_to_know_it() {
    let (first, second) = (of(1, 1), of(2, 2));
    for (me, peer, waits) in [(first, second, false), (second, first, true)] {
        let mut peers = machine(me.node, me.epoch);
        assert!(!peers.is_introduced(), "it has seen no view");
        let seen = |reports: &[PeerReport<u8>]| {
            view(&[(0, 3, Joined, &[]), (peer.node, peer.epoch, Joined, reports)])
        };
        step(&mut peers, PeerInput::View(&seen(&[])));
        assert_eq!(peers.is_introduced(), !waits);
        end(&mut peers, PeerEffect::Admit(peer), true);
        let earlier = PeerReport::Knows(NodeEpoch { epoch: 0, ..me });
        step(&mut peers, PeerInput::View(&seen(&[earlier])));
        assert_eq!(peers.is_introduced(), !waits);
        step(&mut peers, PeerInput::View(&seen(&[PeerReport::Knows(me)])));
        assert!(peers.is_introduced());
    }
}

/// Without an agent no message reaches a memory node, so no node waits for its report.
#[test]
fn a_memory_node_reports_the_nodes_that_it_knows_when_it_has_an_agent() {
    let mut peers = machine(0, 1);
    let (peer, next) = (of(1, 2), of(2, 3));
    step(&mut peers, PeerInput::View(&view(&[(1, 2, Joined, &[])])));
    assert_eq!(end(&mut peers, PeerEffect::Admit(peer), true), []);
    let report = |peer| PeerEffect::Report(PeerReport::Knows(peer));
    assert_eq!(step(&mut peers, PeerInput::Serving), [report(peer)]);
    step(&mut peers, PeerInput::View(&view(&[(2, 3, Joined, &[])])));
    assert_eq!(end(&mut peers, PeerEffect::Admit(next), true), [report(next)]);
    // The compute node waits for the agent, which is a peer without a slot.
    let mut peers = machine(1, 2);
    let agent = of(0, 9);
    let seen = |reports: &[PeerReport<u8>]| view(&[(0, 9, Joined, reports)]);
    step(&mut peers, PeerInput::View(&seen(&[PeerReport::Knows(peer)])));
    assert!(!peers.is_mutual(agent), "the fabric does not know the agent");
    end(&mut peers, PeerEffect::Admit(agent), true);
    assert!(peers.is_mutual(agent) && !peers.is_mutual(of(0, 8)));
    let mut peers = machine(1, 2);
    step(&mut peers, PeerInput::View(&seen(&[PeerReport::Knows(of(1, 1))])));
    end(&mut peers, PeerEffect::Admit(agent), true);
    assert!(!peers.is_mutual(agent), "the report is on an earlier holder");
}

#[test]
fn a_member_that_dies_is_not_waited_for() {
    let mut peers = machine(2, 2);
    step(&mut peers, PeerInput::View(&view(&[(1, 1, Joined, &[])])));
    assert!(!peers.is_introduced());
    step(&mut peers, PeerInput::View(&view(&[(1, 1, Dead, &[])])));
    assert!(peers.is_introduced());
}
