//! Cuts a full page into two pages.

use std::ops::Range;

use latchwork_strict::strict_assert;
use latchwork_verbs::{GlobalAddr, Words};

use super::{Broken, Builder, Page, Span, align, common_prefix};

/// The cut of a page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Split {
    /// The first slot that goes to the right page.
    pub(crate) at: usize,
    /// The high fence of the left page and low fence of the right page.
    pub(crate) separator: Vec<u8>,
}

/// Decides where to cut a page that has no room for `key`.
///
/// The cut is in the middle of the bytes, unless keys seem to come in ascending order. In that case
/// the cut of a leaf is beside `key`, if both halves have room for the new fence key. So the left
/// page stays full, and later keys fill another page. Keys seem to ascend in these two cases:
///
/// - `key` is behind all keys of the last page of its level.
/// - `is_next` returns true: the last added key went into the slot before the slot of `key`.
///
/// In the first case, an inner page, or a leaf without room for that fence key, is cut in front of
/// its last entry.
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
    strict_assert!(at > 0 && at < count, "a half of a split is empty");
    let right_first = page.key(at);
    let separator = if page.header.is_leaf() {
        shortest_between(&page.key(at - 1), &right_first)
    } else {
        right_first
    };
    Ok(Split { at, separator })
}

/// Cuts a leaf beside `key`, whose slot is `slot`. If `key` is behind all entries, the cut is in
/// front of `key`, so that the left page stays full. Otherwise the cut is behind `key`, so that the
/// entries above `key` do not take the room of later keys. `None` if no entry is to the left, or if
/// a half has no room for the new fence key.
fn beside(page: &Page<'_>, slot: usize, key: &[u8]) -> Option<Split> {
    let count = page.header.count();
    let last = page.key(slot.checked_sub(1)?);
    let separator = if slot >= count {
        shortest_between(&last, key)
    } else {
        shortest_between(key, &page.key(slot))
    };
    // An entry never becomes longer, because the fence keys move closer to each other.
    let has_room = |gone: Range<usize>, old: Span| {
        let spared = bytes(page, gone) + align(old.len.into());
        align(separator.len()) <= page.header.free() + spared
    };
    let fits = has_room(slot..count, page.header.high) && has_room(0..slot, page.header.low);
    strict_assert!(slot > 0 && slot <= count, "a split beside the first entry");
    fits.then_some(Split { at: slot, separator })
}

/// Builds both halves of a page in zeroed words. The address of the right page is `right_addr`, and
/// the left page links to it.
///
/// Both halves always fit:
///
/// 1. A cut beside a new key: `beside` has checked both halves, also for an append.
/// 2. Any other cut, left page: it loses an entry whose key starts with the separator, which is the
///    new high fence.
/// 3. Any other cut of a leaf, right page: it loses an entry whose key is at most one byte shorter
///    than the separator.
/// 4. Any other cut of an inner page, right page: it loses an entry, and its first entry loses the
///    suffix. The key of that first entry is the separator.
/// 5. An entry stores its key without the prefix. The replaced fence key is at least as long as the
///    prefix, so it makes up for the difference.
/// 6. In a fixed page, a separator is at most 8 bytes longer than the prefix. Each half loses an
///    entry with a head of 8 bytes.
/// 7. The half of a fixed page is fixed. If the half of a slotted page becomes fixed, it takes less
///    room.
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

/// Builds, in zeroed words, the page `left` with the range of keys and the right link of its right
/// sibling `gone` as well. An inner `gone` has one child, which becomes the last child. Returns
/// false if the page has no room: the common prefix may have become shorter.
pub(crate) fn write_joined(
    left: &Page<'_>,
    gone: &Page<'_>,
    words: Words<'_>,
) -> Result<bool, Broken> {
    let header = left.header;
    let mut to = Builder::new(words, header.tag, header.level, &left.low(), &gone.high())?;
    let mut has_room = to.take(left, 0..header.count())?;
    if !header.is_leaf() {
        has_room = has_room && to.push_child(&gone.low(), gone.child(0)?);
        to.loses_child();
    }
    to.finish(gone.header.right);
    Ok(has_room)
}

/// The shortest key `k` with `left < k <= right`.
pub(crate) fn shortest_between(left: &[u8], right: &[u8]) -> Vec<u8> {
    right[..(common_prefix(left, right) + 1).min(right.len())].to_vec()
}

/// The bytes of the entries in these slots.
fn bytes(page: &Page<'_>, slots: Range<usize>) -> usize {
    let step = page.header.step();
    if !page.header.shape.is_slotted() {
        return slots.len() * step;
    }
    slots.map(|slot| page.entry(slot).size() + step).sum()
}

/// The first slot of the upper half of the bytes. Each half gets an entry.
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
