//! The global allocator: the system's, with a counter that is off during measurements.
#![allow(unsafe_code, reason = "an allocator cannot be written without it")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// The only static: a global allocator must be one.
#[global_allocator]
pub(crate) static ALLOCATOR: Counting = Counting::new();

/// Counts the allocated bytes, less the freed ones, from [`start`](Counting::start) to
/// [`stop`](Counting::stop). The allocator's own overhead per block is not counted, which favours
/// structures of many small blocks.
pub(crate) struct Counting {
    on: AtomicBool,
    // The count may become negative: blocks from before the start are freed, too.
    bytes: AtomicI64,
}

impl Counting {
    pub(crate) const fn new() -> Counting {
        Counting { on: AtomicBool::new(false), bytes: AtomicI64::new(0) }
    }

    /// Starts at zero.
    pub(crate) fn start(&self) {
        self.bytes.store(0, Ordering::Relaxed);
        self.on.store(true, Ordering::Relaxed);
    }

    /// Ends the counting, and returns the bytes. Threads that allocated must have been joined.
    pub(crate) fn stop(&self) -> i64 {
        self.on.store(false, Ordering::Relaxed);
        self.bytes.load(Ordering::Relaxed)
    }

    // Relaxed: a statistic. The join of the threads orders it before the read.
    #[inline]
    fn add(&self, bytes: i64) {
        if self.on.load(Ordering::Relaxed) {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

// SAFETY: every call goes to the system's allocator with the caller's own arguments, so its
// contract is the caller's. Counting neither allocates nor touches the block.
unsafe impl GlobalAlloc for Counting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.add(layout.size() as i64);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.add(layout.size() as i64);
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        self.add(-(layout.size() as i64));
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(block, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        self.add(size as i64 - layout.size() as i64);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(block, layout, size) }
    }
}
