//! The check of a whole page: its tuples do not overlap, and its counters are right.

use super::header::Slot;
use super::{Page, State};

/// The number of tuples of each kind on a sound page.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct PageCheck {
    /// Rows with their tuple in the home slot.
    pub(crate) live: usize,
    pub(crate) tombstones: usize,
    pub(crate) stubs: usize,
    /// Rows of transactions that have not ended.
    pub(crate) pending: usize,
    /// Tuples to which stubs lead.
    pub(crate) away: usize,
}

/// Checks that no byte belongs to two tuples, and that the counters of the header are right.
pub(crate) fn check(page: &Page<'_>) -> Result<PageCheck, String> {
    let mut found = PageCheck::default();
    let mut taken = Vec::new();
    let mut free = 0;
    for number in 0..usize::from(page.header.slots) {
        let tuple = page.tuple(number).map_err(|broken| format!("slot {number}: {}", broken.0))?;
        let Some(tuple) = tuple else {
            match Slot::load(page.words, number) {
                Slot::FREE => free += 1,
                other => {
                    return Err(format!(
                        "slot {number}: {other:?} is without a tuple and not free"
                    ));
                }
            }
            continue;
        };
        match tuple.state {
            State::Live => found.live += 1,
            State::Tombstone => found.tombstones += 1,
            State::Stub => {
                tuple.target().map_err(|broken| format!("slot {number}: {}", broken.0))?;
                found.stubs += 1;
            }
            State::Away => found.away += 1,
            State::Pending => found.pending += 1,
        }
        if tuple.state == State::Tombstone && tuple.value_len() > 0 {
            return Err(format!("slot {number}: a tombstone with a value"));
        }
        taken.push(tuple.slot);
    }
    taken.sort_unstable_by_key(|slot| slot.offset);
    let mut end = usize::from(page.header.heap);
    let mut used = 0;
    for slot in taken {
        if slot.offset < end {
            return Err(format!("byte {} belongs to two tuples", slot.offset));
        }
        end = slot.offset + slot.size;
        used += slot.size;
    }
    let heap = page.words.len() - usize::from(page.header.heap);
    let garbage = usize::from(page.header.garbage);
    if used + garbage != heap {
        return Err(format!(
            "of {heap} bytes {used} are in tuples and {garbage} counted as garbage"
        ));
    }
    if free != usize::from(page.header.free_slots) {
        return Err(format!("{free} free slots, counted {}", page.header.free_slots));
    }
    if found.tombstones != usize::from(page.header.tombstones) {
        return Err(format!("{} tombstones, counted {}", found.tombstones, page.header.tombstones));
    }
    Ok(found)
}
