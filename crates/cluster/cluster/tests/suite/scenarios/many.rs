//! More requesters of one line than one grant can carry as travelling requests.

use latchwork_cluster::Ticket;
use latchwork_coherence::AccessMode;
use latchwork_latch::{Answer, TRAVELLING_MAX};
use latchwork_runtime::JoinHandle;
use latchwork_selcc::LatchCount;
use latchwork_verbs::GlobalAddr;
use latchwork_verbs_sim::Leg;

use crate::common::small;
use crate::scenarios::stage::*;

/// The number of writers whose requests do not fit into the grant to the first writer.
const LEFT: usize = 3;
const NODES: usize = TRAVELLING_MAX + LEFT + 2;

/// A stage on which A keeps a line that all other nodes have requested. B's request is the first.
fn wanted_by_all(seed: u64) -> (Stage, GlobalAddr, Ticket, Vec<JoinHandle<u64>>) {
    let stage = Stage::on(small(NODES, 1, 16, seed));
    let line = stage.line();
    let ticket = stage.take(A, line, AccessMode::Exclusive);
    stage.write(A, line, 0);
    let writers = (B..NODES).map(|node| {
        let writer = stage.writes(node, line, node as u64);
        stage.until("A remembers it", || stage.count(line, answer(A, node, Answer::Queued)) == 1);
        writer
    });
    let writers = writers.collect();
    (stage, line, ticket, writers)
}

/// Each written value is found by one other writer, or by the last reader. So no request is lost.
fn all_write(stage: Stage, line: GlobalAddr, writers: Vec<JoinHandle<u64>>) {
    let found = writers.into_iter().map(|writer| stage.end(writer));
    let mut seen: Vec<u64> = found.collect();
    seen.push(stage.read(A, line));
    seen.sort_unstable();
    assert_eq!(seen, (0..NODES as u64).collect::<Vec<_>>(), "seed {}", stage.seed);
    stage.finish();
}

/// Bug: of many writers with requests to one owner, all but five were refused, and repeated their
/// requests again and again. Fix: the owner queues one request of every node. Requests that do not
/// fit into the grant are sent on.
#[test]
fn no_node_is_refused_although_more_wait_than_can_travel() {
    in_every_world(|seed| {
        let (stage, line, ticket, writers) = wanted_by_all(seed);
        stage.drop_on(A, ticket);
        stage.until("A sends the others on", || stage.count(line, sent_on(A, B)) == LEFT);
        assert_eq!(stage.count(line, sent_on(A, C)), 0);
        stage.until("all have written", || writers.iter().all(|writer| writer.is_finished()));
        let counters = stage.cluster.counters();
        assert!(LatchCount::RequestsPassedOn.of(&counters) >= LEFT as u64, "{counters:?}");
        // In a rough world a request may reach a node that no longer owns the line.
        assert!(counters.invalidations_dropped < LEFT as u64, "seed {seed}: {counters:?}");
        all_write(stage, line, writers);
    });
}

/// One of two workers of a node has taken the grant and not handled it. The other worker takes the
/// requests that follow the grant. The node owns nothing yet, so it refuses the requesters. They
/// repeat their requests, and no node waits for an answer that does not come.
#[test]
fn requests_that_overtake_their_grant_are_sent_again() {
    in_every_world(|seed| {
        let (mut stage, line, ticket, writers) = wanted_by_all(seed);
        stage.add_worker(B);
        let late = stage.hold(Leg::Inbox, line, grant(A, B));
        stage.drop_on(A, ticket);
        stage.until("the grant is in B's inbox", || late.held() == 1);
        let refused = |stage: &Stage| {
            (C..NODES)
                .filter(|node| stage.count(line, answer(B, *node, Answer::Dropped)) > 0)
                .count()
        };
        stage.until("B sends those away that were sent on", || refused(&stage) >= LEFT);
        assert_eq!(stage.count(line, sent_on(A, B)), LEFT);
        stage.pass(A_WHILE);
        assert!(!writers[0].is_finished());
        drop(late);
        all_write(stage, line, writers);
    });
}
