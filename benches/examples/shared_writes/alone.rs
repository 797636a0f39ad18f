//! An allocator that never puts two blocks in one cache line.

use std::alloc::{GlobalAlloc, Layout, System};

const LINE: usize = 64;

/// The system's allocator, asked for whole cache lines only.
pub(crate) struct Alone;

/// Aligned to a line and so many of them; `None` when that is more than can be asked for.
fn lines(layout: Layout) -> Option<Layout> {
    let size = layout.size().checked_next_multiple_of(LINE)?;
    Layout::from_size_align(size, layout.align().max(LINE)).ok()
}

// SAFETY: each block is one of the system's that is at least as large and as much aligned as was
// asked for, and it is given back with the layout that it was taken with: `lines` depends on the
// layout only, and the caller gives back with the layout that it asked with. The default `realloc`
// goes through both.
unsafe impl GlobalAlloc for Alone {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match lines(layout) {
            // SAFETY: as large as what was asked for, which is not zero.
            Some(layout) => unsafe { System.alloc(layout) },
            None => std::ptr::null_mut(),
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // The layout was one that could be asked for when the block was made.
        if let Some(layout) = lines(layout) {
            // SAFETY: the block came from `alloc` with this layout.
            unsafe { System.dealloc(block, layout) }
        }
    }
}
