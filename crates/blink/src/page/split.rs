//! Cutting a full page in two.

use latchwork_verbs::{GlobalAddr, Words};

use super::{Broken, Builder, Page, align, common_prefix};

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
/// At the middle of its bytes, except that a key behind everything in the last page of its level
/// suggests ascending inserts: then the left page stays full.
pub(crate) fn plan_split(page: &Page<'_>, key: &[u8]) -> Result<Split, Broken> {
    let count = page.header.count();
    let appends = page.header.right.is_null() && page.search(key) == Err(count);
    if appends && page.header.is_leaf() && count > 0 {
        let separator = shortest_between(&page.key(count - 1), key);
        // Nothing leaves the left page, and it gets a high fence: there must be room for that.
        if align(separator.len()) <= page.header.free() {
            return Ok(Split { at: count, separator });
        }
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

/// Builds both halves of a page in zeroed words. The right one is to live at `right_addr`; the left one links to it.
///
/// Both always fit. The left page loses an entry whose key starts with the separator (or, in
/// an append, was found to have room for it); the right page loses an entry whose key is at most one
/// byte shorter than the separator; and the fence that is replaced holds at least the prefix that the
/// entry had spared. Of a fixed page, no separator is longer than the prefix and 8 bytes, and each half
/// loses an entry with a head of 8. Half of a fixed page is fixed, and what half of a slotted page
/// takes when it becomes fixed is less.
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

/// The first slot of the upper half of the bytes; leaves an entry on both sides.
fn middle(page: &Page<'_>) -> usize {
    let (header, count) = (&page.header, page.header.count());
    if !header.shape.is_slotted() {
        return count.div_ceil(2);
    }
    let size = |slot| page.entry(slot).size() + header.step();
    let total: usize = (0..count).map(size).sum();
    let mut left = 0;
    for slot in 0..count {
        left += size(slot);
        if 2 * left >= total {
            return (slot + 1).clamp(1, count - 1);
        }
    }
    count / 2
}
