//! Checking a page against everything that this module promises.

use latchwork_verbs::WORD;

use super::{HEADER, Page, SLOT, align};

/// What a page without faults holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PageCheck {
    /// Bytes in use: header, slots, fences, entries.
    pub(crate) used: usize,
}

/// Checks the order of the keys, the fences, and that every byte of the heap is accounted for.
pub(crate) fn check(page: &Page<'_>) -> Result<PageCheck, String> {
    let header = page.header;
    let (low, high) = (page.low(), page.high());
    if !high.is_empty() && low >= high {
        return Err(format!("low fence {low:02x?} is not below high fence {high:02x?}"));
    }
    if header.prefix() != super::common_prefix(&low, &high) {
        return Err(format!("prefix of {} bytes is not that of the fences", header.prefix()));
    }
    if header.right.is_null() != high.is_empty() {
        return Err(format!("right sibling {} with high fence {high:02x?}", header.right));
    }

    let mut taken = Vec::with_capacity(header.count() + 2);
    for span in [header.low, header.high] {
        if span.len > 0 {
            taken.push((usize::from(span.offset), align(usize::from(span.len))));
        }
    }
    let mut before = Vec::new();
    let mut key = Vec::new();
    for slot in 0..header.count() {
        let entry =
            page.checked_entry(slot).map_err(|broken| format!("slot {slot}: {}", broken.0))?;
        if entry.size() > 0 {
            taken.push((entry.offset(), entry.size()));
        }
        key.clear();
        page.append_key(slot, &mut key);
        if !header.is_leaf() {
            page.child(slot).map_err(|broken| format!("slot {slot}: {}", broken.0))?;
            if slot == 0 {
                if entry.suffix_len() != 0 || page.head(0) != 0 {
                    return Err("the first child has a separator".into());
                }
                before.clone_from(&low);
                continue;
            }
        }
        if key.is_empty() {
            return Err(format!("slot {slot} has an empty key"));
        }
        if key < low || !high.is_empty() && key >= high {
            return Err(format!("slot {slot}: key {key:02x?} is outside {low:02x?}..{high:02x?}"));
        }
        if (slot > 0 || !header.is_leaf()) && key <= before {
            return Err(format!("slot {slot}: key {key:02x?} is not above {before:02x?}"));
        }
        if page.search(&key) != Ok(slot) {
            return Err(format!("slot {slot}: key {key:02x?} is not found there"));
        }
        std::mem::swap(&mut before, &mut key);
    }

    taken.sort_unstable();
    let mut free_from = header.heap();
    let mut heap_used = 0;
    for (at, size) in taken {
        if at < free_from {
            return Err(format!("bytes {at}..{} are used twice", at + size));
        }
        free_from = at + size;
        heap_used += size;
    }
    let heap = page.words.len() - header.heap();
    if heap_used + usize::from(header.garbage) != heap {
        return Err(format!(
            "the heap has {heap} bytes, {heap_used} in use and {} counted as garbage",
            header.garbage
        ));
    }
    debug_assert!(heap.is_multiple_of(WORD));
    Ok(PageCheck { used: HEADER + SLOT * header.count() + heap_used })
}
