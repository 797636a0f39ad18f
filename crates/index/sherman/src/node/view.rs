//! [`View`]: what a read node says, with every part checked before it counts.

use std::cmp::Ordering;

use latchwork_verbs::GlobalAddr;

use super::cell::{Check, NODE, Probe, Torn, Version};
use super::content::Content;
use super::header::{Entry, Header, LAST, checksum};
use super::layout::{FIXED, Layout};

/// The relation of a key to the fences of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fences {
    Below,
    Inside,
    Beyond,
}

/// The outcome of a search in a leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// The entry in this slot, with this version of its cell.
    Here(Slot),
    /// The key is not in the leaf. The first slot without an entry, if there is one.
    Absent(Option<Slot>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    pub(crate) index: usize,
    pub(crate) version: Version,
}

/// The words of a node, as a READ brought them.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) words: &'a [u64],
}

impl<'a> View<'a> {
    fn head(&self) -> &'a [u64] {
        let at = self.layout.head_at();
        &self.words[at..at + self.layout.head.words()]
    }

    fn cell(&self, level: u8, slot: usize) -> &'a [u64] {
        &self.words[self.layout.slot(level, slot)]
    }

    /// The header, if its words belong together. With a checksum the whole node is checked.
    pub(crate) fn header(&self) -> Result<Header, Torn> {
        let (layout, head) = (self.layout, self.head());
        let version = match layout.check {
            Check::Words => {
                let (Version { node, entry }, _) = layout.head.version(head)?;
                node | entry << 6
            }
            Check::Published => {
                let (front, rear) = (head[0] & 15, self.words[layout.words - 1] & 15);
                if front != rear {
                    return Err(Torn);
                }
                front as u16
            }
            Check::Checksum => 0,
        };
        let mut fixed = [0; FIXED];
        layout.head.read(head, 0, &mut fixed);
        let [level, flags, c0, c1, t0, t1, t2, t3, right @ ..] = fixed;
        let header = Header {
            level,
            count: u16::from_le_bytes([c0, c1]),
            tag: u32::from_le_bytes([t0, t1, t2, t3]),
            right: GlobalAddr::from_bits(u64::from_le_bytes(right)),
            version,
            is_last: flags & LAST != 0,
        };
        if layout.check == Check::Checksum {
            // A torn count may be too large.
            let end = if usize::from(header.count) <= layout.room(level) {
                layout.slot(level, usize::from(header.count)).start
            } else {
                return Err(Torn);
            };
            if checksum(&self.words[1..end]) != self.words[0] {
                return Err(Torn);
            }
        }
        Ok(header)
    }

    fn fence(&self, high: bool) -> Entry {
        let len = self.layout.key_len;
        let mut key = Entry::from_elem(0, len);
        let at = FIXED + if high { len } else { 0 };
        self.layout.head.read(self.head(), at, &mut key);
        key
    }

    pub(crate) fn low(&self) -> Entry {
        self.fence(false)
    }

    /// `None` in the last node of a level.
    pub(crate) fn high(&self, header: &Header) -> Option<Entry> {
        (!header.is_last).then(|| self.fence(true))
    }

    pub(crate) fn place(&self, header: &Header, key: &[u8]) -> Fences {
        if self.high(header).is_some_and(|high| key >= high.as_slice()) {
            Fences::Beyond
        } else if key < self.low().as_slice() {
            Fences::Below
        } else {
            Fences::Inside
        }
    }

    /// The version of a slot, and whether it has an entry. [`Torn`] also when the slot is of
    /// another rewriting than the header.
    fn slot(&self, header: &Header, index: usize) -> Result<(Version, bool), Torn> {
        let (version, live) = self.layout.leaf.version(self.cell(0, index))?;
        let alien = self.layout.check == Check::Words && version.node != header.version & NODE;
        if alien { Err(Torn) } else { Ok((version, live)) }
    }

    /// Searches a leaf. That a key is absent needs the whole leaf to be consistent, and that a key
    /// is there needs its own cell.
    pub(crate) fn find(&self, header: &Header, key: &[u8]) -> Result<Found, Torn> {
        let probe = self.layout.leaf.probe(key);
        if self.layout.is_slotted(0) {
            self.find_in_slots(header, &probe)
        } else {
            Ok(self.find_sorted(header, key))
        }
    }

    fn find_in_slots(&self, header: &Header, probe: &Probe) -> Result<Found, Torn> {
        let (mut free, mut torn) = (None, false);
        for index in 0..self.layout.room(0) {
            let cell = self.cell(0, index);
            let here = probe.matches(cell);
            match self.slot(header, index) {
                Ok((version, true)) if here => return Ok(Found::Here(Slot { index, version })),
                Ok((_, true)) => {}
                Ok((version, false)) => free = free.or(Some(Slot { index, version })),
                Err(Torn) => torn = true,
            }
        }
        if torn { Err(Torn) } else { Ok(Found::Absent(free)) }
    }

    fn find_sorted(&self, header: &Header, key: &[u8]) -> Found {
        let (below, count) = (self.below(header, key), usize::from(header.count));
        let slot = |index| Slot { index, version: Version::default() };
        if below > 0 && self.key(0, below - 1).as_slice() == key {
            return Found::Here(slot(below - 1));
        }
        Found::Absent((count < self.layout.room(0)).then(|| slot(below)))
    }

    fn key(&self, level: u8, index: usize) -> Entry {
        let mut key = Entry::from_elem(0, self.layout.key_len);
        self.layout.entry(level).read(self.cell(level, index), 0, &mut key);
        key
    }

    /// The number of entries of a sorted node whose keys are at most `key`.
    fn below(&self, header: &Header, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, usize::from(header.count));
        while low < high {
            let middle = (low + high) / 2;
            match self.key(header.level, middle).as_slice().cmp(key) {
                Ordering::Greater => high = middle,
                _ => low = middle + 1,
            }
        }
        low
    }

    /// The value of a leaf's entry.
    pub(crate) fn value(&self, slot: usize, to: &mut Vec<u8>) {
        to.clear();
        to.resize(self.layout.value_len, 0);
        self.layout.leaf.read(self.cell(0, slot), self.layout.key_len, to);
    }

    /// Everything that the node says. Each part must be consistent, and of one rewriting.
    pub(crate) fn content(&self, header: &Header) -> Result<Content, Torn> {
        let (layout, level) = (self.layout, header.level);
        let slotted = layout.is_slotted(level);
        let room = layout.room(level);
        let slots = if slotted { room } else { usize::from(header.count) };
        if slots > room {
            return Err(Torn);
        }
        let cell = layout.entry(level);
        let mut entries = Vec::with_capacity(slots);
        for index in 0..slots {
            let words = self.cell(level, index);
            let (version, live) = cell.version(words)?;
            if layout.check == Check::Words && version.node != header.version & NODE {
                return Err(Torn);
            }
            if live {
                let len = layout.key_len + if level == 0 { layout.value_len } else { 8 };
                let mut entry = Entry::from_elem(0, len);
                cell.read(words, 0, &mut entry);
                entries.push(entry);
            }
        }
        if slotted {
            entries.sort_unstable_by(|a, b| a[..layout.key_len].cmp(&b[..layout.key_len]));
        }
        let (low, high) = (self.low(), self.high(header));
        Ok(Content { header: *header, low, high, entries })
    }
}
