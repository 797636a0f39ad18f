//! Huge pages for large memory that is read all over: with small ones most reads of it would miss
//! the TLB as well.

use std::mem::MaybeUninit;

/// Makes `len` values that lie side by side, in huge pages if they take a lot of memory and the
/// operating system has some to give.
pub fn large_slice<T>(len: usize, make: impl FnMut() -> T) -> Box<[T]> {
    let mut values = Vec::with_capacity(len);
    // Before the first touch, which is what gives out pages.
    prefer_huge_pages(values.spare_capacity_mut());
    values.extend(std::iter::repeat_with(make).take(len));
    values.into_boxed_slice()
}

/// Asks the operating system for huge pages where `memory` lies, if it is large. A hint, whose
/// failure changes nothing; memory that was touched already stays as it is.
pub(crate) fn prefer_huge_pages<T>(memory: &[MaybeUninit<T>]) {
    #[cfg(all(target_os = "linux", not(miri), not(loom)))]
    if size_of_val(memory) >= HUGE_FROM {
        // Its first and last page may be shared with other memory of the process: they are left
        // alone.
        let (start, len) = (memory.as_ptr().cast::<u8>(), size_of_val(memory));
        let skip = start.align_offset(PAGE);
        let whole = len.saturating_sub(skip) / PAGE * PAGE;
        // SAFETY: the range is page aligned and inside what is borrowed, and the advice changes
        // neither its contents nor what may be done with it.
        let _ =
            unsafe { libc::madvise(start.add(skip).cast_mut().cast(), whole, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(all(target_os = "linux", not(miri), not(loom))))]
    let _ = memory;
}

/// The smallest memory, in bytes, that is worth it: as much as a huge page or two would be wasted.
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
