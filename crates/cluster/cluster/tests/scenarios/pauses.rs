//! Pauses of those who are refused very often, because a node is stuck.

use std::time::Duration;

use latchwork_latch::{Message, WordOp};
use latchwork_verbs_sim::Leg;

use crate::stage::*;

/// Long for a line, short for a deadline.
const STUCK: Duration = Duration::from_millis(20);

/// So many questions at least and at most while a node is stuck that long: some 64 for each time
/// that the wait grows e-fold, after a hundred or two in the first millisecond. With pauses of 2
/// microseconds there are thousands.
const QUESTIONS: std::ops::Range<usize> = 60..600;

/// What one pause can be after that wait: a part in 64 of it, and half as much again.
const LONGEST_PAUSE: Duration = Duration::from_micros(470);

/// A grant is late, so the word names a node that has not got the line and refuses everybody. Bug:
/// whoever wanted the line asked again every few microseconds until its deadline, which is ten
/// seconds by default, and its node went on afterwards. Mechanism: pauses shrank with every
/// refusal, and stayed short. Fix: they grow with the wait.
#[test]
fn who_is_refused_for_long_asks_less_and_less_often() {
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

/// Four nodes share a line; A waits for an answer that is late, and the others upgrade. Whoever
/// asks is refused by A. Bug: it gave its pledges back to those behind it, and each of them
/// upgraded at once, asked everybody, and was refused. Mechanism: to pledge a copy ended the pause
/// of its owner. Fix: the pause goes on when the copy comes back.
#[test]
fn who_gets_a_pledge_back_pauses_on() {
    in_every_world(|seed| {
        let stage = Stage::new(5, seed);
        let (line, writers) = (stage.line(), [B, C, D]);
        stage.write(E, line, 1);
        // A has a bit, and no answer to the question that it asked.
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
            matches!(act, Act::Letter { message: Message::Pledged { .. }, .. })
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
