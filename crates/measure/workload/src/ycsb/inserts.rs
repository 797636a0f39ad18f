//! The counter that gives out the numbers of new records.

use super::key::RecordNumber;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Numbers for records to insert, and how far all of them are known to be in the store.
///
/// Processes that insert into one store share the numbers evenly, without asking each other: of so
/// many processes each has every so manieth. Each counts its own without gaps, and knows of no
/// records that others insert.
///
/// Workers insert in parallel and finish out of order. [`known`](InsertCounter::known) passes a
/// number only when it and all before it were acknowledged, so whoever draws below it asks for no
/// record that is not there yet.
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
    /// All numbers below it are acknowledged. Written under the lock only.
    known: AtomicU64,
    early: Mutex<BinaryHeap<Reverse<u64>>>,
    /// Numbers below it are everybody's.
    first: u64,
    process: u64,
    processes: u64,
}

impl InsertCounter {
    /// The first number given out is `first`; all before it count as acknowledged.
    pub fn new(first: RecordNumber) -> InsertCounter {
        InsertCounter::of_process(first, 0, 1)
    }

    /// That of one of so many processes, counted from 0, which share the numbers from `first` on.
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

    /// A number that nobody else has. Give it to [`acknowledge`](InsertCounter::acknowledge) once
    /// the insert is over, whatever came of it: until then no later number counts.
    pub fn claim(&self) -> RecordNumber {
        self.record(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// The insert of a claimed number is over.
    pub fn acknowledge(&self, record: RecordNumber) {
        // The heap is whole between any two of its operations, so a panic elsewhere does not
        // matter.
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        let inserted = record.0.saturating_sub(self.first) / self.processes;
        early.push(Reverse(self.first + inserted));
        let mut known = self.known.load(Ordering::Relaxed);
        while early.peek().is_some_and(|Reverse(number)| *number <= known) {
            if let Some(Reverse(number)) = early.pop() {
                known = known.max(number + 1);
            }
        }
        // Whoever reads the new bound also sees what the inserting workers did before.
        self.known.store(known, Ordering::Release);
    }

    /// All [records](InsertCounter::record) below this one in this process's own count are there.
    #[inline]
    pub fn known(&self) -> RecordNumber {
        RecordNumber(self.known.load(Ordering::Acquire))
    }

    /// The next number that would be given out.
    pub fn claimed(&self) -> RecordNumber {
        self.record(self.next.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

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
