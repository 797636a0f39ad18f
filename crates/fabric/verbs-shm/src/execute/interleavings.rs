//! Tests of the order in which other threads see one worker's requests, with the model checker loom
//! (`scripts/loom.sh`). The memory fences are those for processors whose atomic instructions are no
//! full memory fences.

use latchwork_runtime::sync::{Arc, AtomicU64};
use loom::thread;

use super::*;

type Memory = Arc<[AtomicU64; 3]>;

fn memory() -> Memory {
    Arc::new([(); 3].map(|()| AtomicU64::new(0)))
}

/// Executes a WRITE of a batch on one word.
fn write(barriers: &mut Barriers, word: &AtomicU64, value: u64) {
    barriers.before_write();
    word.store(value, Ordering::Relaxed);
}

fn read(barriers: &mut Barriers, word: &AtomicU64) -> u64 {
    barriers.before_read();
    word.load(Ordering::Relaxed)
}

fn add(barriers: &mut Barriers, word: &AtomicU64) -> u64 {
    barriers.around_atomic(|| word.fetch_add(1, Ordering::AcqRel))
}

/// Two threads each run `half` on three words: the thread's own, the other thread's, and a common
/// one. Returns both results.
fn crosswise(half: fn(&AtomicU64, &AtomicU64, &AtomicU64) -> u64) -> (u64, u64) {
    let memory = memory();
    let other = thread::spawn({
        let memory = memory.clone();
        move || half(&memory[1], &memory[0], &memory[2])
    });
    let mine = half(&memory[0], &memory[1], &memory[2]);
    (mine, other.join().unwrap())
}

#[test]
fn of_two_that_add_and_then_read_the_others_word_one_sees_the_other() {
    loom::model(|| {
        let seen = crosswise(|own, others, _| {
            let mut barriers = Barriers::default();
            add(&mut barriers, own);
            let seen = read(&mut barriers, others);
            barriers.finish();
            seen
        });
        assert_ne!(seen, (0, 0));
    });
}

#[test]
fn of_two_that_write_and_then_read_the_others_word_one_sees_the_other() {
    loom::model(|| {
        let seen = crosswise(|own, others, _| {
            let mut barriers = Barriers::default();
            write(&mut barriers, own, 1);
            let seen = read(&mut barriers, others);
            barriers.finish();
            seen
        });
        assert_ne!(seen, (0, 0));
    });
}

#[test]
fn a_write_that_is_complete_is_seen_by_what_another_thread_does_later() {
    loom::model(|| {
        // Two batches each: the second batch is posted after the completion of the first.
        let seen = crosswise(|own, others, _| {
            let mut first = Barriers::default();
            write(&mut first, own, 1);
            first.finish();
            let mut second = Barriers::default();
            let seen = read(&mut second, others);
            second.finish();
            seen
        });
        assert_ne!(seen, (0, 0));
    });
}

#[test]
fn an_atomic_that_is_complete_is_seen_by_what_another_thread_does_later() {
    loom::model(|| {
        let seen = crosswise(|own, others, _| {
            let mut first = Barriers::default();
            add(&mut first, own);
            first.finish();
            read(&mut Barriers::default(), others)
        });
        assert_ne!(seen, (0, 0));
    });
}

#[test]
fn writes_are_seen_in_order() {
    loom::model(|| {
        let memory = memory();
        let writer = thread::spawn({
            let memory = memory.clone();
            move || {
                let mut barriers = Barriers::default();
                write(&mut barriers, &memory[0], 1);
                write(&mut barriers, &memory[1], 1);
                barriers.finish();
            }
        });
        let mut barriers = Barriers::default();
        if read(&mut barriers, &memory[1]) == 1 {
            assert_eq!(read(&mut barriers, &memory[0]), 1, "the first WRITE is missing");
        }
        writer.join().unwrap();
    });
}

#[test]
fn a_write_is_there_before_the_atomic_behind_it() {
    loom::model(|| {
        let memory = memory();
        let writer = thread::spawn({
            let memory = memory.clone();
            move || {
                let mut barriers = Barriers::default();
                write(&mut barriers, &memory[0], 1);
                add(&mut barriers, &memory[1]);
                barriers.finish();
            }
        });
        let mut barriers = Barriers::default();
        if add(&mut barriers, &memory[1]) == 1 {
            assert_eq!(read(&mut barriers, &memory[0]), 1, "written back before it is given up");
        }
        writer.join().unwrap();
    });
}

#[test]
fn what_a_read_brings_is_newer_than_what_its_node_gave_up_before() {
    // One worker changes the frame's state, so that the last line is not in the frame any more.
    // Then the READ of another worker fills the frame with the next line.
    loom::model(|| {
        let memory = memory();
        let [state, bytes, go] = [0, 1, 2];
        let giver = thread::spawn({
            let memory = memory.clone();
            move || {
                memory[state].fetch_add(1, Ordering::Relaxed);
                memory[go].store(1, Ordering::Release);
            }
        });
        let filler = thread::spawn({
            let memory = memory.clone();
            move || {
                if memory[go].load(Ordering::Acquire) == 1 {
                    Barriers::default().before_read();
                    memory[bytes].store(1, Ordering::Relaxed);
                }
            }
        });
        // The load of an optimistic reader.
        let seen = memory[bytes].load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let old = memory[state].load(Ordering::Relaxed) == 0;
        assert!(!(seen == 1 && old), "bytes of the next line under the state of the last");
        giver.join().unwrap();
        filler.join().unwrap();
    });
}
