//! [`Journal`]: the journal slots of a compute node, in memory of the memory nodes.
//!
//! A compute node may die in the middle of a WRITE. Then memory has some words of the WRITE and not
//! the others. So a write-back that the fabric can tear goes into a slot first. A survivor finds
//! the slot, and writes its bytes again.
//!
//! A node claims whole chunks for its slots, from the last chunk of each memory node down. The
//! owner word of such a chunk names the node:
//!
//! ```text
//!  owner word     63    62..56 55                          0
//!    slots        |  1 |  id  |  number of the registration |
//!    free slots   |  1 |   0  |  0                          |
//!
//!  chunk          | latch table (not used) | slot | slot | ..
//!  slot           | seal | line | start, length | bytes of the line .. |
//! ```
//!
//! The *seal* is a checksum of the owner word and of the slot's other words, and never 0. A slot is
//! valid if its seal is right. So a slot with missing words is not valid. Nor is any content that
//! the chunk had before, because no other registration has the number. The owner of a slot clears
//! it by a WRITE of 0 to the seal.
//!
//! A chunk of slots never has lines again: its lines may have had incarnations, which the slots
//! overwrite. Another node can claim the chunk for its slots.

use std::ops::Range;

use latchwork_fabric::Port;
use latchwork_runtime::sync::{AtomicUsize, Mutex, Ordering};
use latchwork_strict::{strict_assert, strict_assert_eq};
use latchwork_verbs::{ComputeNodeId, GlobalAddr, MemoryNodeId, WORD, Words};

use crate::again::repeatedly;
use crate::{Epochs, Geometry, Pool, PoolError, layout};

/// The bytes of a slot before the bytes of the line: the seal, the address of the line, and the
/// range.
pub const SLOT_HEAD: usize = 3 * WORD;

/// The owner word of a chunk of slots without an owner. With a tag of a registration below it, the
/// owner word of a chunk of slots.
const SLOTS: u64 = 1 << 63;

/// The number of owner words that one verb reads.
const WINDOW: u32 = 512;

/// The most slots of one worker on one memory node.
const SHARE_MAX: usize = 16;

/// The slots on one memory node.
#[derive(Debug)]
struct Ground {
    /// The offsets of the slots that no worker has.
    free: Mutex<Vec<u64>>,
    /// The number of slots that a worker takes.
    share: usize,
    chunks: Vec<u32>,
}

/// The journal slots of a compute node, on all memory nodes of a pool. The node's workers divide
/// them.
#[derive(Debug)]
pub struct Journal {
    /// The owner word of the chunks.
    tag: u64,
    grounds: Vec<Ground>,
    /// The number of slots that operations without an end have kept.
    kept: AtomicUsize,
}

impl Journal {
    /// Claims chunks for the slots of the node of `epochs`: on each memory node one, or more if
    /// one has less than a slot for each of `workers` workers.
    ///
    /// When the future is dropped, claimed chunks stay claimed. A later call for the same
    /// registration finds them.
    ///
    /// # Errors
    /// [`PoolError::NoSlots`] when a memory node has no chunk to claim, and failures of the fabric.
    pub async fn claim(epochs: &Epochs, port: &Port, workers: usize) -> Result<Journal, PoolError> {
        let (pool, workers) = (epochs.pool(), workers.max(1));
        let tag = SLOTS | u64::from(epochs.node().get()) << 56 | epochs.registration();
        strict_assert!(epochs.registration() < 1 << 56, "a registration reaches into the id");
        let geometry = pool.geometry();
        let in_chunk = slots_per_chunk(geometry) as usize;
        let mut grounds = Vec::new();
        for node in (0..pool.memory_nodes() as u16).map(MemoryNodeId) {
            let chunks = claim_on(port, pool, node, tag, workers.div_ceil(in_chunk)).await?;
            if chunks.is_empty() {
                return Err(PoolError::NoSlots { node });
            }
            let share = (chunks.len() * in_chunk / workers).clamp(1, SHARE_MAX);
            let free = chunks.iter().flat_map(|&chunk| slots(geometry, node, chunk)).rev();
            let free = Mutex::new(free.map(GlobalAddr::offset).collect());
            grounds.push(Ground { free, share, chunks });
        }
        Ok(Journal { tag, grounds, kept: AtomicUsize::new(0) })
    }

    /// Takes slots on this memory node for a worker. Returns their offsets. Empty when other
    /// workers have all slots.
    pub fn take(&self, node: MemoryNodeId) -> Vec<u64> {
        let Some(ground) = self.grounds.get(usize::from(node.0)) else { return Vec::new() };
        let mut free = ground.free.lock();
        let rest = free.len().saturating_sub(ground.share);
        free.split_off(rest)
    }

    /// Returns slots of a worker. No operation has them.
    pub fn give_back(&self, node: MemoryNodeId, slots: impl IntoIterator<Item = u64>) {
        if let Some(ground) = self.grounds.get(usize::from(node.0)) {
            ground.free.lock().extend(slots);
        }
    }

    /// Notes that an operation without an end keeps its slot: its line may be torn.
    pub fn keep(&self) {
        self.kept.fetch_add(1, Ordering::Relaxed);
    }

    /// Completes the image of a slot, whose bytes from [`SLOT_HEAD`] on are those of `range` of
    /// `line`. `range` has whole words.
    pub fn seal(&self, image: Words<'_>, line: GlobalAddr, range: Range<usize>) {
        strict_assert_eq!(image.len(), SLOT_HEAD + range.len(), "an image of another length");
        image.set_word(1, line.bits());
        image.set_word(2, (range.start as u64) << 32 | range.len() as u64);
        image.set_word(0, checksum(self.tag, image.skip(1)));
    }

    /// Returns the chunks, for the slots of other nodes. No operation of the node is in progress.
    /// Chunks stay if an operation without an end has kept a slot.
    ///
    /// # Errors
    /// Failures of the fabric.
    pub async fn leave(&self, port: &Port) -> Result<(), PoolError> {
        if self.kept.load(Ordering::Relaxed) > 0 {
            return Ok(());
        }
        for (ground, node) in self.grounds.iter().zip((0..).map(MemoryNodeId)) {
            ground.free.lock().clear();
            for &chunk in &ground.chunks {
                give_up(port, node, chunk, self.tag).await?;
            }
        }
        Ok(())
    }
}

/// The content of a valid slot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The line.
    pub line: GlobalAddr,
    /// The first byte of the line that the slot has.
    pub start: usize,
    /// The bytes from there on.
    pub words: Vec<u64>,
}

impl Entry {
    /// The address of the first byte that the slot has.
    pub fn addr(&self) -> GlobalAddr {
        GlobalAddr::new(self.line.node(), self.line.offset() + self.start as u64)
    }
}

/// Reads the valid slots of a dead node on a memory node, which has fenced the dead node.
///
/// # Errors
/// Failures of the fabric.
pub async fn entries(
    port: &Port,
    pool: &Pool,
    node: MemoryNodeId,
    dead: ComputeNodeId,
) -> Result<Vec<Entry>, PoolError> {
    let mut entries = Vec::new();
    for (chunk, tag) in chunks_of(port, pool, node, dead).await? {
        for slot in slots(pool.geometry(), node, chunk) {
            entries.extend(read(port, pool, slot, tag).await?);
        }
    }
    Ok(entries)
}

/// Frees the chunks with the slots of a dead node on a memory node, for the slots of other nodes.
/// To be called when no latch word names the dead node any more, and before another node has its
/// id. May be called several times, also at the same time.
///
/// # Errors
/// Failures of the fabric.
pub async fn forget(
    port: &Port,
    pool: &Pool,
    node: MemoryNodeId,
    dead: ComputeNodeId,
) -> Result<(), PoolError> {
    for (chunk, tag) in chunks_of(port, pool, node, dead).await? {
        give_up(port, node, chunk, tag).await?;
    }
    Ok(())
}

/// Reads a slot. `None` if it is not valid.
async fn read(
    port: &Port,
    pool: &Pool,
    slot: GlobalAddr,
    tag: u64,
) -> Result<Option<Entry>, PoolError> {
    let head = port.read_words(slot, SLOT_HEAD / WORD).await?;
    let [seal, line, range] = head[..] else { return Ok(None) };
    let line = GlobalAddr::from_bits(line);
    let (start, len) = ((range >> 32) as usize, range as u32 as usize);
    let is_possible = seal != 0
        && line.node() == slot.node()
        && pool.check_line(line).is_ok()
        && len > 0
        && start + len <= pool.geometry().line_size() as usize
        && (start | len).is_multiple_of(WORD);
    if !is_possible {
        return Ok(None);
    }
    let bytes = GlobalAddr::new(slot.node(), slot.offset() + SLOT_HEAD as u64);
    let words = port.read_words(bytes, len / WORD).await?;
    let content = [line.bits(), range].into_iter().chain(words.iter().copied());
    let is_valid = seal == checksum_of(tag, content);
    Ok(is_valid.then_some(Entry { line, start, words }))
}

/// The chunks with slots of `node` on a memory node, with their owner words.
async fn chunks_of(
    port: &Port,
    pool: &Pool,
    memory: MemoryNodeId,
    node: ComputeNodeId,
) -> Result<Vec<(u32, u64)>, PoolError> {
    let owners = port.read_words(layout::owner(memory, 0), pool.chunks(memory) as usize).await?;
    let of_node = |owner: u64| owner >> 56 == SLOTS >> 56 | u64::from(node.get());
    Ok((0..).zip(owners).filter(|&(_, owner)| of_node(owner)).collect())
}

/// Claims up to `wanted` chunks of a memory node, the last first.
async fn claim_on(
    port: &Port,
    pool: &Pool,
    node: MemoryNodeId,
    tag: u64,
    wanted: usize,
) -> Result<Vec<u32>, PoolError> {
    let (mut chunks, mut end) = (Vec::new(), pool.chunks(node));
    // Every iteration lowers the end.
    while end > 0 {
        let first = end.saturating_sub(WINDOW);
        let owners = port.read_words(layout::owner(node, first), (end - first) as usize).await?;
        for (index, owner) in (first..end).zip(owners).rev() {
            if chunks.len() == wanted {
                return Ok(chunks);
            }
            // A chunk of an earlier registration of the id is free: an id is used again only after
            // the earlier node has left, or was forgotten.
            if ![0, SLOTS].contains(&owner) && owner >> 56 != tag >> 56 {
                continue;
            }
            // An attempt with an unknown outcome is repeated: only this registration has the tag.
            let word = layout::owner(node, index);
            let found = repeatedly(async || port.compare_swap(word, owner, tag).await).await?;
            if found == owner || found == tag {
                chunks.push(index);
            }
        }
        end = first;
    }
    Ok(chunks)
}

async fn give_up(port: &Port, node: MemoryNodeId, chunk: u32, tag: u64) -> Result<(), PoolError> {
    let word = layout::owner(node, chunk);
    repeatedly(async || port.compare_swap(word, tag, SLOTS).await).await?;
    Ok(())
}

/// The bytes from one slot to the next. Slots of two workers share no cache line.
fn stride(geometry: Geometry) -> u64 {
    (u64::from(geometry.line_size()) + SLOT_HEAD as u64).next_multiple_of(64)
}

/// The number of slots in a chunk, at least 1: a chunk has 3 lines or more.
fn slots_per_chunk(geometry: Geometry) -> u64 {
    let bytes = u64::from(geometry.lines_per_chunk()) * u64::from(geometry.line_size());
    bytes / stride(geometry)
}

/// The slots of chunk `chunk` of a memory node.
fn slots(
    geometry: Geometry,
    node: MemoryNodeId,
    chunk: u32,
) -> impl DoubleEndedIterator<Item = GlobalAddr> {
    let first = geometry.line_addr(geometry.chunk_addr(node, chunk), 0).offset();
    let at = move |slot| GlobalAddr::new(node, first + slot * stride(geometry));
    (0..slots_per_chunk(geometry)).map(at)
}

fn checksum(tag: u64, words: Words<'_>) -> u64 {
    checksum_of(tag, (0..words.len() / WORD).map(|word| words.word(word)))
}

/// The checksum of a slot with this owner word: never 0. Each step is a bijection of its lane, so
/// one changed word always changes the checksum. It is no protection against a node that wants a
/// collision: such a node could write to the line itself.
fn checksum_of(tag: u64, words: impl Iterator<Item = u64>) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |lane: u64, word: u64| (lane ^ word).wrapping_mul(FACTOR).rotate_left(29);
    // Several lanes, because each step waits for the result of the last step of its lane.
    let mut lanes = [tag, !tag, tag.rotate_left(16), tag.rotate_left(40)];
    for (at, word) in words.enumerate() {
        lanes[at % 4] = mix(lanes[at % 4], word);
    }
    let sum = lanes.into_iter().fold(tag, mix);
    if sum == 0 { 1 } else { sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_chunk_has_slots_which_do_not_overlap_and_stay_in_their_chunk() {
        for (chunk, line) in [(64 << 10, 512), (8 << 20, 2 << 10), (256 << 10, 64 << 10)] {
            let geometry = Geometry::new(chunk, line).expect("sizes");
            let node = MemoryNodeId(1);
            let all: Vec<_> = slots(geometry, node, 3).map(GlobalAddr::offset).collect();
            let base = geometry.chunk_addr(node, 3).offset();
            let len = SLOT_HEAD as u64 + u64::from(line);
            assert!(all[0] >= base + geometry.latch_table_bytes());
            assert!(all.windows(2).all(|two| two[0] + len <= two[1] && two[1] % 64 == two[0] % 64));
            assert!(all.last().expect("a slot") + len <= base + chunk);
        }
    }

    #[test]
    fn the_checksum_of_a_slot_changes_with_each_word_and_with_the_registration() {
        let words: Vec<u64> = (0..66).collect();
        let whole = checksum_of(SLOTS | 1, words.iter().copied());
        assert_ne!(whole, checksum_of(SLOTS | 2, words.iter().copied()));
        for torn in 0..words.len() {
            let left =
                words.iter().enumerate().map(|(at, &word)| if at < torn { word } else { 99 });
            assert_ne!(whole, checksum_of(SLOTS | 1, left), "torn at word {torn}");
        }
    }
}
