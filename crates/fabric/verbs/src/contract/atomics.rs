//! The promises on atomics, tested with many endpoints on one word.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::{COMPUTE_NODES, Harness, MEMORY, Script, local, node};
use crate::address::{CHIP_BASE, MemoryNodeId};
use crate::request::WorkRequest;

/// Scripts per compute node.
const WORKERS: usize = 2;

/// Many endpoints add to one word and swap another word. No change is lost, and no two verbs that
/// change a word return the same old value.
pub fn atomics_lose_nothing(harness: &impl Harness) {
    let rounds = harness.rounds();
    let olds = Arc::new(Mutex::new([BTreeSet::new(), BTreeSet::new()]));
    let mut scripts = Vec::new();
    for id in 1..=COMPUTE_NODES {
        for _ in 0..WORKERS {
            let olds = Arc::clone(&olds);
            scripts.push(Script::new(node(id), move |worker| async move {
                let mut expected = 0;
                for _ in 0..rounds {
                    // Two atomics in a batch return in the order in which they are in the batch.
                    let add = WorkRequest::FetchAdd { remote: 0, add: 3 };
                    let swap =
                        WorkRequest::CompareSwap { remote: 8, expected, desired: expected + 1 };
                    let [added, mut found] = worker.call(MEMORY, &[add, swap]).await;
                    while found != expected {
                        expected = found;
                        let desired = expected + 1;
                        let swap = WorkRequest::CompareSwap { remote: 8, expected, desired };
                        found = worker.call(MEMORY, &[swap]).await[0];
                    }
                    let mut olds = olds.lock().expect("no script panicked");
                    assert!(olds[0].insert(added), "{added} was seen before");
                    assert!(olds[1].insert(found), "{found} was exchanged before");
                    expected += 1;
                }
            }));
        }
    }
    let count = scripts.len() as u64 * rounds;
    harness.run(scripts);
    let memory = harness.memory(MemoryNodeId(0));
    assert_eq!((memory.words().u64(0), memory.words().u64(8)), (3 * count, count));
    let olds = olds.lock().expect("no script panicked");
    assert!(olds[0].iter().copied().eq((0..count).map(|i| 3 * i)));
    assert!(olds[1].iter().copied().eq(0..count));
}

/// A lock made of compare-and-swap: each holder of the lock reads everything that the previous
/// holder wrote.
pub fn cas_excludes_and_what_it_protects_is_consistent(harness: &impl Harness) {
    const LOCK: u64 = 0;
    const DATA: usize = 1024;
    const LEN: usize = 256;
    let rounds = harness.rounds().min(200);
    let mut scripts = Vec::new();
    for id in 1..=COMPUTE_NODES {
        for w in 0..WORKERS {
            let region = harness.region(node(id));
            let own = DATA + w * LEN;
            scripts.push(Script::new(node(id), move |worker| async move {
                let buffer = local(own, LEN);
                let words = region.words().slice(own..own + LEN);
                for _ in 0..rounds {
                    let lock = WorkRequest::CompareSwap { remote: LOCK, expected: 0, desired: 1 };
                    let read = WorkRequest::Read { remote: DATA as u64, local: buffer };
                    while worker.call(MEMORY, &[lock, read]).await[0] != 0 {
                        worker.pause().await;
                    }
                    let value = words.word(0);
                    for i in 0..LEN / 8 {
                        assert_eq!(words.word(i), value, "word {i}");
                        words.set_word(i, value + 1);
                    }
                    let write = WorkRequest::Write { remote: DATA as u64, local: buffer };
                    let unlock = WorkRequest::FetchAdd { remote: LOCK, add: 1_u64.wrapping_neg() };
                    worker.call(MEMORY, &[write, unlock]).await;
                }
            }));
        }
    }
    let count = scripts.len() as u64 * rounds;
    harness.run(scripts);
    let memory = harness.memory(MemoryNodeId(0));
    assert_eq!((memory.words().u64(LOCK as usize), memory.words().u64(DATA)), (0, count));
}

/// A lock that is taken by compare-and-swap and freed by a WRITE, in both ranges of a memory node.
/// No unlock is lost, although compare-and-swaps of others fail at the same time.
pub fn an_unlock_by_write_is_never_lost(harness: &impl Harness) {
    take_and_free(harness, 64);
    if harness.has_chip() {
        take_and_free(harness, CHIP_BASE + 64);
    }
}

fn take_and_free(harness: &impl Harness, remote: u64) {
    let rounds = harness.rounds();
    let held = Arc::new(AtomicBool::new(false));
    let mut scripts = Vec::new();
    for id in 1..=COMPUTE_NODES {
        for w in 0..WORKERS as u64 {
            let held = Arc::clone(&held);
            scripts.push(Script::new(node(id), move |worker| async move {
                let own = u64::from(id) << 8 | w;
                let lock = WorkRequest::CompareSwap { remote, expected: 0, desired: own };
                let unlock = WorkRequest::WriteWord { remote, value: 0 };
                for _ in 0..rounds {
                    loop {
                        let found = worker.call(MEMORY, &[lock]).await[0];
                        if found == 0 {
                            break;
                        }
                        assert_ne!(found, own, "the unlock at {remote:#x} is lost");
                        worker.pause().await;
                    }
                    assert!(!held.swap(true, Ordering::Relaxed), "two hold the lock");
                    worker.pause().await;
                    held.store(false, Ordering::Relaxed);
                    worker.call(MEMORY, &[unlock]).await;
                }
            }));
        }
    }
    harness.run(scripts);
}
