//! The counter that assigns the numbers of new records.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::key::RecordNumber;

/// The numbers of records to insert, and a bound: all inserts of numbers below the bound have
/// ended.
///
/// Processes that insert into one store share the numbers evenly, without communication: each of n
/// processes has every n-th number. A process's *own count* numbers the loaded records and its own
/// inserts without gaps. The process requests no records that other processes insert.
///
/// Workers insert in parallel and finish out of order. [`known`](InsertCounter::known) passes a
/// number only when that number and all numbers before it are acknowledged. So a worker that draws
/// below `known` requests no record whose insert has not ended.
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
    /// The bound, in the own count: all numbers below `known` are acknowledged. Written only under
    /// the lock of `early`.
    known: AtomicU64,
    /// Acknowledged numbers, in the own count, that wait for an earlier number.
    early: Mutex<BinaryHeap<Reverse<u64>>>,
    /// Numbers below `first` are loaded records, which all processes request.
    first: u64,
    process: u64,
    processes: u64,
}

impl InsertCounter {
    /// The first assigned number is `first`. All numbers before it count as acknowledged.
    pub fn new(first: RecordNumber) -> InsertCounter {
        InsertCounter::of_process(first, 0, 1)
    }

    /// The counter of process `process`, from 0, of `processes` processes that share the numbers
    /// from `first` on.
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

    /// The record with number `own` in this process's own count.
    #[inline]
    pub fn record(&self, own: u64) -> RecordNumber {
        match own.checked_sub(self.first) {
            Some(inserted) => RecordNumber(self.first + inserted * self.processes + self.process),
            None => RecordNumber(own),
        }
    }

    /// A number that no other worker gets. The caller passes the number to
    /// [`acknowledge`](InsertCounter::acknowledge) once the insert has ended, with success or not.
    /// Until the call no later number becomes known.
    pub fn claim(&self) -> RecordNumber {
        self.record(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Reports that the insert of a claimed number has ended.
    pub fn acknowledge(&self, record: RecordNumber) {
        // A poisoned lock is no problem: the heap is consistent between any two of its operations.
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        let inserted = record.0.saturating_sub(self.first) / self.processes;
        early.push(Reverse(self.first + inserted));
        let mut known = self.known.load(Ordering::Relaxed);
        while early.peek().is_some_and(|Reverse(number)| *number <= known) {
            if let Some(Reverse(number)) = early.pop() {
                known = known.max(number + 1);
            }
        }
        // Release, paired with the acquire in `known`: a reader of the new bound also sees the
        // memory writes of the inserting workers.
        self.known.store(known, Ordering::Release);
    }

    /// The bound, in this process's own count: the inserts of all [records](InsertCounter::record)
    /// below it have ended.
    #[inline]
    pub fn known(&self) -> RecordNumber {
        RecordNumber(self.known.load(Ordering::Acquire))
    }

    /// The number that the next `claim` returns.
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
