//! The back-off of nodes that are refused very often, because another node is stuck.

use std::time::Duration;

use latchwork_latch::{LatchMessage, WordOp};
use latchwork_verbs_sim::Leg;

use crate::scenarios::stage::*;

/// The time for which a node is stuck. It is long for a line, and short for a deadline.
const STUCK: Duration = Duration::from_millis(20);

/// The expected number of requests while a node is stuck. In the first millisecond there are one or
/// two hundred. Later there are about 64 each time the wait has grown by the factor e. With a
/// constant back-off of 2 microseconds there would be thousands.
const QUESTIONS: std::ops::Range<usize> = 60..600;

/// The longest back-off after that wait: 1/64 of the wait, plus half of that.
const LONGEST_PAUSE: Duration = Duration::from_micros(470);

/// A grant is late, so the word names a node that does not have the line and refuses all other
/// nodes. Bug: a node that wanted the line requested it every few microseconds until its deadline
/// (by default ten seconds), and longer. Mechanism: the back-off became shorter with every refusal,
/// and stayed short. Fix: the back-off grows with the wait.
#[test]
fn a_node_that_is_refused_for_long_sends_requests_less_and_less_often() {
    in_every_world(|seed| {
        let stage = Stage::new(3, seed);
        let line = stage.line();
        stage.write(A, line, 1);
        let forward = stage.hold(Leg::There, line, grant(A, B));
        let first = stage.writes(B, line, 2);
        stage.until("the word names B", || stage.word(line) == x(B));
        let second = stage.writes(C, line, 3);
        stage.pass(STUCK / 2);
        let half = stage.count(line, request(C, B));
        stage.pass(STUCK / 2);
        let all = stage.count(line, request(C, B));
        assert!(QUESTIONS.contains(&all), "seed {seed}: {all} questions");
        assert!(2 * (all - half) < half, "seed {seed}: {half}, then {}", all - half);
        drop(forward);
        let freed = stage.now();
        assert_eq!((stage.end(first), stage.end(second)), (1, 2));
        let took = stage.now() - freed;
        assert!(took < LONGEST_PAUSE + A_WHILE, "seed {seed}: {took:?}");
        stage.finish();
    });
}

/// Four nodes share a line. A waits for a late answer and refuses each request, and the other nodes
/// upgrade. Bug: a requester returned its pledges, and each node that got one back upgraded at
/// once, sent requests to all, and was refused. Mechanism: a pledge ended the back-off of the
/// copy's owner. Fix: the back-off continues when the copy comes back.
#[test]
fn a_node_that_gets_a_pledge_back_keeps_backing_off() {
    in_every_world(|seed| {
        let stage = Stage::new(5, seed);
        let (line, writers) = (stage.line(), [B, C, D]);
        stage.write(E, line, 1);
        // A's bit is set, and A has no answer to its request.
        let late = stage.hold(Leg::There, line, request(A, E));
        let stuck = stage.reads(A, line);
        stage.until("A asks", || late.held() == 1);
        writers.iter().for_each(|&node| assert_eq!(stage.read(node, line), 1));
        let writes: Vec<_> =
            writers.iter().map(|&node| stage.writes(node, line, 2 + node as u64)).collect();
        stage.pass(STUCK);
        for node in writers {
            let claims = stage.count(line, op(node, WordOp::Upgrade));
            assert!(QUESTIONS.contains(&claims), "seed {seed}: {claims} by {node}");
        }
        let pledges = stage.count(line, |_, act| {
            matches!(act, Act::Letter { message: LatchMessage::Pledged { .. }, .. })
        });
        assert!(pledges > 0, "seed {seed}: there were pledges");
        drop(late);
        stage.end(stuck);
        let mut met: Vec<_> = writes.into_iter().map(|write| stage.end(write)).collect();
        met.sort_unstable();
        met.dedup();
        assert_eq!(met.len(), writers.len(), "seed {seed}: one after the other");
        stage.finish();
    });
}
