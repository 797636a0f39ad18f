//! [`Locals`]: the regions of a worker's own node, which the local buffers of its batches name.

use std::sync::Arc;

use latchwork_strict::strict_assert;
use latchwork_verbs::{LocalBuffer, Region, RegionKey, WORD, Words};

use crate::agent::Hosted;

/// The regions of the worker's own node, cached so that a verb takes no lock.
pub(crate) struct Locals {
    pub(super) own: Arc<Hosted>,
    pub(super) regions: Vec<Option<Arc<Region>>>,
}

impl Locals {
    pub(super) fn learn(&mut self, key: RegionKey) -> Option<u64> {
        let at = usize::from(key.0);
        if self.regions.get(at).is_none_or(Option::is_none) {
            let found = self.own.region(key.0)?;
            if self.regions.len() <= at {
                self.regions.resize_with(at + 1, || None);
            }
            self.regions[at] = Some(found);
        }
        self.regions[at].as_ref().map(|region| region.len() as u64)
    }

    /// The words of a checked local buffer.
    pub(crate) fn words(&self, local: LocalBuffer) -> Words<'_> {
        let region = self.regions[usize::from(local.region.0)].as_deref();
        let words = region.expect("learned when posted").atomics();
        strict_assert!(
            local.offset.is_multiple_of(WORD as u64) && (local.len as usize).is_multiple_of(WORD),
            "a buffer that is not made of words was posted"
        );
        Words::new(&words[local.offset as usize / WORD..][..local.len as usize / WORD])
    }
}
