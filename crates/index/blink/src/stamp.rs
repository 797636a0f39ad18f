//! Stamps: what a tree that transactions use tells of each of its leaves.
//!
//! ```text
//! byte 0           8            16              24                payload length
//! | structure 64   | read 64    | removed 64    | the page                     |
//! ```
//!
//! A transaction has to notice keys that come into a range that it has seen, and go from it,
//! without locks on keys that are not there: it remembers which leaves it looked at, and asks in
//! the end whether they are still the same. This is the node set of Silo (Tu et al., SOSP 2013,
//! section 4.6); `read` and `removed` are what timestamp ordering needs besides, as it keeps a
//! reader's time with what was read and not with the reader.

use latchwork_verbs::{GlobalAddr, LINE_HEADER, WORD, Words};

/// Bytes of a stamp.
pub(crate) const STAMP: usize = 3 * WORD;

/// What a leaf of a stamped tree says of itself (see
/// [`TreeConfig::stamped`](crate::TreeConfig::stamped)).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stamp {
    /// Another number whenever an entry came, went or got another value, when the leaf was split,
    /// and when the page became an inner one; never one that the page had before.
    pub structure: u64,
    /// The highest timestamp that [`raise_read`](crate::Tree::raise_read) or
    /// [`remove_seen`](crate::Tree::remove_seen) left here.
    pub read: u64,
    /// The highest timestamp of a row whose entry was taken away, as
    /// [`remove_seen`](crate::Tree::remove_seen) was told.
    pub removed: u64,
}

impl Stamp {
    /// That of a page which nobody has seen yet.
    pub(crate) const FIRST: Stamp = Stamp { structure: 1, read: 0, removed: 0 };

    /// Which word of the stamp is `read`.
    pub(crate) const READ: usize = 1;
    pub(crate) const REMOVED: usize = 2;

    /// With times at least as high as these.
    #[must_use]
    pub(crate) fn raised(self, read: u64, removed: u64) -> Stamp {
        Stamp { read: self.read.max(read), removed: self.removed.max(removed), ..self }
    }

    /// After a change of the leaf.
    #[inline]
    #[must_use]
    pub(crate) fn changed(self) -> Stamp {
        Stamp { structure: self.structure.wrapping_add(1), ..self }
    }

    /// Of a new page that takes over keys from the page with this stamp: who depended on these
    /// depends on the new page. The number is the same whatever the old page's is, so that a page
    /// which was filled before its keys could be taken from the old one is right also if others of
    /// that one's keys have changed since.
    #[must_use]
    pub(crate) fn inherited(self) -> Stamp {
        Stamp { structure: Stamp::FIRST.structure, ..self }
    }

    #[inline]
    pub(crate) fn load(payload: Words<'_>) -> Stamp {
        let [structure, read, removed] = [0, 1, 2].map(|word| payload.word(word));
        Stamp { structure, read, removed }
    }

    pub(crate) fn store_structure(self, payload: Words<'_>) {
        payload.set_word(0, self.structure);
    }

    pub(crate) fn store(self, payload: Words<'_>) {
        self.store_structure(payload);
        payload.set_word(1, self.read);
        payload.set_word(2, self.removed);
    }
}

/// A leaf as somebody saw it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leaf {
    /// The leaf's line.
    pub addr: GlobalAddr,
    /// Its stamp at that instant.
    pub stamp: Stamp,
}

impl Leaf {
    /// What a line of a stamped tree tells of its leaf.
    #[inline]
    pub(crate) fn of(line: Line<'_>) -> Leaf {
        Leaf { addr: line.addr, stamp: Stamp::load(line.payload()) }
    }
}

/// A leaf that was split: who depends on it as it was depends on both halves as they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Split {
    /// The leaf, just before.
    pub before: Leaf,
    /// What took over its keys, just after.
    pub halves: [Leaf; 2],
}

/// What became of an [`insert_seen`](crate::Tree::insert_seen).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Insertion<R> {
    /// The key is in the tree.
    New {
        /// The leaf that took it, just before.
        before: Leaf,
        /// The leaf's stamp just after.
        after: Stamp,
    },
    /// The key was there already.
    Exists {
        /// What the visitor made of its value.
        found: R,
        /// The leaf that has it.
        leaf: Leaf,
    },
    /// The key was not there, and the stamp of the leaf where it belongs was not admitted.
    Refused(Leaf),
}

/// What became of a [`replace_seen`](crate::Tree::replace_seen).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replacement {
    /// The key has the new value.
    Done {
        /// The leaf that has it, just before.
        before: Leaf,
        /// The leaf's stamp just after.
        after: Stamp,
    },
    /// The key had another value than the one to replace.
    Different(Leaf),
    /// The key was not there.
    Missing(Leaf),
    /// The key had the value to replace, and the stamp of its leaf was not admitted.
    Refused(Leaf),
}

/// The line that a page is in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    addr: GlobalAddr,
    line: Words<'a>,
}

impl<'a> Line<'a> {
    /// With the pool's header.
    #[inline]
    pub(crate) fn new(addr: GlobalAddr, line: Words<'a>) -> Line<'a> {
        Line { addr, line }
    }

    #[inline]
    pub(crate) fn payload(self) -> Words<'a> {
        self.line.skip(LINE_HEADER / WORD)
    }
}
