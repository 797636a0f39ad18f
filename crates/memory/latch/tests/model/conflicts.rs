//! Scenarios: the three conflicts of SELCC 4.4, and upgrades.

use latchwork_latch::{Answer, Hold, Want, WordOp};

use crate::frame::Bytes;
use crate::script::{Script, node};

#[test]
fn a_writer_takes_a_modified_line_over_without_a_write_back() {
    let mut script = Script::new(2);
    script.obtain(1, Want::Exclusive);
    script.write(1);
    script.want(2, Want::Exclusive);
    script.complete(2, WordOp::AcquireExclusive);
    script.receive_request(1, 2);
    assert_eq!(script.hold(1), Hold::Nothing);
    // The forward does not wait for the word.
    script.receive_grant(2);
    assert_eq!(script.hold(2), Hold::Exclusive);
    script.expect_word(1, &[]);
    script.complete(1, WordOp::HandOver(node(2)));
    script.expect_word(2, &[]);
    assert_eq!(script.memory(), Bytes::Stale);
    script.run_down();
}

#[test]
fn a_reader_and_the_holder_of_a_modified_line_end_as_readers() {
    let mut script = Script::new(2);
    script.obtain(1, Want::Exclusive);
    script.write(1);
    script.want(2, Want::Shared);
    script.complete(2, WordOp::AcquireShared);
    script.expect_word(1, &[2]);
    script.receive_request(1, 2);
    assert_eq!(script.hold(1), Hold::Shared);
    script.receive_grant(2);
    assert_eq!(script.hold(2), Hold::Shared);
    script.complete(1, WordOp::Downgrade);
    script.expect_word(0, &[1, 2]);
    assert_eq!(script.memory(), Bytes::Latest);
    script.run_down();
}

#[test]
fn a_downgrade_serves_all_waiting_readers_at_once() {
    let mut script = Script::new(3);
    script.obtain(1, Want::Exclusive);
    script.reserve(1);
    for reader in [2, 3] {
        script.want(reader, Want::Shared);
        script.complete(reader, WordOp::AcquireShared);
        script.receive_request(1, reader);
    }
    assert!(script.is_blocked(1));
    script.access(1);
    for reader in [2, 3] {
        script.receive_grant(reader);
        assert_eq!(script.hold(reader), Hold::Shared);
    }
    script.complete(1, WordOp::Downgrade);
    script.expect_word(0, &[1, 2, 3]);
    script.run_down();
}

#[test]
fn a_writer_makes_all_readers_release_and_then_tries_at_once() {
    let mut script = Script::new(3);
    script.obtain(1, Want::Shared);
    script.obtain(2, Want::Shared);
    script.want(3, Want::Exclusive);
    script.complete(3, WordOp::AcquireExclusive);
    for reader in [1, 2] {
        script.receive_request(reader, 3);
        script.complete(reader, WordOp::ReleaseShared);
        script.receive_answer(3, reader, Answer::Released);
    }
    assert!(!script.is_pausing(3));
    script.complete(3, WordOp::AcquireExclusive);
    assert_eq!(script.hold(3), Hold::Exclusive);
    script.run_down();
}

#[test]
fn a_writer_waits_behind_a_downgrade_and_its_reader_gets_the_next_request() {
    let mut script = Script::new(3);
    script.obtain(1, Want::Exclusive);
    script.want(2, Want::Shared);
    script.complete(2, WordOp::AcquireShared);
    script.want(3, Want::Exclusive);
    script.complete(3, WordOp::AcquireExclusive);
    script.receive_request(1, 2);
    script.receive_request(1, 3);
    assert_eq!(script.flying(1), Some(WordOp::Downgrade));
    script.complete(1, WordOp::Downgrade);
    script.complete(1, WordOp::ReleaseShared);
    script.receive_answer(3, 1, Answer::Released);
    script.expect_word(0, &[2]);
    script.run_down();
    assert_eq!(script.hold(3), Hold::Exclusive);
}

#[test]
fn the_only_reader_upgrades_without_a_request() {
    let mut script = Script::new(2);
    script.obtain(1, Want::Shared);
    script.want(1, Want::Exclusive);
    script.complete(1, WordOp::Upgrade);
    assert_eq!((script.hold(1), script.messages()), (Hold::Exclusive, 0));
    script.run_down();
}

#[test]
fn of_two_upgrades_one_gives_way() {
    let mut script = Script::new(2);
    for id in [1, 2] {
        script.obtain(id, Want::Shared);
    }
    for id in [1, 2] {
        script.want(id, Want::Exclusive);
        script.complete(id, WordOp::Upgrade);
    }
    // Equal priorities: the higher id comes first.
    script.receive_request(2, 1);
    script.receive_answer(1, 2, Answer::Dropped);
    assert!(script.is_pausing(1));
    script.receive_request(1, 2);
    assert_eq!(script.hold(1), Hold::Nothing);
    script.complete(1, WordOp::ReleaseShared);
    script.receive_answer(2, 1, Answer::Released);
    script.complete(2, WordOp::Upgrade);
    assert_eq!(script.hold(2), Hold::Exclusive);
    script.run_down();
    assert_eq!(script.hold(1), Hold::Exclusive, "the other writes afterwards");
}

#[test]
fn an_upgrade_that_was_refused_before_comes_first() {
    let mut script = Script::new(2);
    for id in [1, 2] {
        script.obtain(id, Want::Shared);
    }
    script.want(1, Want::Exclusive);
    script.want(2, Want::Exclusive);
    script.complete(1, WordOp::Upgrade);
    script.complete(2, WordOp::Upgrade);
    script.receive_request(2, 1);
    script.receive_answer(1, 2, Answer::Dropped);
    script.retry(1);
    script.complete(1, WordOp::Upgrade);
    // Node 1 sends a request with a higher priority now; node 2 queues it and will release.
    script.receive_request(2, 1);
    script.receive_request(1, 2);
    script.receive_answer(2, 1, Answer::Dropped);
    assert_eq!(script.flying(2), Some(WordOp::ReleaseShared));
    script.run_down();
}

#[test]
fn an_upgrade_gives_way_to_no_reader() {
    let mut script = Script::new(2);
    script.obtain(1, Want::Shared);
    script.want(1, Want::Exclusive);
    script.land(1, WordOp::Upgrade);
    script.want(2, Want::Shared);
    script.complete(2, WordOp::AcquireShared);
    script.receive_request(1, 2);
    script.receive_answer(2, 1, Answer::Dropped);
    assert!(script.is_pausing(2));
    script.complete(1, WordOp::Upgrade);
    assert_eq!(script.hold(1), Hold::Exclusive);
    script.run_down();
}

#[test]
fn without_requests_a_refused_upgrade_releases() {
    let mut script = Script::new(2).latch_only();
    for id in [1, 2] {
        script.obtain(id, Want::Shared);
    }
    script.want(1, Want::Exclusive);
    script.complete(1, WordOp::Upgrade);
    assert_eq!(script.flying(1), Some(WordOp::ReleaseShared));
    script.complete(1, WordOp::ReleaseShared);
    script.complete(1, WordOp::AcquireExclusive);
    assert!(script.is_pausing(1));
    assert_eq!(script.messages(), 0);
    script.run_down();
}

/// The node gets a request between its release and the answer to its own request.
#[test]
fn a_node_that_releases_without_a_request_reports_the_release() {
    for gives_back in [false, true] {
        let mut script = Script::new(2).giving_back(gives_back);
        script.obtain(1, Want::Exclusive);
        script.want(2, Want::Exclusive);
        script.complete(2, WordOp::AcquireExclusive);
        script.evict(1);
        script.complete(1, WordOp::ReleaseExclusive);
        script.receive_request(1, 2);
        script.receive_answer(2, 1, if gives_back { Answer::Released } else { Answer::Dropped });
        assert_eq!(script.is_pausing(2), !gives_back);
        script.run_down();
    }
}

/// Otherwise the requester would send requests without end, if the word still names a node that
/// knows nothing of the line.
#[test]
fn a_node_that_requests_a_released_line_again_backs_off() {
    let mut script = Script::new(3).giving_back(true);
    script.obtain(1, Want::Exclusive);
    script.want(2, Want::Exclusive);
    script.complete(2, WordOp::AcquireExclusive);
    for (holder, answer) in [(1, Answer::Released), (3, Answer::Dropped)] {
        script.evict(holder);
        script.complete(holder, WordOp::ReleaseExclusive);
        script.receive_request(holder, 2);
        script.receive_answer(2, holder, answer);
        assert_eq!(script.is_pausing(2), answer == Answer::Dropped);
        if answer == Answer::Released {
            script.obtain(3, Want::Exclusive);
            script.complete(2, WordOp::AcquireExclusive);
        }
    }
    script.run_down();
}
