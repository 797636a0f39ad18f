//! The synchronization primitives. Latches, and other code that the model checker loom tests,
//! import their primitives from this module.
//!
//! With `--cfg loom` the primitives are those of [loom](https://docs.rs/loom). Loom runs a test
//! under many interleavings, and with the values that each load may return. Three types remain
//! those of the standard library: `Arc` and `Weak`, because wakers are made of `Arc`, and
//! `OnceLock`. Loom does not see the memory order that an `Arc` creates. This hides no error: loom
//! only explores more executions than are possible.

#[cfg(loom)]
mod model;
#[cfg(not(loom))]
mod parking;
#[cfg(loom)]
mod queues;

#[cfg(loom)]
pub use model::*;
#[cfg(loom)]
pub use queues::ArrayQueue;
#[cfg(loom)]
pub(crate) use queues::SegQueue;

#[cfg(not(loom))]
pub use parking::{park, park_timeout};
#[cfg(not(loom))]
pub use std::hint::spin_loop;
#[cfg(not(loom))]
pub use std::sync::atomic::{
    self, AtomicBool, AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering,
    fence,
};
pub use std::sync::{Arc, OnceLock, Weak};
#[cfg(not(loom))]
pub use std::thread::{Thread, current as current_thread, yield_now};

#[cfg(not(loom))]
pub use crossbeam_queue::ArrayQueue;
#[cfg(not(loom))]
pub(crate) use crossbeam_queue::SegQueue;
#[cfg(not(loom))]
pub use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
