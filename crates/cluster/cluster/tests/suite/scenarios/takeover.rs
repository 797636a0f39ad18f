//! Writers that take shared lines over by pledges (the setting `takeover` is on).

use std::time::Duration;

use latchwork_cache::Ownership;
use latchwork_cluster::ClusterConfig;
use latchwork_coherence::{AccessMode, MemoryError, Upgrade};
use latchwork_engine::Counters;
use latchwork_latch::{Answer, WordOp};
use latchwork_selcc::LatchCount;
use latchwork_verbs::GlobalAddr;
use latchwork_verbs_sim::Leg;

use crate::common::small;
use crate::scenarios::stage::*;

const DEADLINE: Duration = Duration::from_millis(20);

fn stage_with(seed: u64, takeover: bool) -> Stage {
    let mut config: ClusterConfig = small(4, 1, 16, seed);
    config.selcc.takeover = takeover;
    config.node.deadline = DEADLINE;
    Stage::on(config)
}

fn stage(seed: u64) -> Stage {
    stage_with(seed, true)
}

/// A fresh line, shared by B and C.
fn shared(stage: &Stage) -> GlobalAddr {
    let line = stage.line();
    assert_eq!((stage.read(B, line), stage.read(C, line)), (0, 0));
    stage.forget();
    line
}

/// A writes a line that B and C share. Returns the counters of all nodes when all operations have
/// ended.
fn write_to_shared(seed: u64, takeover: bool) -> (Stage, GlobalAddr, Counters) {
    let stage = stage_with(seed, takeover);
    let line = shared(&stage);
    let before = stage.cluster.counters();
    assert_eq!(stage.write(A, line, 1), 0);
    stage.until("all are through", || (A..=C).all(|node| stage.node(node).lines_in_flight() == 0));
    let counted = stage.cluster.counters() - before;
    (stage, line, counted)
}

/// Without takeover each sharer clears its own bit. With takeover only the writer changes the word.
#[test]
fn a_writer_that_meets_sharers_needs_no_operation_of_theirs() {
    in_every_world(|seed| {
        let (stage, line, counted) = write_to_shared(seed, true);
        assert_eq!(
            (counted.verbs_faa, counted.verbs_cas, counted.verbs_read),
            (0, 2, 2),
            "refused, then one claim"
        );
        assert_eq!(
            (
                LatchCount::Pledges.of(&counted),
                LatchCount::Takeovers.of(&counted),
                LatchCount::PledgesGivenUp.of(&counted)
            ),
            (2, 1, 0)
        );
        assert_eq!(stage.count(line, op(A, WordOp::TakeOver(set(&[B, C])))), 1);
        assert_eq!(stage.words(line), [s(&[B, C]), x(A)], "from all sharers at once");
        assert_eq!((stage.read(B, line), stage.read(C, line)), (1, 1));
        stage.finish();

        let (stage, line, counted) = write_to_shared(seed, false);
        assert_eq!(
            (
                counted.verbs_faa,
                LatchCount::Pledges.of(&counted),
                LatchCount::Takeovers.of(&counted)
            ),
            (2, 0, 0)
        );
        assert_eq!(stage.words(line).len(), 4, "one bit after the other");
        stage.finish();
    });
}

#[test]
fn an_upgrade_keeps_its_copy_while_it_takes_the_others_over() {
    in_every_world(|seed| {
        let stage = stage(seed);
        let line = shared(&stage);
        let (_, seen) = stage.sees(B, line);
        let (upgrade, ticket) = stage.end(stage.upgrades(B, seen));
        assert_eq!((upgrade, stage.word(line)), (Upgrade::Kept, x(B)));
        assert_eq!(stage.count(line, op(B, WordOp::UpgradeOver(set(&[C])))), 1);
        assert_eq!(stage.count(line, any_op(C)), 0);
        stage.drop_on(B, ticket);
        assert_eq!((stage.write(B, line, 1), stage.read(C, line)), (0, 1));
        stage.finish();
    });
}

/// Between its pledge and the writer's report, the sharer does not use its copy, does not evict the
/// frame, and posts no word operation.
#[test]
fn a_pledger_leaves_copy_frame_and_word_alone_until_the_report() {
    in_every_world(|seed| {
        let stage = stage(seed);
        let line = shared(&stage);
        let report = stage.hold(Leg::There, line, taken(A, B));
        assert_eq!(stage.write(A, line, 1), 0);
        stage.until("A reports", || report.held() == 1);
        assert_eq!((stage.word(line), stage.owns(B, line)), (x(A), Ownership::Invalid));
        assert!(stage.frame(B, line).is_some(), "it is kept");
        assert!(!stage.evict(B, line), "and not given to another line");
        let reader = stage.reads(B, line);
        stage.pass(A_WHILE);
        assert!(!reader.is_finished());
        assert_eq!(stage.count(line, any_op(B)), 0, "its bit is gone, and it does not know");
        assert_eq!(stage.write(A, line, 2), 1);
        drop(report);
        assert_eq!(stage.end(reader), 2);
        stage.finish();
    });
}

/// A reader whose own claim is not complete cannot pledge. So the writer returns the pledges that
/// it has. A node that gets its pledge back reads again without a verb.
#[test]
fn a_pledge_that_is_given_up_costs_its_owner_no_verb() {
    in_every_world(|seed| {
        let stage = stage(seed);
        let line = stage.line();
        stage.read(B, line);
        let late = stage.hold(Leg::Back, line, op(C, WordOp::AcquireShared));
        let joining = stage.reads(C, line);
        stage.until("C's bit is set", || stage.word(line) == s(&[B, C]));
        stage.forget();
        let report = stage.hold(Leg::There, line, gave_up(A, B));
        let writer = stage.writes(A, line, 1);
        stage.until("A gives up", || report.held() > 0);
        assert_eq!(stage.count(line, answer(C, A, Answer::Dropped)), 1);
        let reader = stage.reads(B, line);
        stage.pass(A_WHILE);
        assert!(!reader.is_finished(), "B waits for the report");
        drop(report);
        assert_eq!(stage.end(reader), 0);
        assert_eq!(stage.count(line, any_op(B)), 0);
        drop(late);
        assert_eq!(stage.end(joining), 0);
        assert_eq!(stage.end(writer), 0);
        assert!(LatchCount::PledgesGivenUp.of(&stage.cluster.counters()) > 0);
        assert_eq!((stage.read(B, line), stage.read(C, line)), (1, 1));
        stage.finish();
    });
}

/// The writer's claim is held in flight while another reader joins. The claim fails, the new sharer
/// gets a request too, and the earlier pledges stay valid.
#[test]
fn a_reader_that_joins_gets_a_request_as_well() {
    in_every_world(|seed| {
        let stage = stage(seed);
        let line = shared(&stage);
        let claim = stage.hold(Leg::There, line, op(A, WordOp::TakeOver(set(&[B, C]))));
        let writer = stage.writes(A, line, 1);
        stage.until("A claims the line", || claim.held() == 1);
        assert_eq!(stage.read(D, line), 0);
        drop(claim);
        assert_eq!(stage.end(writer), 0);
        let again = WordOp::TakeOver(set(&[B, C, D]));
        assert_eq!(stage.count(line, op(A, again)), 1);
        let counted = stage.cluster.counters();
        assert_eq!(
            (
                LatchCount::Pledges.of(&counted),
                LatchCount::PledgesGivenUp.of(&counted),
                LatchCount::Takeovers.of(&counted)
            ),
            (3, 0, 1)
        );
        stage.finish();
    });
}

/// Two upgrades at once: one node gets its pledge back, or loses its copy. Both nodes write in the
/// end.
#[test]
fn two_sharers_that_both_want_to_write_get_there() {
    in_every_world(|seed| {
        let stage = stage(seed);
        let line = shared(&stage);
        stage.read(A, line);
        let writers = [(A, 1), (B, 2), (C, 3)].map(|(node, value)| stage.writes(node, line, value));
        let mut seen: Vec<u64> = writers.into_iter().map(|writer| stage.end(writer)).collect();
        seen.push(stage.read(D, line));
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2, 3], "each saw what another wrote");
        stage.finish();
    });
}

/// A takeover batch may be cut off behind any of its requests. The takeover still happens once.
#[test]
fn a_takeover_that_is_cut_off_happens_once() {
    in_every_world(|seed| {
        for cut in 0..=2 {
            let stage = stage(seed);
            let line = shared(&stage);
            let claim = op(A, WordOp::TakeOver(set(&[B, C])));
            let there = Leg::There;
            let gates = [
                stage.hold(there, line, request(A, B)),
                stage.hold(there, line, pledge(B, A)),
                stage.hold(there, line, claim),
                stage.hold(there, line, taken(A, B)),
            ];
            let writer = stage.writes(A, line, 1);
            for gate in gates {
                stage.until("it is posted", || gate.held() == 1);
                assert!(gate.cut_off(cut));
            }
            assert_eq!(stage.end(writer), 0, "cut {cut}");
            assert_eq!((stage.read(B, line), stage.read(C, line)), (1, 1));
            let counted = stage.cluster.counters();
            assert_eq!(
                (LatchCount::Inspections.of(&counted), LatchCount::Takeovers.of(&counted)),
                (1, 1),
                "cut {cut}"
            );
            assert_eq!(counted.resent, 3, "cut {cut}");
            stage.finish();
        }
    });
}

/// One of the sharers is lost. The writer fails, and the other sharers keep their copies.
#[test]
fn a_writer_that_cannot_reach_every_sharer_releases_its_pledges() {
    in_every_world(|seed| {
        let stage = stage(seed);
        let line = shared(&stage);
        stage.sim().disconnect(id(B)).expect("it was there");
        let late = stage.hold(Leg::There, line, pledge(C, A));
        let error = stage.end(stage.takes(A, line, AccessMode::Exclusive)).expect_err("B is gone");
        assert!(matches!(error, MemoryError::Fabric(_)), "seed {seed}: {error}");
        stage.until("C has pledged", || late.held() == 1);
        drop(late);
        assert_eq!(stage.read(C, line), 0);
        assert_eq!(stage.count(line, any_op(C)), 0, "its own copy");
        assert_eq!(stage.read(D, line), 0, "and others join");
        stage.abandon();
    });
}

/// The writer is lost while it has a pledge. At the node that pledged, an access to the line fails
/// at its deadline, as for any line of a lost node. Accesses to other lines succeed.
#[test]
fn a_pledge_to_a_lost_node_keeps_the_line_and_every_wait_ends() {
    in_every_world(|seed| {
        let stage = stage(seed);
        let line = shared(&stage);
        let other = stage.line();
        let late = stage.hold(Leg::There, line, pledge(C, A));
        let access = stage.takes(A, line, AccessMode::Exclusive);
        stage.until("C has pledged", || late.held() == 1);
        access.abort();
        stage.sim().disconnect(id(A)).expect("it was there");
        drop(late);
        let since = stage.now();
        let error =
            stage.end(stage.takes(C, line, AccessMode::Shared)).expect_err("A never reports");
        assert!(matches!(error, MemoryError::Timeout { .. }), "seed {seed}: {error}");
        assert!(stage.now() - since <= DEADLINE + Duration::from_millis(1));
        assert_eq!((stage.write(C, other, 1), stage.read(D, other)), (0, 1));
        stage.abandon();
    });
}
