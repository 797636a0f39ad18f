//! Leaf stamps: three words of each leaf in a tree that transactions use.
//!
//! ```text
//! byte 0           8            16              24                payload length
//! | structure 64   | read 64    | removed 64    | the page                     |
//! ```
//!
//! A transaction must notice keys that enter or leave a range that it has read, without locks on
//! keys that do not exist. So the transaction records the leaves that it read. At its end it checks
//! whether their structure numbers are unchanged. This is the node set of Silo (Tu et al., SOSP
//! 2013, section 4.6). Timestamp ordering also needs `read` and `removed`, because it stores the
//! timestamps of readers with the data.

use latchwork_strict::strict_assert;
use latchwork_verbs::{GlobalAddr, LINE_HEADER, WORD, Words};

/// The bytes of a leaf stamp.
pub(crate) const STAMP: usize = 3 * WORD;

/// The leaf stamp: the record that a leaf of a stamped tree keeps of its changes and readers (see
/// [`TreeConfig::stamped`](crate::TreeConfig::stamped)).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LeafStamp {
    /// The structure number. It changes when an entry is added, removed or gets another value, when
    /// the leaf is split, and when the page becomes an inner page or leaves the tree. A line never
    /// has the same number twice, also as another page.
    pub structure: u64,
    /// The read timestamp: the highest timestamp that [`raise_read`](crate::Tree::raise_read) or
    /// [`remove_stamped`](crate::Tree::remove_stamped) stored.
    pub read: u64,
    /// The removal timestamp: the highest timestamp of a removed row, stored by
    /// [`remove_stamped`](crate::Tree::remove_stamped) or
    /// [`raise_removed`](crate::Tree::raise_removed).
    pub removed: u64,
}

impl LeafStamp {
    /// The leaf stamp of a page that no operation has read yet.
    pub(crate) const FIRST: LeafStamp = LeafStamp { structure: 1, read: 0, removed: 0 };

    /// The index of the word `read` in the leaf stamp.
    pub(crate) const READ: usize = 1;
    pub(crate) const REMOVED: usize = 2;
    const _CHECK: () = assert!(
        STAMP == 3 * WORD && Self::REMOVED < STAMP / WORD && Self::READ < Self::REMOVED,
        "a leaf stamp is three words"
    );

    /// The leaf stamp with both timestamps raised to at least these values.
    #[must_use]
    pub(crate) fn raised(self, read: u64, removed: u64) -> LeafStamp {
        LeafStamp { read: self.read.max(read), removed: self.removed.max(removed), ..self }
    }

    /// The leaf stamp after a change of the leaf.
    #[inline]
    #[must_use]
    pub(crate) fn changed(self) -> LeafStamp {
        LeafStamp { structure: self.structure.wrapping_add(1), ..self }
    }

    /// The leaf stamp of a new page that takes keys from the page with this leaf stamp. The new
    /// page inherits the timestamps, because they hold for its keys, too. The structure number of a
    /// new page does not depend on the old page. So a new page may be filled before the old page is
    /// cut. A change of the old structure number in between does not matter.
    #[must_use]
    pub(crate) fn inherited(self) -> LeafStamp {
        LeafStamp { structure: LeafStamp::FIRST.structure, ..self }
    }

    /// The leaf stamp of a new page in the line's life number `life`. The numbers of one life are
    /// far from those of the next.
    #[must_use]
    pub(crate) fn in_life(self, life: u32) -> LeafStamp {
        strict_assert!(life > 0, "the number of a life begins at 1");
        let first = u64::from(life - 1) << 40 | LeafStamp::FIRST.structure;
        LeafStamp { structure: first, ..self }
    }

    #[inline]
    pub(crate) fn load(payload: Words<'_>) -> LeafStamp {
        let [structure, read, removed] = [0, 1, 2].map(|word| payload.word(word));
        LeafStamp { structure, read, removed }
    }

    pub(crate) fn store_structure(self, payload: Words<'_>) {
        strict_assert!(payload.len() >= STAMP, "the payload is shorter than a stamp");
        payload.set_word(0, self.structure);
    }

    pub(crate) fn store(self, payload: Words<'_>) {
        self.store_structure(payload);
        payload.set_word(1, self.read);
        payload.set_word(2, self.removed);
    }
}

/// A leaf at the instant at which an operation saw it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leaf {
    /// The address of the leaf's line.
    pub addr: GlobalAddr,
    /// The leaf stamp at that instant.
    pub stamp: LeafStamp,
}

impl Leaf {
    /// The leaf in a line of a stamped tree.
    #[inline]
    pub(crate) fn of(line: Line<'_>) -> Leaf {
        Leaf { addr: line.addr, stamp: LeafStamp::load(line.payload()) }
    }
}

/// A split of a leaf. A transaction that depends on the leaf before the split depends on both
/// halves after the split.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Split {
    /// The leaf just before the split.
    pub before: Leaf,
    /// The two leaves that have the keys just after the split.
    pub halves: [Leaf; 2],
}

/// The outcome of an [`insert_stamped`](crate::Tree::insert_stamped).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Insertion<R> {
    /// The key was inserted.
    New {
        /// The leaf of the key, just before the insert.
        before: Leaf,
        /// The leaf stamp just after the insert.
        after: LeafStamp,
    },
    /// The key existed already.
    Exists {
        /// The result of `visit` for the value of the key.
        found: R,
        /// The leaf of the key.
        leaf: Leaf,
    },
    /// The key did not exist, and `admit` refused the leaf stamp of its leaf.
    Refused(Leaf),
}

/// The outcome of a [`replace_stamped`](crate::Tree::replace_stamped).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplaceOutcome {
    /// The key has the new value.
    Done {
        /// The leaf of the key, just before the change.
        before: Leaf,
        /// The leaf stamp just after the change.
        after: LeafStamp,
    },
    /// The key had another value than the value to replace.
    Different(Leaf),
    /// The key did not exist.
    Missing(Leaf),
    /// The key had the value to replace, and `admit` refused the leaf stamp of its leaf.
    Refused(Leaf),
}

/// The line of a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    addr: GlobalAddr,
    line: Words<'a>,
}

impl<'a> Line<'a> {
    /// A line with the header of the pool.
    #[inline]
    pub(crate) fn new(addr: GlobalAddr, line: Words<'a>) -> Line<'a> {
        Line { addr, line }
    }

    #[inline]
    pub(crate) fn payload(self) -> Words<'a> {
        self.line.skip(LINE_HEADER / WORD)
    }
}
