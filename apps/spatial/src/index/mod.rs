//! The R-tree of the program: opened by its name on every worker, filled, and asked.
//!
//! Nothing here knows which nodes there are, where a page is, or which other nodes have a copy: the
//! tree and the memory below see to that.

mod join;
mod levels;
mod load;
mod nearest;
mod open;
mod window;

use latchwork_cluster::Worker;
use latchwork_harness::progress::Title;
use latchwork_rtree::{RTree, RTreeConfig};

pub(crate) use join::{Pair, Pairs};
pub(crate) use levels::{Levels, Sides, levels};
pub(crate) use load::{Load, bulk, inserts};
pub(crate) use nearest::nearest;
pub(crate) use open::open;
pub(crate) use window::{Seen, window};

/// A phase in which workers walk over a whole tree.
pub(crate) const CHECK: Title = Title { name: "check", what: "entries" };

/// A worker's handle on the tree.
pub(crate) type Index = RTree<Worker, 2>;

/// The payload of an entry is a hash of its id and its box.
pub(crate) const CONFIG: RTreeConfig = RTreeConfig { payload_len: 8, ..RTreeConfig::DEFAULT };

/// An answer: an entry, and its distance in the unit of the space.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Found {
    pub(crate) id: u64,
    pub(crate) distance: f64,
}

/// Entries with another payload than their id and their box have.
#[derive(Clone, Default, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Contents {
    /// Entries that were looked at.
    pub(crate) looked_at: u64,
    /// The first wrong one.
    pub(crate) wrong: Option<String>,
}

impl Contents {
    /// Looks at an entry.
    pub(crate) fn check(&mut self, area: &crate::geometry::Area, id: u64, payload: &[u8]) {
        self.looked_at += 1;
        if payload != crate::digest::payload(id, area) && self.wrong.is_none() {
            self.wrong = Some(format!("entry {id} at {area:?}"));
        }
    }

    pub(crate) fn merge(&mut self, other: Contents) {
        self.looked_at += other.looked_at;
        self.wrong = self.wrong.take().or(other.wrong);
    }
}
