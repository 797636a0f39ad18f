//! Workers of one node whose sweeps begin at different times, and workers that do work for other
//! workers.

use std::time::Duration;

use latchwork_coherence::AccessMode;
use latchwork_latch::{Answer, WordOp};
use latchwork_verbs_sim::Leg;

use crate::common::small;
use crate::scenarios::stage::*;

const HOLD_OFF: Duration = Duration::from_micros(100);

/// Bug: a reader that waits for the end of a hold-off waits forever. Mechanism: one worker takes
/// the alarm of the hold-off's end. Another worker began a long sweep before that time, and
/// compares with the time of its sweep: for it the hold-off still lasts, and no other alarm
/// follows. Fix: the alarm deletes the end of the hold-off, and no worker compares the time again.
#[test]
fn a_hold_off_is_over_for_a_worker_with_a_sweep_that_began_before_its_end() {
    in_every_world(|seed| {
        let mut config = small(2, 1, 16, seed);
        // The hold-off is doubled once, because the writer is refused once.
        (config.selcc.hold_off, config.selcc.hold_off_max) = (HOLD_OFF / 2, HOLD_OFF);
        // Without takeover A has a word operation that the test can hold.
        config.selcc.takeover = false;
        let mut stage = Stage::on(config);
        let second = stage.add_worker(A);
        let line = stage.line();
        stage.write(A, line, 1);
        let question = stage.hold(Leg::There, line, request(B, A));
        let writer = stage.writes(B, line, 2);
        stage.until("B asks", || question.held() == 1);
        stage.evict_now(A, line);
        let claim = stage.hold(Leg::There, line, op(B, WordOp::AcquireExclusive));
        drop(question);
        stage.until("B was sent away and tries again", || claim.held() == 1);
        assert_eq!(stage.read(A, line), 1);
        // While this release is held, the line's record with the hold-off stays.
        let released = stage.hold(Leg::Back, line, op(A, WordOp::ReleaseShared));
        drop(claim);
        stage.until("A lets B have it", || stage.count(line, op(A, WordOp::ReleaseShared)) == 1);
        let over = stage.now() + HOLD_OFF;
        // The second worker begins a sweep now. Its first task takes longer than the hold-off.
        let long = stage.start(second, async |member| member.handle.charge(2 * HOLD_OFF));
        let reader = stage.reads(second, line);
        stage.until("that sweep has begun", || long.is_finished());
        assert!(stage.now() < over - HOLD_OFF / 2, "seed {seed}: the sweep begins too late");
        // The first worker is present when the hold-off ends, and handles the alarm.
        stage.run(A, async |member| member.handle.sleep(HOLD_OFF + HOLD_OFF / 4).await);
        assert!(stage.now() > over && !reader.is_finished());
        stage.pass(2 * HOLD_OFF);
        drop(released);
        assert_eq!(stage.end(writer), 1);
        assert!([1, 2].contains(&stage.end(reader)));
        stage.finish();
    });
}

/// A request that waits for a ticket is served in the sweep that drops the ticket, not after the
/// work of the next sweep.
#[test]
fn a_request_is_served_in_the_sweep_in_which_the_ticket_is_dropped() {
    in_every_world(|seed| {
        let stage = Stage::new(2, seed);
        let line = stage.line();
        let ticket = stage.take(A, line, AccessMode::Exclusive);
        let writer = stage.writes(B, line, 2);
        stage.until("A remembers B", || stage.count(line, answer(A, B, Answer::Queued)) == 1);
        let since = stage.now();
        stage.start(A, async move |_| drop(ticket));
        let busy = 20 * A_WHILE;
        let next = stage.start(A, async move |member| {
            member.handle.yield_now().await;
            member.handle.charge(busy);
        });
        stage.until("A grants", || stage.count(line, grant(A, B)) == 1);
        let took = stage.now() - since;
        assert!(took < A_WHILE, "seed {seed}: {took:?}");
        assert_eq!(stage.end(writer), 0);
        stage.end(next);
        stage.finish();
    });
}
