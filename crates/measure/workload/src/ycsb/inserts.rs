//! The counter that assigns the numbers of new records.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::key::RecordNumber;

/// Numbers for records to insert, and the bound below which all records are known to be in the
/// store.
///
/// Processes that insert into one store share the numbers evenly, without communication: each of n
/// processes has every n-th number. Each process counts its own numbers without gaps, and knows no
/// records that other processes insert.
///
/// Workers insert in parallel and finish out of order. [`known`](InsertCounter::known) passes a
/// number only when that number and all numbers before it are acknowledged. So a worker that draws
/// below `known` requests no record that is still missing.
///
/// ```
/// use latchwork_workload::ycsb::{InsertCounter, RecordNumber};
///
/// let inserts = InsertCounter::new(RecordNumber(100));
/// let (first, second) = (inserts.claim(), inserts.claim());
/// inserts.acknowledge(second);
/// assert_eq!(inserts.known(), RecordNumber(100));
/// inserts.acknowledge(first);
/// assert_eq!(inserts.known(), RecordNumber(102));
/// ```
#[derive(Debug)]
pub struct InsertCounter {
    next: AtomicU64,
    /// All numbers below this one are acknowledged. Written only under the lock.
    known: AtomicU64,
    early: Mutex<BinaryHeap<Reverse<u64>>>,
    /// Numbers below this one belong to all processes.
    first: u64,
    process: u64,
    processes: u64,
}

impl InsertCounter {
    /// The first assigned number is `first`. All numbers before it count as acknowledged.
    pub fn new(first: RecordNumber) -> InsertCounter {
        InsertCounter::of_process(first, 0, 1)
    }

    /// The counter of one of `processes` processes, counted from 0, which share the numbers from
    /// `first` on.
    pub fn of_process(first: RecordNumber, process: u64, processes: u64) -> InsertCounter {
        InsertCounter {
            next: AtomicU64::new(first.0),
            known: AtomicU64::new(first.0),
            early: Mutex::new(BinaryHeap::new()),
            first: first.0,
            process,
            processes: processes.max(1),
        }
    }

    /// The record with this number in this process's own count.
    #[inline]
    pub fn record(&self, own: u64) -> RecordNumber {
        match own.checked_sub(self.first) {
            Some(inserted) => RecordNumber(self.first + inserted * self.processes + self.process),
            None => RecordNumber(own),
        }
    }

    /// A number that no other worker has. Pass it to [`acknowledge`](InsertCounter::acknowledge)
    /// once the insert has ended, with success or not: until then no later number becomes known.
    pub fn claim(&self) -> RecordNumber {
        self.record(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Reports that the insert of a claimed number has ended.
    pub fn acknowledge(&self, record: RecordNumber) {
        // The heap is consistent between any two of its operations, so a panic elsewhere does no
        // harm.
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        let inserted = record.0.saturating_sub(self.first) / self.processes;
        early.push(Reverse(self.first + inserted));
        let mut known = self.known.load(Ordering::Relaxed);
        while early.peek().is_some_and(|Reverse(number)| *number <= known) {
            if let Some(Reverse(number)) = early.pop() {
                known = known.max(number + 1);
            }
        }
        // A reader of the new bound also sees the writes of the inserting workers.
        self.known.store(known, Ordering::Release);
    }

    /// All [records](InsertCounter::record) below this one in this process's own count are in the
    /// store.
    #[inline]
    pub fn known(&self) -> RecordNumber {
        RecordNumber(self.known.load(Ordering::Acquire))
    }

    /// The next number that `claim` would return.
    pub fn claimed(&self) -> RecordNumber {
        self.record(self.next.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn the_bound_waits_for_the_oldest_claim() {
        let inserts = InsertCounter::new(RecordNumber(0));
        let claimed: Vec<RecordNumber> = (0..5).map(|_| inserts.claim()).collect();
        for (acknowledge, known) in [(3, 0), (1, 0), (0, 2), (4, 2), (2, 5)] {
            inserts.acknowledge(claimed[acknowledge]);
            assert_eq!(inserts.known(), RecordNumber(known));
        }
        assert_eq!(inserts.claimed(), RecordNumber(5));
    }

    #[test]
    fn processes_share_the_numbers_and_know_their_own() {
        let counters: Vec<_> =
            (0..3).map(|process| InsertCounter::of_process(RecordNumber(10), process, 3)).collect();
        let claimed = counters.iter().flat_map(|counter| [counter.claim(), counter.claim()]);
        let mut claimed: Vec<_> = claimed.map(|record| record.0).collect();
        claimed.sort_unstable();
        assert_eq!(claimed, [10, 11, 12, 13, 14, 15]);
        let second = &counters[1];
        assert_eq!((second.record(9), second.record(11)), (RecordNumber(9), RecordNumber(14)));
        second.acknowledge(RecordNumber(14));
        assert_eq!(second.known(), RecordNumber(10), "its first one is not there yet");
        second.acknowledge(RecordNumber(11));
        assert_eq!((second.known(), second.claimed()), (RecordNumber(12), RecordNumber(17)));
    }

    #[test]
    fn parallel_workers_lose_and_double_nothing() {
        let inserts = Arc::new(InsertCounter::new(RecordNumber(10)));
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let inserts = Arc::clone(&inserts);
                std::thread::spawn(move || {
                    for _ in 0..2000 {
                        let record = inserts.claim();
                        assert!(inserts.known() <= record);
                        inserts.acknowledge(record);
                    }
                })
            })
            .collect();
        for worker in workers {
            worker.join().unwrap();
        }
        assert_eq!(inserts.known(), RecordNumber(8010));
    }
}
