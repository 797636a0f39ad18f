//! Order inside a batch, and after a completion.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Harness, MEMORY, Script, compute, local, node};
use crate::address::Target;
use crate::region::Region;
use crate::request::Request;

/// Where the payload, the word that announces it, and the reader's copies stand.
const PAYLOAD: usize = 4096;
const LEN: usize = 512;
const ANNOUNCE: usize = 64;

fn fill(region: &Region, value: u64) {
    for word in region.words().slice(PAYLOAD..PAYLOAD + LEN).as_atomics() {
        word.store(value, Ordering::Relaxed);
    }
}

fn assert_at_least(region: &Region, value: u64) {
    for word in region.words().slice(PAYLOAD..PAYLOAD + LEN).as_atomics() {
        let seen = word.load(Ordering::Relaxed);
        assert!(seen >= value, "announced {value}, seen {seen}");
    }
}

/// A script of node 1 that writes the payload with growing values to `to`, each in a batch in which
/// `announce` follows.
fn writer(
    harness: &impl Harness,
    to: Target,
    announce: impl Fn(&super::Worker, u64) -> Request + Send + 'static,
) -> Script {
    let (region, rounds) = (harness.region(node(1)), harness.rounds());
    Script::new(node(1), move |worker| async move {
        for value in 1..=rounds {
            fill(&region, value);
            let write = Request::Write { remote: PAYLOAD as u64, local: local(PAYLOAD, LEN) };
            worker.call(to, &[write, announce(&worker, value)]).await;
        }
    })
}

/// WRITE, then WRITE: whoever reads the second finds the first.
pub fn write_comes_before_write(harness: &impl Harness) {
    let announce = |_: &_, value| Request::WriteWord { remote: ANNOUNCE as u64, value };
    let (region, rounds) = (harness.region(node(2)), harness.rounds());
    let reader = Script::new(node(2), move |worker| async move {
        let mut seen = 0;
        while seen < rounds {
            // Two batches, the second posted after the first has completed.
            let look = Request::Read { remote: ANNOUNCE as u64, local: local(0, 8) };
            worker.call(MEMORY, &[look]).await;
            seen = region.words().u64(0);
            let read = Request::Read { remote: PAYLOAD as u64, local: local(PAYLOAD, LEN) };
            worker.call(MEMORY, &[read]).await;
            assert_at_least(&region, seen);
        }
    });
    harness.run(vec![writer(harness, MEMORY, announce), reader]);
}

/// WRITE, then atomic; atomic, then READ: a latch word protects what it protects in one round trip
/// each way.
pub fn write_comes_before_atomic_and_atomic_before_read(harness: &impl Harness) {
    let announce = |_: &_, _| Request::FetchAdd { remote: ANNOUNCE as u64, add: 1 };
    let (region, rounds) = (harness.region(node(2)), harness.rounds());
    let reader = Script::new(node(2), move |worker| async move {
        let mut seen = 0;
        while seen < rounds {
            let look = Request::FetchAdd { remote: ANNOUNCE as u64, add: 0 };
            let read = Request::Read { remote: PAYLOAD as u64, local: local(PAYLOAD, LEN) };
            seen = worker.call(MEMORY, &[look, read]).await[0];
            assert_at_least(&region, seen);
        }
    });
    harness.run(vec![writer(harness, MEMORY, announce), reader]);
}

/// WRITE, then message: who receives the message finds the WRITE in its own memory.
pub fn write_comes_before_message(harness: &impl Harness) {
    let (region, rounds) = (harness.region(node(2)), harness.rounds());
    let receiver = Script::new(node(2), move |worker| async move {
        let mut seen = 0;
        while seen < rounds {
            worker.receive(|message| {
                assert_eq!(message.from, node(1));
                seen = seen.max(message.body[0]);
                assert_at_least(&region, message.body[0]);
            });
            worker.pause().await;
        }
    });
    let announce = |worker: &super::Worker, value| worker.message(value);
    harness.run(vec![writer(harness, compute(2), announce), receiver]);
}

/// WRITE, then WRITE of a word that the target's CPU polls.
pub fn write_comes_before_polled_word(harness: &impl Harness) {
    let announce = |_: &_, value| Request::WriteWord { remote: ANNOUNCE as u64, value };
    let (region, rounds) = (harness.region(node(2)), harness.rounds());
    let receiver = Script::new(node(2), move |worker| async move {
        let mut seen = 0;
        while seen < rounds {
            seen = region.atomics()[ANNOUNCE / 8].load(Ordering::Acquire);
            assert_at_least(&region, seen);
            worker.pause().await;
        }
    });
    harness.run(vec![writer(harness, compute(2), announce), receiver]);
}

/// Two workers each do something to a word of their own and then look at the other's, at the same
/// time, on fresh words in each round. At least one of them must see the other.
fn crosswise(
    harness: &impl Harness,
    name: &'static str,
    one_batch: bool,
    act: impl Fn(u64) -> Request + Copy + Send + 'static,
) {
    let rounds = harness.rounds().min(1024);
    let seen = Arc::new([const { AtomicU64::new(0) }; 2]);
    let round_of = Arc::new([const { AtomicU64::new(0) }; 2]);
    let mut scripts = Vec::new();
    for me in 0..2_usize {
        let (seen, round_of) = (Arc::clone(&seen), Arc::clone(&round_of));
        let region = harness.region(node(1 + me as u8));
        scripts.push(Script::new(node(1 + me as u8), move |worker| async move {
            for round in 0..rounds {
                let word = |who: u64| 8 * (2 * round + who);
                let act = act(word(me as u64));
                let remote = word(1 - me as u64);
                let look = Request::Read { remote, local: local(0, 8) };
                if one_batch {
                    worker.call(MEMORY, &[act, look]).await;
                } else {
                    worker.call(MEMORY, &[act]).await;
                    worker.call(MEMORY, &[look]).await;
                }
                seen[me].store(region.words().u64(0), Ordering::Relaxed);
                // Both meet before the next round, and compare.
                round_of[me].store(2 * round + 1, Ordering::SeqCst);
                while round_of[1 - me].load(Ordering::SeqCst) < 2 * round + 1 {
                    worker.pause().await;
                }
                let both = [0, 1].map(|who: usize| seen[who].load(Ordering::Relaxed));
                assert_ne!(both, [0, 0], "{name}, round {round}: neither saw the other");
                round_of[me].store(2 * round + 2, Ordering::SeqCst);
                while round_of[1 - me].load(Ordering::SeqCst) < 2 * round + 2 {
                    worker.pause().await;
                }
            }
        }));
    }
    harness.run(scripts);
    let memory = harness.memory(crate::address::MemoryNodeId(0));
    (0..2 * rounds as usize).for_each(|word| memory.words().set_word(word, 0));
}

const WRITE: fn(u64) -> Request = |remote| Request::WriteWord { remote, value: 1 };
const ADD: fn(u64) -> Request = |remote| Request::FetchAdd { remote, add: 1 };
const SWAP: fn(u64) -> Request = |remote| Request::CompareSwap { remote, expected: 0, desired: 1 };

/// WRITE or atomic, then READ of another word: the first takes effect as a whole before the second.
pub fn an_effect_comes_before_a_read_behind_it(harness: &impl Harness) {
    crosswise(harness, "WRITE", true, WRITE);
    crosswise(harness, "FAA", true, ADD);
    crosswise(harness, "CAS", true, SWAP);
}

/// A batch that has completed is seen by whatever anybody posts afterwards.
pub fn a_completed_verb_is_seen_by_later_ones(harness: &impl Harness) {
    crosswise(harness, "WRITE", false, WRITE);
    crosswise(harness, "FAA", false, ADD);
    crosswise(harness, "CAS", false, SWAP);
}
