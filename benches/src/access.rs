//! Single accesses to a cached line, each a plain function.

use std::hint::black_box;

use latchwork_cluster::Member;
use latchwork_coherence::CoherentMemory;
use latchwork_verbs::GlobalAddr;

/// Bytes of a line.
pub const LINE: usize = 2048;

/// Reads 8 bytes.
///
/// # Panics
/// When the line is not cached.
pub fn touch_read(member: &Member, line: GlobalAddr) -> u64 {
    let seen = member.memory.try_read(line).expect("cached");
    let word = seen.words().u64(64);
    if seen.validate() { word } else { 0 }
}

/// Copies the line out.
///
/// # Panics
/// When the line is not cached.
pub fn copy_read(member: &Member, line: GlobalAddr) -> u64 {
    let mut copy = [0; LINE];
    let seen = member.memory.try_read(line).expect("cached");
    let words = seen.words();
    words.read_bytes(0, &mut copy[..words.len()]);
    black_box(&copy);
    u64::from(seen.validate())
}

/// Writes 8 bytes.
///
/// # Panics
/// When the node does not own the line exclusively.
pub fn touch_write(member: &Member, line: GlobalAddr) -> u64 {
    let mut guard = member.memory.try_write(line).expect("owned exclusively");
    let word = guard.words().u64(64);
    guard.words().set_u64(64, word + 1);
    guard.mark_dirty(64..72);
    word
}

/// Writes the whole line.
///
/// # Panics
/// When the node does not own the line exclusively.
pub fn copy_write(member: &Member, line: GlobalAddr) -> u64 {
    let image = black_box([7; LINE]);
    let mut guard = member.memory.try_write(line).expect("owned exclusively");
    let end = guard.words().len();
    guard.words().write_bytes(0, &image[..end]);
    guard.mark_dirty(0..end);
    end as u64
}
