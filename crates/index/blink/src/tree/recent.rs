//! The leaves to which keys were added last, so that the next keys need no descent.
//!
//! Ascending keys go to one leaf for a while, each key behind the previous one: the next order of a
//! district, the next row of a log. A handle stores such leaves, one for each key prefix.
//!
//! A stored leaf spares the descent. A stored leaf cannot lead to a wrong change, for these
//! reasons:
//!
//! 1. The leaf may have left the tree since, and its line may be anything now, also another leaf of
//!    the tree.
//! 2. Before any write, the tag, the level and both fence keys are checked in full. The same check
//!    ends any other path ([`Tree::fast_write`](super::Tree::fast_write)).
//! 3. A page that passes the check is the page of the key, wherever its address comes from: see
//!    [`unlink`](super::unlink).
//! 4. If the check fails, the operation descends from the root.

use std::cell::{Cell, OnceCell};

use latchwork_cache::Hint;
use latchwork_strict::strict_assert;
use latchwork_verbs::GlobalAddr;

use super::child::Child;
use crate::page::head_of;

/// The number of leaves that a handle stores: a power of two.
const LEAVES: usize = 128;

/// The number of bytes at the end of a key that do not belong to its prefix here. Keys that count
/// up differ mostly in these bytes.
const COUNTED: usize = 3;

/// The trust in a leaf after two keys in a row belonged to the leaf. The value survives one key
/// that goes elsewhere, because a split may be the cause.
const TRUST: u8 = 2;
const _: () = assert!(LEAVES.is_power_of_two(), "the hash chooses a leaf by its high bits");
const _: () = assert!(TRUST > 0, "a leaf that was right is trusted");

/// The last leaves in which keys were added, by key prefix.
#[derive(Debug, Default)]
pub(super) struct Recent(OnceCell<Box<[RecentLeaf]>>);

/// The hash of a key's prefix.
#[derive(Clone, Copy)]
pub(super) struct Beginning(u64);

/// A leaf in which a key was added.
#[derive(Debug, Default)]
pub(super) struct RecentLeaf {
    /// Null when the entry is empty.
    addr: Cell<GlobalAddr>,
    hint: Hint,
    /// The mark of the key prefix.
    mark: Cell<u32>,
    /// The slot behind the last added key.
    next: Cell<u16>,
    /// The number of keys that may still go elsewhere before the leaf is no longer tried. For keys
    /// in random order each try would be useless.
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
    /// The entry for this key prefix, which may be empty or belong to another prefix.
    #[inline]
    pub(super) fn leaf(&self, start: Beginning) -> &RecentLeaf {
        let leaves = self.0.get_or_init(|| (0..LEAVES).map(|_| RecentLeaf::default()).collect());
        &leaves[(start.0 >> (64 - LEAVES.trailing_zeros())) as usize & (leaves.len() - 1)]
    }

    /// Whether the last key with the prefix of `key` went into the slot before `slot` of this leaf.
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

    /// The leaf and the expected slot of the key, if the trust is high enough.
    #[inline]
    pub(super) fn likely(&self, start: Beginning) -> Option<(Child<'_>, usize)> {
        let addr = self.addr.get();
        let leaf = Child { addr, hint: &self.hint, siblings: &[], level: 0 };
        (self.is_of(start) && self.trust.get() > 0).then(|| (leaf, self.next.get().into()))
    }

    /// Records that keys were added before the slot `next` of a leaf. `hint` is a hint for the
    /// leaf's frame.
    #[inline]
    pub(super) fn note(&self, start: Beginning, addr: GlobalAddr, hint: &Hint, next: usize) {
        strict_assert!(!addr.is_null(), "the null address is noted as a leaf");
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
        strict_assert!(self.trust.get() <= TRUST);
    }

    /// Records that keys were added before the slot `next` of the leaf that was
    /// [likely](RecentLeaf::likely).
    #[inline]
    pub(super) fn went_on(&self, next: usize) {
        self.next.set(next as u16);
        self.trust.set(TRUST);
    }
}
