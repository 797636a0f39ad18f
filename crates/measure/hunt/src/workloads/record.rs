//! [`Record`]: the recorded calls and counts of all tasks, for any workload.

use latchwork_blink::TreeStatistics;

use super::buffered::BufferedRecord;
use super::lines::LinesRecord;
use super::locks::LocksRecord;
use super::memory::MemoryRecord;
use super::rtree::BoxesRecord;
use super::tree::TreeRecord;
use super::ycsb::YcsbRecord;
use crate::checks::CheckResult;

/// The recorded calls and counts of all tasks.
pub(crate) enum Record {
    Lines(LinesRecord),
    Buffered(BufferedRecord),
    Locks(LocksRecord),
    Tree(TreeRecord),
    Memory(MemoryRecord),
    Ycsb(YcsbRecord),
    Rtree(BoxesRecord),
}

impl Record {
    /// The statistics of the tree at the end, if there was one.
    pub(crate) fn tree(&self) -> Option<TreeStatistics> {
        match self {
            Record::Tree(record) => record.statistics.clone(),
            Record::Ycsb(record) => record.statistics.clone(),
            Record::Lines(_)
            | Record::Buffered(_)
            | Record::Locks(_)
            | Record::Memory(_)
            | Record::Rtree(_) => None,
        }
    }

    /// Adds the record of another thread of the same workload.
    pub(crate) fn merge(&mut self, other: Record) {
        match (self, other) {
            (Record::Lines(all), Record::Lines(more)) => all.merge(more),
            (Record::Buffered(all), Record::Buffered(more)) => all.merge(more),
            (Record::Locks(all), Record::Locks(more)) => all.merge(more),
            (Record::Tree(all), Record::Tree(more)) => all.merge(more),
            (Record::Memory(all), Record::Memory(more)) => all.merge(more),
            (Record::Ycsb(all), Record::Ycsb(more)) => all.merge(more),
            (Record::Rtree(all), Record::Rtree(more)) => all.merge(more),
            _ => unreachable!("all threads have the same workload"),
        }
    }

    /// Checks the record. Returns the number of objects for which the check gave up.
    pub(crate) fn judge(&self) -> CheckResult {
        match self {
            Record::Lines(record) => record.judge().map(|()| 0),
            Record::Buffered(record) => record.judge().map(|()| 0),
            Record::Locks(record) => record.judge().map(|()| 0),
            Record::Tree(record) => record.judge(),
            Record::Memory(record) => record.judge().map(|()| 0),
            Record::Ycsb(record) => record.judge(),
            Record::Rtree(record) => record.judge(),
        }
    }
}
