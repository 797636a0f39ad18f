//! Upgrades: against each other, and against every other event that can affect the copy.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use latchwork_cache::Ownership;
use latchwork_cluster::{Member, Ticket};
use latchwork_coherence::{CoherentMemory, Upgrade};
use latchwork_latch::{Answer, WordOp};
use latchwork_runtime::JoinHandle;
use latchwork_verbs::GlobalAddr;
use latchwork_verbs_sim::{Gate, Leg};

use crate::scenarios::stage::*;

/// A and B have read the line and claim it at once. Each claim is refused because of the other
/// node's bit. Both requests are held.
fn collide(seed: u64) -> (Stage, GlobalAddr, Collision) {
    let stage = Stage::new(2, seed);
    let line = stage.line();
    let (seen_a, seen_b) = (stage.sees(A, line).1, stage.sees(B, line).1);
    let claims = stage.hold(Leg::There, line, |_, act| *act == Act::Op(WordOp::Upgrade));
    let questions =
        [stage.hold(Leg::There, line, request(A, B)), stage.hold(Leg::There, line, request(B, A))];
    let upgrades = [stage.upgrades(A, seen_a), stage.upgrades(B, seen_b)];
    stage.until("both claim", || claims.held() == 2);
    drop(claims);
    stage.until("both were refused and ask", || questions.iter().all(|gate| gate.held() == 1));
    assert_eq!(stage.word(line), s(&[A, B]));
    (stage, line, Collision { questions, upgrades })
}

struct Collision {
    questions: [Gate; 2],
    upgrades: [JoinHandle<(Upgrade, Option<Ticket>)>; 2],
}

/// Bug: two upgrading sharers wait for each other forever. Mechanism: both requests are in flight.
/// Fix: no node waits for a writer of lower rank. With equal priorities the higher node number has
/// the higher rank.
#[test]
fn of_two_upgrades_the_one_with_the_higher_number_is_kept() {
    in_every_world(|seed| {
        let (stage, line, Collision { questions, upgrades: [upgrade_a, upgrade_b] }) =
            collide(seed);
        let [from_a, from_b] = questions;
        drop(from_b);
        stage.until("A remembers B", || stage.count(line, answer(A, B, Answer::Queued)) == 1);
        stage.pass(A_WHILE);
        assert_eq!(stage.word(line), s(&[A, B]), "A's own question is still out (R5)");
        from_a.release();
        let (kept, ticket) = stage.end(upgrade_b);
        assert_eq!(kept, Upgrade::Kept);
        assert_eq!(stage.write(B, line, 7), 0, "the copy that B saw");
        stage.drop_on(B, ticket);
        drop(from_a);
        let (busy, none) = stage.end(upgrade_a);
        assert_eq!((busy, none.is_none()), (Upgrade::Busy, true));
        assert_eq!(stage.read(A, line), 7, "A looks again");
        stage.finish();
    });
}

/// Bug: the node with the lower number never gets its turn. Mechanism: B refuses A, and A requests
/// again before B's request arrives. Fix: every refusal raises the priority, and the priority
/// counts before the number.
#[test]
fn of_two_upgrades_the_one_that_was_refused_before_is_kept() {
    in_every_world(|seed| {
        let (stage, line, Collision { questions, upgrades: [upgrade_a, upgrade_b] }) =
            collide(seed);
        let [from_a, from_b] = questions;
        drop(from_a);
        stage.until("B sends A away", || stage.count(line, answer(B, A, Answer::Dropped)) == 1);
        stage.until("and remembers it the second time", || {
            stage.count(line, answer(B, A, Answer::Queued)) == 1
        });
        drop(from_b);
        let (busy, none) = stage.end(upgrade_b);
        assert_eq!((busy, none.is_none()), (Upgrade::Busy, true));
        assert_eq!(stage.count(line, answer(A, B, Answer::Dropped)), 1, "now B is sent away");
        let (kept, ticket) = stage.end(upgrade_a);
        assert_eq!(kept, Upgrade::Kept);
        assert_eq!(stage.write(A, line, 7), 0, "the copy that A saw");
        stage.drop_on(A, ticket);
        assert_eq!(stage.read(B, line), 7);
        stage.finish();
    });
}

/// When the other sharers have released their copies, an upgrade is `Kept`: the bytes are still
/// those of the read.
#[test]
fn an_upgrade_is_kept_when_the_other_sharers_leave() {
    in_every_world(|seed| {
        let stage = Stage::releasing(3, seed);
        let line = stage.line();
        let (_, seen) = stage.sees(A, line);
        assert_eq!((stage.read(B, line), stage.read(C, line)), (0, 0));
        let (kept, ticket) = stage.end(stage.upgrades(A, seen));
        assert_eq!((kept, stage.word(line)), (Upgrade::Kept, x(A)));
        assert_eq!(stage.count(line, op(A, WordOp::Upgrade)), 2, "refused once, then alone");
        assert_eq!(
            (stage.owns(B, line), stage.owns(C, line)),
            (Ownership::Invalid, Ownership::Invalid)
        );
        stage.drop_on(A, ticket);
        stage.finish();
    });
}

/// `Changed`: the node owns the line, but another task of the node wrote first.
#[test]
fn an_upgrade_finds_that_its_own_node_has_changed_the_line() {
    in_every_world(|seed| {
        let mut stage = Stage::new(2, seed);
        let second = stage.add_worker(A);
        let line = stage.line();
        let (_, seen) = stage.sees(A, line);
        assert_eq!(stage.read(B, line), 0);
        let question = stage.hold(Leg::There, line, request(A, B));
        let upgrade = stage.upgrades(A, seen);
        let writer = stage.writes(second, line, 5);
        stage.until("A asks B to leave", || question.held() == 1);
        stage.pass(A_WHILE);
        drop(question);
        assert_eq!(stage.end(writer), 0);
        let (end, ticket) = stage.end(upgrade);
        // Either of the two tasks may use the grant first.
        let unchanged = end == Upgrade::Kept;
        assert!(unchanged || end == Upgrade::Changed);
        stage.drop_on(A, ticket);
        let (again, ticket) = stage.end(stage.upgrades(A, seen));
        assert_eq!(again, Upgrade::Changed, "by now it has certainly changed");
        stage.drop_on(A, ticket);
        stage.finish();
    });
}

/// `Changed`: another node's write took the line away. The line has come back with exclusive
/// ownership.
#[test]
fn an_upgrade_of_a_line_that_was_away_is_not_kept() {
    in_every_world(|seed| {
        let stage = Stage::new(2, seed);
        let line = stage.line();
        let (_, seen) = stage.sees(A, line);
        assert_eq!(stage.write(B, line, 5), 0);
        assert_eq!(stage.write(A, line, 6), 5);
        assert_eq!(stage.owns(A, line), Ownership::Exclusive);
        let (end, ticket) = stage.end(stage.upgrades(A, seen));
        assert_eq!(end, Upgrade::Changed);
        stage.drop_on(A, ticket);
        stage.finish();
    });
}

/// `Busy`: the copy is lost before the upgrade begins, so the upgrade posts no verb.
#[test]
fn an_upgrade_of_a_lost_copy_is_refused_at_once() {
    in_every_world(|seed| {
        let stage = Stage::new(2, seed);
        let line = stage.line();
        let (_, seen) = stage.sees(A, line);
        assert_eq!(stage.write(B, line, 5), 0);
        assert_eq!(stage.owns(A, line), Ownership::Invalid);
        stage.forget();
        let (end, ticket) = stage.end(stage.upgrades(A, seen));
        assert_eq!((end, ticket.is_none()), (Upgrade::Busy, true));
        assert_eq!(stage.count(line, |_, _| true), 0);
        stage.finish();
    });
}

/// `Busy`: the copy is lost during the upgrade. A's claim is held in flight, so that B's claim
/// takes effect first. A's claim is refused, and B's request shows A that A must give way.
#[test]
fn an_upgrade_that_is_overtaken_gives_way() {
    in_every_world(|seed| {
        let stage = Stage::new(2, seed);
        let line = stage.line();
        let (_, seen) = stage.sees(A, line);
        assert_eq!(stage.read(B, line), 0);
        let claim = stage.hold(Leg::There, line, op(A, WordOp::Upgrade));
        let upgrade = stage.upgrades(A, seen);
        stage.until("A claims", || claim.held() == 1);
        let writer = stage.writes(B, line, 5);
        stage.until("A remembers B", || stage.count(line, answer(A, B, Answer::Queued)) == 1);
        assert!(!upgrade.is_finished());
        drop(claim);
        let (end, ticket) = stage.end(upgrade);
        assert_eq!((end, ticket.is_none()), (Upgrade::Busy, true));
        assert_eq!(stage.end(writer), 0);
        assert_eq!(stage.read(A, line), 5);
        stage.finish();
    });
}

/// The opposite case: A's claim overtakes B's claim in the network, but B has the higher rank.
#[test]
fn an_upgrade_that_comes_first_is_not_driven_off_by_a_faster_one() {
    in_every_world(|seed| {
        let stage = Stage::new(2, seed);
        let line = stage.line();
        let (_, seen) = stage.sees(B, line);
        assert_eq!(stage.read(A, line), 0);
        let claim = stage.hold(Leg::There, line, op(B, WordOp::Upgrade));
        let upgrade = stage.upgrades(B, seen);
        stage.until("B claims", || claim.held() == 1);
        let writer = stage.writes(A, line, 5);
        stage.until("B sends A away", || stage.count(line, answer(B, A, Answer::Dropped)) == 1);
        drop(claim);
        let (end, ticket) = stage.end(upgrade);
        let (kept, seed) = (end == Upgrade::Kept, stage.seed);
        // After enough refusals A has the higher priority.
        assert!(kept || end == Upgrade::Busy, "seed {seed}: {end:?}");
        stage.drop_on(B, ticket);
        assert_eq!(stage.end(writer), 0);
        assert_eq!(stage.read(B, line), 5);
        stage.finish();
    });
}

/// Bug: only the counter of a frame distinguishes a copy from a later copy. A line that is evicted,
/// changed at another node and obtained again may come into another frame with the same counter.
/// Then the upgrade takes the new bytes for those of the read: a lost update. Mechanism: another
/// line takes the frame meanwhile, and B's other frames have the same counters. Fix: the frame is
/// part of the copy's identity.
#[test]
fn a_copy_in_another_frame_is_not_taken_for_the_one_that_was_read() {
    in_every_world(|seed| {
        let stage = Stage::new(2, seed);
        let (line, other) = (stage.line(), stage.line());
        let (old, seen) = stage.sees(B, line);
        let first = stage.node(B).cache().find(line);
        stage.evict_now(B, line);
        assert_eq!((stage.read(B, other), stage.node(B).cache().find(other)), (0, first));
        assert_eq!((stage.write(A, line, 5), old), (0, 0));
        let (new, again) = stage.sees(B, line);
        assert_ne!(stage.node(B).cache().find(line), first, "another frame");
        assert_eq!((new, again.counter), (5, seen.counter), "with the same counter");
        let (end, ticket) = stage.end(stage.upgrades(B, seen));
        assert_ne!(end, Upgrade::Kept, "seed {seed}: 5 was taken for 0");
        stage.drop_on(B, ticket);
        stage.finish();
    });
}

/// An upgrade is dropped while its request is in flight. The record of the line still ends.
#[test]
fn a_dropped_upgrade_leaves_nothing_behind() {
    in_every_world(|seed| {
        let stage = Stage::new(3, seed);
        let line = stage.line();
        let (_, seen) = stage.sees(A, line);
        assert_eq!((stage.read(B, line), stage.read(C, line)), (0, 0));
        let question = stage.hold(Leg::There, line, request(A, B));
        let upgrade = stage.upgrades(A, seen);
        stage.until("A asks", || question.held() == 1);
        upgrade.abort();
        stage.pass(A_WHILE);
        drop(question);
        assert_eq!(stage.write(C, line, 5), 0);
        assert_eq!(stage.read(B, line), 5);
        stage.finish();
    });
}

/// Adds one to the value that was read, only if the value is still the same. Upgrades exist for
/// this.
async fn count_up(member: Member, line: GlobalAddr, busy: Rc<Cell<u64>>) -> u64 {
    const STEPS: u64 = 20;
    let memory = &member.memory;
    let mut done = 0;
    while done < STEPS {
        let (value, version) = loop {
            match memory.try_read(line) {
                Ok(read) => break (read.words().word(0), read.version()),
                Err(need) => _ = memory.ensure(need).await.expect("no error"),
            }
        };
        member.handle.sleep(Duration::from_nanos(member.handle.random_below(3000))).await;
        match memory.upgrade(version, None).await.expect("no error") {
            (Upgrade::Kept, Some(_ticket)) => {
                let mut guard = memory.try_write(line).expect("kept, and reserved");
                assert_eq!(guard.words().word(0), value, "kept is what was read");
                guard.words().set_word(0, value + 1);
                guard.mark_dirty(0..8);
                done += 1;
            }
            _ => busy.set(busy.get() + 1),
        }
    }
    done
}

/// Many upgrades against each other. Each `Kept` is one step of the counter, no step is lost, and
/// every upgrade ends.
#[test]
fn upgrades_that_are_kept_lose_no_update() {
    let busy = Rc::new(Cell::new(0));
    in_every_world(|seed| {
        let stage = Stage::new(4, seed);
        let line = stage.line();
        let tasks: Vec<_> = (A..=D)
            .map(|node| stage.start(node, |member| count_up(member, line, Rc::clone(&busy))))
            .collect();
        let sum: u64 = tasks.into_iter().map(|task| stage.end(task)).sum();
        let last = stage.run(A, async move |member| {
            member.memory.read(line, |words| words.word(0)).await.expect("no error")
        });
        assert_eq!(last, sum, "seed {seed}");
        stage.finish();
    });
    assert!(busy.get() > 100, "they have met {} times", busy.get());
}
