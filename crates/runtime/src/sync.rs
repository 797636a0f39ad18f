//! The one place from which latches and other in-node concurrency import their primitives, so that a
//! model checker (loom, shuttle) can take their place.

pub use std::hint::spin_loop;
pub use std::sync::atomic::{
    self, AtomicBool, AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering,
    compiler_fence, fence,
};
pub use std::sync::{Arc, OnceLock, Weak};
pub use std::thread::yield_now;

pub use crossbeam_queue::{ArrayQueue, SegQueue};
pub use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
