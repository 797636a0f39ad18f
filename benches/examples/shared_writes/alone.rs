//! An allocator that never puts two blocks in one cache line.

use std::alloc::{GlobalAlloc, Layout, System};

const LINE: usize = 64;

/// The system's allocator, but each block has its cache lines alone.
pub(crate) struct Alone;

/// The layout rounded up to whole cache lines; `None` when the size is too large for a layout.
fn lines(layout: Layout) -> Option<Layout> {
    let size = layout.size().checked_next_multiple_of(LINE)?;
    Layout::from_size_align(size, layout.align().max(LINE)).ok()
}

// SAFETY: the blocks are the system's, and meet the contract in two steps.
//
// 1. A block is at least as large and as aligned as the requested layout, because `lines` only
//    rounds up.
// 2. A block is freed with the layout of its allocation. `lines` depends on the layout only, and
//    the caller frees with the layout that it requested. The default `realloc` goes through both.
unsafe impl GlobalAlloc for Alone {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match lines(layout) {
            // SAFETY: the size is at least the requested one, which is not zero.
            Some(layout) => unsafe { System.alloc(layout) },
            None => std::ptr::null_mut(),
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // The layout was valid when the block was allocated.
        if let Some(layout) = lines(layout) {
            // SAFETY: the block came from `alloc` with this layout.
            unsafe { System.dealloc(block, layout) }
        }
    }
}
