//! Allocates all memory of a file before any process touches the file.

use std::fs::File;
use std::path::Path;
use std::thread::park_timeout;
use std::time::Duration;

use latchwork_runtime::Clock;
use latchwork_strict::strict_assert;
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock, fstatfs, fstatvfs};
use rustix::io::Errno;

use crate::{MemoryRoom, ShmError};

/// The bytes that one call allocates. A call that a signal interrupts is repeated from its start,
/// so each call must be short.
const STEP: u64 = 256 << 20;
/// The file system type of `tmpfs`, a file system in memory.
const TMPFS: i128 = 0x0102_1994;

/// The size from which processes allocate one after the other.
const LARGE: u64 = 1 << 20;
/// The longest wait for the allocations of other processes.
const TURN: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(1);

/// The page size of the file system in bytes, at least 4096.
pub(crate) fn page_bytes(directory: &File) -> u64 {
    fstatfs(directory).map_or(4096, |stats| (stats.f_bsize as u64).max(4096))
}

/// The free bytes of the directory's file system; `None` when their number is unknown.
fn free(directory: &File) -> Option<u64> {
    let (stats, kind) = (fstatvfs(directory).ok()?, fstatfs(directory).ok()?.f_type as i128);
    // A `tmpfs` without a limit reports 0 blocks.
    let room = (stats.f_blocks > 0).then(|| stats.f_bavail.saturating_mul(stats.f_frsize));
    let memory = if kind == TMPFS { MemoryRoom::now().map(|room| room.free) } else { None };
    [room, memory].into_iter().flatten().min()
}

/// Locks the directory until the drop, so that what one process takes is missing where the next one
/// looks. After a long wait the process goes on without the lock.
struct Turn<'a>(&'a File);

impl Turn<'_> {
    fn of(directory: &File) -> Turn<'_> {
        let clock = Clock::start();
        let deadline = clock.now() + TURN;
        let wait =
            |locked: Result<(), Errno>| matches!(locked, Err(Errno::WOULDBLOCK | Errno::INTR));
        while wait(flock(directory, FlockOperation::NonBlockingLockExclusive))
            && clock.now() < deadline
        {
            park_timeout(LOOK);
        }
        Turn(directory)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let _ = flock(self.0, FlockOperation::Unlock);
    }
}

/// Allocates `bytes` of memory for an empty file in `directory`. Missing memory is an error at this
/// point. So no process is killed later because it touches the file.
pub(crate) fn reserve(
    file: &File,
    path: &Path,
    directory: (&File, &Path),
    bytes: u64,
) -> Result<(), ShmError> {
    let no_room = |free| ShmError::NoRoom { path: directory.1.to_owned(), bytes, free };
    let failed = |error: Errno| ShmError::File {
        action: "reserve memory",
        path: path.to_owned(),
        error: error.into(),
    };
    let _turn = (bytes >= LARGE).then(|| Turn::of(directory.0));
    let free = free(directory.0);
    if let Some(free) = free.filter(|&free| free < bytes) {
        return Err(no_room(free));
    }
    let mut taken = 0;
    while taken < bytes {
        let step = STEP.min(bytes - taken);
        strict_assert!(
            step > 0 && taken + step <= bytes,
            "more memory is reserved than was asked for"
        );
        match fallocate(file, FallocateFlags::empty(), taken, step) {
            Ok(()) => taken += step,
            Err(Errno::INTR) => {}
            // For example, other processes took the memory after the check.
            Err(Errno::NOSPC | Errno::NOMEM | Errno::DQUOT) => {
                return Err(no_room(free.unwrap_or(taken)));
            }
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(())
}
