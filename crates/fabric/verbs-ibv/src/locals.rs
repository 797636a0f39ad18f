//! [`Locals`]: the regions of an endpoint's own node, cached so that a verb takes no lock.

use std::sync::Arc;

use latchwork_strict::strict_assert;
use latchwork_verbs::{LocalBuffer, RegionKey};

use crate::node::Node;
use crate::sys::Registered;
use crate::sys::ffi::Sge;

/// The regions that the endpoint's batches have used so far, by key.
pub(crate) struct Locals {
    node: Arc<Node>,
    known: Vec<Option<Arc<Registered>>>,
}

impl Locals {
    pub(crate) fn new(node: Arc<Node>) -> Self {
        Locals { node, known: Vec::new() }
    }

    /// Looks a region up. Returns its length in bytes.
    #[inline]
    pub(crate) fn learn(&mut self, key: RegionKey) -> Option<u64> {
        let index = usize::from(key.0);
        if let Some(Some(region)) = self.known.get(index) {
            return Some(region.len);
        }
        let region = self.node.region(key)?;
        if self.known.len() <= index {
            self.known.resize(index + 1, None);
        }
        let len = region.len;
        self.known[index] = Some(region);
        Some(len)
    }

    /// A checked local buffer, in the form in which the device addresses it.
    pub(crate) fn sge(&self, buffer: LocalBuffer) -> Sge {
        let region = self.known[usize::from(buffer.region.0)].as_ref();
        let region = region.expect("learned when posted");
        strict_assert!(
            buffer.offset + u64::from(buffer.len) <= region.len,
            "{buffer:?} leaves its region of {} bytes",
            region.len
        );
        Sge { addr: region.address + buffer.offset, length: buffer.len, lkey: region.lkey }
    }
}
