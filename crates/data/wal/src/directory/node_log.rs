//! [`NodeLog`]: the log of one node, as the directory knows it.

use latchwork_runtime::sync::{Arc, AtomicU64, Ordering};

use crate::{LogEnd, Timestamp};

/// The log of one node.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeLog {
    /// A [`Log`](crate::Log) appends to the last segment, or a log that did so has failed.
    pub(super) open: bool,
    pub(super) segments: Vec<Segment>,
    /// The highest timestamp of all durable records.
    pub(super) through: Timestamp,
    /// The durable end of the log.
    pub(super) end: LogEnd,
    /// The end of the log behind its end record; `None` when this process has not closed the log.
    pub(super) closed: Option<LogEnd>,
    /// The number of log records since the start of the log whose commits other nodes may see.
    /// `None` when other nodes see durable commits only.
    pub(super) visible: Option<Arc<AtomicU64>>,
}

impl NodeLog {
    /// The number of log records whose commits other nodes may see, durable or not.
    pub(super) fn seen(&self) -> u64 {
        let visible = self.visible.as_ref().map_or(0, |all| all.load(Ordering::Relaxed));
        visible.max(self.end.groups)
    }
}

/// One segment of a node's log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// The number of the segment: above that of the previous segment.
    pub number: u64,
    /// The highest timestamp in all previous segments.
    pub before: Timestamp,
    /// The count of log records in all previous segments.
    pub groups: u64,
}
