//! The guarantees of a cache to protocols, readers and writers.

use std::sync::Barrier;
use std::thread;

use latchwork_cache::{Cache, CacheError, Hint, Ownership, TryLock, Unlocked};
use latchwork_verbs::{GlobalAddr, MemoryNodeId};

fn line(k: u64) -> GlobalAddr {
    GlobalAddr::new(MemoryNodeId(0), (1 << 20) + k * 512)
}

/// A cache of `frames` frames, all attached and owned.
fn full(frames: usize, ownership: Ownership) -> Cache {
    let cache = Cache::with_frames(frames, 512).expect("memory");
    for k in 0..frames as u64 {
        let id = cache.attach(line(k)).expect("a free frame");
        cache.frame(id).publish(ownership);
    }
    cache
}

#[test]
fn the_memory_limit_is_kept_and_used_up() {
    for (bytes, line_size) in
        [(64 << 10, 512), (1 << 20, 2048), (100_000_000, 8192), (3_000_001, 1024)]
    {
        let cache = Cache::with_memory(bytes, line_size, 2).expect("room for some frames");
        let frames = cache.capacity();
        assert!(Cache::footprint(frames, line_size) <= bytes, "{frames} frames are too many");
        assert!(Cache::footprint(frames + 1, line_size) > bytes, "{frames} frames are too few");
    }
}

#[test]
fn a_limit_below_the_minimum_is_refused_with_what_would_do() {
    let error = Cache::with_memory(10_000, 8192, 4).expect_err("too small");
    let CacheError::TooSmall { frames: 0..4, least: 4, least_bytes, .. } = error else {
        panic!("{error}");
    };
    let cache = Cache::with_memory(least_bytes, 8192, 4).expect("what would do");
    assert!(cache.capacity() >= 4);
}

#[test]
fn frames_are_given_out_once_and_come_back() {
    let cache = full(3, Ownership::Shared);
    assert!(cache.attach(line(9)).is_none(), "no frame is free");
    let id = cache.find(line(1)).expect("attached");
    assert!(cache.frame(id).try_invalidate());
    cache.detach(id);
    assert_eq!((cache.find(line(1)), cache.free_frames()), (None, 1));
    assert_eq!(cache.attach(line(9)), Some(id));
    assert_eq!(cache.find(line(9)), Some(id));
}

#[test]
fn a_read_fails_when_the_line_is_written_lost_or_its_frame_changes_hands() {
    let cache = full(1, Ownership::Exclusive);
    let read = cache.try_read(line(0)).expect("owned");
    assert!(read.validate());
    let mut guard = cache.try_write(line(0)).expect("owned exclusively");
    guard.words().set_u64(0, 1);
    guard.mark_dirty(0..8);
    assert!(!read.validate(), "a writer is at work");
    assert!(cache.try_read(line(0)).is_none(), "readers wait for the writer");
    assert!(cache.try_write(line(0)).is_none(), "one writer at a time");
    drop(guard);
    assert!(!read.validate(), "the bytes may be others");

    let read = cache.try_read(line(0)).expect("owned");
    let id = cache.find(line(0)).expect("attached");
    assert!(cache.frame(id).try_demote());
    assert!(cache.try_write(line(0)).is_none(), "shared lines are not written");
    assert!(!read.validate() && cache.try_read(line(0)).is_some());

    let read = cache.try_read(line(0)).expect("shared");
    assert!(cache.frame(id).try_invalidate());
    assert!(!read.validate() && cache.try_read(line(0)).is_none());
    cache.detach(id);
    assert_eq!(cache.attach(line(7)), Some(id));
    cache.frame(id).publish(Ownership::Shared);
    assert!(!read.validate(), "another line is in the frame");
}

#[test]
fn a_writer_keeps_its_line_until_it_is_done() {
    let cache = full(1, Ownership::Exclusive);
    let frame = cache.frame(cache.find(line(0)).expect("attached"));
    let guard = cache.try_write(line(0)).expect("owned exclusively");
    assert!(!frame.try_invalidate() && !frame.try_demote());
    drop(guard);
    assert!(frame.try_demote() && frame.try_invalidate());
}

#[test]
fn dirty_bounds_collect_what_all_writers_changed() {
    let cache = full(1, Ownership::Exclusive);
    let frame = cache.frame(cache.find(line(0)).expect("attached"));
    assert!(frame.dirty().is_empty());
    for range in [100..104, 40..41] {
        let mut guard = cache.try_write(line(0)).expect("owned exclusively");
        guard.mark_dirty(range);
    }
    // In bytes of the line, rounded to words: the header of 32 bytes comes first.
    assert_eq!(frame.dirty().range(), 72..136);
}

#[test]
fn victims_are_those_used_longest_ago_and_never_in_use() {
    let cache = full(16, Ownership::Exclusive);
    let reserved = cache.frame(cache.find(line(3)).expect("attached"));
    reserved.reserve();
    let written = cache.try_write(line(4)).expect("owned exclusively");
    // Enough victims for new epochs, in which some lines are used again.
    let mut victims = Vec::new();
    for _ in 0..4 {
        victims.clear();
        cache.victims(2, &mut victims);
        for k in 8..16 {
            assert!(cache.try_read(line(k)).is_some());
        }
    }
    victims.clear();
    cache.victims(6, &mut victims);
    victims.sort();
    assert_eq!(victims, [0, 1, 2, 5, 6, 7].map(line), "neither the used, nor the busy");
    drop(written);
    reserved.unreserve();
}

#[test]
fn readers_never_validate_a_torn_line() {
    const WRITES: u64 = 20_000;
    let cache = full(2, Ownership::Exclusive);
    let start = Barrier::new(3);
    thread::scope(|scope| {
        for own in 0..2 {
            let (cache, start) = (&cache, &start);
            scope.spawn(move || {
                start.wait();
                let mut done = 0;
                while done < WRITES {
                    let Some(mut guard) = cache.try_write(line(done % 2)) else { continue };
                    let words = guard.words();
                    let next = words.u64(0) + 1 + own;
                    for word in 0..words.len() / 8 {
                        words.set_word(word, next);
                    }
                    guard.mark_dirty(0..words.len());
                    done += 1;
                }
            });
        }
        start.wait();
        let (mut good, mut turn) = (0, 0);
        while good < WRITES {
            turn += 1;
            let Some(read) = cache.try_read(line(turn % 2)) else { continue };
            let words = read.words();
            let first = words.word(0);
            let torn = (0..words.len() / 8).any(|word| words.word(word) != first);
            if read.validate() {
                assert!(!torn, "a torn line was taken for good");
                good += 1;
            }
        }
    });
}

#[test]
fn a_hint_is_corrected_when_it_is_wrong_and_misleads_no_reader() {
    let cache = full(3, Ownership::Exclusive);
    let hint = Hint::default();
    let seen = |addr| cache.try_read_at(addr, &hint).map(|read| read.addr());
    // No hint, a right hint, and a hint that is right for another line.
    for k in [0, 0, 1] {
        assert_eq!(seen(line(k)), Some(line(k)));
    }
    assert_eq!(seen(line(7)), None);

    // The frame of the hint changes to another line.
    let id = cache.find(line(1)).expect("attached");
    assert_eq!(seen(line(1)), Some(line(1)));
    assert!(cache.frame(id).try_invalidate());
    assert_eq!(seen(line(1)), None);
    cache.detach(id);
    assert_eq!((seen(line(1)), cache.attach(line(9))), (None, Some(id)));
    assert_eq!(seen(line(9)), None, "no right to read it yet");
    cache.frame(id).publish(Ownership::Shared);
    assert_eq!((seen(line(1)), seen(line(9))), (None, Some(line(9))));
    cache.prefetch(&hint, 0..480);
    cache.prefetch(&Hint::default(), 0..480);
}

#[test]
fn hints_stay_with_a_line_until_it_leaves_its_frame() {
    let cache = full(40, Ownership::Shared);
    let hints = |k| cache.hints(&cache.try_read(line(k)).expect("cached"));
    assert_eq!(hints(0).len(), 512 / 16);
    let guess = |addr| cache.try_read_at(addr, &hints(0)[5]).map(|read| read.addr());
    assert_eq!(guess(line(3)), Some(line(3)));
    assert!(!hints(1).is_empty() && hints(2).is_empty(), "two blocks for so many frames");
    let id = cache.find(line(0)).expect("attached");
    assert!(cache.frame(id).try_invalidate());
    cache.detach(id);
    assert!(!hints(2).is_empty(), "the block is free again");
}

#[test]
fn a_reader_of_the_last_line_may_add_hints_while_its_frame_gets_another() {
    let cache = full(1, Ownership::Shared);
    let stale = cache.try_read(line(0)).expect("cached");
    thread::scope(|scope| {
        let replacing = scope.spawn(|| {
            for k in 0..20_000 {
                let id = cache.find(line(k)).expect("attached");
                assert!(cache.frame(id).try_invalidate());
                cache.detach(id);
                let id = cache.attach(line(k + 1)).expect("the frame is free");
                cache.frame(id).publish(Ownership::Shared);
            }
        });
        while !replacing.is_finished() {
            assert!(cache.hints(&stale).len() <= 512 / 16);
        }
    });
    assert!(!stale.validate(), "the line left long ago");
}

#[test]
fn a_reader_becomes_the_writer_of_what_it_saw_or_of_nothing() {
    let cache = full(2, Ownership::Exclusive);
    let read = cache.try_read(line(0)).expect("owned");
    let stale = cache.try_read(line(0)).expect("owned");
    let version = read.version();
    let mut guard = read.latch().expect("nobody wrote");
    assert_eq!((guard.addr(), guard.version()), (line(0), version));
    assert!(stale.latch().is_none(), "the latch is taken");
    guard.words().set_u64(0, 7);
    guard.mark_dirty(0..8);
    drop(guard);
    assert!(stale.latch().is_none(), "written since");
    let read = cache.try_read(line(0)).expect("owned");
    assert_eq!(read.words().u64(0), 7);

    let frame = cache.frame(version.frame);
    assert!(frame.try_demote());
    let shared = cache.try_read(line(0)).expect("owned");
    assert!(shared.latch().is_none(), "not owned exclusively");
    frame.promote();
    assert!(shared.latch().is_none(), "another state; whoever asked reads again");
    assert!(read.latch().is_some(), "as it was");
}

#[test]
fn writers_give_way_except_those_that_have_the_line_reserved() {
    let cache = full(1, Ownership::Exclusive);
    let frame = cache.frame(cache.find(line(0)).expect("attached"));
    frame.give_way(true);
    assert!(cache.try_write(line(0)).is_none());
    let read = cache.try_read(line(0)).expect("reading keeps nobody waiting");
    assert!(read.validate() && read.latch().is_none());
    assert!(frame.try_invalidate(), "the line can be taken away");
    frame.publish(Ownership::Exclusive);
    assert!(cache.try_write(line(0)).is_some(), "a copy that comes is everybody's");
    frame.give_way(true);
    frame.reserve();
    assert!(cache.try_write(line(0)).is_some());
    frame.unreserve();
    assert!(cache.try_write(line(0)).is_none());
    frame.give_way(false);
    assert!(cache.try_write(line(0)).is_some());
}

#[test]
fn readers_and_writers_see_how_the_line_is_locked() {
    let cache = full(2, Ownership::Exclusive);
    let frame = cache.frame(cache.find(line(0)).expect("attached"));
    let seen = || {
        let read = cache.try_read(line(0)).expect("owned").locked();
        assert_eq!(cache.try_write(line(0)).expect("owned").locked(), read);
        read
    };
    assert_eq!(seen(), Ownership::Invalid);
    assert_eq!(frame.try_lock(Ownership::Shared), Some(true));
    assert_eq!(frame.try_lock(Ownership::Shared), Some(false));
    assert_eq!(seen(), Ownership::Shared);
    assert_eq!(cache.try_read(line(1)).expect("owned").locked(), Ownership::Invalid);
    assert!(!frame.unlock(Ownership::Shared).last);
    assert!(frame.try_upgrade_lock());
    assert_eq!(seen(), Ownership::Exclusive);
    assert!(frame.try_lock(Ownership::Shared).is_none());
    assert!(frame.unlock(Ownership::Exclusive).last);
    assert_eq!(seen(), Ownership::Invalid);
}

#[test]
fn a_line_is_locked_without_the_protocol_where_that_has_nothing_to_say() {
    let cache = full(2, Ownership::Shared);
    let lock = |k, ownership| cache.try_lock(line(k), ownership);
    let id = cache.find(line(0)).expect("attached");
    let frame = cache.frame(id);
    assert_eq!(lock(9, Ownership::Shared), TryLock::Ask, "not here");
    assert_eq!(lock(0, Ownership::Exclusive), TryLock::Ask, "not so");
    assert_eq!(lock(0, Ownership::Shared), TryLock::Locked((id, true)));
    assert_eq!(lock(0, Ownership::Shared), TryLock::Locked((id, false)));
    assert_eq!(frame.try_upgrade_lock_unasked(), TryLock::Ask);
    assert!(!frame.try_invalidate() && !frame.has_request_mark(), "locked");
    frame.promote();
    assert_eq!(lock(0, Ownership::Exclusive), TryLock::Refused);
    assert_eq!(frame.try_upgrade_lock_unasked(), TryLock::Refused, "one of two");
    assert_eq!(frame.unlock(Ownership::Shared), Unlocked { last: false, asked: false });
    assert!(frame.try_demote(), "readers keep no more");
    frame.promote();
    assert_eq!(frame.try_upgrade_lock_unasked(), TryLock::Locked(()));
    assert!(!frame.try_demote() && !frame.try_invalidate());
    assert_eq!(frame.set_request_mark(), Ownership::Exclusive);
    assert_eq!(frame.unlock(Ownership::Exclusive), Unlocked { last: true, asked: true });
    assert_eq!(lock(0, Ownership::Shared), TryLock::Ask, "the protocol wants to be asked");
    assert_eq!(frame.try_lock(Ownership::Shared), Some(true), "as it does itself");
    assert_eq!(frame.try_upgrade_lock_unasked(), TryLock::Ask);
    assert!(frame.try_upgrade_lock() && frame.has_request_mark());
    frame.unlock(Ownership::Exclusive);
    assert!(frame.try_invalidate() && frame.has_request_mark(), "until it says otherwise");
    cache.detach(id);
    assert_eq!(cache.attach(line(2)), Some(id));
    frame.publish(Ownership::Shared);
    assert_eq!(lock(2, Ownership::Shared), TryLock::Locked((id, true)), "another line");
}
