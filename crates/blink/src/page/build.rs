//! Writing a page from its first entry to its last: new pages, halves of a split, compaction.

use std::sync::atomic::{AtomicU64, Ordering};

use latchwork_verbs::{GlobalAddr, WORD, Words};

use super::{
    Broken, Entry, HEAD, HEADER, Header, SLOT, Span, Tag, align, common_prefix, entry_size, head_of,
};

/// A page in private memory, as long as a line's payload.
#[derive(Debug)]
pub(crate) struct Image(Box<[AtomicU64]>);

impl Image {
    /// An image of `bytes` (a multiple of 8) zero bytes.
    pub(crate) fn new(bytes: usize) -> Image {
        Image((0..bytes / WORD).map(|_| AtomicU64::new(0)).collect())
    }

    pub(crate) fn words(&self) -> Words<'_> {
        Words::new(&self.0)
    }
}

impl PartialEq for Image {
    fn eq(&self, other: &Image) -> bool {
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        self.0.iter().map(load).eq(other.0.iter().map(load))
    }
}

/// Fills a page with entries in ascending order. The page is one only after [`Builder::finish`].
///
/// Equal calls on zeroed words give equal words, on which the comparison of images rests.
#[derive(Debug)]
pub(crate) struct Builder<'a> {
    words: Words<'a>,
    header: Header,
}

impl<'a> Builder<'a> {
    /// Starts a page with these fences (empty: infinite).
    pub(crate) fn new(
        words: Words<'a>,
        tag: Tag,
        level: u8,
        low: &[u8],
        high: &[u8],
    ) -> Result<Builder<'a>, Broken> {
        let low_at = words.len().checked_sub(align(low.len()));
        let high_at = low_at.and_then(|at| at.checked_sub(align(high.len())));
        let (Some(low_at), Some(high_at)) = (low_at, high_at) else {
            return Err(Broken("fences longer than the page"));
        };
        if high_at < HEADER {
            return Err(Broken("fences longer than the page"));
        }
        words.write_bytes(low_at, low);
        words.write_bytes(high_at, high);
        let header = Header {
            level,
            count: 0,
            heap: high_at as u16,
            garbage: 0,
            right: GlobalAddr::NULL,
            low: Span { offset: low_at as u16, len: low.len() as u16 },
            high: Span { offset: high_at as u16, len: high.len() as u16 },
            prefix: common_prefix(low, high) as u16,
            tag,
        };
        Ok(Builder { words, header })
    }

    /// Appends an entry, unless the page has no room for it: then returns false.
    ///
    /// `key` starts with the page's prefix, or is empty for the first slot of an inner page.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) -> bool {
        let suffix = key.get(self.header.prefix()..).unwrap_or(&[]);
        let size = entry_size(suffix.len(), value.len());
        if size + SLOT > self.header.gap() {
            return false;
        }
        let offset = self.header.heap() - size;
        let entry =
            Entry { offset: offset as u16, suffix: suffix.len() as u16, value: value.len() as u16 };
        put_entry(self.words, self.header.count(), entry, suffix, value);
        self.header.heap = offset as u16;
        self.header.count += 1;
        true
    }

    /// Appends a child.
    pub(crate) fn push_child(&mut self, key: &[u8], child: GlobalAddr) -> bool {
        self.push(key, &child.bits().to_le_bytes())
    }

    /// Makes it a page.
    pub(crate) fn finish(mut self, right: GlobalAddr) {
        self.header.right = right;
        self.header.store(self.words);
    }
}

/// Writes an entry to the heap and its slot.
pub(super) fn put_entry(words: Words<'_>, slot: usize, entry: Entry, suffix: &[u8], value: &[u8]) {
    words.write_bytes(entry.offset(), value);
    words.write_bytes(entry.rest().0, suffix.get(HEAD..).unwrap_or(&[]));
    let at = HEADER + SLOT * slot;
    words.set_u64(at, head_of(suffix));
    words.set_u64(at + WORD, entry.bits());
}
