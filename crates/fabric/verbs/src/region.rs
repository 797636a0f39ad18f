//! [`Region`]: memory that verbs may address.

#[cfg(not(loom))]
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fmt;
#[cfg(not(loom))]
use std::mem::MaybeUninit;
#[cfg(not(loom))]
use std::ptr::NonNull;
#[cfg(not(loom))]
use std::slice;
use std::sync::Arc;

use thiserror::Error;

use crate::address::WORD;
use crate::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use crate::huge::prefer_huge_pages;
#[cfg(all(target_os = "linux", not(loom)))]
use crate::mapping::Mapping;
use crate::words::Words;

/// Why a region could not be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum RegionError {
    /// The length is zero or not a multiple of 8.
    #[error("a region of {bytes} bytes: the length must be a positive multiple of 8")]
    BadLength {
        /// The requested length, in bytes.
        bytes: usize,
    },
    /// The operating system refused the memory.
    #[error("no memory for a region of {bytes} bytes")]
    OutOfMemory {
        /// The requested length, in bytes.
        bytes: usize,
    },
    /// The file to map is shorter than the region: an access beyond the file would end the process.
    #[error(
        "a file of {found} bytes cannot be a region of {bytes}: it is not the one that was meant"
    )]
    FileLength {
        /// The requested length, in bytes.
        bytes: usize,
        /// The length of the file, in bytes.
        found: u64,
    },
}

/// Memory that verbs may address: 8-byte words, page aligned, shared by all holders of the `Arc`.
///
/// The operating system provides the zeroed pages of a large region from [`Region::zeroed`] lazily
/// (32 MiB and more in practice). So a page of such a region uses no physical memory before its
/// first touch. On Linux a region of 16 MiB or more from [`Region::zeroed`] requests huge pages.
pub struct Region {
    memory: Memory,
}

impl Region {
    /// The alignment of a region's first byte, in bytes.
    pub const ALIGN: usize = 4096;

    /// Makes a region of `bytes` zero bytes, a positive multiple of 8.
    pub fn zeroed(bytes: usize) -> Result<Arc<Region>, RegionError> {
        if bytes == 0 || !bytes.is_multiple_of(WORD) {
            return Err(RegionError::BadLength { bytes });
        }
        let memory = Memory::zeroed(bytes).ok_or(RegionError::OutOfMemory { bytes })?;
        Ok(Arc::new(Region { memory }))
    }

    /// Maps the first `bytes` bytes of `file`, a positive multiple of 8. All mappings of the file,
    /// in this process or another one, share the memory. With `huge`, requests huge pages, as far
    /// as the file system has them.
    ///
    /// The file must keep its length while any process maps it. Before another process learns the
    /// file's name, the file must have its final length and all of its pages. An access to a
    /// missing page ends the process (`SIGBUS`).
    ///
    /// # Errors
    /// [`RegionError::BadLength`], [`RegionError::FileLength`] when the file is shorter, and
    /// [`RegionError::OutOfMemory`] when the operating system does not map it or does not report
    /// its length.
    #[cfg(all(target_os = "linux", not(loom)))]
    pub fn map(file: &std::fs::File, bytes: usize, huge: bool) -> Result<Arc<Region>, RegionError> {
        if bytes == 0 || !bytes.is_multiple_of(WORD) {
            return Err(RegionError::BadLength { bytes });
        }
        let refused = RegionError::OutOfMemory { bytes };
        let found = file.metadata().map_err(|_| refused)?.len();
        if found < bytes as u64 {
            return Err(RegionError::FileLength { bytes, found });
        }
        let mapping = Mapping::new(file, bytes, found).ok_or(refused)?;
        if huge {
            mapping.prefer_huge_pages();
        }
        let memory =
            Memory { first: mapping.first(), words: bytes / WORD, _owner: Owner::File(mapping) };
        Ok(Arc::new(Region { memory }))
    }

    /// Makes the operating system allocate all of the memory now, instead of page by page at each
    /// first touch. Harmless while other threads use the memory.
    pub fn prefault(&self) {
        for page in self.atomics().chunks(Self::ALIGN / WORD) {
            // The exchange of 0 for 0 changes nothing, but the operating system sees a write and
            // allocates the page. An addition of 0 would not do, because the compiler may turn it
            // into a load.
            let _ = page[0].compare_exchange(0, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.atomics().len() * WORD
    }

    /// Always false: no region is empty.
    pub fn is_empty(&self) -> bool {
        self.atomics().is_empty()
    }

    /// The words of the region.
    #[inline]
    pub fn words(&self) -> Words<'_> {
        Words::new(self.atomics())
    }

    /// The words of the region, as atomics.
    #[inline]
    pub fn atomics(&self) -> &[AtomicU64] {
        self.memory.atomics()
    }
}

#[cfg(not(loom))]
struct Memory {
    // The first word of the aligned part of the memory.
    first: NonNull<AtomicU64>,
    words: usize,
    // Held only for its drop.
    _owner: Owner,
}

/// The allocation or mapping behind the memory. Its drop frees the memory.
#[cfg(not(loom))]
#[allow(dead_code, reason = "held for their ends alone")]
enum Owner {
    Allocator(Allocation),
    #[cfg(target_os = "linux")]
    File(Mapping),
}

/// Memory from the allocator.
#[cfg(not(loom))]
struct Allocation {
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the value owns its allocation or mapping, and gives access only to atomic words.
#[cfg(not(loom))]
unsafe impl Send for Memory {}
// SAFETY: a shared `Memory` gives access only to atomic words, and shared access to `AtomicU64` is
// free of data races.
#[cfg(not(loom))]
unsafe impl Sync for Memory {}

#[cfg(not(loom))]
impl Memory {
    /// `bytes` is a positive multiple of 8. `None` when the operating system refuses.
    fn zeroed(bytes: usize) -> Option<Memory> {
        // The system allocator zeroes lazily only at its natural alignment. With a stricter
        // alignment it clears the memory by hand. So the memory is aligned inside an allocation
        // that is one page larger.
        let size = bytes.checked_add(Region::ALIGN)?;
        let layout = Layout::from_size_align(size, align_of::<AtomicU64>()).ok()?;
        // SAFETY: the layout's size is not zero.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let skip = base.as_ptr().align_offset(Region::ALIGN);
        assert!(skip < Region::ALIGN, "bytes can always be aligned");
        // SAFETY: `skip` is less than the extra page of the allocation.
        let first = unsafe { base.add(skip) };
        // SAFETY: the range is inside the allocation, which no other code uses yet.
        prefer_huge_pages(unsafe {
            slice::from_raw_parts(first.cast::<MaybeUninit<u8>>().as_ptr(), bytes)
        });
        let first = first.cast::<AtomicU64>();
        let owner = Owner::Allocator(Allocation { base, layout });
        Some(Memory { first, words: bytes / WORD, _owner: owner })
    }

    #[inline]
    fn atomics(&self) -> &[AtomicU64] {
        // SAFETY: `first` is aligned, and `words` initialised (zeroed) words start there, which
        // live as long as `self`. All access to the words is through shared atomics, also in other
        // processes that map the same file. Those processes may store any bits, and any bits are a
        // valid word.
        unsafe { slice::from_raw_parts(self.first.as_ptr(), self.words) }
    }
}

#[cfg(not(loom))]
impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: `base` came from `alloc_zeroed` with this layout, and no borrow of it is left.
        unsafe { dealloc(self.base.as_ptr(), self.layout) }
    }
}

/// For the model checker: its atomics are objects and not plain words, so each one is constructed.
#[cfg(loom)]
struct Memory(Box<[AtomicU64]>, Sleepers);

/// Stands for the kernel's list of threads that sleep on a word.
#[cfg(loom)]
pub(crate) type Sleepers = (loom::sync::Mutex<()>, loom::sync::Condvar);

#[cfg(loom)]
impl Memory {
    fn zeroed(bytes: usize) -> Option<Memory> {
        let words = (0..bytes / WORD).map(|_| AtomicU64::new(0)).collect();
        Some(Memory(words, (loom::sync::Mutex::new(()), loom::sync::Condvar::new())))
    }

    fn atomics(&self) -> &[AtomicU64] {
        &self.0
    }
}

#[cfg(loom)]
impl Region {
    pub(crate) fn sleepers(&self) -> &Sleepers {
        &self.memory.1
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region").field("bytes", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_zeroed_page_aligned_and_as_long_as_asked() {
        for bytes in [8, 64, 4096, 4104, 1 << 20] {
            let region = Region::zeroed(bytes).unwrap();
            assert_eq!((region.len(), region.atomics().len()), (bytes, bytes / 8));
            assert_eq!(region.atomics().as_ptr().addr() % Region::ALIGN, 0);
            assert!((0..bytes / 8).all(|i| region.words().word(i) == 0));
            region.words().set_word(bytes / 8 - 1, 7);
            region.prefault();
            assert_eq!(region.words().u64(bytes - 8), 7);
        }
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn a_region_that_was_prefaulted_is_in_memory_and_as_it_was() {
        let resident = || -> usize {
            let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
            pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
        };
        let bytes = 256 << 20;
        let region = Region::zeroed(bytes).unwrap();
        region.words().set_word(0, 7);
        let before = resident();
        region.prefault();
        // Other tests of the process also use memory, but far less.
        assert!(resident() > before + bytes / 2, "{before} and then {}", resident());
        assert_eq!((region.words().word(0), region.words().u64(bytes - 8)), (7, 0));
    }

    #[test]
    fn impossible_lengths_are_errors() {
        for bytes in [0, 1, 12] {
            assert_eq!(Region::zeroed(bytes).err(), Some(RegionError::BadLength { bytes }));
        }
        for bytes in [usize::MAX & !7, isize::MAX as usize & !7] {
            assert_eq!(Region::zeroed(bytes).err(), Some(RegionError::OutOfMemory { bytes }));
        }
    }

    #[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
    #[test]
    fn a_large_region_costs_nothing_until_it_is_touched() {
        let Ok(region) = Region::zeroed(8 << 30) else { return };
        let resident = || {
            let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
            statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
        };
        assert_eq!(region.words().u64(region.len() - 8), 0);
        assert!(resident() < 1 << 30, "{} bytes resident", resident());
    }
}
