//! [`Content`]: a node taken apart, for splits, for inner nodes and for whole writes.

use latchwork_strict::strict_assert;
use latchwork_verbs::GlobalAddr;

use super::cell::{Check, Version};
use super::header::{Entry, Header, LAST, checksum};
use super::layout::{FIXED, Layout};

/// A node taken apart. The entries ascend by their keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Content {
    pub(crate) header: Header,
    pub(crate) low: Entry,
    pub(crate) high: Option<Entry>,
    pub(crate) entries: Vec<Entry>,
}

impl Content {
    /// An empty node without fences.
    pub(crate) fn empty(layout: &Layout, level: u8, tag: u32) -> Content {
        let right = GlobalAddr::NULL;
        let header = Header { level, count: 0, tag, right, version: 0, is_last: true };
        let low = Entry::from_elem(0, layout.key_len);
        Content { header, low, high: None, entries: Vec::new() }
    }

    /// The position of `key`, or the position at which it belongs.
    pub(crate) fn search(&self, key: &[u8]) -> Result<usize, usize> {
        self.entries.binary_search_by(|entry| entry[..key.len()].cmp(key))
    }

    /// The child that leads to `key`, in an inner node.
    pub(crate) fn child(&self, key: &[u8]) -> Option<GlobalAddr> {
        let index = match self.search(key) {
            Ok(index) => index,
            Err(index) => index.checked_sub(1)?,
        };
        self.children(key.len()).nth(index).map(|(_, child)| child)
    }

    /// The low fences and addresses of an inner node's children.
    pub(crate) fn children(&self, key_len: usize) -> impl Iterator<Item = (&[u8], GlobalAddr)> {
        self.entries.iter().filter_map(move |entry| {
            let (key, child) = entry.split_at(key_len);
            Some((key, GlobalAddr::from_bits(u64::from_le_bytes(child.try_into().ok()?))))
        })
    }

    /// Moves the upper half of the entries to a new right neighbour at `addr`.
    pub(crate) fn split(&mut self, layout: &Layout, addr: GlobalAddr) -> Content {
        let upper = self.entries.split_off(self.entries.len() / 2);
        strict_assert!(!upper.is_empty() && !self.entries.is_empty(), "half a node is empty");
        let middle = Entry::from_slice(&upper[0][..layout.key_len]);
        let header = Header { version: 0, ..self.header };
        let high = self.high.replace(middle.clone());
        self.header.right = addr;
        self.header.is_last = false;
        strict_assert!(self.low < middle, "a split leaves a node without keys");
        Content { header, low: middle, high, entries: upper }
    }

    /// Writes the node as the next rewriting of its words.
    pub(crate) fn write(&self, layout: &Layout, words: &mut [u64]) {
        let Header { level, tag, right, version, .. } = self.header;
        let room = layout.room(level);
        assert!(self.entries.len() <= room, "a node with {} entries", self.entries.len());
        words.fill(0);
        let flags = if self.high.is_none() { LAST } else { 0 };
        let mut head = Entry::from_slice(&[level, flags]);
        head.extend_from_slice(&(self.entries.len() as u16).to_le_bytes());
        head.extend_from_slice(&tag.to_le_bytes());
        head.extend_from_slice(&right.bits().to_le_bytes());
        strict_assert!(head.len() == FIXED, "the fences begin elsewhere");
        head.extend_from_slice(&self.low);
        head.extend_from_slice(self.high.as_deref().unwrap_or(&self.low));
        let next = version.wrapping_add(1) & 0x7fff;
        let of_head = match layout.check {
            Check::Words => Version { node: next, entry: next >> 6 },
            _ => Version { node: 0, entry: next },
        };
        let at = layout.head_at();
        layout.head.write(&mut words[at..at + layout.head.words()], of_head, true, &head);
        let of_entry = Version { node: next, entry: 0 };
        let cell = layout.entry(level);
        for (index, entry) in self.entries.iter().enumerate() {
            cell.write(&mut words[layout.slot(level, index)], of_entry, true, entry);
        }
        if layout.is_slotted(level) {
            let none = Entry::from_elem(0, layout.key_len + layout.value_len);
            for index in self.entries.len()..room {
                cell.write(&mut words[layout.slot(level, index)], of_entry, false, &none);
            }
        }
        match layout.check {
            Check::Words => {}
            Check::Published => words[layout.words - 1] = u64::from(next & 15),
            Check::Checksum => {
                let end = layout.slot(level, self.entries.len()).start;
                words[0] = checksum(&words[1..end]);
            }
        }
    }
}
