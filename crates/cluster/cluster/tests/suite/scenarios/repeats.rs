//! Messages that arrive twice.

use latchwork_cache::Ownership;
use latchwork_cluster::Node;
use latchwork_coherence::AccessMode;
use latchwork_latch::Answer;
use latchwork_verbs::GlobalAddr;
use latchwork_verbs_sim::{Gate, Leg};

use crate::common::small;
use crate::scenarios::stage::*;

/// The number of messages that the nodes recognised as duplicates.
fn repeats(stage: &Stage) -> u64 {
    stage.cluster.nodes().iter().map(|node| node.counters().repeats).sum()
}

/// A new line that gets the frame which B used for `line` before.
fn reuse_frame(stage: &Stage, frame: latchwork_cache::FrameId) -> GlobalAddr {
    let in_frame = |node: &Node, line| node.cache().find(line) == Some(frame);
    let mut lines = (0..64).map(|_| stage.line());
    let other = lines.find(|&other| {
        stage.write(B, other, 7);
        in_frame(stage.node(B), other)
    });
    other.expect("frames are used again")
}

/// B sends one request to A, and the network duplicates it. The first copy is granted and
/// completely handled. The second copy is held. Meanwhile another line takes B's frame, and the
/// line returns to A.
fn ask_twice(stage: &Stage) -> (GlobalAddr, GlobalAddr, Gate) {
    let line = stage.line();
    stage.write(A, line, 1);
    let question = stage.hold(Leg::Inbox, line, request(B, A));
    let writer = stage.takes(B, line, AccessMode::Exclusive);
    stage.until("B asks", || question.held() == 1);
    assert!(question.deliver_copy(|_| true));
    let ticket = stage.end(writer).expect("granted");
    let frame = stage.node(B).cache().find(line).expect("granted");
    stage.drop_on(B, ticket);
    assert_eq!(stage.write(A, line, 5), 1);
    stage.until("all are through with it", || stage.node(B).lines_in_flight() == 0);
    assert_eq!(stage.count(line, grant(A, B)), 1);
    let other = reuse_frame(stage, frame);
    assert_eq!(stage.word(line), x(A));
    (line, other, question)
}

/// The duplicate of a granted request arrives. A second grant would WRITE into a frame that has
/// another line now, and would make a node the owner without its knowledge.
#[test]
fn a_duplicate_request_after_its_grant_is_dropped() {
    in_every_world(|seed| {
        let stage = Stage::with(2, 8, seed);
        let (line, other, again) = ask_twice(&stage);
        drop(again);
        stage.pass(A_WHILE);
        assert_eq!(repeats(&stage), 1);
        assert_eq!((stage.count(line, grant(A, B)), stage.word(line)), (0, x(A)), "not again");
        assert_eq!((stage.read(B, other), stage.read(B, line)), (7, 5));
        stage.finish();
    });
}

/// The same without message numbers. The harm happens, so the check above can detect it.
#[test]
fn without_numbers_a_duplicate_request_destroys_another_line() {
    in_every_world(|seed| {
        let mut config = small(2, 1, 8, seed);
        config.node.drops_repeats = false;
        let stage = Stage::on(config);
        let (line, other, again) = ask_twice(&stage);
        let grants = stage.hold(Leg::Inbox, line, grant(A, B));
        drop(again);
        stage.until("A grants it again", || grants.held() == 1);
        stage.until("the line changes hands", || stage.word(line) == x(B));
        assert_eq!(stage.owns(B, line), Ownership::Invalid, "B knows nothing of it");
        assert_eq!(stage.read(B, other), 5, "another line's bytes");
    });
}

/// Every message of a whole hand-over arrives twice, the second time after the end: requests,
/// grants with travelling requests, answers, reports.
#[test]
fn a_hand_over_with_every_message_duplicated_happens_once() {
    in_every_world(|seed| {
        let stage = Stage::new(3, seed);
        let line = stage.line();
        stage.write(A, line, 1);
        let ticket = stage.take(A, line, AccessMode::Exclusive);
        let copies = stage.hold(Leg::Inbox, line, |_, _| true);
        let mut delivered = 0;
        let writers = [stage.writes(B, line, 2), stage.writes(C, line, 3)];
        let mut ticket = Some(ticket);
        stage.until("all have had it", || {
            while copies.held() > delivered {
                let mut at = 0;
                assert!(copies.deliver_copy(|_| {
                    at += 1;
                    at == delivered + 1
                }));
                delivered += 1;
            }
            let queued = [B, C].map(|node| stage.count(line, answer(A, node, Answer::Queued)));
            if queued == [1, 1]
                && let Some(ticket) = ticket.take()
            {
                stage.start(A, async move |_| drop(ticket));
            }
            writers.iter().all(|writer| writer.is_finished())
        });
        assert!(delivered >= 6, "two questions, two answers, two grants");
        let words = stage.words(line);
        drop(copies);
        stage.pass(A_WHILE);
        assert_eq!(stage.words(line)[..words.len()], words[..]);
        assert!(repeats(&stage) >= delivered as u64, "seed {seed}: {}", repeats(&stage));
        let last = stage.read(A, line);
        assert!([2, 3].contains(&last), "seed {seed}: {last}");
        stage.finish();
    });
}
