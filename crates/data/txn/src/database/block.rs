//! [`Block`]: timestamps that a worker drew and has not used.

use std::sync::Weak;

/// Timestamps that were drawn together.
#[derive(Default)]
pub(super) struct Block {
    /// The generation in which they were drawn. The weak reference keeps the address of the
    /// generation from being reused.
    pub(super) of: Option<Weak<()>>,
    pub(super) left: std::ops::Range<u64>,
}
