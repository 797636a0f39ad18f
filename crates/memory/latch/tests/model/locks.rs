//! Locks of transactions, which keep a line at its node until they end: single runs, searches of
//! all runs, and counterexamples for nodes that break locks.

use latchwork_latch::{Answer, Hold, Want, WordOp};

use crate::client::Client;
use crate::discipline::{holds, is_live};
use crate::refuted::is_refuted;
use crate::script::Script;
use crate::setting::Setting;
use crate::world::Breach;

/// Node 1 has locked the line, and node 2 requests it.
fn met(mut script: Script, lock: Want, want: Want) -> Script {
    script.obtain(1, lock);
    script.lock(1, lock);
    script.want(2, want);
    let op = match want {
        Want::Shared => WordOp::AcquireShared,
        Want::Exclusive => WordOp::AcquireExclusive,
    };
    script.complete(2, op);
    script
}

#[test]
fn a_node_that_meets_an_exclusive_lock_is_refused_at_once() {
    for want in [Want::Shared, Want::Exclusive] {
        let mut script = met(Script::new(2).no_wait(), Want::Exclusive, want);
        script.receive_request(1, 2);
        assert_eq!(script.hold(1), Hold::Exclusive);
        script.receive_answer(2, 1, Answer::Busy);
        // A reader's bit is in the word, and the reader has to handle that bit. A writer has left
        // no trace.
        let reads = want == Want::Shared;
        assert_eq!((script.is_wanted(2), script.is_pausing(2)), (reads, reads));
        script.expect_word(1, if reads { &[2] } else { &[] });
        script.unlock(1);
        script.run_down();
    }
}

#[test]
fn readers_go_together_and_a_writer_is_refused() {
    let mut script = met(Script::new(2).no_wait(), Want::Shared, Want::Shared);
    assert_eq!(script.hold(2), Hold::Shared);
    script.access(2);
    script.lock(2, Want::Shared);
    script.want(2, Want::Exclusive);
    script.complete(2, WordOp::Upgrade);
    script.receive_request(1, 2);
    script.receive_answer(2, 1, Answer::Busy);
    assert_eq!((script.hold(2), script.is_wanted(2)), (Hold::Shared, false));
    script.expect_word(0, &[1, 2]);
    // After the end of the other lock, the same upgrade succeeds.
    script.unlock(1);
    script.want(2, Want::Exclusive);
    script.complete(2, WordOp::Upgrade);
    script.receive_request(1, 2);
    script.complete(1, WordOp::ReleaseShared);
    script.receive_answer(2, 1, Answer::Released);
    script.complete(2, WordOp::Upgrade);
    script.lock(2, Want::Exclusive);
    script.run_down();
}

#[test]
fn an_exclusive_owner_with_a_lock_to_read_lets_readers_in() {
    for forwarding in [true, false] {
        let script = Script::new(2);
        let mut script = if forwarding { script } else { script.not_forwarding() };
        script.obtain(1, Want::Exclusive);
        script.write(1);
        script.lock(1, Want::Shared);
        script.want(2, Want::Shared);
        script.complete(2, WordOp::AcquireShared);
        script.receive_request(1, 2);
        assert_eq!(script.hold(1), Hold::Shared);
        script.complete(1, WordOp::Downgrade);
        script.expect_word(0, &[1, 2]);
        script.run_down();
        assert_eq!(script.hold(2), Hold::Shared);
    }
}

#[test]
fn a_waiting_node_is_refused_when_the_line_is_locked() {
    let mut script = Script::new(2).no_wait();
    script.obtain(1, Want::Exclusive);
    script.reserve(1);
    script.want(2, Want::Exclusive);
    script.complete(2, WordOp::AcquireExclusive);
    script.receive_request(1, 2);
    assert!(script.is_blocked(1));
    script.lock(1, Want::Exclusive);
    assert!(!script.is_blocked(1));
    script.receive_answer(2, 1, Answer::Busy);
    assert!(!script.is_wanted(2));
    script.run_down();
}

/// The new owner owns the line before the giver's operation is complete, and may lock it then.
#[test]
fn a_line_that_is_not_settled_can_be_locked() {
    let mut script = Script::new(3).no_wait();
    script.obtain(1, Want::Exclusive);
    script.want(2, Want::Exclusive);
    script.complete(2, WordOp::AcquireExclusive);
    script.receive_request(1, 2);
    script.receive_grant(2);
    script.access(2);
    script.lock(2, Want::Exclusive);
    // The word still names node 1, which sends the request on.
    script.want(3, Want::Exclusive);
    script.complete(3, WordOp::AcquireExclusive);
    script.receive_request(1, 3);
    script.complete(1, WordOp::HandOver(crate::script::node(2)));
    script.receive_request(2, 3);
    script.receive_answer(3, 1, Answer::Busy);
    assert_eq!((script.hold(2), script.is_wanted(3)), (Hold::Exclusive, false));
    script.run_down();
}

/// A writer with the pledge of one sharer meets the lock of another, and gives the pledge up.
#[test]
fn a_pledge_is_released_when_another_sharer_has_locked() {
    let mut script = Script::new(3).with_takeover().no_wait();
    script.obtain(1, Want::Shared);
    script.obtain(2, Want::Shared);
    script.lock(2, Want::Shared);
    script.want(3, Want::Exclusive);
    script.complete(3, WordOp::AcquireExclusive);
    script.receive_request(2, 3);
    script.receive_answer(3, 2, Answer::Busy);
    script.receive_request(1, 3);
    script.receive_pledge(3, 1);
    assert!(!script.is_wanted(3) && !script.is_pausing(3));
    script.receive_gave_up(1, 3);
    assert_eq!(script.hold(1), Hold::Shared);
    script.expect_word(0, &[1, 2]);
    script.run_down();
}

/// An evicted line would be free for any node.
#[test]
fn a_locked_line_is_not_evicted() {
    let mut script = Script::new(1);
    script.obtain(1, Want::Exclusive);
    script.lock(1, Want::Shared);
    script.evict(1);
    assert_eq!(script.hold(1), Hold::Exclusive);
    script.unlock(1);
    script.evict(1);
    script.complete(1, WordOp::ReleaseExclusive);
    script.run_down();
}

/// Under SEL, a refusal does not show whether a line is locked or only in use. So an access that
/// does not wait for locks ends at a refusal.
#[test]
fn without_requests_a_refused_word_ends_the_try() {
    let mut script = met(Script::new(2).latch_only().no_wait(), Want::Shared, Want::Exclusive);
    assert!(!script.is_wanted(2) && !script.is_pausing(2));
    script.expect_word(0, &[1]);
    script.unlock(1);
    script.run_down();
}

// ---- all runs -----------------------------------------------------------------------------------

const TWO: [Client; 2] = [Client::both(1).locking(), Client::both(2).locking()];

fn no_wait<const N: usize>(clients: [Client; N]) -> [Client; N] {
    clients.map(Client::no_wait)
}

#[test]
fn two_nodes_that_lock() {
    for priority_max in 0..=1 {
        holds("two that lock", &Setting::discipline(&TWO, priority_max));
        holds("two that lock, no-wait", &Setting::discipline(&no_wait(TWO), priority_max));
        let mixed = [TWO[0], TWO[1].no_wait()];
        holds("two that lock, one no-wait", &Setting::discipline(&mixed, priority_max));
    }
}

#[test]
fn two_nodes_that_lock_and_take_over() {
    for clients in [TWO, no_wait(TWO)] {
        holds("two that lock, takeover", &Setting::discipline(&clients, 1).with_takeover());
    }
}

#[test]
fn two_nodes_that_lock_and_do_not_forward() {
    for clients in [TWO, no_wait(TWO)] {
        let mut setting = Setting::discipline(&clients, 1);
        setting.rules.forwarding = false;
        holds("two that lock, no forwarding", &setting);
    }
}

#[test]
fn two_nodes_that_lock_and_send_no_requests() {
    for clients in [TWO, no_wait(TWO)] {
        let mut setting = Setting::discipline(&clients, 0);
        setting.rules.invalidate = false;
        holds("two that lock, no questions", &setting);
    }
}

#[test]
fn two_nodes_that_lock_with_failing_connections() {
    holds("two that lock, one failure", &Setting::discipline(&no_wait(TWO), 0).failing(1));
}

#[test]
fn one_that_locks_among_three() {
    let clients = [Client::both(1).locking(), Client::writer(2).no_wait(), Client::reader(3)];
    let clients = clients.map(|client| client.keeping().patient());
    is_live("one of three locks", &Setting::discipline(&clients, 0));
    is_live("one of three locks, takeover", &Setting::discipline(&clients, 0).with_takeover());
}

// ---- what does not hold -------------------------------------------------------------------------

fn breaching(breach: Breach) -> Setting {
    Setting { breach: Some(breach), ..Setting::discipline(&TWO, 0) }
}

#[test]
fn a_node_that_ignores_its_locks_loses_locked_lines() {
    is_refuted(&breaching(Breach::IgnoresLocks), "a locked line stays");
}

#[test]
fn a_lock_that_the_machine_does_not_hear_of_keeps_others_waiting() {
    is_refuted(&breaching(Breach::LocksSilently), "nobody waits for a lock");
}
