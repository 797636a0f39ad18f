//! [`Block`]: timestamps that a worker drew and has not used.

use std::sync::Weak;

/// Timestamps that were drawn together, by one addition to the counter of all nodes.
#[derive(Default)]
pub(super) struct Block {
    /// The generation in which the timestamps were drawn. The weak reference keeps the address of
    /// the generation from being reused.
    pub(super) of: Option<Weak<()>>,
    pub(super) left: std::ops::Range<u64>,
}
