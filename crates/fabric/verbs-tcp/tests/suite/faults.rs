//! Connections that are cut, freeze and come back. Every batch ends in time, with an error that
//! states its known outcome, and takes no effect later.

use std::sync::Arc;
use std::thread::sleep as pause;
use std::time::Duration;

use latchwork_runtime::{Clock, Time};
use latchwork_verbs::{
    AtomicOutcome, Completion, Endpoint as _, LocalBuffer, MemoryNodeId, Region, RegionKey,
    VerbError, WorkRequest,
};
use latchwork_verbs_tcp::{TcpConfig, TcpFabric};
use proxy::Proxy;

use crate::common::proxy;
use crate::common::{MEMORY, Pair, call, finish, node, secret};

const PATIENCE: Duration = Duration::from_millis(1200);

/// The time within which all batches must end, also on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

#[allow(clippy::disallowed_methods, reason = "the other side of a socket is a matter of real time")]
fn wait(time: Duration) {
    pause(time);
}

fn impatient() -> TcpConfig {
    TcpConfig {
        patience: PATIENCE,
        connect_time: Duration::from_millis(800),
        ..TcpConfig::new(secret())
    }
}

/// A pair with a proxy in between that can fail.
fn through_proxy() -> (Pair, Proxy) {
    let mut proxy = None;
    let pair = Pair::new(impatient(), impatient(), |addr| {
        let made = proxy.insert(Proxy::new(addr));
        made.addr()
    });
    (pair, proxy.unwrap())
}

const ADD: [WorkRequest; 1] = [WorkRequest::FetchAdd { remote: 0, add: 1 }];
/// The result of a batch of which no request was sent.
const UNREACHABLE: Result<AtomicOutcome, VerbError> =
    Err(VerbError::Unreachable { target: MEMORY });
const DISCONNECTED: Result<AtomicOutcome, VerbError> =
    Err(VerbError::Disconnected { target: MEMORY });
const AMBIGUOUS: Result<AtomicOutcome, VerbError> = Err(VerbError::Ambiguous { target: MEMORY });

/// The number of batches that succeeded, and of ambiguous ones.
fn count(done: &[Completion]) -> (u64, u64) {
    let ok = done.iter().filter(|completion| completion.result.is_ok()).count();
    let doubt = done.iter().filter(|completion| completion.result == AMBIGUOUS).count();
    assert_eq!(ok + doubt, done.len(), "{done:?}");
    (ok as u64, doubt as u64)
}

#[test]
fn a_reset_in_the_middle_leaves_no_more_unknown_outcomes_than_it_reports() {
    let (pair, proxy) = through_proxy();
    let mut endpoint = pair.endpoint();
    let (mut sure, mut doubtful) = (0, 0);
    for round in 0..30 {
        assert!(call(&mut endpoint, MEMORY, &ADD).is_ok(), "the connection stands again");
        sure += 1;
        // Each frame takes 36 bytes. So the cut is in one of the first hundred frames, and mostly
        // not between two frames.
        proxy.cut_after(37 * round + 5);
        for token in 0..300 {
            endpoint.post(MEMORY, token, &ADD).unwrap();
        }
        let done = finish(&mut endpoint, LIMIT);
        assert_eq!(done.len(), 300);
        let (ok, doubt) = count(&done);
        (sure, doubtful) = (sure + ok, doubtful + doubt);
        // The failed connection could not take all batches. The remaining batches use the next
        // connection, and succeed.
        assert!(doubt > 0 && ok > 0, "round {round}: {ok} and {doubt}");
        let value = pair.memory.words().u64(0);
        assert!(
            (sure..=sure + doubtful).contains(&value),
            "{value}: {sure} and {doubtful} in doubt"
        );
        // A request without effect by now never takes effect.
        let again = call(&mut endpoint, MEMORY, &ADD).unwrap().old[0];
        assert_eq!(again, value);
        sure += 1;
    }
}

#[test]
fn what_a_frozen_connection_still_carries_is_not_executed_once_another_stands() {
    let (pair, proxy) = through_proxy();
    let mut endpoint = pair.endpoint();
    assert!(call(&mut endpoint, MEMORY, &ADD).is_ok());
    proxy.freeze(true);
    let clock = Clock::start();
    assert_eq!(call(&mut endpoint, MEMORY, &ADD), AMBIGUOUS);
    assert!(clock.now() - Time::ZERO >= PATIENCE, "it could still have answered");
    assert_eq!(pair.memory.words().u64(0), 1);
    assert_eq!(call(&mut endpoint, MEMORY, &ADD).unwrap().old[0], 1);
    let before = proxy.forwarded();
    proxy.freeze(false);
    let clock = Clock::start();
    // The agent has closed its end. The proxy detects this when it has forwarded the bytes that it
    // kept.
    while proxy.forwarded() == before && proxy.connections() > 1 {
        assert!(clock.now() - Time::ZERO < LIMIT, "the batch never comes");
        wait(Duration::from_millis(1));
    }
    wait(Duration::from_millis(100));
    assert_eq!(pair.memory.words().u64(0), 2, "executed after its end");
}

#[test]
fn what_comes_late_is_not_executed_though_its_sender_is_out_of_reach() {
    let (pair, proxy) = through_proxy();
    let mut endpoint = pair.endpoint();
    assert!(call(&mut endpoint, MEMORY, &ADD).is_ok());
    // The agent is alive and sees no error, but no byte reaches it.
    proxy.freeze(true);
    proxy.deafen(true);
    let before = proxy.forwarded();
    assert_eq!(call(&mut endpoint, MEMORY, &ADD), DISCONNECTED);
    assert_eq!(proxy.forwarded(), before);
    proxy.freeze(false);
    let clock = Clock::start();
    while proxy.forwarded() == before {
        assert!(clock.now() - Time::ZERO < LIMIT, "the batch never comes");
        wait(Duration::from_millis(1));
    }
    wait(Duration::from_millis(100));
    assert_eq!(pair.memory.words().u64(0), 1, "executed after it was said to be over");
    // The connection works again, and the node is the same.
    proxy.deafen(false);
    let clock = Clock::start();
    while call(&mut endpoint, MEMORY, &ADD) == UNREACHABLE {
        assert!(clock.now() - Time::ZERO < LIMIT, "never again");
        wait(Duration::from_millis(50));
    }
    assert_eq!(pair.memory.words().u64(0), 2);
}

#[test]
fn batches_for_a_process_that_has_ended_fail_and_so_do_later_ones() {
    let Pair { there, here, memory, .. } = Pair::new(impatient(), impatient(), |addr| addr);
    let mut endpoint = here.endpoint(node(1)).unwrap();
    assert!(call(&mut endpoint, MEMORY, &ADD).is_ok());
    for token in 0..1000 {
        endpoint.post(MEMORY, token, &ADD).unwrap();
    }
    endpoint.ring();
    drop(there);
    let done = finish(&mut endpoint, LIMIT);
    let ok = done.iter().filter(|completion| completion.result.is_ok()).count() as u64;
    let (sent, unsent) = (DISCONNECTED, UNREACHABLE);
    let is_right = |c: &Completion| c.result.is_ok() || c.result == sent || c.result == unsent;
    assert!(done.iter().all(is_right));
    assert!(ok < 1000 && memory.words().u64(0) > ok, "{ok} of {}", memory.words().u64(0));
    assert_eq!(call(&mut endpoint, MEMORY, &ADD), UNREACHABLE);
}

#[test]
fn a_restarted_node_is_not_taken_for_the_one_that_was_meant() {
    let Pair { there, here, addr, .. } = Pair::new(impatient(), impatient(), |addr| addr);
    let mut endpoint = here.endpoint(node(1)).unwrap();
    assert!(call(&mut endpoint, MEMORY, &ADD).is_ok());
    drop(there);
    let again = TcpFabric::new(impatient()).unwrap();
    let memory = Region::zeroed(4096).unwrap();
    again.serve_memory(MemoryNodeId(0), Arc::clone(&memory), addr).unwrap();
    for _ in 0..3 {
        let end = call(&mut endpoint, MEMORY, &ADD);
        assert!(end == DISCONNECTED || end == UNREACHABLE, "{end:?}");
        wait(Duration::from_millis(300));
    }
    assert_eq!(memory.words().u64(0), 0);
    assert!(again.refused().misled > 0);
}

#[test]
fn a_pause_of_the_worker_is_no_failure() {
    let (pair, proxy) = through_proxy();
    let mut endpoint = pair.endpoint();
    for old in 0..4 {
        assert_eq!(call(&mut endpoint, MEMORY, &ADD).map(|outcome| outcome.old[0]), Ok(old));
        // The lease of the connection has ended long before the next batch.
        wait(2 * PATIENCE / 3 * u32::try_from(old).unwrap());
    }
    assert_eq!(pair.there.connections(), 1);
    drop(proxy);
}

#[test]
fn requests_larger_than_a_frame_go_in_pieces_and_in_order() {
    const LEN: usize = 1 << 20;
    let pair = Pair::new(impatient(), impatient(), |addr| addr);
    let mut endpoint = pair.endpoint();
    let local =
        |offset: usize, len| LocalBuffer { region: RegionKey(0), offset: offset as u64, len };
    for round in 1..=3 {
        for i in 0..LEN / 8 {
            pair.local.words().set_word(i, round << 32 | i as u64);
        }
        let write = WorkRequest::Write { remote: 8, local: local(0, LEN as u32) };
        let look = WorkRequest::CompareSwap { remote: LEN as u64, expected: 0, desired: 1 };
        let read = WorkRequest::ReadIf {
            remote: 8,
            local: local(LEN, LEN as u32),
            mask: u64::MAX,
            value: (round << 32) + (LEN as u64 - 8) / 8,
        };
        let small = WorkRequest::WriteWord { remote: 0, value: round };
        // Batches of the usual size are before and behind the large one.
        endpoint.post(MEMORY, 1, &[small]).unwrap();
        endpoint.post(MEMORY, 2, &[write, look, read]).unwrap();
        endpoint.post(MEMORY, 3, &[WorkRequest::FetchAdd { remote: 0, add: 0 }]).unwrap();
        let done = finish(&mut endpoint, LIMIT);
        assert_eq!(done.iter().map(|c| c.token).collect::<Vec<_>>(), [1, 2, 3]);
        let old = done[1].result.unwrap().old[0];
        assert_eq!(old, (round << 32) + (LEN as u64 - 8) / 8, "the WRITE comes before the atomic");
        assert_eq!(done[2].result.unwrap().old[0], round);
        for i in 0..LEN / 8 {
            assert_eq!(pair.local.words().word(LEN / 8 + i), round << 32 | i as u64, "word {i}");
        }
    }
}
