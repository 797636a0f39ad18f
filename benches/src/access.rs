//! Single accesses to a line: plain functions for cached lines, and upgrades.

use std::hint::black_box;
use std::time::Duration;

use latchwork_cluster::{Embedded, Member};
use latchwork_coherence::{AccessMode, CoherentMemory, LineLocks, LockOutcome, Need, Upgrade};
use latchwork_verbs::GlobalAddr;

use crate::on_first;

/// Bytes of a line.
pub const LINE: usize = 2048;

/// Reads 8 bytes of a cached line.
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

/// Writes 8 bytes of a line.
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

/// Locks the line for reads, and unlocks it.
///
/// # Panics
/// When the line is not cached, or locked for writes.
pub fn lock_shared(member: &Member, line: GlobalAddr) -> u64 {
    lock(member, line, AccessMode::Shared)
}

/// Locks the line for writes, and unlocks it.
///
/// # Panics
/// When the node does not own the line exclusively, or has locked it.
pub fn lock_exclusive(member: &Member, line: GlobalAddr) -> u64 {
    lock(member, line, AccessMode::Exclusive)
}

fn lock(member: &Member, addr: GlobalAddr, mode: AccessMode) -> u64 {
    let lock = member.memory.try_lock(Need { addr, mode }).expect("owned so");
    assert!(matches!(lock, LockOutcome::Got(_)), "nobody else has locked it");
    1
}

/// Reads each of `lines` and then upgrades it. Returns the number of upgrades that kept the copy,
/// and the time of all upgrades. A line that is still owned exclusively is skipped.
///
/// # Panics
/// When an access fails.
pub(crate) fn upgrade_each(cluster: &Embedded, lines: &[GlobalAddr]) -> (u64, Duration) {
    on_first(cluster, async |member| {
        let memory = &member.memory;
        let (mut kept, mut spent) = (0, Duration::ZERO);
        for &addr in lines {
            let ticket = memory.ensure(Need { addr, mode: AccessMode::Shared }).await;
            let seen = memory.try_read(addr).expect("reserved").version();
            if memory.try_write(addr).is_ok() {
                // The line was not evicted since the last cycle, so it needs no upgrade.
                continue;
            }
            let start = member.handle.now();
            let (end, ticket) = memory.upgrade(seen, ticket.ok()).await.expect("upgraded");
            spent += member.handle.now() - start;
            drop(ticket);
            kept += u64::from(end == Upgrade::Kept);
        }
        (kept, spent)
    })
}
