//! Cutting a full page in two.

use std::ops::Range;

use latchwork_verbs::{GlobalAddr, Words};

use super::{Broken, Builder, Page, Span, align, common_prefix};

/// Where a page is cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Split {
    /// First slot that goes to the right.
    pub(crate) at: usize,
    /// High fence of the left page, low fence of the right one.
    pub(crate) separator: Vec<u8>,
}

/// Decides where to cut a page that has no room for `key`.
///
/// At the middle of its bytes, unless keys seem to come in ascending order: then beside `key`, so
/// that what stays of the page is full for good, and those to come have a page to fill. That is so
/// for a key behind everything in the last page of its level, and in a slot of which `is_next` says
/// that the last key came in front of it.
pub(crate) fn plan_split(
    page: &Page<'_>,
    key: &[u8],
    is_next: impl FnOnce(usize) -> bool,
) -> Result<Split, Broken> {
    let (count, found) = (page.header.count(), page.search(key));
    let appends = page.header.right.is_null() && found == Err(count);
    if let Err(slot) = found
        && page.header.is_leaf()
        && (appends || is_next(slot))
        && let Some(split) = beside(page, slot, key)
    {
        return Ok(split);
    }
    if count < 2 {
        return Err(Broken("full with fewer than two entries"));
    }
    let at = if appends { count - 1 } else { middle(page) };
    let right_first = page.key(at);
    let separator = if page.header.is_leaf() {
        shortest_between(&page.key(at - 1), &right_first)
    } else {
        right_first
    };
    Ok(Split { at, separator })
}

/// Cuts a leaf where `key` is to come, into `slot`: in front of it when it is the last, so that the
/// page stays full, else behind it, so that nothing takes up room behind those to come. `None` when
/// there is no entry to the left, or no room for another fence.
fn beside(page: &Page<'_>, slot: usize, key: &[u8]) -> Option<Split> {
    let count = page.header.count();
    let last = page.key(slot.checked_sub(1)?);
    let separator = if slot >= count {
        shortest_between(&last, key)
    } else {
        shortest_between(key, &page.key(slot))
    };
    // Entries only become shorter: the fences move closer to each other.
    let has_room = |gone: Range<usize>, old: Span| {
        let spared = bytes(page, gone) + align(old.len.into());
        align(separator.len()) <= page.header.free() + spared
    };
    let fits = has_room(slot..count, page.header.high) && has_room(0..slot, page.header.low);
    fits.then_some(Split { at: slot, separator })
}

/// Builds both halves of a page in zeroed words. The right one is to live at `right_addr`; the left
/// one links to it.
///
/// Both always fit. Beside a key that is to come they were found to. Else the left page loses an
/// entry whose key starts with the separator (or, in an append, was found to have room for it); the
/// right page loses an entry whose key is at most one byte shorter than the separator; and the
/// fence that is replaced holds at least the prefix that the entry had spared. Of a fixed page, no
/// separator is longer than the prefix and 8 bytes, and each half loses an entry with a head of 8.
/// Half of a fixed page is fixed, and what half of a slotted page takes when it becomes fixed is
/// less.
pub(crate) fn write_halves(
    page: &Page<'_>,
    split: &Split,
    right_addr: GlobalAddr,
    left: Words<'_>,
    right: Words<'_>,
) -> Result<(), Broken> {
    let header = page.header;
    let (low, high) = (page.low(), page.high());
    let mut to = Builder::new(left, header.tag, header.level, &low, &split.separator)?;
    if !to.take(page, 0..split.at)? {
        return Err(Broken("half a page does not fit a page"));
    }
    to.finish(right_addr);

    let mut to = Builder::new(right, header.tag, header.level, &split.separator, &high)?;
    if !to.take(page, split.at..header.count())? {
        return Err(Broken("half a page does not fit a page"));
    }
    to.finish(header.right);
    Ok(())
}

/// The shortest key `k` with `left < k <= right`.
pub(crate) fn shortest_between(left: &[u8], right: &[u8]) -> Vec<u8> {
    right[..(common_prefix(left, right) + 1).min(right.len())].to_vec()
}

/// Bytes that the entries in these slots take.
fn bytes(page: &Page<'_>, slots: Range<usize>) -> usize {
    let step = page.header.step();
    if !page.header.shape.is_slotted() {
        return slots.len() * step;
    }
    slots.map(|slot| page.entry(slot).size() + step).sum()
}

/// The first slot of the upper half of the bytes; leaves an entry on both sides.
fn middle(page: &Page<'_>) -> usize {
    let count = page.header.count();
    if !page.header.shape.is_slotted() {
        return count.div_ceil(2);
    }
    let total = bytes(page, 0..count);
    let mut left = 0;
    for slot in 0..count {
        left += bytes(page, slot..slot + 1);
        if 2 * left >= total {
            return (slot + 1).clamp(1, count - 1);
        }
    }
    count / 2
}
