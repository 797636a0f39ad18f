//! Histories of a sample of the lines, for a check after the run: whether one order of the accesses
//! to each item explains the answers of all clients.
//!
//! The stamps of one item differ. Each client has its own stamps for blind writes. A locked write
//! adds one to the stamp that it finds, so two locked writes with the same stamp mean a lost write.

use std::collections::BTreeSet;

use latchwork_history::calls::{Call, CallHistory, RegisterOperation, check_register};
use latchwork_runtime::Time;
use latchwork_runtime::sync::{AtomicU64, Ordering};
use latchwork_workload::micro::{AccessStream, ClientIndex, ItemTag, MicroWorkload};

/// The highest number of lines with a recorded history. At most an eighth of all lines have one.
const LINES: u64 = 256;
const OF_LINES: u64 = 8;

/// Maximum number of draws to find these lines.
const DRAWS: usize = 10_000;

/// The highest number of recorded accesses of all workers together. After it the workers record no
/// accesses.
const CALLS: usize = 400_000;

/// The lines with a recorded history: the first lines that clients request, so that popular lines
/// are among them.
pub(crate) struct Sample {
    has: Vec<bool>,
    /// Maximum number of calls per worker.
    room: usize,
    /// The time, in nanoseconds, after which calls may be missing from the record.
    until: AtomicU64,
}

impl Sample {
    pub(crate) fn new(workload: &MicroWorkload, workers: usize, seed: u64) -> Sample {
        let mut has = vec![false; workload.lines() as usize];
        let mut left = LINES.min(workload.lines().div_ceil(OF_LINES));
        let mut stream = AccessStream::new(workload, ClientIndex { node: 0, client: 0 }, seed);
        for _ in 0..DRAWS {
            let line = stream.draw().line as usize;
            if left > 0 && !has[line] {
                has[line] = true;
                left -= 1;
            }
        }
        let room = (CALLS / workers.max(1)).max(1);
        Sample { has, room, until: AtomicU64::new(Time::MAX.as_nanos()) }
    }

    /// Whether the history of this line is recorded.
    #[inline]
    pub(crate) fn has(&self, line: u64) -> bool {
        self.has[line as usize]
    }

    /// Sets the time after which calls may be missing from the record, unless it is earlier
    /// already.
    pub(crate) fn ends(&self, until: Time) {
        self.until.fetch_min(until.as_nanos(), Ordering::AcqRel);
    }

    /// The time up to which all calls are recorded.
    pub(crate) fn until(&self) -> Time {
        Time::from_nanos(self.until.load(Ordering::Acquire))
    }
}

/// An item, by its line and its index in the line.
pub(crate) type Item = (u64, u64);

/// The history of the sample, of one worker or of all.
pub(crate) type History = CallHistory<Item, RegisterOperation<ItemTag>>;

impl Sample {
    /// Records an access to a line of the sample into a worker's history.
    pub(crate) fn note(
        &self,
        history: &mut History,
        item: Item,
        (invoked, returned): (Time, Time),
        operation: RegisterOperation<ItemTag>,
    ) {
        if invoked >= self.until() {
            return;
        }
        history.record(item, Call { invoked, returned: Some(returned), operation });
        if history.len() == self.room {
            // Calls that any worker begins after this time may be missing.
            self.ends(returned);
        }
    }

    /// Checks whether one order of the accesses to each item explains the answers of all workers.
    ///
    /// # Errors
    /// The first item without such an order.
    pub(crate) fn judge(&self, history: &History) -> Result<(), String> {
        let until = self.until();
        let checked = history.check(|calls| {
            // A read that returned after `until` may have seen a write that was not recorded. A
            // read that returned earlier saw only writes that began earlier, and all these are
            // recorded.
            let known = |call: &&Call<RegisterOperation<ItemTag>>| {
                matches!(call.operation, RegisterOperation::Write(_))
                    || call.returned.is_some_and(|returned| returned <= until)
            };
            let calls: Vec<_> = calls.iter().filter(known).copied().collect();
            check_register(ItemTag::default(), &calls)
        });
        checked
            .map_err(|((line, item), violation)| format!("item {item} of line {line}: {violation}"))
    }
}

/// Adds a write that never returned for each stamp in the history that no call wrote: a client
/// wrote it whose history is not known, because its node has died.
pub(crate) fn allow_unknown_writes(history: &mut History) {
    let mut unknown = Vec::new();
    for (item, calls) in history.calls() {
        let (mut found, mut written) = (BTreeSet::new(), BTreeSet::from([ItemTag::default()]));
        for call in calls {
            match call.operation {
                RegisterOperation::Read(stamp) => found.insert(stamp),
                RegisterOperation::Write(stamp) => written.insert(stamp),
            };
        }
        unknown.extend(found.difference(&written).map(|stamp| (*item, *stamp)));
    }
    for (item, stamp) in unknown {
        let operation = RegisterOperation::Write(stamp);
        history.record(item, Call { invoked: Time::ZERO, returned: None, operation });
    }
}

#[cfg(test)]
mod tests {
    use latchwork_workload::micro::{MicroConfig, Popularity, WriteKind};

    use super::*;

    fn sample(room: usize) -> Sample {
        let config = MicroConfig {
            lines: 100,
            scale: 1,
            items_per_line: 2,
            nodes: 2,
            reads: 0.5,
            writer_nodes: 0,
            sharing: 1.0,
            temporal: 0.0,
            spatial: 0.0,
            popularity: Popularity::Uniform,
            writes: WriteKind::Blind,
        };
        let mut sample = Sample::new(&MicroWorkload::new(config).expect("a workload"), 1, 5);
        sample.room = room;
        sample
    }

    fn note(
        history: &mut History,
        sample: &Sample,
        at: u64,
        operation: RegisterOperation<ItemTag>,
    ) {
        let span = (Time::from_nanos(at), Time::from_nanos(at + 5));
        sample.note(history, (3, 1), span, operation);
    }

    const fn write(stamp: u64) -> RegisterOperation<ItemTag> {
        RegisterOperation::Write(ItemTag(stamp))
    }

    const fn read(stamp: u64) -> RegisterOperation<ItemTag> {
        RegisterOperation::Read(ItemTag(stamp))
    }

    #[test]
    fn an_eighth_of_the_lines_is_kept() {
        let sample = sample(10);
        assert_eq!((0..100).filter(|line| sample.has(*line)).count(), 13);
    }

    #[test]
    fn a_stale_read_and_a_lost_write_are_judged_wrong() {
        let sample = sample(100);
        let judge = |calls: &[(u64, RegisterOperation<ItemTag>)]| {
            let mut history = History::default();
            calls.iter().for_each(|(at, call)| note(&mut history, &sample, *at, *call));
            sample.judge(&history)
        };
        assert_eq!(judge(&[(10, write(1)), (20, read(1)), (30, write(2)), (40, read(2))]), Ok(()));
        let stale = judge(&[(10, write(1)), (20, write(2)), (30, read(1))]).expect_err("stale");
        assert!(stale.contains("item 1 of line 3") && !stale.contains('\n'), "{stale}");
        assert!(judge(&[(10, write(1)), (20, write(1))]).is_err(), "both found 0: one is lost");
        assert!(judge(&[(10, read(7))]).is_err(), "nobody wrote it");
    }

    #[test]
    fn dead_nodes_may_have_written_what_no_living_one_wrote() {
        let sample = sample(100);
        let judge = |calls: &[(u64, RegisterOperation<ItemTag>)]| {
            let mut history = History::default();
            calls.iter().for_each(|(at, call)| note(&mut history, &sample, *at, *call));
            assert!(sample.judge(&history).is_err(), "without the dead");
            allow_unknown_writes(&mut history);
            sample.judge(&history)
        };
        assert_eq!(judge(&[(10, write(1)), (20, read(7)), (30, write(2)), (40, read(2))]), Ok(()));
        assert!(judge(&[(10, read(7)), (20, write(1)), (30, read(7))]).is_err(), "it came back");
        assert!(judge(&[(10, read(7)), (20, write(1)), (30, write(1))]).is_err(), "one is lost");
    }

    #[test]
    fn what_is_not_kept_any_more_is_not_held_against_reads() {
        let sample = sample(2);
        let (mut first, mut second) = (History::default(), History::default());
        note(&mut first, &sample, 10, write(1));
        note(&mut first, &sample, 20, write(2));
        // The record is full at 25. The write at 30 is not recorded, and a read in progress saw it.
        note(&mut first, &sample, 30, write(3));
        let span = (Time::from_nanos(24), Time::from_nanos(40));
        sample.note(&mut second, (3, 1), span, read(3));
        first.merge(second);
        assert_eq!(first.len(), 3);
        assert_eq!(sample.judge(&first), Ok(()));
        // A stale read from before that time is reported.
        let mut stale = History::default();
        let span = (Time::from_nanos(17), Time::from_nanos(18));
        sample.note(&mut stale, (3, 1), span, read(0));
        first.merge(stale);
        assert!(sample.judge(&first).is_err());
    }
}
