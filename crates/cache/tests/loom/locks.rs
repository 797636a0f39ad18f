//! Locks of transactions, and transactions that only look whether others have locked what they have read.

use super::*;

/// Transactions of three workers, one of which upgrades. What is done under a lock is seen by the next that
/// excludes it.
#[test]
fn locks_of_transactions_exclude_each_other() {
    loom::model(|| {
        let cache = full(1, Ownership::Exclusive);
        let frame_of = |cache: &Arc<Cache>| cache.find(line(0)).expect("attached");
        // Written under exclusive locks only, and relaxed: the lock has to order it.
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
                    assert!(frame.unlock(Ownership::Exclusive), "alone");
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
        assert!(!frame.is_locked());
    });
}

/// What a transaction does that has read the line `theirs` as 0 and writes the line `mine`: it locks, and
/// reads again. Whether it commits.
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

/// Write skew: each writes what the other has read.
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

/// A reader with the timestamp 2 leaves it in the line, unless that is locked; a writer with the timestamp 1 locks
/// the line, looks for such a stamp, and writes. Whether the latch alone orders the two, or they need fences, is up to
/// how the writer looks.
fn stamp_beside(look: impl Fn(&Cache) -> Option<u64> + Copy + Send + Sync + 'static, fences: bool) {
    let write = move |cache: &Cache| {
        let frame = cache.frame(cache.find(line(0)).expect("attached"));
        assert!(frame.try_lock(Ownership::Exclusive).is_some(), "the only one");
        if fences {
            fence(Ordering::SeqCst);
        }
        // Not to be had: the reader is at it.
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
    // Loom starts from what the first thread does first, and does not come to all the rest: so both.
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
fn a_stamp_under_the_latch_is_seen_by_whoever_locks_and_then_reads() {
    stamp_beside(|cache| cache.try_read(line(0)).and_then(validated).map(|(stamp, _)| stamp), true);
}

#[test]
fn a_stamp_under_the_latch_is_seen_by_whoever_locks_and_then_latches() {
    stamp_beside(|cache| cache.try_write(line(0)).map(|guard| guard.words().word(0)), false);
}
