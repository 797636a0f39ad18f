//! The one place from which latches and other in-node concurrency import their primitives, so that
//! a model checker can take their place.
//!
//! With `--cfg loom` they are those of [loom](https://docs.rs/loom), which runs a test under every
//! interleaving and with every value that a load may return. Two things stay the standard
//! library's: `Arc`, because wakers are made of it, and `OnceLock`. An `Arc` that nobody opens
//! again orders nothing that the code here relies on, and the checker only sees less order without
//! it.

#[cfg(loom)]
mod model;
#[cfg(not(loom))]
mod parking;
#[cfg(loom)]
mod queues;

#[cfg(loom)]
pub use model::*;
#[cfg(loom)]
pub use queues::{ArrayQueue, SegQueue};

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
pub use crossbeam_queue::{ArrayQueue, SegQueue};
#[cfg(not(loom))]
pub use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
