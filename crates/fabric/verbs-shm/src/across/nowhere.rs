//! [`Directory`] on systems without shared directories: a type without values, so no call of its
//! methods ever happens.

use std::sync::Arc;

use latchwork_verbs::{ComputeNodeId, MemoryNodeId, Region};

use super::page::Page;
use super::ring::{Ends, Ring};
use crate::ShmError;

pub(crate) enum Directory {}

impl Directory {
    pub(crate) fn incarnation(&self) -> u64 {
        match *self {}
    }

    pub(crate) fn make_memory(&self, _: MemoryNodeId, _: usize) -> Result<Arc<Region>, ShmError> {
        match *self {}
    }

    pub(crate) fn make_page(&self, _: ComputeNodeId) -> Result<Arc<Page>, ShmError> {
        match *self {}
    }

    pub(crate) fn make_region(&self, _: usize) -> Result<Arc<Region>, ShmError> {
        match *self {}
    }

    pub(crate) fn number_of(&self, _: &Arc<Region>) -> Option<u64> {
        match *self {}
    }

    pub(crate) fn ring(&self, _: Ends, _: usize) -> Result<Ring, ShmError> {
        match *self {}
    }

    pub(crate) fn remove_ring(&self, _: Ends) {
        match *self {}
    }
}
