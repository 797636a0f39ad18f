//! The promises on order: inside a batch, and after a completion.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::{Harness, MEMORY, MEMORY_BYTES, Script, compute, local, node};
use crate::address::{CHIP_BASE, MemoryNodeId, Target};
use crate::region::Region;
use crate::request::WorkRequest;

/// The offset of the payload, on the target and in the local regions.
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

/// A script of node 1 that writes the payload with growing values to `to`. In each batch the
/// request that `announce` makes comes after the WRITE of the payload.
fn writer(
    harness: &impl Harness,
    to: Target,
    announce: impl Fn(&super::Worker, u64) -> WorkRequest + Send + 'static,
) -> Script {
    let (region, rounds) = (harness.region(node(1)), harness.rounds());
    Script::new(node(1), move |worker| async move {
        for value in 1..=rounds {
            fill(&region, value);
            let write = WorkRequest::Write { remote: PAYLOAD as u64, local: local(PAYLOAD, LEN) };
            worker.call(to, &[write, announce(&worker, value)]).await;
        }
    })
}

/// WRITE, then WRITE: a reader that sees the second WRITE sees the first WRITE.
pub fn write_comes_before_write(harness: &impl Harness) {
    write_comes_before_word(harness, ANNOUNCE as u64);
}

/// Like [`write_comes_before_write`]: a reader that sees a word on chip sees the WRITE to the other
/// memory that came before it.
pub fn write_comes_before_write_on_chip(harness: &impl Harness) {
    if harness.has_chip() {
        write_comes_before_word(harness, CHIP_BASE + ANNOUNCE as u64);
    }
}

fn write_comes_before_word(harness: &impl Harness, remote: u64) {
    let announce = move |_: &_, value| WorkRequest::WriteWord { remote, value };
    let (region, rounds) = (harness.region(node(2)), harness.rounds());
    let reader = Script::new(node(2), move |worker| async move {
        let mut seen = 0;
        while seen < rounds {
            // A compare-and-swap that never swaps reads the word before the READ begins.
            let expected = u64::MAX;
            let look = WorkRequest::CompareSwap { remote, expected, desired: expected };
            let read = WorkRequest::Read { remote: PAYLOAD as u64, local: local(PAYLOAD, LEN) };
            seen = worker.call(MEMORY, &[look, read]).await[0];
            assert_at_least(&region, seen);
        }
    });
    harness.run(vec![writer(harness, MEMORY, announce), reader]);
}

/// WRITE, then atomic; atomic, then READ. Because of this order, one batch writes data and unlocks
/// its latch word, and one batch locks the latch word and reads the data.
pub fn write_comes_before_atomic_and_atomic_before_read(harness: &impl Harness) {
    let announce = |_: &_, _| WorkRequest::FetchAdd { remote: ANNOUNCE as u64, add: 1 };
    let (region, rounds) = (harness.region(node(2)), harness.rounds());
    let reader = Script::new(node(2), move |worker| async move {
        let mut seen = 0;
        while seen < rounds {
            let look = WorkRequest::FetchAdd { remote: ANNOUNCE as u64, add: 0 };
            let read = WorkRequest::Read { remote: PAYLOAD as u64, local: local(PAYLOAD, LEN) };
            seen = worker.call(MEMORY, &[look, read]).await[0];
            assert_at_least(&region, seen);
        }
    });
    harness.run(vec![writer(harness, MEMORY, announce), reader]);
}

/// WRITE, then message: the receiver of the message finds the WRITE in its own memory.
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

/// WRITE, then WRITE of a word that the target's CPU polls: the CPU that sees the word sees the
/// first WRITE.
pub fn write_comes_before_polled_word(harness: &impl Harness) {
    let announce = |_: &_, value| WorkRequest::WriteWord { remote: ANNOUNCE as u64, value };
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

/// Pairs of words in one round. A worker posts the batches of all pairs at once, so that the two
/// workers run concurrently.
const PAIRS: u64 = 32;

/// Two workers each change a word of their own and then read the other worker's word, at the same
/// time, on fresh words. At least one worker must see the other's change.
fn crosswise(harness: &impl Harness, name: &'static str, one_batch: bool, act: Act) {
    // One run uses each word pair of the memory once. More rounds need more runs.
    let fresh = MEMORY_BYTES as u64 / 16 / PAIRS;
    for _ in 0..harness.rounds().div_ceil(fresh) {
        crosswise_once(harness, name, one_batch, act, harness.rounds().min(fresh));
    }
}

fn crosswise_once(
    harness: &impl Harness,
    name: &'static str,
    one_batch: bool,
    act: Act,
    rounds: u64,
) {
    let arrived = Arc::new([const { AtomicU64::new(0) }; 2]);
    // The values that a worker read from the other's words. The test checks them after the run.
    let seen = Arc::new([0, 1].map(|_| Mutex::new(Vec::new())));
    let mut scripts = Vec::new();
    for me in 0..2_usize {
        let (arrived, seen) = (Arc::clone(&arrived), Arc::clone(&seen));
        let region = harness.region(node(1 + me as u8));
        scripts.push(Script::new(node(1 + me as u8), move |worker| async move {
            for round in 0..rounds {
                arrived[me].store(round + 1, Ordering::SeqCst);
                while arrived[1 - me].load(Ordering::SeqCst) <= round {
                    worker.pause().await;
                }
                let post = |requests: &[WorkRequest]| worker.post(MEMORY, requests).expect("right");
                let pairs = round * PAIRS..(round + 1) * PAIRS;
                // The two workers' words are far apart. So a store can stay in the store buffer
                // while the load goes ahead.
                let word = |who: usize, pair: u64| (who * MEMORY_BYTES / 2) as u64 + 8 * pair;
                let act = |pair: u64| act(word(me, pair));
                let look = |pair: u64| WorkRequest::Read {
                    remote: word(1 - me, pair),
                    local: local(8 * (pair % PAIRS) as usize, 8),
                };
                let tokens: Vec<_> = if one_batch {
                    pairs.map(|pair| post(&[act(pair), look(pair)])).collect()
                } else {
                    let acts: Vec<_> = pairs.clone().map(|pair| post(&[act(pair)])).collect();
                    for token in acts {
                        worker.wait(token).await.expect("memory nodes stay");
                    }
                    pairs.map(|pair| post(&[look(pair)])).collect()
                };
                for token in tokens {
                    worker.wait(token).await.expect("memory nodes stay");
                }
                let words = (0..PAIRS as usize).map(|i| region.words().word(i));
                seen[me].lock().expect("no script panicked").extend(words);
            }
        }));
    }
    harness.run(scripts);
    let [one, two] = [0, 1].map(|me: usize| std::mem::take(&mut *seen[me].lock().expect("ended")));
    assert_eq!((one.len(), two.len()), ((rounds * PAIRS) as usize, (rounds * PAIRS) as usize));
    for (pair, both) in one.into_iter().zip(two).enumerate() {
        assert_ne!(both, (0, 0), "{name}, pair {pair}: neither saw the other");
    }
    let memory = harness.memory(MemoryNodeId(0));
    memory.words().clear(0..MEMORY_BYTES);
}

/// Changes the word at an offset from 0 to another value.
type Act = fn(u64) -> WorkRequest;

const WRITE: Act = |remote| WorkRequest::WriteWord { remote, value: 1 };
const ADD: Act = |remote| WorkRequest::FetchAdd { remote, add: 1 };
const SWAP: Act = |remote| WorkRequest::CompareSwap { remote, expected: 0, desired: 1 };

/// WRITE or atomic, then READ of another word: the WRITE or atomic takes effect as a whole before
/// the READ.
pub fn an_effect_comes_before_a_read_behind_it(harness: &impl Harness) {
    crosswise(harness, "WRITE", true, WRITE);
    crosswise(harness, "FAA", true, ADD);
    crosswise(harness, "CAS", true, SWAP);
}

/// Every later verb of any node sees the effect of a completed batch.
pub fn a_completed_verb_is_seen_by_later_ones(harness: &impl Harness) {
    crosswise(harness, "WRITE", false, WRITE);
    crosswise(harness, "FAA", false, ADD);
    crosswise(harness, "CAS", false, SWAP);
}
