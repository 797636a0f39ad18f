//! Exact LRU: a list of all frames with lines, in the order of their last use.
//!
//! The list runs through the frames' headers, so the list needs no memory of its own. One lock
//! protects the whole list, and every hit takes that lock. The policy by epochs avoids that lock.

use latchwork_runtime::sync::{Mutex, Ordering};
use latchwork_strict::{strict_assert, strict_assert_eq, strict_assert_ne};
use latchwork_verbs::GlobalAddr;

use super::rule::{Replacement, evictable};
use crate::FrameId;
use crate::frame::{Frame, Links};

/// No frame.
const NONE: u32 = u32::MAX;

/// The note of the last use in every frame. The list has the order of the uses. The note serves
/// only [`Frame::watch`], which asks whether a line is used.
const USED: u32 = 1;
const _: () = assert!(NONE != Links::OUT, "the end of the list is not outside of it");
const _: () = assert!(USED != 0, "a used frame differs from a new one");

/// The number of frames that are examined in addition to the wanted ones. So lines in use at the
/// end of the list do not hide all others, and the search is bounded.
const BESIDES: usize = 64;

#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Lru {
    ends: Mutex<Ends>,
}

/// The ends of the list. The lock also protects the links in the frames, so their accesses are
/// relaxed.
#[derive(Debug)]
struct Ends {
    newest: u32,
    oldest: u32,
    len: usize,
}

impl Default for Lru {
    fn default() -> Self {
        Lru { ends: Mutex::new(Ends { newest: NONE, oldest: NONE, len: 0 }) }
    }
}

fn links(frames: &[Frame], at: u32) -> Option<&Links> {
    frames.get(at as usize).map(Frame::links)
}

impl Ends {
    fn has(&self, frames: &[Frame], at: u32) -> bool {
        links(frames, at).is_some_and(|l| l.newer.load(Ordering::Relaxed) != Links::OUT)
    }

    fn remove(&mut self, frames: &[Frame], at: u32) {
        strict_assert!(self.has(frames, at), "frame {at} is in no list");
        strict_assert!(self.len > 0, "the list is empty");
        let Some(own) = links(frames, at) else { return };
        let newer = own.newer.swap(Links::OUT, Ordering::Relaxed);
        let older = own.older.swap(Links::OUT, Ordering::Relaxed);
        strict_assert_ne!(newer, at, "a frame follows itself");
        strict_assert_ne!(older, at);
        match links(frames, newer) {
            Some(newer) => newer.older.store(older, Ordering::Relaxed),
            None => self.newest = older,
        }
        match links(frames, older) {
            Some(older) => older.newer.store(newer, Ordering::Relaxed),
            None => self.oldest = newer,
        }
        self.len -= 1;
        strict_assert_eq!(self.len == 0, self.newest == NONE, "an empty list has no ends");
        strict_assert_eq!(self.newest == NONE, self.oldest == NONE);
    }

    fn add(&mut self, frames: &[Frame], at: u32) {
        strict_assert!(!self.has(frames, at), "frame {at} is in the list twice");
        strict_assert!(self.len < frames.len(), "the list is longer than the cache");
        let Some(own) = links(frames, at) else { return };
        own.newer.store(NONE, Ordering::Relaxed);
        own.older.store(self.newest, Ordering::Relaxed);
        match links(frames, self.newest) {
            Some(next) => next.newer.store(at, Ordering::Relaxed),
            None => self.oldest = at,
        }
        self.newest = at;
        self.len += 1;
        strict_assert_ne!(self.oldest, NONE);
    }

    fn renew(&mut self, frames: &[Frame], at: u32) {
        if self.newest != at && self.has(frames, at) {
            self.remove(frames, at);
            self.add(frames, at);
        }
        strict_assert!(self.newest == at || !self.has(frames, at), "a renewed frame is the newest");
    }
}

impl Replacement for Lru {
    fn enter(&self, frames: &[Frame], id: FrameId) {
        frames[id.0 as usize].set_last_use(USED);
        let mut ends = self.ends.lock();
        if !ends.has(frames, id.0) {
            ends.add(frames, id.0);
        }
    }

    /// Does nothing for a frame that is free by now.
    fn touch(&self, frames: &[Frame], id: FrameId) {
        frames[id.0 as usize].set_last_use(USED);
        self.ends.lock().renew(frames, id.0);
    }

    fn leave(&self, frames: &[Frame], id: FrameId) {
        let mut ends = self.ends.lock();
        if ends.has(frames, id.0) {
            ends.remove(frames, id.0);
        }
    }

    /// Every examined frame counts as used now. An evicted frame leaves the list anyway. A frame
    /// that is in use now, or when the caller tries to evict it, would otherwise be examined again
    /// at every call.
    fn victims(&self, frames: &[Frame], wanted: usize, out: &mut Vec<GlobalAddr>) {
        let mut ends = self.ends.lock();
        let mut found = 0;
        for _ in 0..ends.len.min(wanted.saturating_add(BESIDES)) {
            let at = ends.oldest;
            let Some(frame) = frames.get(at as usize).filter(|_| found < wanted) else { return };
            strict_assert!((at as usize) < frames.len(), "the list ends before its length");
            if let Some(addr) = evictable(frame) {
                out.push(addr);
                found += 1;
            }
            ends.renew(frames, at);
        }
    }
}
