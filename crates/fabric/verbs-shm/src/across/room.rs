//! Allocates all memory of a file before any process touches the file.

use std::fs::{self, File};
use std::path::Path;

use latchwork_strict::strict_assert;
use rustix::fs::{FallocateFlags, fallocate, fstatfs, fstatvfs};
use rustix::io::Errno;

use crate::ShmError;

/// The bytes that one call allocates. A call that a signal interrupts is repeated from its start,
/// so each call must be short.
const STEP: u64 = 256 << 20;
/// The file system type of `tmpfs`, a file system in memory.
const TMPFS: i128 = 0x0102_1994;

/// The page size of the file system in bytes, at least 4096.
pub(crate) fn page_bytes(directory: &File) -> u64 {
    fstatfs(directory).map_or(4096, |stats| (stats.f_bsize as u64).max(4096))
}

/// The free bytes of the directory's file system; `None` when their number is unknown.
fn free(directory: &File) -> Option<u64> {
    let (stats, kind) = (fstatvfs(directory).ok()?, fstatfs(directory).ok()?.f_type as i128);
    // A `tmpfs` without a limit reports 0 blocks.
    let room = (stats.f_blocks > 0).then(|| stats.f_bavail.saturating_mul(stats.f_frsize));
    let memory = if kind == TMPFS { available_memory() } else { None };
    [room, memory].into_iter().flatten().min()
}

/// The memory that the machine can still provide, in bytes.
fn available_memory() -> Option<u64> {
    let info = fs::read_to_string("/proc/meminfo").ok()?;
    let find = |name: &str| -> Option<u64> {
        let line = info.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse().ok()
    };
    Some((find("MemAvailable:")? + find("SwapFree:").unwrap_or(0)) << 10)
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
