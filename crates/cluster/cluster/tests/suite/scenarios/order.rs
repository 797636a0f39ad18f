//! The order in which requests are served (SELCC 5.3.2).

use latchwork_coherence::AccessMode;
use latchwork_latch::{Answer, WordOp};
use latchwork_verbs_sim::Leg;

use crate::common::small;
use crate::scenarios::stage::*;

/// Two writers wait at A. B came first, and C was refused before. Returns the node that gets the
/// line.
fn first_of_two(seed: u64, aging: bool) -> usize {
    let mut config = small(3, 1, 16, seed);
    config.selcc.aging = aging;
    let stage = Stage::on(config);
    let line = stage.line();
    stage.write(A, line, 1);
    // C's request is held until A has given the line up.
    let question = stage.hold(Leg::There, line, request(C, A));
    let late = stage.writes(C, line, 3);
    stage.until("C asks", || question.held() == 1);
    stage.evict_now(A, line);
    let claim = stage.hold(Leg::There, line, op(C, WordOp::AcquireExclusive));
    drop(question);
    stage.until("C was refused and tries again", || claim.held() == 1);
    let ticket = stage.take(A, line, AccessMode::Exclusive);
    let early = stage.writes(B, line, 2);
    stage.until("A remembers B", || stage.count(line, answer(A, B, Answer::Queued)) == 1);
    drop(claim);
    stage.until("A remembers C", || stage.count(line, answer(A, C, Answer::Queued)) == 1);
    stage.drop_on(A, ticket);
    let granted = |to| stage.count(line, grant(A, to));
    stage.until("A grants", || granted(B) + granted(C) > 0);
    let first = if granted(C) > 0 { C } else { B };
    let mut seen = [stage.end(early), stage.end(late), stage.read(A, line)];
    seen.sort_unstable();
    assert_eq!(seen, [1, 2, 3], "seed {seed}: one after the other");
    stage.finish();
    first
}

/// Without aging both have the same priority, so the first request is served first.
#[test]
fn a_node_that_was_refused_before_is_served_before_one_that_came_first() {
    in_every_world(|seed| {
        assert_eq!(first_of_two(seed, true), C, "seed {seed}: the higher priority");
        assert_eq!(first_of_two(seed, false), B, "seed {seed}: the first that came");
    });
}
