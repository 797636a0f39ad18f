//! Local code that uses a line, against requests of other nodes.

use std::time::Duration;

use latchwork_cache::Ownership;
use latchwork_coherence::AccessMode;
use latchwork_latch::{Answer, WordOp};
use latchwork_verbs_sim::Leg;

use crate::common::small;
use crate::scenarios::stage::*;

/// A time for a hand-over in a rough world. It is far shorter than `NodeSettings::lapse`, and than
/// the interval at which a handler covers for workers. After those times a missed message would be
/// handled anyway, so a longer wait would hide the bug.
const SOON: Duration = Duration::from_micros(300);

/// Bug: a request is queued just after the last local holder has checked for requests, so the
/// request waits until another event. Mechanism: two workers hold the line. The first ends its
/// access and finds the line in use; the second ends its access last. Fix: every worker that ends
/// an access checks for requests, even if other workers have checked before.
#[test]
fn a_request_is_served_when_the_last_of_two_workers_releases() {
    in_every_world(|seed| {
        let mut stage = Stage::new(2, seed);
        let second = stage.add_worker(A);
        let line = stage.line();
        stage.write(A, line, 1);
        let tickets = [
            stage.take(A, line, AccessMode::Exclusive),
            stage.take(second, line, AccessMode::Exclusive),
        ];
        let writer = stage.writes(B, line, 2);
        stage.until("A remembers B", || stage.count(line, answer(A, B, Answer::Queued)) == 1);
        let [first, last] = tickets;
        stage.drop_on(A, first);
        stage.pass(A_WHILE / 4);
        assert!(!writer.is_finished() && stage.count(line, grant(A, B)) == 0);
        let since = stage.now();
        stage.drop_on(second, last);
        assert_eq!(stage.end(writer), 1);
        assert!(stage.now() - since < SOON, "seed {seed}: {:?}", stage.now() - since);
        stage.finish();
    });
}

/// The request arrives just after the only holder has ended its access and checked for requests.
#[test]
fn a_request_that_arrives_just_after_the_holder_looked_is_served_at_once() {
    in_every_world(|seed| {
        let stage = Stage::new(2, seed);
        let line = stage.line();
        let ticket = stage.take(A, line, AccessMode::Exclusive);
        let late = stage.hold(Leg::Inbox, line, request(B, A));
        let writer = stage.writes(B, line, 2);
        stage.until("the request is in A's inbox", || late.held() == 1);
        stage.drop_on(A, ticket);
        let since = stage.now();
        drop(late);
        stage.end(writer);
        assert!(stage.now() - since < SOON);
        assert_eq!(stage.count(line, answer(A, B, Answer::Queued)), 0, "nothing was in its way");
        stage.finish();
    });
}

/// A local writer holds the latch while a request arrives. The handler does not wait for the
/// writer. The next sweep of any worker after the write serves the request. A latch never expires,
/// however long the writer holds it.
#[test]
fn a_request_that_meets_a_local_writer_is_served_when_the_writer_is_done() {
    in_every_world(|seed| {
        let stage = Stage::new(2, seed);
        let line = stage.line();
        stage.write(A, line, 1);
        // This writer stands for a thread that lost its core in the middle of a write.
        let node = stage.cluster.nodes()[A].clone();
        let mut guard = node.cache().try_write(line).expect("owned");
        let writer = stage.writes(B, line, 3);
        stage.until("A remembers B", || stage.count(line, answer(A, B, Answer::Queued)) == 1);
        stage.pass(3 * stage.cluster.config().node.lapse);
        assert!(!writer.is_finished() && stage.owns(A, line) == Ownership::Exclusive);
        fill(&mut guard, 2);
        drop(guard);
        let since = stage.now();
        assert_eq!(stage.end(writer), 2, "the whole write");
        assert!(stage.now() - since < 4 * SOON, "seed {seed}: {:?}", stage.now() - since);
        stage.finish();
    });
}

/// A reservation that no task drops expires. When it is dropped later, it does no harm to a later
/// use of the frame.
#[test]
fn a_reservation_that_is_kept_too_long_expires() {
    in_every_world(|seed| {
        let stage = Stage::with(2, 4, seed);
        let (line, others) =
            (stage.line(), [stage.line(), stage.line(), stage.line(), stage.line()]);
        let ticket = stage.take(A, line, AccessMode::Exclusive);
        let writer = stage.writes(B, line, 2);
        stage.until("A remembers B", || stage.count(line, answer(A, B, Answer::Queued)) == 1);
        let since = stage.now();
        assert_eq!(stage.end(writer), 0);
        let (lapse, waited) = (stage.cluster.config().node.lapse, stage.now() - since);
        assert!(waited >= lapse && waited < 4 * lapse, "seed {seed}: {waited:?}");
        for other in others {
            stage.read(A, other);
        }
        stage.drop_on(A, ticket);
        assert_eq!(stage.read(A, line), 2);
        stage.finish();
    });
}

/// The setting `lapse` is the time after which a reservation expires. With zero, a reservation
/// delays other nodes only for the time of a message.
#[test]
fn a_reservation_that_expires_at_once_keeps_no_node_waiting() {
    in_every_world(|seed| {
        let mut config = small(2, 1, 16, seed);
        config.node.lapse = Duration::ZERO;
        let stage = Stage::on(config);
        let line = stage.line();
        let ticket = stage.take(A, line, AccessMode::Exclusive);
        let since = stage.now();
        assert_eq!(stage.write(B, line, 2), 0);
        assert!(stage.now() - since < 4 * SOON, "seed {seed}: {:?}", stage.now() - since);
        stage.drop_on(A, ticket);
        assert_eq!(stage.read(A, line), 2);
        stage.finish();
    });
}

/// Bug: a reader that becomes a writer uses data from an earlier copy. Mechanism: the local latch
/// changes its mode twice during the read, from writing to reading and then to free. Fix: an
/// invalidation changes the counter of the copy, and a downgrade does not. So data from before a
/// downgrade is from the same copy, and data from before an invalidation is not.
#[test]
fn a_copy_survives_a_downgrade_and_not_an_invalidation() {
    in_every_world(|seed| {
        let stage = Stage::new(2, seed);
        let line = stage.line();
        stage.write(A, line, 1);
        let node = stage.cluster.nodes()[A].clone();
        let read = node.cache().try_read(line).expect("owned");
        assert_eq!(stage.read(B, line), 1);
        assert_eq!(stage.owns(A, line), Ownership::Shared);
        assert!(node.cache().try_write(line).is_none(), "no right to change it");
        let again = node.cache().try_read(line).expect("shared");
        assert_eq!(again.version(), read.version(), "the same bytes");
        stage.write(B, line, 2);
        assert!(!read.validate() && !again.validate());
        assert_eq!(stage.read(A, line), 2);
        assert!(!read.validate(), "not even when a copy is back");
        stage.finish();
    });
}

/// One task has the line to read, another task of the node wants to write it, and another node's
/// claim comes in between. The upgrade gives way. Each of the two writers finds the value of the
/// other, in either order.
#[test]
fn a_change_from_reading_to_writing_lets_an_invalidation_in_between() {
    in_every_world(|seed| {
        let stage = Stage::releasing(2, seed);
        let line = stage.line();
        let ticket = stage.take(A, line, AccessMode::Shared);
        let writer = stage.writes(B, line, 2);
        stage.until("A remembers B", || stage.count(line, answer(A, B, Answer::Queued)) == 1);
        let change = stage.writes(A, line, 3);
        stage.pass(A_WHILE / 4);
        assert_eq!(stage.count(line, op(A, WordOp::Upgrade)), 0, "B comes first");
        stage.drop_on(A, ticket);
        let found = (stage.end(writer), stage.end(change));
        assert_eq!(stage.count(line, op(A, WordOp::ReleaseShared)), 1, "the copy went");
        assert!([(0, 2), (3, 0)].contains(&found), "seed {seed}: {found:?}");
        let last = if found == (0, 2) { 3 } else { 2 };
        assert_eq!((stage.read(A, line), stage.read(B, line)), (last, last));
        stage.finish();
    });
}

/// A reader waits for a line. The grant includes a reservation, so no node can take the line away
/// before the reader has used it.
#[test]
fn a_node_that_was_granted_a_line_uses_it_once_before_it_goes() {
    in_every_world(|seed| {
        let stage = Stage::new(3, seed);
        let line = stage.line();
        stage.write(A, line, 1);
        // C's request travels to B with the line.
        let late = stage.hold(Leg::There, line, grant(A, B));
        let hold_a = stage.take(A, line, AccessMode::Exclusive);
        let access = stage.takes(B, line, AccessMode::Exclusive);
        stage.until("A remembers B", || stage.count(line, answer(A, B, Answer::Queued)) == 1);
        let third = stage.writes(C, line, 3);
        stage.until("A remembers C", || stage.count(line, answer(A, C, Answer::Queued)) == 1);
        stage.drop_on(A, hold_a);
        stage.until("A hands over", || late.held() == 1);
        drop(late);
        let ticket = stage.end(access).expect("no error");
        stage.pass(A_WHILE / 4);
        assert!(!third.is_finished(), "B has not used it yet");
        assert_eq!(stage.write(B, line, 2), 1);
        stage.drop_on(B, ticket);
        assert_eq!(stage.end(third), 2);
        assert_eq!(stage.count(line, request(C, B)), 0, "C did not have to ask again");
        stage.finish();
    });
}
