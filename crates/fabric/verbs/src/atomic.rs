//! The atomics that shared words are made of. Under a model checker they are the checker's own, so
//! that the checker sees everything that optimistic readers see.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
