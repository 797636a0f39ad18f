//! The atomics that shared words are made of. Under the model checker loom they are loom's atomics,
//! so that loom explores the possible orders of the accesses.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
