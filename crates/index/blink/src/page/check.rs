//! The check of a whole page: the order of its keys, its fence keys and its bytes.

use latchwork_verbs::WORD;

use super::{FIXED_VALUE_MAX, HEADER, Page, align, head_of};

/// The result for an undamaged page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PageCheck {
    /// The used bytes: header, heads, cells, fence keys, entries.
    pub(crate) used: usize,
}

/// Checks the order of the keys, the fence keys, and that every byte of the heap is accounted for.
pub(crate) fn check(page: &Page<'_>) -> Result<PageCheck, String> {
    check_header(page)?;
    check_entries(page)?;
    let header = page.header;
    let heap_used = check_heap(page)?;
    Ok(PageCheck { used: HEADER + header.step() * header.count() + heap_used })
}

fn check_header(page: &Page<'_>) -> Result<(), String> {
    let header = page.header;
    let (low, high) = (page.low(), page.high());
    if !high.is_empty() && low >= high {
        return Err(format!("low fence {low:02x?} is not below high fence {high:02x?}"));
    }
    if header.prefix() != super::common_prefix(&low, &high) {
        return Err(format!("prefix of {} bytes is not that of the fences", header.prefix()));
    }
    if header.high_head != head_of(&high) {
        let head = header.high_head;
        return Err(format!("head {head:#x} is not that of the high fence {high:02x?}"));
    }
    if !low.is_empty() && page.words.u64(header.low.offset.into()).swap_bytes() != head_of(&low) {
        return Err(format!("the low fence {low:02x?} is not padded with zeros"));
    }
    if header.right.is_null() != high.is_empty() {
        return Err(format!("right sibling {} with high fence {high:02x?}", header.right));
    }
    if !header.shape.is_slotted() {
        if usize::from(header.width) > FIXED_VALUE_MAX {
            return Err(format!("cells of {} bytes", header.width));
        }
        if usize::from(header.cap) != header.cap_max() {
            return Err(format!("{} slots where {} fit", header.cap, header.cap_max()));
        }
    }
    Ok(())
}

fn check_entries(page: &Page<'_>) -> Result<(), String> {
    let header = page.header;
    let (low, high) = (page.low(), page.high());
    let mut before = Vec::new();
    let mut key = Vec::new();
    for slot in 0..header.count() {
        let entry =
            page.checked_entry(slot).map_err(|broken| format!("slot {slot}: {}", broken.0))?;
        let head = page.head(slot);
        if head & u64::MAX.checked_shr(8 * entry.suffix_len() as u32).unwrap_or(0) != 0 {
            let len = entry.suffix_len();
            return Err(format!("slot {slot}: head {head:#x} of a suffix of {len} bytes"));
        }
        if !header.is_leaf() {
            page.child(slot).map_err(|broken| format!("slot {slot}: {}", broken.0))?;
            if slot == 0 {
                if entry.suffix_len() != 0 {
                    return Err("the first child has a separator".into());
                }
                before.clone_from(&low);
                continue;
            }
        }
        key.clear();
        page.append_key(slot, &mut key);
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
    Ok(())
}

/// Checks that no byte of the heap is used twice or missing. Returns the number of used bytes.
fn check_heap(page: &Page<'_>) -> Result<usize, String> {
    let header = page.header;
    let mut taken = Vec::with_capacity(header.count() + 2);
    for span in [header.low, header.high] {
        if span.len > 0 {
            taken.push((usize::from(span.offset), align(usize::from(span.len))));
        }
    }
    if header.shape.is_slotted() {
        let entries = (0..header.count()).map(|slot| page.entry(slot));
        let entries = entries.filter(|entry| entry.size() > 0);
        taken.extend(entries.map(|entry| (entry.offset(), entry.size())));
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
    Ok(heap_used)
}
