//! Where keys were added last, so that the next ones need no descent.
//!
//! Who adds keys in ascending order (the next order of a district, the next row of a log) adds them
//! to one leaf for a while, each behind the one before. A handle remembers such leaves, one for
//! each beginning of keys.
//!
//! It is a guess at the way, never at the place: a leaf of the tree stays one for ever, with the
//! same low fence, since pages never leave the tree and splits only take keys to the right. Before
//! anything is written there its tag, its level and both fences are looked at in full, as at the
//! end of any way ([`Tree::hot_write`]); the root, which alone changes its level, is noticed by
//! that. Whatever does not fit means a descent.

use std::cell::{Cell, OnceCell};

use latchwork_cache::Hint;
use latchwork_coherence::CoherentMemory;
use latchwork_verbs::GlobalAddr;

use super::Tree;
use super::descend::Descent;
use super::hot::Child;
use super::write::Found;
use crate::page::{Dirty, Edit, Page, head_of};
use crate::stamp::Line;

/// Leaves that a handle remembers: a power of two.
const LEAVES: usize = 128;

/// Bytes at the end of a key in which those that come to one leaf differ.
const COUNTED: usize = 3;

/// How far a leaf is trusted to which two keys in a row have come. One key elsewhere is what a
/// split looks like.
const TRUST: u8 = 2;

/// The last leaves by the beginning of the keys that were added.
#[derive(Debug, Default)]
pub(super) struct Recent(OnceCell<Box<[RecentLeaf]>>);

/// Which beginning a key has.
#[derive(Clone, Copy)]
pub(super) struct Beginning(u64);

/// A leaf in which a key was added.
#[derive(Debug, Default)]
pub(super) struct RecentLeaf {
    /// Null where there is none.
    addr: Cell<GlobalAddr>,
    hint: Hint,
    /// Of the key's beginning.
    mark: Cell<u32>,
    /// The slot behind it.
    next: Cell<u16>,
    /// How often keys may come elsewhere until it is not looked at any more: keys that come
    /// anywhere would do that in vain.
    trust: Cell<u8>,
}

impl Beginning {
    #[inline]
    pub(super) fn of(key: &[u8]) -> Beginning {
        let start = &key[..key.len().saturating_sub(COUNTED)];
        let last = start.last_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let mixed = head_of(start).wrapping_mul(0xd6e8_feb8_6659_fd93).rotate_left(32) ^ last;
        Beginning(mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn mark(self) -> u32 {
        self.0 as u32
    }
}

impl Recent {
    /// What is remembered for this beginning, or will be.
    #[inline]
    pub(super) fn leaf(&self, start: Beginning) -> &RecentLeaf {
        let leaves = self.0.get_or_init(|| (0..LEAVES).map(|_| RecentLeaf::default()).collect());
        &leaves[(start.0 >> (64 - LEAVES.trailing_zeros())) as usize & (leaves.len() - 1)]
    }

    /// Whether the last key with the beginning of `key` came into the slot before `slot` of this
    /// leaf.
    pub(super) fn is_next(&self, key: &[u8], addr: GlobalAddr, slot: usize) -> bool {
        let start = Beginning::of(key);
        let last = self.leaf(start);
        last.is_of(start) && last.addr.get() == addr && usize::from(last.next.get()) == slot
    }
}

impl RecentLeaf {
    fn is_of(&self, start: Beginning) -> bool {
        self.mark.get() == start.mark()
    }

    /// The leaf, and where in it the key is to be expected, if that is likely enough.
    #[inline]
    fn likely(&self, start: Beginning) -> Option<(Child<'_>, usize)> {
        let addr = self.addr.get();
        let leaf = Child { addr, hint: &self.hint, siblings: &[], level: 0 };
        (self.is_of(start) && self.trust.get() > 0).then(|| (leaf, self.next.get().into()))
    }

    /// Notes that keys were added up to the slot `next`, in a leaf that is probably where the hint
    /// says.
    #[inline]
    pub(super) fn note(&self, start: Beginning, addr: GlobalAddr, hint: &Hint, next: usize) {
        let is_known = self.is_of(start);
        let is_same = is_known && self.addr.get() == addr;
        let less = if is_known { self.trust.get().saturating_sub(1) } else { 0 };
        self.trust.set(if is_same { TRUST } else { less });
        self.next.set(next as u16);
        if !is_same {
            self.mark.set(start.mark());
            self.addr.set(addr);
            self.hint.copy_from(hint);
        }
    }
}

impl<M: CoherentMemory> Tree<M> {
    /// As [`hot_write`](Tree::hot_write), of a change that probably adds the key: to the leaf,
    /// then, to which the last one was added that begins as it does.
    #[inline]
    pub(super) fn hot_add<R>(
        &self,
        key: &[u8],
        change: &mut impl FnMut(&Page<'_>, Found, Line<'_>) -> Result<(R, Dirty), Edit>,
    ) -> Result<R, Descent> {
        let start = Beginning::of(key);
        let last = self.hints.recent.leaf(start);
        if let Some((leaf, next)) = last.likely(start)
            && let Some((result, added)) = self.hot_change(leaf, key, Some(next), change)
        {
            if let Some(next) = added {
                last.next.set(next as u16);
                last.trust.set(TRUST);
            }
            return Ok(result);
        }
        let leaf = self.hot_leaf(key, head_of(key)).map_err(Child::descent)?;
        self.fetch_to_change(leaf);
        let changed = self.hot_change(leaf, key, None, change);
        let (result, added) = changed.ok_or_else(|| leaf.descent())?;
        if let Some(next) = added {
            last.note(start, leaf.addr, leaf.hint, next);
        }
        Ok(result)
    }
}
