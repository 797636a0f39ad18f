//! The index from address to frame: fixed capacity, in buckets, read without writing.
//!
//! ```text
//!  bucket (64 bytes):  | meta | slot | slot | slot | slot | slot | slot | slot |
//!  slot:               | tag 32 | frame + 1 : 32 |          0 = empty
//!  meta:               | lock 1 | overflow: entries that passed this full bucket |
//! ```
//!
//! An entry is in its home bucket or, when the home bucket was full, in one of the next buckets.
//! Every full bucket that the entry passed counts the entry in `overflow`, from before the entry is
//! stored until after the entry is removed. So a lookup continues past a bucket only while that
//! count is not zero. Entries never move.
//!
//! A lookup may be wrong, because it finds frames by their tags. The caller compares the address in
//! the frame, and the frame's state word decides. So a lookup orders nothing, and all its loads are
//! relaxed. If the insertion happened before a lookup, the lookup sees the entry. The lock of a
//! bucket orders the changes of its slots.

use std::hint::select_unpredictable;

use latchwork_runtime::sync::{AtomicU64, Ordering, yield_now};
use latchwork_strict::{strict_assert, strict_assert_ne};
use latchwork_verbs::{GlobalAddr, WORD, Words, large_slice};

use crate::FrameId;

// Slots of a bucket. One under the model checker loom, so that buckets overflow at once.
const SLOTS: usize = if cfg!(loom) { 1 } else { 7 };

#[derive(Debug, Default)]
#[repr(C, align(64))]
struct Bucket {
    meta: AtomicU64,
    slots: [AtomicU64; SLOTS],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Bucket>() == 64);

const LOCK: u64 = 1;
const _: () = assert!(LOCK < PASSED_ONE, "the count of passed entries leaves the lock bit alone");
const PASSED_ONE: u64 = 2;

impl Bucket {
    // The lock is held for a few instructions and never during a wait. A waiter yields at once,
    // because with more threads than cores the holder may not be running.
    fn locked<T>(&self, change: impl FnOnce(&Bucket) -> T) -> T {
        let mut seen = self.meta.load(Ordering::Relaxed);
        loop {
            if seen & LOCK != 0 {
                yield_now();
                seen = self.meta.load(Ordering::Relaxed);
                continue;
            }
            match self.meta.compare_exchange_weak(
                seen,
                seen | LOCK,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
        let result = change(self);
        strict_assert!(
            self.meta.load(Ordering::Relaxed) & LOCK != 0,
            "the lock of a bucket was lost"
        );
        self.meta.fetch_and(!LOCK, Ordering::Release);
        result
    }
}

/// The index. Insertions and removals of one address are serialised by the caller.
#[derive(Debug)]
pub(crate) struct Index {
    buckets: Box<[Bucket]>,
    shift: u32,
}

impl Index {
    /// The number of bytes that an index for `frames` frames takes.
    pub(crate) fn footprint(frames: usize) -> usize {
        Self::bucket_count(frames) * size_of::<Bucket>()
    }

    // On average at most four entries for a bucket of seven, so that overflow is rare.
    fn bucket_count(frames: usize) -> usize {
        frames.div_ceil(SLOTS.div_ceil(2)).next_power_of_two().max(2)
    }

    pub(crate) fn new(frames: usize) -> Self {
        let count = Self::bucket_count(frames);
        strict_assert!(count.is_power_of_two(), "the hash chooses a bucket by its high bits");
        strict_assert!(count * SLOTS > frames, "the index has no room for every frame");
        Index { buckets: large_slice(count, Bucket::default), shift: 64 - count.trailing_zeros() }
    }

    #[inline]
    fn place(&self, addr: GlobalAddr) -> (usize, u64) {
        // Fibonacci hashing: the high bits choose the bucket, the middle bits are the tag.
        let hash = addr.bits().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        strict_assert!(hash >> self.shift < self.buckets.len() as u64);
        ((hash >> self.shift) as usize, hash << 16 & 0xffff_ffff_0000_0000)
    }

    /// Finds the frame that `is_it` accepts, among the frames with the tag of `addr`.
    #[inline]
    pub(crate) fn find(
        &self,
        addr: GlobalAddr,
        mut is_it: impl FnMut(FrameId) -> bool,
    ) -> Option<FrameId> {
        let (home, tag) = self.place(addr);
        // Compares all slots of the home bucket without branches, because the processor cannot
        // predict the slot. This nearly always finds the entry: few buckets overflow and few tags
        // are equal.
        let bucket = &self.buckets[home & (self.buckets.len() - 1)];
        let mut entry = 0;
        for slot in &bucket.slots {
            let other = slot.load(Ordering::Relaxed);
            entry = select_unpredictable((other ^ tag) >> 32 == 0, other, entry);
        }
        if entry as u32 != 0 {
            let frame = FrameId(entry as u32 - 1);
            if is_it(frame) {
                return Some(frame);
            }
        }
        self.find_slowly(home, tag, &mut is_it)
    }

    /// Prefetches the bytes that a search for `addr` reads.
    #[inline]
    pub(crate) fn prefetch(&self, addr: GlobalAddr) {
        let (home, _) = self.place(addr);
        let bucket = &self.buckets[home & (self.buckets.len() - 1)];
        Words::new(&bucket.slots).prefetch(0..WORD);
    }

    /// Like [`find`](Index::find), entry by entry, and on to the next buckets.
    #[cold]
    #[inline(never)]
    fn find_slowly(
        &self,
        home: usize,
        tag: u64,
        is_it: &mut dyn FnMut(FrameId) -> bool,
    ) -> Option<FrameId> {
        for step in 0..self.buckets.len() {
            let bucket = &self.buckets[(home + step) & (self.buckets.len() - 1)];
            for slot in &bucket.slots {
                let entry = slot.load(Ordering::Relaxed);
                if entry & 0xffff_ffff_0000_0000 == tag && entry as u32 != 0 {
                    let frame = FrameId(entry as u32 - 1);
                    if is_it(frame) {
                        return Some(frame);
                    }
                }
            }
            if bucket.meta.load(Ordering::Relaxed) < PASSED_ONE {
                return None;
            }
        }
        None
    }

    pub(crate) fn insert(&self, addr: GlobalAddr, frame: FrameId) {
        let (home, tag) = self.place(addr);
        strict_assert!(!addr.is_null(), "a free frame is not indexed");
        let entry = tag | u64::from(frame.0 + 1);
        strict_assert_ne!(entry as u32, 0, "an entry of 0 stands for an empty slot");
        for step in 0..self.buckets.len() {
            let bucket = &self.buckets[(home + step) & (self.buckets.len() - 1)];
            let stored =
                bucket.locked(|b| match b.slots.iter().find(|s| s.load(Ordering::Relaxed) == 0) {
                    Some(free) => {
                        free.store(entry, Ordering::Relaxed);
                        true
                    }
                    None => {
                        b.meta.fetch_add(PASSED_ONE, Ordering::Relaxed);
                        false
                    }
                });
            if stored {
                return;
            }
        }
        unreachable!("the index has more slots than the cache has frames");
    }

    pub(crate) fn remove(&self, addr: GlobalAddr, frame: FrameId) {
        let (home, tag) = self.place(addr);
        let entry = tag | u64::from(frame.0 + 1);
        for step in 0..self.buckets.len() {
            let bucket = &self.buckets[(home + step) & (self.buckets.len() - 1)];
            let removed = bucket.locked(|b| {
                let slot = b.slots.iter().find(|s| s.load(Ordering::Relaxed) == entry);
                slot.inspect(|s| s.store(0, Ordering::Relaxed)).is_some()
            });
            if removed {
                for back in 0..step {
                    let passed = &self.buckets[(home + back) & (self.buckets.len() - 1)];
                    strict_assert!(
                        passed.meta.load(Ordering::Relaxed) >= PASSED_ONE,
                        "an entry that passed here was not counted"
                    );
                    passed.meta.fetch_sub(PASSED_ONE, Ordering::Relaxed);
                }
                return;
            }
        }
        debug_assert!(false, "removing {addr} from frame {frame:?}, which the index does not hold");
    }
}

#[cfg(all(test, loom))]
mod interleavings;

#[cfg(all(test, not(loom)))]
mod tests {
    use latchwork_verbs::MemoryNodeId;

    use super::*;

    fn line(k: u64) -> GlobalAddr {
        GlobalAddr::new(MemoryNodeId(0), 4096 + k * 2048)
    }

    #[test]
    fn a_full_index_finds_every_entry_and_forgets_what_was_removed() {
        let frames = 28u32;
        let index = Index::new(frames as usize);
        let owner = |f: FrameId, k: u64| u64::from(f.0) == k;
        for round in 0..50u64 {
            for k in 0..u64::from(frames) {
                index.insert(line(k + round * 1000), FrameId(k as u32));
            }
            for k in 0..u64::from(frames) {
                let found = index.find(line(k + round * 1000), |f| owner(f, k));
                assert_eq!(found, Some(FrameId(k as u32)));
            }
            for k in 0..u64::from(frames) {
                index.remove(line(k + round * 1000), FrameId(k as u32));
                assert_eq!(index.find(line(k + round * 1000), |f| owner(f, k)), None);
            }
        }
        assert!(index.buckets.iter().all(|b| b.meta.load(Ordering::Relaxed) == 0));
    }
}
