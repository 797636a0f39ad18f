//! Locks of transactions. Also transactions without read locks, which only check whether other
//! transactions have locked the lines that they read.

use latchwork_cache::{Frame, Hint, TryLock};

use super::*;

/// Transactions of three workers, one of which upgrades. The next transaction with an incompatible
/// lock sees everything that was done under a lock.
#[test]
fn locks_of_transactions_exclude_each_other() {
    loom::model(|| {
        let cache = full(1, Ownership::Exclusive);
        let frame_of = |cache: &Arc<Cache>| cache.find(line(0)).expect("attached");
        // Written under exclusive locks only, and relaxed: the lock has to order the writes.
        let value = Arc::new(AtomicU64::new(0));
        let writers: Vec<_> = [false, true]
            .into_iter()
            .map(|upgrades| {
                let (cache, value) = (cache.clone(), value.clone());
                thread::spawn(move || {
                    let frame = cache.frame(cache.find(line(0)).expect("attached"));
                    if upgrades {
                        if frame.try_lock(Ownership::Shared).is_none() {
                            return 0;
                        }
                        if !frame.try_upgrade_lock() {
                            frame.unlock(Ownership::Shared);
                            return 0;
                        }
                    } else if frame.try_lock(Ownership::Exclusive).is_none() {
                        return 0;
                    }
                    assert_eq!(frame.locked(), Ownership::Exclusive);
                    let seen = value.load(Ordering::Relaxed);
                    value.store(seen + 1, Ordering::Relaxed);
                    assert!(frame.unlock(Ownership::Exclusive).last, "alone");
                    1
                })
            })
            .collect();
        let frame = cache.frame(frame_of(&cache));
        if frame.try_lock(Ownership::Shared).is_some() {
            let seen = value.load(Ordering::Relaxed);
            assert_eq!(value.load(Ordering::Relaxed), seen, "written beside a lock to read");
            frame.unlock(Ownership::Shared);
        }
        let written: u64 = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
        assert_eq!(value.load(Ordering::Relaxed), written, "a write was lost");
        assert!(!frame.is_kept());
    });
}

/// The commit of a transaction that has read the line `theirs` as 0 and writes the line `mine`. The
/// commit locks `mine`, and reads `theirs` again. Returns whether the transaction commits.
fn commit(cache: &Cache, mine: GlobalAddr, theirs: GlobalAddr) -> bool {
    let frame = cache.frame(cache.find(mine).expect("attached"));
    if frame.try_lock(Ownership::Exclusive).is_none() {
        return false;
    }
    fence(Ordering::SeqCst);
    let unchanged = cache.try_read(theirs).is_some_and(|read| {
        let seen = read.words().word(0);
        let locked = read.locked();
        read.validate() && (seen, locked) == (0, Ownership::Invalid)
    });
    if unchanged {
        assert!(write(cache, mine, 1), "locked");
    }
    frame.unlock(Ownership::Exclusive);
    unchanged
}

/// Write skew: each transaction writes what the other has read.
#[test]
fn of_two_that_write_what_the_other_has_read_one_sees_the_lock_or_the_write() {
    loom::model(|| {
        let cache = full(2, Ownership::Exclusive);
        let other = thread::spawn({
            let cache = cache.clone();
            move || commit(&cache, line(1), line(0))
        });
        let mine = commit(&cache, line(0), line(1));
        assert!(
            !(mine && other.join().unwrap()),
            "both have read what the other has changed since"
        );
    });
}

/// A reader with the timestamp 2 leaves it in the line, unless the line is locked. A writer with
/// the timestamp 1 locks the line, checks for such a timestamp, and writes. The way in which the
/// writer checks decides whether the latch alone orders the two, or memory fences are needed.
fn stamp_beside(look: impl Fn(&Cache) -> Option<u64> + Copy + Send + Sync + 'static, fences: bool) {
    let write = move |cache: &Cache| {
        let frame = cache.frame(cache.find(line(0)).expect("attached"));
        assert!(frame.try_lock(Ownership::Exclusive).is_some(), "the only one");
        if fences {
            fence(Ordering::SeqCst);
        }
        // Not available: the reader has the latch.
        look(cache) == Some(0)
    };
    let read = move |cache: &Cache| {
        let Some(guard) = cache.try_write(line(0)) else { return false };
        if fences {
            fence(Ordering::SeqCst);
        }
        let stamps = guard.locked() == Ownership::Invalid;
        if stamps {
            guard.words().set_word(0, 2);
        }
        stamps
    };
    // Both thread orders, because loom starts from the first thread's first step and does not reach
    // all other orders.
    for writer_first in [true, false] {
        loom::model(move || {
            let cache = full(1, Ownership::Exclusive);
            let theirs = cache.clone();
            let (mine, other) = if writer_first {
                let reader = thread::spawn(move || read(&theirs));
                (write(&cache), reader)
            } else {
                let writer = thread::spawn(move || write(&theirs));
                (read(&cache), writer)
            };
            let both = mine && other.join().unwrap();
            assert!(!both, "the reader has read what is changed at an earlier time");
        });
    }
}

#[test]
fn a_read_timestamp_under_the_latch_is_seen_by_a_locker_that_then_reads() {
    stamp_beside(|cache| cache.try_read(line(0)).and_then(validated).map(|(stamp, _)| stamp), true);
}

#[test]
fn a_read_timestamp_under_the_latch_is_seen_by_a_locker_that_then_latches() {
    stamp_beside(|cache| cache.try_write(line(0)).map(|guard| guard.words().word(0)), false);
}

/// Locks line 0 without a lock of the protocol, and uses it under the lock. Returns whether it was
/// locked.
fn lock_and_write(cache: &Cache) -> bool {
    let TryLock::Locked((id, first)) = cache.try_lock(line(0), Ownership::Exclusive) else {
        return false;
    };
    assert!(first, "nobody else locks it");
    assert!(write(cache, line(0), 7), "taken away under the lock");
    cache.frame(id).unlock(Ownership::Exclusive);
    true
}

#[test]
fn a_line_that_is_locked_stays_and_one_that_goes_is_not_locked() {
    let take_away = |cache: &Arc<Cache>| {
        let id = cache.find(line(0)).expect("attached");
        let frame = cache.frame(id);
        if !frame.try_invalidate() {
            return;
        }
        let words = cache.line(id).slice(LINE_HEADER..LINE);
        let seen = (words.word(0), words.word(1));
        assert_eq!(seen.0, seen.1, "taken away under a writer");
        cache.detach(id);
        assert_eq!(cache.attach(line(1)), Some(id));
        fill_by_verb(cache, id, 2);
        frame.publish(Ownership::Exclusive);
    };
    for locker_first in [true, false] {
        loom::model(move || {
            let cache = full(1, Ownership::Exclusive);
            let theirs = cache.clone();
            let other = if locker_first {
                let handler = thread::spawn(move || take_away(&theirs));
                lock_and_write(&cache);
                handler
            } else {
                let locker = thread::spawn(move || _ = lock_and_write(&theirs));
                take_away(&cache);
                locker
            };
            other.join().unwrap();
            let frame = cache.frame(FrameId(0));
            assert!(!frame.is_kept() && !frame.has_request_mark());
            if frame.addr() == line(1) {
                assert_eq!(cache.try_read(line(1)).and_then(validated), Some((2, 2)));
            }
        });
    }
}

/// A transaction writes the line, and keeps a node lock until its writes are durable.
fn write_and_detain(cache: &Cache, lasting: &AtomicU64) -> bool {
    let TryLock::Locked((id, _)) = cache.try_lock(line(0), Ownership::Exclusive) else {
        return false;
    };
    assert!(write(cache, line(0), 7), "taken away under the lock");
    let frame = cache.frame(id);
    frame.convert_to_node_lock();
    assert!(write(cache, line(0), 7), "taken away while it is detained");
    lasting.store(1, Ordering::Relaxed);
    frame.let_go();
    true
}

#[test]
fn a_reader_of_a_write_sees_its_node_lock_or_finds_it_durable() {
    let look = |cache: &Cache, lasting: &AtomicU64| {
        let Some(read) = cache.try_read(line(0)) else { return };
        let (seen, locked) = (read.words().word(0), read.locked());
        if !read.validate() || seen != 7 || locked != Ownership::Invalid {
            return;
        }
        if !cache.has_node_lock(line(0), &Hint::default()) {
            assert_eq!(lasting.load(Ordering::Relaxed), 1, "told too early");
        }
    };
    for writer_first in [true, false] {
        loom::model(move || {
            let cache = full(1, Ownership::Exclusive);
            let lasting = Arc::new(AtomicU64::new(0));
            let theirs = (cache.clone(), lasting.clone());
            let other = if writer_first {
                let reader = thread::spawn(move || look(&theirs.0, &theirs.1));
                assert!(write_and_detain(&cache, &lasting), "nobody else locks it");
                reader
            } else {
                let writer = thread::spawn(move || _ = write_and_detain(&theirs.0, &theirs.1));
                look(&cache, &lasting);
                writer
            };
            other.join().unwrap();
        });
    }
}

#[test]
fn a_line_with_a_node_lock_stays() {
    let take_away = |cache: &Cache, lasting: &AtomicU64| {
        let frame = cache.frame(FrameId(0));
        let seen = cache.line(FrameId(0)).slice(LINE_HEADER..LINE);
        if frame.try_demote() && seen.word(0) == 7 {
            assert_eq!(lasting.load(Ordering::Relaxed), 1, "others see it too early");
        }
    };
    for handler_first in [true, false] {
        loom::model(move || {
            let cache = full(1, Ownership::Exclusive);
            let lasting = Arc::new(AtomicU64::new(0));
            let theirs = (cache.clone(), lasting.clone());
            let other = if handler_first {
                let writer = thread::spawn(move || _ = write_and_detain(&theirs.0, &theirs.1));
                take_away(&cache, &lasting);
                writer
            } else {
                let handler = thread::spawn(move || take_away(&theirs.0, &theirs.1));
                write_and_detain(&cache, &lasting);
                handler
            };
            other.join().unwrap();
            assert!(!cache.frame(FrameId(0)).is_kept());
        });
    }
}

/// Demotes the line beside a transaction that locks the line to write, or upgrades its lock.
fn demote_beside(lock: impl Fn(&Cache, &Frame) -> bool + Copy + Send + Sync + 'static) {
    let demote = |cache: &Arc<Cache>| {
        let frame = cache.frame(FrameId(0));
        if frame.try_demote() {
            // The line is exclusive again, and a later request to read demotes it again.
            frame.promote();
            _ = frame.try_demote();
        }
    };
    let locker = move |cache: &Arc<Cache>| {
        let frame = cache.frame(FrameId(0));
        if lock(cache, frame) {
            assert!(write(cache, line(0), 7), "taken away under the lock");
            frame.unlock(Ownership::Exclusive);
        }
    };
    for locker_first in [true, false] {
        loom::model(move || {
            let cache = full(1, Ownership::Exclusive);
            let theirs = cache.clone();
            let other = if locker_first {
                let handler = thread::spawn(move || demote(&theirs));
                locker(&cache);
                handler
            } else {
                let other = thread::spawn(move || locker(&theirs));
                demote(&cache);
                other
            };
            other.join().unwrap();
            assert!(!cache.frame(FrameId(0)).is_kept());
        });
    }
}

#[test]
fn a_line_is_not_demoted_under_a_lock_to_write() {
    demote_beside(|cache, _| {
        matches!(cache.try_lock(line(0), Ownership::Exclusive), TryLock::Locked(_))
    });
}

#[test]
fn a_line_is_not_demoted_under_a_lock_that_was_upgraded() {
    demote_beside(|cache, frame| {
        let TryLock::Locked((_, first)) = cache.try_lock(line(0), Ownership::Shared) else {
            return false;
        };
        assert!(first);
        let upgraded = frame.try_upgrade_lock_unasked() == TryLock::Locked(());
        if !upgraded {
            assert_eq!(frame.locked(), Ownership::Shared, "what it was");
            assert!(cache.try_read(line(0)).is_some(), "taken away under a lock to read");
            frame.unlock(Ownership::Shared);
        }
        upgraded
    });
}

/// A task that requests the line finds the lock, or every later lock goes through the protocol.
#[test]
fn a_requester_finds_the_lock_or_later_locks_go_through_the_protocol() {
    let lock = |cache: &Cache, value: &AtomicU64| {
        for _ in 0..2 {
            let TryLock::Locked((id, _)) = cache.try_lock(line(0), Ownership::Shared) else {
                return;
            };
            value.store(value.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            cache.frame(id).unlock(Ownership::Shared);
        }
    };
    loom::model(move || {
        let cache = full(1, Ownership::Exclusive);
        let value = Arc::new(AtomicU64::new(0));
        let locker = thread::spawn({
            let (cache, value) = (cache.clone(), value.clone());
            move || lock(&cache, &value)
        });
        let frame = cache.frame(FrameId(0));
        let alone = frame.set_request_mark() == Ownership::Invalid;
        let seen = value.load(Ordering::Relaxed);
        locker.join().unwrap();
        if alone {
            assert_eq!(value.load(Ordering::Relaxed), seen, "locked without asking");
        }
        assert_eq!(cache.try_lock(line(0), Ownership::Shared), TryLock::Ask);
        frame.clear_request_mark();
        assert!(matches!(cache.try_lock(line(0), Ownership::Shared), TryLock::Locked(_)));
    });
}
