//! The atomics that racing bytes are made of. Under a model checker they are its own, or it would
//! not see what optimistic readers see.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
