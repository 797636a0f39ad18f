//! The one module from which latches and other concurrent code of a node import their primitives,
//! so that a model checker can replace them.
//!
//! With `--cfg loom` the primitives are those of [loom](https://docs.rs/loom). Loom runs a test
//! under every interleaving and with every value that a load may return. Two types remain those of
//! the standard library: `Arc`, because wakers are made of it, and `OnceLock`. An `Arc` that is
//! never unwrapped creates no order on which the code here relies. Without that order the checker
//! only sees less order.

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
