//! The limits of a batch.

/// The maximum number of requests in one batch.
pub const BATCH_MAX: usize = 4;

/// The maximum number of atomics (compare-and-swap, fetch-and-add) in one batch.
pub const BATCH_ATOMICS_MAX: usize = 2;
