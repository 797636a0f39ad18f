//! Recording a history: a [`Recording`] for the run, a [`Recorder`] for each worker, and a
//! [`Record`] for each running transaction.

use std::io::Write;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use latchwork_files::Stream;
use parking_lot::Mutex;

use crate::file::{header, line};
use crate::{
    Direction, HistoryError, RecordedChange, RecordedOperation, RecordedTransaction, RowVersion,
    Scan, SeenKey, TransactionHistory, TransactionId, TransactionOutcome,
};

/// The size at which a worker's buffer goes to the file, in bytes.
const BUFFER: usize = 64 << 10;

/// A recording in progress, to a file or in memory. With a file, each recorder has a buffer of
/// about 64 KiB.
pub struct Recording {
    shared: Arc<Shared>,
}

struct Shared {
    base: RowVersion,
    sink: Sink,
    /// The buffers of all live recorders.
    lanes: Mutex<Vec<Arc<Lane>>>,
}

enum Sink {
    File { path: PathBuf, state: Mutex<FileState> },
    Memory(Mutex<Vec<RecordedTransaction>>),
}

struct FileState {
    file: Stream,
    /// The first error. After an error nothing is written, so the file has no gap.
    failed: Option<std::io::Error>,
    transactions: u64,
}

#[derive(Default)]
struct Lane(Mutex<LaneState>);

#[derive(Default)]
struct LaneState {
    sequence: u64,
    lines: Vec<u8>,
    count: u64,
}

impl Recording {
    /// Records to a file, which is truncated, or to a FIFO that has a reader. `base` is the highest
    /// commit timestamp in the database, 0 for an empty database.
    ///
    /// # Errors
    /// [`HistoryError::Io`] if the file cannot be opened, or if its first line cannot be written.
    pub fn create(path: &Path, base: RowVersion) -> Result<Recording, HistoryError> {
        let make = || {
            let mut file = latchwork_files::grow(path)?;
            file.write_all(&header(base))?;
            Ok(file)
        };
        let file = make().map_err(|cause| HistoryError::io("creating the history", path, cause))?;
        let state = FileState { file, failed: None, transactions: 0 };
        Ok(Recording::over(base, Sink::File { path: path.to_owned(), state: Mutex::new(state) }))
    }

    /// Records to memory, for tests and simulated worlds.
    pub fn memory(base: RowVersion) -> Recording {
        Recording::over(base, Sink::Memory(Mutex::default()))
    }

    fn over(base: RowVersion, sink: Sink) -> Recording {
        Recording { shared: Arc::new(Shared { base, sink, lanes: Mutex::default() }) }
    }

    /// A recorder for one worker. Clones of a recorder share one buffer and one sequence of
    /// numbers.
    pub fn recorder(&self) -> Recorder {
        let lane = Arc::new(Lane::default());
        self.shared.lanes.lock().push(lane.clone());
        Recorder(Some(Arc::new(Worker { shared: self.shared.clone(), lane })))
    }

    /// The transactions finished so far of a recording to memory, in the order of the calls of
    /// [`Recorder::finish`]. Empty for a recording to a file.
    pub fn history(&self) -> TransactionHistory {
        let transactions = match &self.shared.sink {
            Sink::Memory(transactions) => transactions.lock().clone(),
            Sink::File { .. } => Vec::new(),
        };
        TransactionHistory { base: self.shared.base, transactions }
    }

    /// Writes the buffers of all recorders, and returns the number of recorded transactions.
    ///
    /// # Errors
    /// [`HistoryError::Io`] with the first error of any write to the file. Only this method reports
    /// write errors, so a full disk does not end the recorded run.
    pub fn finish(self) -> Result<u64, HistoryError> {
        for lane in self.shared.lanes.lock().iter() {
            self.shared.flush(&mut lane.0.lock());
        }
        match &self.shared.sink {
            Sink::Memory(transactions) => Ok(transactions.lock().len() as u64),
            Sink::File { path, state } => {
                let mut state = state.lock();
                match state.failed.take() {
                    Some(cause) => Err(HistoryError::io("writing the history", path, cause)),
                    None => Ok(state.transactions),
                }
            }
        }
    }
}

impl Shared {
    fn flush(&self, lane: &mut LaneState) {
        let Sink::File { state, .. } = &self.sink else { return };
        if lane.count == 0 {
            return;
        }
        let mut state = state.lock();
        if state.failed.is_none() {
            match state.file.write_all(&lane.lines) {
                Ok(()) => state.transactions += lane.count,
                Err(error) => state.failed = Some(error),
            }
        }
        lane.lines.clear();
        lane.count = 0;
    }
}

struct Worker {
    shared: Arc<Shared>,
    lane: Arc<Lane>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.shared.flush(&mut self.lane.0.lock());
        self.shared.lanes.lock().retain(|lane| !Arc::ptr_eq(lane, &self.lane));
    }
}

/// A worker's recorder. Each call of a recorder that is [off](Recorder::off) costs one branch.
///
/// ```
/// use std::ops::Bound;
/// use latchwork_record::{Direction, RecordedChange, Recording, TransactionOutcome};
///
/// let recording = Recording::memory(0);
/// let recorder = recording.recorder();
/// let mut record = recorder.begin(0, 1, 1_000);
/// record.read(7, b"stock", 0);
/// let scan = record.scan(7, Bound::Included(b"a"), Bound::Unbounded, Direction::Up);
/// record.saw(scan, b"apple", Some(64));
/// record.stopped(scan, b"apple");
/// record.write(7, b"stock", RecordedChange::Put);
/// recorder.finish(record, TransactionOutcome::Committed { cts: 128 }, 2_000);
/// assert_eq!(recording.history().transactions.len(), 1);
/// ```
#[derive(Clone, Default)]
pub struct Recorder(Option<Arc<Worker>>);

impl Recorder {
    /// A recorder that records nothing.
    pub fn off() -> Recorder {
        Recorder(None)
    }

    /// Whether the recorder records.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Begins to record a transaction. `now` is in nanoseconds of the clock that all transactions
    /// share. The caller reads the clock before the transaction's first access.
    #[inline]
    pub fn begin(&self, node: u16, worker: u16, now: u64) -> Record {
        match &self.0 {
            None => Record(None),
            Some(_) => Record(Some(Box::new(RecordedTransaction {
                id: TransactionId { node, worker, sequence: 0 },
                begin: now,
                end: now,
                outcome: TransactionOutcome::Unknown { cts: 0 },
                operations: Vec::new(),
            }))),
        }
    }

    /// Records the outcome of a transaction. The caller reads `now`, in nanoseconds, after the
    /// transaction's writes have become visible and before any client learns the outcome.
    ///
    /// Without this call the transaction is not in the history. A caller may drop a record only if
    /// no other transaction could see a write of the transaction.
    #[inline]
    pub fn finish(&self, record: Record, outcome: TransactionOutcome, now: u64) {
        if let (Some(worker), Some(transaction)) = (&self.0, record.0) {
            worker.finish(*transaction, outcome, now);
        }
    }
}

impl Worker {
    fn finish(&self, mut transaction: RecordedTransaction, outcome: TransactionOutcome, now: u64) {
        transaction.outcome = outcome;
        transaction.end = now.max(transaction.begin);
        let mut lane = self.lane.0.lock();
        transaction.id.sequence = lane.sequence;
        lane.sequence += 1;
        match &self.shared.sink {
            Sink::Memory(transactions) => transactions.lock().push(transaction),
            Sink::File { .. } => {
                lane.lines.extend_from_slice(&line(&transaction));
                lane.count += 1;
                if lane.lines.len() >= BUFFER {
                    self.shared.flush(&mut lane);
                }
            }
        }
    }
}

/// The number of a scan in its record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScanId(usize);

/// The record of a running transaction. With a record that is off, each call costs a branch.
#[derive(Default)]
pub struct Record(Option<Box<RecordedTransaction>>);

impl Record {
    /// A record of nothing.
    pub fn off() -> Record {
        Record(None)
    }

    /// Whether the record is on. A caller with costly arguments asks first.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Records a lookup that saw `version` (see [`RecordedOperation::Read`]). A lookup that found
    /// the transaction's own write is not recorded.
    #[inline]
    pub fn read(&mut self, table: u32, key: &[u8], version: RowVersion) {
        self.push(|| RecordedOperation::Read { table, key: key.into(), version, hash: None });
    }

    /// As [`read`](Record::read), with the hash of the value. The check compares the reader's hash
    /// with the writer's hash.
    #[inline]
    pub fn read_value(&mut self, table: u32, key: &[u8], version: RowVersion, hash: u64) {
        self.push(|| RecordedOperation::Read { table, key: key.into(), version, hash: Some(hash) });
    }

    /// Records a write of a row, or of an index entry that appears or disappears with a row.
    #[inline]
    pub fn write(&mut self, table: u32, key: &[u8], change: RecordedChange) {
        self.push(|| RecordedOperation::Write { table, key: key.into(), change });
    }

    /// Begins a scan. [`saw`](Record::saw) adds each key that the scan finds.
    #[inline]
    pub fn scan(
        &mut self,
        table: u32,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
    ) -> ScanId {
        self.push(|| {
            let (from, to) = (from.map(Box::from), to.map(Box::from));
            RecordedOperation::Scan(Scan {
                table,
                from,
                to,
                direction,
                stopped: None,
                seen: Vec::new(),
            })
        });
        ScanId(self.0.as_ref().map_or(0, |transaction| transaction.operations.len() - 1))
    }

    /// Adds a key that the scan found, with the version that [`SeenKey::version`] describes.
    #[inline]
    pub fn saw(&mut self, scan: ScanId, key: &[u8], version: Option<RowVersion>) {
        if let Some(scan) = self.scan_mut(scan) {
            scan.seen.push(SeenKey { key: key.into(), version });
        }
    }

    /// Records that the scan ended before the end of its range. `key` is the last key that the scan
    /// covered.
    #[inline]
    pub fn stopped(&mut self, scan: ScanId, key: &[u8]) {
        if let Some(scan) = self.scan_mut(scan) {
            scan.stopped = Some(key.into());
        }
    }

    /// Adds the operations of another record of the same transaction, which several nodes run
    /// together. If either record is off, `absorb` adds nothing. Ids of scans in `part` are invalid
    /// afterwards.
    pub fn absorb(&mut self, part: Record) {
        if let (Some(transaction), Some(part)) = (&mut self.0, part.0) {
            transaction.operations.extend(part.operations);
        }
    }

    #[inline]
    fn push(&mut self, operation: impl FnOnce() -> RecordedOperation) {
        if let Some(transaction) = &mut self.0 {
            transaction.operations.push(operation());
        }
    }

    fn scan_mut(&mut self, scan: ScanId) -> Option<&mut Scan> {
        match self.0.as_mut()?.operations.get_mut(scan.0)? {
            RecordedOperation::Scan(scan) => Some(scan),
            RecordedOperation::Read { .. } | RecordedOperation::Write { .. } => None,
        }
    }
}
