//! A memory-mapped file that other processes may map as well.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};

use crate::atomic::AtomicU64;

/// A mapping of a file. Dropping the value unmaps the file.
pub(crate) struct Mapping {
    first: NonNull<AtomicU64>,
    len: usize,
}

impl Mapping {
    /// Maps all of `file`, which has `len_file` bytes, or `bytes` bytes if that is more. `None`
    /// when the operating system refuses.
    pub(crate) fn new(file: &File, bytes: usize, len_file: u64) -> Option<Mapping> {
        // The mapping covers the whole file. On a file system of huge pages, a mapping must have a
        // length of whole huge pages, and the file's own length is one.
        let len = usize::try_from(len_file).ok()?.max(bytes);
        let (access, how) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: the mapping is new and at an address that the kernel chooses, so no existing
        // memory changes. Other processes may write the file, so all access to the mapping is
        // through atomic words. The file is as long as the mapping and keeps its length
        // (`Region::map` requires this of its callers).
        let first = unsafe { libc::mmap(ptr::null_mut(), len, access, how, file.as_raw_fd(), 0) };
        if first == libc::MAP_FAILED {
            return None;
        }
        // A mapping is page aligned, and so aligned for words.
        Some(Mapping { first: NonNull::new(first.cast())?, len })
    }

    pub(crate) fn first(&self) -> NonNull<AtomicU64> {
        self.first
    }

    /// Requests huge pages. A hint: a failure changes nothing.
    pub(crate) fn prefer_huge_pages(&self) {
        // SAFETY: the range is this mapping. The advice changes neither the contents nor the
        // permitted use of the memory.
        let _ = unsafe { libc::madvise(self.first.as_ptr().cast(), self.len, libc::MADV_HUGEPAGE) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this value made the mapping with this length. Only this value owns the mapping,
        // so no reference to the memory is left.
        let _ = unsafe { libc::munmap(self.first.as_ptr().cast(), self.len) };
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::fs::{File, OpenOptions};
    use std::path::PathBuf;

    use crate::{Region, RegionError};

    struct Temporary(PathBuf);

    impl Temporary {
        fn new(name: &str, bytes: u64) -> (Temporary, File) {
            let name = format!("latchwork-mapping-{}-{name}", std::process::id());
            let path = std::env::temp_dir().join(name);
            let mut options = OpenOptions::new();
            let file = options.read(true).write(true).create_new(true).open(&path).unwrap();
            file.set_len(bytes).unwrap();
            (Temporary(path), file)
        }
    }

    impl Drop for Temporary {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn what_one_mapping_of_a_file_writes_the_other_reads() {
        let (_file, file) = Temporary::new("two", 8192);
        let (one, two) = (Region::map(&file, 8192, true), Region::map(&file, 8192, false));
        let (one, two) = (one.unwrap(), two.unwrap());
        assert_eq!((one.len(), two.words().u64(8184)), (8192, 0));
        one.words().set_u64(8184, 7);
        one.prefault();
        drop(one);
        assert_eq!(two.words().u64(8184), 7);
    }

    #[test]
    fn a_file_that_is_too_short_is_refused_before_anything_is_touched() {
        let (_file, file) = Temporary::new("short", 4096);
        let refused = Region::map(&file, 8192, false).err();
        assert_eq!(refused, Some(RegionError::FileLength { bytes: 8192, found: 4096 }));
        let refused = Region::map(&file, 12, false).err();
        assert_eq!(refused, Some(RegionError::BadLength { bytes: 12 }));
    }
}
