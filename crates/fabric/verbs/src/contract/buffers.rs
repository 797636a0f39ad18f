//! The promises on words, local buffers and completions.

use super::{Harness, MEMORY, Script, local, node};
use crate::address::{MemoryNodeId, Target};
use crate::request::WorkRequest;

/// Two nodes write words with two equal halves. A READ of a third node never finds a word with two
/// different halves.
pub fn words_are_never_torn(harness: &impl Harness) {
    const LEN: usize = 1024;
    let rounds = harness.rounds();
    let mut scripts = Vec::new();
    for id in 1..=2 {
        let region = harness.region(node(id));
        scripts.push(Script::new(node(id), move |worker| async move {
            for value in 0..rounds {
                for word in region.words().slice(0..LEN).as_atomics() {
                    word.store(value << 32 | value, std::sync::atomic::Ordering::Relaxed);
                }
                worker
                    .call(MEMORY, &[WorkRequest::Write { remote: 0, local: local(0, LEN) }])
                    .await;
            }
        }));
    }
    let region = harness.region(node(3));
    scripts.push(Script::new(node(3), move |worker| async move {
        for _ in 0..rounds {
            worker.call(MEMORY, &[WorkRequest::Read { remote: 0, local: local(0, LEN) }]).await;
            for i in 0..LEN / 8 {
                let word = region.words().word(i);
                assert_eq!(word >> 32, word & 0xffff_ffff);
            }
        }
    }));
    harness.run(scripts);
}

/// After the completion of a READ, the data is in the local buffer. After the completion of a
/// WRITE, the poster may change the local buffer.
pub fn a_completion_gives_the_buffers_back(harness: &impl Harness) {
    const LEN: usize = 1024;
    const COPY: usize = 8192;
    let rounds = harness.rounds();
    let region = harness.region(node(1));
    let script = Script::new(node(1), move |worker| async move {
        let (source, copy) = (region.words().slice(0..LEN), region.words().slice(COPY..COPY + LEN));
        for round in 0..rounds {
            let at = Target::Memory(MemoryNodeId((round % 2) as u16));
            let remote = (round % 7) * LEN as u64;
            let value = |i: usize| round << 16 | i as u64;
            (0..LEN / 8).for_each(|i| source.set_word(i, value(i)));
            worker.call(at, &[WorkRequest::Write { remote, local: local(0, LEN) }]).await;
            (0..LEN / 8).for_each(|i| source.set_word(i, u64::MAX));
            worker.call(at, &[WorkRequest::Read { remote, local: local(COPY, LEN) }]).await;
            (0..LEN / 8).for_each(|i| assert_eq!(copy.word(i), value(i), "word {i}"));
        }
    });
    harness.run(vec![script]);
}

/// A READ with a true condition is executed. A READ with a false condition is executed or left out.
pub fn a_read_whose_condition_holds_is_done(harness: &impl Harness) {
    const LEN: usize = 1024;
    const WORD: u64 = 4096;
    const LOW: u64 = 0xff;
    let rounds = harness.rounds().min(500);
    let memory = harness.memory(MemoryNodeId(0));
    let region = harness.region(node(1));
    let script = Script::new(node(1), move |worker| async move {
        let copy = region.words().slice(0..LEN);
        for round in 0..rounds {
            let value = 1 + round;
            (0..LEN / 8).for_each(|i| memory.words().set_word(i, value));
            (0..LEN / 8).for_each(|i| copy.set_word(i, 0));
            let holds = !round.is_multiple_of(3);
            // The low byte of the word is the number of this round, with more bits above it.
            memory.words().set_u64(WORD as usize, round << 8 | round & LOW);
            let expected = if holds { round & LOW } else { !round & LOW };
            let read =
                WorkRequest::ReadIf { remote: 0, local: local(0, LEN), mask: LOW, value: expected };
            worker.call(MEMORY, &[WorkRequest::FetchAdd { remote: WORD, add: 1 }, read]).await;
            for i in 0..LEN / 8 {
                let word = copy.word(i);
                assert!(word == value || !holds && word == 0, "word {i}: {word}, {holds}");
            }
        }
    });
    harness.run(vec![script]);
}

/// Each batch completes exactly once, with its own token and the values of its own atomics.
pub fn a_batch_completes_once_with_its_own_token(harness: &impl Harness) {
    let rounds = harness.rounds().min(500);
    let script = Script::new(node(1), move |worker| async move {
        let mut tokens = Vec::new();
        for word in 0..rounds {
            let remote = 8 * word;
            let write = WorkRequest::WriteWord { remote, value: !word };
            let look = WorkRequest::FetchAdd { remote, add: 0 };
            tokens.push(worker.post(MEMORY, &[write, look]).expect("a batch that is right"));
        }
        assert_eq!(worker.in_flight() as u64, rounds);
        for (word, token) in tokens.into_iter().enumerate().rev() {
            let old = worker.wait(token).await.expect("memory nodes stay").old;
            assert_eq!(old, [!(word as u64), 0]);
        }
        for _ in 0..100 {
            worker.pause().await;
        }
        assert_eq!((worker.in_flight(), worker.results()), (0, 0));
    });
    harness.run(vec![script]);
}
