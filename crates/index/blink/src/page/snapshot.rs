//! Copies of entries from shared memory. A scan copies entries, validates the read, and then shows
//! the copies to its visitor as plain byte slices.

use std::ops::{ControlFlow, Range};

use latchwork_strict::strict_assert;
use latchwork_verbs::WORD;

use super::{Broken, Entry, HEAD, Header, Page, Shape, head_of};

/// The heap of a slotted page is copied as a whole if the scan wants at least 1/`WHOLE` of the
/// page's entries. Otherwise each entry is copied alone.
const WHOLE: usize = 8;

/// Copies of consecutive entries of one page. Empty at first.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// The heads, the cells, and for a slotted page the part of the heap that `heap` describes.
    bytes: Vec<u8>,
    count: usize,
    shape: Shape,
    width: usize,
    stride: usize,
    heap: Heap,
    /// The key that is shown: the prefix, and room for the suffix.
    key: Vec<u8>,
    prefix: usize,
}

/// Writes a head behind the prefix of a key.
///
/// A visitor probably loads the key in words. A load of bytes from two recent stores waits until
/// both stores have reached the processor's cache. This wait took a third of the time of a scan. So
/// the bytes of the prefix that share a word with the head are stored together with the head.
#[derive(Clone, Copy, Debug)]
struct Splice {
    /// The position of the word in which the prefix ends, and the number of its bits that belong to
    /// the prefix.
    at: usize,
    bits: u32,
    start: u64,
}

impl Splice {
    /// Splices behind the first `prefix` bytes of `key`. Makes `key` long enough.
    fn new(key: &mut Vec<u8>, prefix: usize) -> Splice {
        let (at, within) = (prefix / WORD * WORD, prefix % WORD);
        strict_assert!(prefix <= key.len(), "the prefix is longer than the key");
        key.truncate(prefix);
        let start = head_of(&key[at..]);
        key.resize(at + 2 * WORD, 0);
        strict_assert!(
            at <= prefix && prefix < at + WORD,
            "the splice is not in the word of the prefix"
        );
        Splice { at, bits: 8 * within as u32, start }
    }

    #[inline]
    fn put(self, head: u64, key: &mut [u8]) -> Option<()> {
        let (words, _) = key.get_mut(self.at..)?.as_chunks_mut();
        let [first, second] = words.first_chunk_mut()?;
        *first = (self.start | head >> self.bits).to_be_bytes();
        *second = (head << (63 - self.bits) << 1).to_be_bytes();
        Some(())
    }
}

/// The copied part of a slotted page's heap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Heap {
    /// The whole heap, from this byte of the page on.
    From(usize),
    /// The copied entries, one behind the other.
    Entries,
}

impl Default for Snapshot {
    fn default() -> Snapshot {
        let (bytes, key) = (Vec::new(), Vec::new());
        let (shape, heap) = (Shape::SLOTTED, Heap::Entries);
        Snapshot { bytes, count: 0, shape, width: 0, stride: 0, heap, key, prefix: 0 }
    }
}

impl Snapshot {
    /// Copies the entries in `slots` of a leaf, which may be torn.
    pub(crate) fn take(&mut self, page: &Page<'_>, slots: Range<usize>) -> Result<(), Broken> {
        let header = &page.header;
        self.bytes.clear();
        self.count = slots.len();
        if slots.is_empty() {
            return Ok(());
        }
        self.shape = header.shape;
        (self.width, self.stride) = (header.width.into(), header.stride());
        self.key.clear();
        self.prefix = header.prefix();
        page.words.append_to(header.low.offset.into(), self.prefix, &mut self.key);
        // On a torn page the low fence may be shorter than the prefix.
        self.key.resize(self.prefix, 0);
        let (head, cell) = (Header::head_at(slots.start), header.cell_at(slots.start));
        page.words.append_to(head, HEAD * self.count, &mut self.bytes);
        page.words.append_to(cell, self.stride * self.count, &mut self.bytes);
        if !self.shape.is_slotted() {
            return Ok(());
        }
        if self.count * WHOLE >= header.count() {
            self.heap = Heap::From(header.heap());
            page.words.append_to(header.heap(), page.words.len() - header.heap(), &mut self.bytes);
            return Ok(());
        }
        self.heap = Heap::Entries;
        for slot in slots {
            let entry = page.entry(slot);
            page.words.append_to(entry.offset(), entry.size(), &mut self.bytes);
            // On a torn page every entry may seem to be as long as the page.
            if self.bytes.len() > 2 * page.words.len() {
                return Err(Broken("entries take more room than the page has"));
            }
        }
        Ok(())
    }

    /// Shows the entries of a leaf that was consistent, in descending order if `down`. Returns the
    /// number of shown entries, and whether the visitor wants more.
    #[inline]
    pub(crate) fn show(
        &mut self,
        down: bool,
        visit: &mut impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(usize, ControlFlow<()>), Broken> {
        match (self.shape.is_slotted(), down) {
            (false, false) => self.show_fixed(0..self.count, visit),
            (false, true) => self.show_fixed((0..self.count).rev(), visit),
            (true, _) => self.show_slotted(down, visit),
        }
    }

    #[inline]
    fn show_fixed(
        &mut self,
        slots: impl Iterator<Item = usize>,
        visit: &mut impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(usize, ControlFlow<()>), Broken> {
        let outside = Broken("an entry outside the page");
        let Snapshot { bytes, count, shape, width, stride, key, prefix, .. } = self;
        let (heads, cells) = bytes.split_at_checked(HEAD * *count).ok_or(outside)?;
        let (heads, _) = heads.as_chunks::<HEAD>();
        let constant = shape.constant_len();
        let splice = Splice::new(key, *prefix);
        let mut shown = 0;
        for slot in slots {
            let head = u64::from_le_bytes(*heads.get(slot).ok_or(outside)?);
            let value = cells.get(*stride * slot..*stride * slot + *width).ok_or(outside)?;
            splice.put(head, key).ok_or(outside)?;
            let suffix = constant.unwrap_or_else(|| Shape::DERIVED.suffix_len(head));
            let flow = visit(key.get(..*prefix + suffix).ok_or(outside)?, value);
            shown += 1;
            if flow.is_break() {
                return Ok((shown, flow));
            }
        }
        Ok((shown, ControlFlow::Continue(())))
    }

    fn show_slotted(
        &mut self,
        down: bool,
        visit: &mut impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(usize, ControlFlow<()>), Broken> {
        let outside = Broken("an entry outside the page");
        let Snapshot { bytes, count, heap, key, prefix, .. } = self;
        let (heads, rest) = bytes.split_at_checked(HEAD * *count).ok_or(outside)?;
        let (cells, entries) = rest.split_at_checked(HEAD * *count).ok_or(outside)?;
        let ((heads, _), (cells, _)) = (heads.as_chunks(), cells.as_chunks());
        let splice = Splice::new(key, *prefix);
        // For entries that are stored one behind the other: the start of the next entry, or with
        // `down` its end.
        let mut next = if down { entries.len() } else { 0 };
        for shown in 0..*count {
            let slot = if down { *count - 1 - shown } else { shown };
            let head = u64::from_le_bytes(heads[slot]);
            let entry = Entry::from_bits(u64::from_le_bytes(cells[slot]));
            let at = match *heap {
                Heap::From(first) => entry.offset().checked_sub(first),
                Heap::Entries if down => next.checked_sub(entry.size()),
                Heap::Entries => Some(next),
            };
            // An entry without bytes has no position.
            let at = if entry.size() > 0 { at.ok_or(outside)? } else { next };
            next = if down { at } else { at + entry.size() };
            let (value, rest) = entries
                .get(at..at + entry.value_len() + entry.rest().1)
                .and_then(|entry_bytes| entry_bytes.split_at_checked(entry.value_len()))
                .ok_or(outside)?;
            splice.put(head, key).ok_or(outside)?;
            let (head_end, end) = (*prefix + HEAD, *prefix + entry.suffix_len());
            if !rest.is_empty() {
                key.resize(end.max(key.len()), 0);
                key[head_end..end].copy_from_slice(rest);
            }
            let flow = visit(&key[..end], value);
            if flow.is_break() {
                return Ok((shown + 1, flow));
            }
        }
        Ok((*count, ControlFlow::Continue(())))
    }
}
