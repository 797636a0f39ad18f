//! [`IndexStatistics`].

/// The result of a walk over a whole index.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct IndexStatistics {
    /// The number of entries.
    pub entries: u64,
    /// The number of levels: the height of the index.
    pub levels: u64,
    /// The number of pages on all levels.
    pub pages: u64,
    /// The bytes of all pages that have content.
    pub used_bytes: u64,
    /// The bytes of all pages.
    pub total_bytes: u64,
}

impl IndexStatistics {
    /// The used share of the bytes of all pages.
    pub fn fill(&self) -> f64 {
        self.used_bytes as f64 / self.total_bytes.max(1) as f64
    }
}
