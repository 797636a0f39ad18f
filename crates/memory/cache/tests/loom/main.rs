//! Frames under every interleaving, and with every value that a relaxed load may return.
//! `scripts/loom.sh` runs this.
#![cfg(loom)]

use latchwork_cache::{Cache, DirtyBounds, FrameId, Hint, LINE_HEADER, OptimisticRead, Ownership};
use latchwork_runtime::sync::{Arc, AtomicBool, AtomicU64, Ordering, fence, yield_now};
use latchwork_verbs::{GlobalAddr, MemoryNodeId, Words};
use loom::thread;

mod locks;

/// A line with a payload of two words: enough to be torn.
const LINE: usize = LINE_HEADER + 16;

fn line(k: u64) -> GlobalAddr {
    GlobalAddr::new(MemoryNodeId(0), (1 << 20) + k * 512)
}

/// A cache of `frames` frames, all attached and owned.
fn full(frames: usize, ownership: Ownership) -> Arc<Cache> {
    let cache = Cache::with_frames(frames, LINE).expect("memory");
    for k in 0..frames as u64 {
        let id = cache.attach(line(k)).expect("a free frame");
        cache.frame(id).publish(ownership);
    }
    Arc::new(cache)
}

fn fill(words: Words<'_>, value: u64) {
    words.set_word(0, value);
    words.set_word(1, value);
}

/// The fill of a frame by a verb, with the memory fence of `Barriers` in the fabric.
fn fill_by_verb(cache: &Cache, id: FrameId, value: u64) {
    fence(Ordering::Release);
    let line = cache.line(id);
    fill(line.slice(LINE_HEADER..line.len()), value);
}

/// Writes `value` everywhere; `false` when the node may not write, or another writer has the latch.
fn write(cache: &Cache, addr: GlobalAddr, value: u64) -> bool {
    let Some(mut guard) = cache.try_write(addr) else { return false };
    fill(guard.words(), value);
    guard.mark_dirty(0..16);
    true
}

/// The two words, if the read validates.
fn validated(read: OptimisticRead<'_>) -> Option<(u64, u64)> {
    let words = read.words();
    let seen = (words.word(0), words.word(1));
    read.validate().then_some(seen)
}

#[test]
fn a_validated_read_saw_the_bytes_of_one_publish() {
    loom::model(|| {
        let cache = full(1, Ownership::Exclusive);
        let told = Arc::new(AtomicU64::new(0));
        let writer = thread::spawn({
            let (cache, told) = (cache.clone(), told.clone());
            move || {
                for value in 1..=2 {
                    assert!(write(&cache, line(0), value), "the only writer");
                    told.store(value, Ordering::Release);
                }
            }
        });
        let known = told.load(Ordering::Acquire);
        if let Some(read) = cache.try_read(line(0)) {
            let published = read.version().counter - 1;
            if let Some((one, two)) = validated(read) {
                assert_eq!((one, two), (published, published), "bytes and counter belong together");
                assert!(one >= known, "older than what was known");
            }
        }
        writer.join().unwrap();
    });
}

#[test]
fn a_copy_that_becomes_exclusive_and_is_written_harms_no_reader() {
    loom::model(|| {
        let cache = full(1, Ownership::Shared);
        let writer = thread::spawn({
            let cache = cache.clone();
            move || {
                let frame = cache.frame(cache.find(line(0)).expect("attached"));
                frame.promote();
                assert!(write(&cache, line(0), 1), "exclusive now");
                assert!(frame.try_demote());
            }
        });
        if let Some(read) = cache.try_read(line(0)) {
            let published = read.version().counter - 1;
            if let Some(seen) = validated(read) {
                assert_eq!(seen, (published, published));
            }
        }
        writer.join().unwrap();
    });
}

/// A copy between two writes is whole, and what it lacks stays dirty. A read that began before it
/// validates.
#[test]
fn a_copy_between_writes_has_what_it_counts_as_clean() {
    loom::model(|| {
        let cache = full(1, Ownership::Exclusive);
        let writer = thread::spawn({
            let cache = cache.clone();
            move || {
                while !write(&cache, line(0), 1) {
                    yield_now();
                }
            }
        });
        let id = cache.find(line(0)).expect("attached");
        let (frame, words) = (cache.frame(id), cache.line(id));
        let first = LINE_HEADER / 8;
        let copied = frame.between_writes(|| {
            let dirty = frame.dirty();
            frame.set_dirty(DirtyBounds::EMPTY);
            (words.word(first), words.word(first + 1), dirty)
        });
        writer.join().unwrap();
        if let Some((one, two, dirty)) = copied {
            assert_eq!(one, two, "the copy is torn");
            assert_eq!(one == 0, dirty.is_empty(), "bytes and bounds belong together");
            assert_eq!(one == 0, !frame.dirty().is_empty(), "what is not in the copy is dirty");
        }
        assert!(frame.dirty().is_empty() == copied.is_some_and(|(one, ..)| one == 1));
    });
}

/// The frame of line 0 is given to line 1, whose bytes `fill` writes.
fn hand_the_frame_on(fill: impl Fn(Arc<Cache>, FrameId) + Copy + Send + Sync + 'static) {
    hand_the_frame_on_beside(fill, |cache, addr| cache.try_read(addr));
}

/// The same, with another way to read.
fn hand_the_frame_on_beside(
    fill: impl Fn(Arc<Cache>, FrameId) + Copy + Send + Sync + 'static,
    try_read: impl Fn(&Cache, GlobalAddr) -> Option<OptimisticRead<'_>> + Copy + Send + Sync + 'static,
) {
    let hand_on = move |cache: &Arc<Cache>| {
        let id = cache.find(line(0)).expect("attached");
        assert!(cache.frame(id).try_invalidate(), "nobody writes");
        cache.detach(id);
        assert_eq!(cache.attach(line(1)), Some(id));
        fill(cache.clone(), id);
        cache.frame(id).publish(Ownership::Shared);
    };
    let read = move |cache: &Arc<Cache>| {
        for k in 0..2 {
            if let Some(seen) = try_read(cache, line(k)).and_then(validated) {
                assert_eq!(seen, (k + 1, k + 1), "line {k}");
            }
        }
    };
    // Both thread orders, because loom starts from the first thread's first step and does not reach
    // all other orders.
    for reader_first in [true, false] {
        loom::model(move || {
            let cache = full(1, Ownership::Exclusive);
            assert!(write(&cache, line(0), 1));
            let theirs = cache.clone();
            let other = if reader_first {
                let handler = thread::spawn(move || hand_on(&theirs));
                read(&cache);
                handler
            } else {
                let reader = thread::spawn(move || read(&theirs));
                hand_on(&cache);
                reader
            };
            other.join().unwrap();
            assert!(cache.try_read(line(0)).is_none());
            assert_eq!(cache.try_read(line(1)).and_then(validated), Some((2, 2)));
        });
    }
}

#[test]
fn a_validated_read_is_of_the_right_line_though_its_frame_is_filled_anew() {
    hand_the_frame_on(|cache, id| fill_by_verb(&cache, id, 2));
}

#[test]
fn a_frame_may_be_filled_by_another_thread() {
    // The giver's thread executes the verb, after it got the request of the frame's owner.
    hand_the_frame_on(|cache, id| {
        thread::spawn(move || fill_by_verb(&cache, id, 2)).join().unwrap();
    });
}

#[test]
fn a_hint_at_a_frame_that_changes_hands_is_found_out() {
    hand_the_frame_on_beside(
        |cache, id| fill_by_verb(&cache, id, 2),
        |cache, addr| cache.try_read_at(addr, &Hint::at(FrameId(0))),
    );
}

#[test]
fn a_write_is_to_the_right_line_though_its_frame_changes_hands() {
    change_hands_beside(|cache| write(cache, line(0), 9));
}

#[test]
fn a_reader_that_takes_the_latch_of_a_frame_that_changes_hands_has_the_right_line() {
    change_hands_beside(|cache| {
        let read = cache.try_read_at(line(0), &Hint::at(FrameId(0)));
        let Some(mut guard) = read.and_then(|read| read.latch()) else { return };
        fill(guard.words(), 9);
        guard.mark_dirty(0..16);
    });
}

#[test]
fn no_change_is_lost_between_what_two_readers_saw_and_what_they_write() {
    loom::model(|| {
        let cache = full(1, Ownership::Exclusive);
        let add_one = |cache: &Cache| {
            let Some(read) = cache.try_read(line(0)) else { return 0 };
            let seen = (read.words().word(0), read.words().word(1));
            let Some(mut guard) = read.latch() else { return 0 };
            assert_eq!(seen.0, seen.1, "latched from a torn read");
            fill(guard.words(), seen.0 + 1);
            guard.mark_dirty(0..16);
            1
        };
        let other = thread::spawn({
            let cache = cache.clone();
            move || add_one(&cache) + add_one(&cache)
        });
        let mine = add_one(&cache);
        let all = mine + other.join().unwrap();
        let now = cache.try_read(line(0)).and_then(validated);
        assert_eq!(now, Some((all, all)));
    });
}

/// The frame of line 0 is given to line 1, while `write` writes line 0.
fn change_hands_beside<T: 'static>(write: impl Fn(&Cache) -> T + Copy + Send + Sync + 'static) {
    loom::model(move || {
        let cache = full(1, Ownership::Exclusive);
        let writer = thread::spawn({
            let cache = cache.clone();
            move || {
                write(&cache);
            }
        });
        let id = cache.find(line(0)).expect("attached");
        while !cache.frame(id).try_invalidate() {
            yield_now();
        }
        cache.detach(id);
        assert_eq!(cache.attach(line(1)), Some(id));
        fill_by_verb(&cache, id, 2);
        cache.frame(id).publish(Ownership::Exclusive);
        writer.join().unwrap();
        assert_eq!(cache.try_read(line(1)).and_then(validated), Some((2, 2)));
    });
}

#[test]
fn a_frame_may_be_given_to_the_next_line_by_another_thread() {
    loom::model(|| {
        let cache = full(1, Ownership::Shared);
        let handler = thread::spawn({
            let cache = cache.clone();
            move || {
                let id = cache.find(line(0)).expect("attached");
                assert!(cache.frame(id).try_invalidate());
                cache.detach(id);
                let next = thread::spawn(move || {
                    assert_eq!(cache.attach(line(1)), Some(id));
                    fill_by_verb(&cache, id, 2);
                    cache.frame(id).publish(Ownership::Shared);
                });
                next.join().unwrap();
            }
        });
        // Not the bytes of line 0 under the address of line 1.
        let seen = cache.try_read(line(1)).and_then(validated);
        assert!(seen.is_none_or(|seen| seen == (2, 2)), "{seen:?}");
        handler.join().unwrap();
    });
}

#[test]
fn a_line_that_comes_back_into_its_frame_is_not_the_one_that_was_there_meanwhile() {
    loom::model(|| {
        let cache = full(1, Ownership::Exclusive);
        assert!(write(&cache, line(0), 1));
        let reader = thread::spawn({
            let cache = cache.clone();
            move || cache.try_read(line(0)).and_then(validated)
        });
        let id = cache.find(line(0)).expect("attached");
        let take_away = move |cache: &Cache| {
            assert!(cache.frame(id).try_invalidate());
            cache.detach(id);
        };
        let bring = move |cache: &Cache, k: u64| {
            assert_eq!(cache.attach(line(k)), Some(id));
            fill_by_verb(cache, id, k + 1);
            cache.frame(id).publish(Ownership::Shared);
        };
        take_away(&cache);
        bring(&cache, 1);
        take_away(&cache);
        let again = cache.clone();
        thread::spawn(move || bring(&again, 0)).join().unwrap();
        let seen = reader.join().unwrap();
        assert!(seen.is_none_or(|seen| seen == (1, 1)), "{seen:?}");
    });
}

#[test]
fn two_writers_exclude_each_other_and_both_changes_stay_dirty() {
    loom::model(|| {
        let cache = full(1, Ownership::Exclusive);
        let add = |cache: &Cache, word: usize| loop {
            let Some(mut guard) = cache.try_write(line(0)) else {
                yield_now();
                continue;
            };
            let words = guard.words();
            fill(words, words.word(0) + 1);
            guard.mark_dirty(8 * word..8 * word + 8);
            return;
        };
        let other = thread::spawn({
            let cache = cache.clone();
            move || add(&cache, 1)
        });
        add(&cache, 0);
        other.join().unwrap();
        assert_eq!(cache.try_read(line(0)).and_then(validated), Some((2, 2)), "an update was lost");
        let frame = cache.frame(cache.find(line(0)).expect("attached"));
        assert_eq!(frame.dirty().range(), LINE_HEADER..LINE);
    });
}

#[test]
fn a_task_that_takes_the_line_away_sees_all_that_was_written_and_nothing_comes_after() {
    loom::model(|| {
        let cache = full(1, Ownership::Exclusive);
        let writer = thread::spawn({
            let cache = cache.clone();
            move || write(&cache, line(0), 1)
        });
        let id = cache.find(line(0)).expect("attached");
        let frame = cache.frame(id);
        while !frame.try_invalidate() {
            yield_now();
        }
        let words = cache.line(id).slice(LINE_HEADER..LINE);
        let seen = (words.word(0), words.word(1));
        let dirty = frame.dirty();
        let wrote = writer.join().unwrap();
        let value = u64::from(wrote);
        assert_eq!(seen, (value, value), "what is written back");
        assert_eq!((words.word(0), words.word(1)), seen, "written after it was taken away");
        let all = if wrote { LINE_HEADER..LINE } else { 0..0 };
        assert_eq!(dirty.range(), all);
    });
}

#[test]
fn what_is_written_after_a_demotion_and_a_promotion_is_dirty_again() {
    loom::model(|| {
        let cache = full(1, Ownership::Exclusive);
        let writer = thread::spawn({
            let cache = cache.clone();
            move || (write(&cache, line(0), 1), write(&cache, line(0), 2))
        });
        let id = cache.find(line(0)).expect("attached");
        let frame = cache.frame(id);
        while !frame.try_demote() {
            yield_now();
        }
        // No task can write now: the write-back is consistent, and the dirty bounds start again.
        let words = cache.line(id).slice(LINE_HEADER..LINE);
        let dirty = frame.dirty();
        let memory = if dirty.is_empty() { 0 } else { words.word(0) };
        assert_eq!(words.word(1), memory, "what is written back is whole");
        frame.set_dirty(DirtyBounds::EMPTY);
        frame.promote();
        let (first, second) = writer.join().unwrap();
        let last = if second { 2 } else { u64::from(first) };
        assert_eq!(cache.try_read(line(0)).and_then(validated), Some((last, last)));
        let clean = frame.dirty().is_empty();
        assert!(last == memory || !clean, "a change that memory lacks is not dirty");
    });
}

#[test]
fn a_frame_is_handed_out_once() {
    loom::model(|| {
        let cache = Arc::new(Cache::with_frames(2, LINE).expect("memory"));
        let old = cache.attach(line(0)).expect("a free frame");
        let other = thread::spawn({
            let cache = cache.clone();
            move || {
                cache.detach(old);
                cache.attach(line(1))
            }
        });
        let mine = cache.attach(line(2));
        let theirs = other.join().unwrap();
        let (Some(mine), Some(theirs)) = (mine, theirs) else {
            panic!("two frames for two lines: {mine:?}, {theirs:?}");
        };
        assert_ne!(mine, theirs);
        assert_eq!((cache.find(line(1)), cache.find(line(2))), (Some(theirs), Some(mine)));
        assert_eq!((cache.find(line(0)), cache.free_frames()), (None, 0));
    });
}

#[test]
fn a_frame_that_comes_back_is_the_new_lines_alone() {
    loom::model(|| {
        let cache = full(1, Ownership::Shared);
        let handler = thread::spawn({
            let cache = cache.clone();
            move || {
                let id = cache.find(line(0)).expect("attached");
                assert!(cache.frame(id).try_invalidate());
                cache.detach(id);
            }
        });
        let taken = loop {
            match cache.attach(line(1)) {
                Some(id) => break id,
                None => yield_now(),
            }
        };
        assert_eq!(cache.frame(taken).addr(), line(1));
        handler.join().unwrap();
        assert_eq!(cache.frame(taken).addr(), line(1), "the last holder let go after all");
        assert_eq!((cache.find(line(0)), cache.find(line(1))), (None, Some(taken)));
    });
}

#[test]
fn a_local_holder_keeps_the_line_until_its_release() {
    loom::model(|| {
        let cache = full(1, Ownership::Exclusive);
        let frame_of = |cache: &Arc<Cache>| cache.find(line(0)).expect("attached");
        let held = Arc::new(AtomicBool::new(false));
        let writer = thread::spawn({
            let (cache, held) = (cache.clone(), held.clone());
            move || {
                let Some(guard) = cache.try_write(line(0)) else { return };
                held.store(true, Ordering::SeqCst);
                fill(guard.words(), 1);
                held.store(false, Ordering::SeqCst);
            }
        });
        let frame = cache.frame(frame_of(&cache));
        if frame.try_demote() {
            assert!(!held.load(Ordering::SeqCst), "demoted under a writer");
            assert!(frame.try_invalidate(), "a shared copy has no writer");
        }
        writer.join().unwrap();
    });
}
