//! The subject of a measurement: a tree of ours or of another crate, with its boxes.

use std::time::Duration;

use latchwork_runtime::Clock;
use serde::Serialize;

use super::data::Data;
use crate::error::Failure;

/// What is compared. Ours come first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Structure {
    /// Our tree, all threads on one compute node.
    Latchwork,
    /// Our tree, threads shared out to two compute nodes.
    LatchworkTwo,
    Rstar,
    Static,
}

/// How a tree got its boxes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Built {
    /// All at once.
    Packed,
    /// One by one, in random order.
    Grown,
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Work {
    /// Windows with about 2 hits.
    Few,
    /// Windows with about 110 hits.
    Some,
    /// Windows with about 9,000 hits.
    Many,
    /// The 10 nearest entries.
    NearestTen,
    Nearest,
    Insert,
    Remove,
    /// All boxes into an empty tree.
    Load,
    /// Bytes of pages in use per byte of entries.
    Memory,
}

/// The entry of a tree without overhead: four coordinates and an id.
pub(crate) const ENTRY_BYTES: usize = 40;

impl Structure {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Structure::Latchwork => "latchwork",
            Structure::LatchworkTwo => "latchwork on two nodes",
            Structure::Rstar => "rstar",
            Structure::Static => "static_aabb2d_index",
        }
    }

    pub(crate) fn is_ours(self) -> bool {
        self <= Structure::LatchworkTwo
    }
}

impl Work {
    pub(crate) const QUERIES: [Work; 5] =
        [Work::Few, Work::Some, Work::Many, Work::NearestTen, Work::Nearest];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Work::Few => "window, 2 hits",
            Work::Some => "window, 110 hits",
            Work::Many => "window, 9,000 hits",
            Work::NearestTen => "10 nearest",
            Work::Nearest => "1 nearest",
            Work::Insert => "insert",
            Work::Remove => "remove",
            Work::Load => "load",
            Work::Memory => "memory",
        }
    }

    /// Queries between two clock readings.
    pub(crate) fn batch(self) -> usize {
        match self {
            Work::Many => 1,
            Work::Some => 16,
            _ => 64,
        }
    }
}

/// One repetition of a query.
#[derive(Clone, Copy)]
pub(crate) struct Job<'a> {
    pub(crate) work: Work,
    pub(crate) threads: usize,
    pub(crate) data: &'a Data,
    /// The first query, which differs between repetitions.
    pub(crate) start: usize,
    pub(crate) time: Duration,
    pub(crate) clock: Clock,
}

impl Job<'_> {
    /// The first query of a thread. Threads are far from each other.
    pub(crate) fn start_of(&self, thread: usize) -> usize {
        self.start + thread * 10_007
    }
}

/// A tree that can be filled, measured and emptied.
pub(crate) trait Subject {
    fn structure(&self) -> Structure;
    /// Whether the structure can be built like this.
    fn can(&self, built: Built) -> bool;
    /// Fills a new tree, and returns boxes per second. What was there before is dropped.
    fn fill(&mut self, built: Built, data: &Data, clock: Clock) -> Result<f64, Failure>;
    /// Queries per second.
    fn measure(&mut self, job: Job<'_>) -> Result<f64, Failure>;
    /// Inserts the boxes that come and go, and removes them. Returns inserts and removes per
    /// second.
    fn churn(&mut self, data: &Data, clock: Clock) -> Result<(f64, f64), Failure>;
    /// The bytes of pages per byte of entries, for a tree that can tell.
    fn memory(&self, data: &Data) -> Result<Option<f64>, Failure>;
}

/// A wrong answer of a tree.
pub(crate) fn wrong(structure: Structure, work: Work, index: usize) -> Failure {
    let query = format!("{} number {index}", work.name());
    Failure::WrongAnswer { structure: structure.name(), query }
}
