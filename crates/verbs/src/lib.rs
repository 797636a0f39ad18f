//! One-sided verbs as types: addresses, registered memory, ordered batches, completions, messages.

#![forbid(unsafe_code)]

mod address;
mod words;

pub use address::{ComputeNodeId, GlobalAddr, LocalBuffer, MemoryNodeId, RegionKey, Target};
pub use words::{WORD, Words};
