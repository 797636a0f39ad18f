//! [`Hosted`]: a node of this process, as the node's agent sees it.

use std::sync::Arc;

use latchwork_runtime::Clock;
use latchwork_runtime::sync::RwLock;
use latchwork_strict::{strict_assert, strict_assert_ne};
use latchwork_verbs::{Extent, Region, RegionKey};
use latchwork_verbs_shm as shm;

use super::counters::Counters;
use super::sessions::Seats;
use crate::config::AgentLimits;
use crate::security::Security;
use crate::wire::TcpNode;

/// A node of this process: a memory node with its memory, or a compute node with regions and an
/// inbox.
pub(crate) struct Hosted {
    pub(crate) node: TcpNode,
    /// The random number of this start of the node. Not 0, because 0 means any start in a greeting.
    pub(crate) incarnation: u64,
    /// The inbox of a compute node.
    pub(crate) inbox: Option<shm::ShmInbox>,
    pub(crate) clock: Clock,
    pub(crate) security: Security,
    pub(crate) limits: AgentLimits,
    pub(crate) seats: Seats,
    pub(crate) counters: Arc<Counters>,
    /// The lengths of the two ranges that the region of a memory node has.
    memory: Option<Extent>,
    regions: RwLock<Vec<Arc<Region>>>,
}

/// What a node has when it is made.
pub(crate) enum Content {
    /// The region of a memory node, which has both ranges, and their lengths.
    Memory(Arc<Region>, Extent),
    /// The inbox of a compute node.
    Compute(shm::ShmInbox),
}

impl Hosted {
    #[allow(clippy::too_many_arguments, reason = "it is only taken together")]
    pub(crate) fn new(
        node: TcpNode,
        incarnation: u64,
        content: Content,
        (security, limits): (Security, AgentLimits),
        clock: Clock,
        counters: Arc<Counters>,
    ) -> Self {
        let (inbox, memory, regions) = match content {
            Content::Memory(region, extent) => (None, Some(extent), vec![region]),
            Content::Compute(inbox) => (Some(inbox), None, Vec::new()),
        };
        strict_assert_ne!(incarnation, 0, "in a greeting 0 means any incarnation");
        strict_assert!(
            inbox.is_some() == matches!(node, TcpNode::Compute(_)),
            "messages are for compute nodes only"
        );
        let (seats, regions) = (Seats::new(limits.connections), RwLock::new(regions));
        Hosted {
            node,
            incarnation,
            inbox,
            clock,
            security,
            limits,
            seats,
            counters,
            memory,
            regions,
        }
    }

    /// Adds a region. Returns its key, or `None` when no key is left.
    pub(crate) fn register(&self, region: Arc<Region>) -> Option<RegionKey> {
        let mut regions = self.regions.write();
        let key = u16::try_from(regions.len()).ok()?;
        regions.push(region);
        strict_assert!(usize::from(key) + 1 == regions.len(), "a key names another region");
        Some(RegionKey(key))
    }

    pub(crate) fn region(&self, key: u16) -> Option<Arc<Region>> {
        self.regions.read().get(usize::from(key)).cloned()
    }

    /// The lengths of all regions, in bytes. A memory node with on-chip memory gives the lengths of
    /// its two ranges instead.
    pub(crate) fn lengths(&self) -> Vec<u64> {
        match self.memory {
            Some(Extent { bytes, chip_bytes: 0 }) => vec![bytes],
            Some(Extent { bytes, chip_bytes }) => vec![bytes, chip_bytes],
            None => self.regions.read().iter().map(|region| region.len() as u64).collect(),
        }
    }

    /// The lengths of a region.
    pub(crate) fn extent(&self, key: u16) -> Option<Extent> {
        let region = self.region(key)?;
        Some(self.memory.unwrap_or(Extent::from(region.len())))
    }

    /// The current time on the clock of batch leases, in nanoseconds.
    pub(crate) fn now(&self) -> u64 {
        self.clock.now().as_nanos()
    }
}
