//! Huge pages for large memory that is read at scattered addresses. With small pages most of those
//! reads would also miss the TLB.

use std::mem::MaybeUninit;

/// Makes a slice of `len` values. On Linux, a slice of 16 MiB or more requests huge pages.
pub fn large_slice<T>(len: usize, make: impl FnMut() -> T) -> Box<[T]> {
    let mut values = Vec::with_capacity(len);
    // The request comes before the first touch, because the first touch allocates a page.
    prefer_huge_pages(values.spare_capacity_mut());
    values.extend(std::iter::repeat_with(make).take(len));
    values.into_boxed_slice()
}

/// Requests huge pages for `memory`, if it has 16 MiB or more. A hint: a failure changes nothing.
pub(crate) fn prefer_huge_pages<T>(memory: &[MaybeUninit<T>]) {
    #[cfg(all(target_os = "linux", not(miri), not(loom)))]
    if size_of_val(memory) >= HUGE_FROM {
        // The first and the last page may hold other memory of the process, so the advice leaves
        // out pages that the memory covers only in part.
        let (start, len) = (memory.as_ptr().cast::<u8>(), size_of_val(memory));
        let skip = start.align_offset(PAGE);
        let whole = len.saturating_sub(skip) / PAGE * PAGE;
        // SAFETY: the range is page aligned and inside the borrowed memory. The advice changes
        // neither the contents nor the permitted use of the memory.
        let _ =
            unsafe { libc::madvise(start.add(skip).cast_mut().cast(), whole, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(all(target_os = "linux", not(miri), not(loom))))]
    let _ = memory;
}

/// The smallest memory, in bytes, that requests huge pages. The memory's two ends may each waste a
/// part of a huge page.
#[cfg(all(target_os = "linux", not(miri), not(loom)))]
const HUGE_FROM: usize = 16 << 20;
#[cfg(all(target_os = "linux", not(miri), not(loom)))]
const PAGE: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_made_one_by_one_however_many() {
        for len in [0, 3, (32 << 20) / 8] {
            let mut next = 0_u64;
            let values = large_slice(len, || {
                next += 1;
                next
            });
            assert_eq!((values.len() as u64, values.last().copied().unwrap_or(0)), (next, next));
            assert!(values.windows(2).all(|pair| pair[0] + 1 == pair[1]));
        }
    }
}
