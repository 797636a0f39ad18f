//! A page copied out of shared memory as a whole, to be shown entry by entry once its read was
//! validated: from then on nothing of it can change, and its bytes are plain ones.

use std::ops::ControlFlow;

use super::{Broken, Entry, HEAD, HEADER, Page, SLOT};

/// The copy. Empty until a page was taken.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    bytes: Vec<u8>,
    // Where the prefix of all keys lies.
    low: usize,
    prefix: usize,
    // The key that is shown: the prefix, and room for a head.
    key: Vec<u8>,
}

impl Snapshot {
    /// Copies `page`, which may be torn.
    pub(crate) fn take(&mut self, page: &Page<'_>) {
        self.bytes.clear();
        page.words.append_to(0, page.words.len(), &mut self.bytes);
        self.low = usize::from(page.header.low.offset);
        self.prefix = page.header.prefix();
    }

    /// Shows the entries in `slots`, in this order, of a leaf that was consistent. Returns how many it
    /// showed, and whether the visitor wants more.
    #[inline]
    pub(crate) fn show(
        &mut self,
        slots: impl Iterator<Item = usize>,
        visit: &mut impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(usize, ControlFlow<()>), Broken> {
        let outside = Broken("an entry outside the page");
        let Snapshot { bytes, low, prefix, key } = self;
        let start = bytes.get(*low..*low + *prefix).ok_or(outside)?;
        key.clear();
        key.extend_from_slice(start);
        let head_end = *prefix + HEAD;
        key.resize(head_end, 0);
        let (all, _) = bytes.get(HEADER..).unwrap_or(&[]).as_chunks::<SLOT>();
        let mut shown = 0;
        for slot in slots {
            let (head, entry) = all.get(slot).ok_or(outside)?.split_at(HEAD);
            let word = |half: &[u8]| half.first_chunk().map_or(0, |half| u64::from_le_bytes(*half));
            let entry = Entry::from_bits(word(entry));
            let (offset, (rest_at, rest_len)) = (entry.offset(), entry.rest());
            let value = bytes.get(offset..rest_at).ok_or(outside)?;
            key[*prefix..head_end].copy_from_slice(&word(head).to_be_bytes());
            let flow = if rest_len == 0 {
                visit(&key[..*prefix + entry.suffix_len()], value)
            } else {
                key.extend_from_slice(bytes.get(rest_at..rest_at + rest_len).ok_or(outside)?);
                let flow = visit(key, value);
                key.truncate(head_end);
                flow
            };
            shown += 1;
            if flow.is_break() {
                return Ok((shown, flow));
            }
        }
        Ok((shown, ControlFlow::Continue(())))
    }
}
