//! The atomics that shared words are made of. Under a model checker they are the checker's own, so
//! that the checker explores the orders of their accesses.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
