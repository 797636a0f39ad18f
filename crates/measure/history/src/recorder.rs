//! Recording: [`Recording`], and what each worker has of it, a [`Recorder`].

use std::io::Write;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use latchwork_files::Stream;
use parking_lot::Mutex;

use crate::file::{header, line};
use crate::{
    Change, Direction, History, HistoryError, Operation, Outcome, Scan, Seen, Transaction,
    TransactionId, Version,
};

/// What a worker collects before it goes to the file, in bytes.
const BUFFER: usize = 64 << 10;

/// A history under way: to a file, or kept in memory. Its memory with a file is one buffer of 64
/// KiB for each [`Recorder`].
pub struct Recording {
    shared: Arc<Shared>,
}

struct Shared {
    base: Version,
    sink: Sink,
    /// What the recorders have not handed over.
    lanes: Mutex<Vec<Arc<Lane>>>,
}

enum Sink {
    File { path: PathBuf, state: Mutex<FileState> },
    Memory(Mutex<Vec<Transaction>>),
}

struct FileState {
    file: Stream,
    /// The first error. Nothing is written after it, so that the file ends in one place.
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
    /// Records to a file, which is emptied and grows, or to a FIFO that has a reader. `base` is the
    /// highest timestamp of what is in the database already, 0 for an empty one.
    ///
    /// # Errors
    /// [`HistoryError::Io`] if the file cannot be made.
    pub fn create(path: &Path, base: Version) -> Result<Recording, HistoryError> {
        let make = || {
            let mut file = latchwork_files::grow(path)?;
            file.write_all(&header(base))?;
            Ok(file)
        };
        let file = make().map_err(|cause| HistoryError::io("creating the history", path, cause))?;
        let state = FileState { file, failed: None, transactions: 0 };
        Ok(Recording::over(base, Sink::File { path: path.to_owned(), state: Mutex::new(state) }))
    }

    /// Records to memory, all of it: for tests and simulated worlds.
    pub fn memory(base: Version) -> Recording {
        Recording::over(base, Sink::Memory(Mutex::default()))
    }

    fn over(base: Version, sink: Sink) -> Recording {
        Recording { shared: Arc::new(Shared { base, sink, lanes: Mutex::default() }) }
    }

    /// A recorder for one worker. Its clones share one buffer and one sequence of numbers.
    pub fn recorder(&self) -> Recorder {
        let lane = Arc::new(Lane::default());
        self.shared.lanes.lock().push(lane.clone());
        Recorder(Some(Arc::new(Worker { shared: self.shared.clone(), lane })))
    }

    /// Ends a recording to memory, or looks at it: what was finished until now, in the order in
    /// which it was. Nothing of one to a file.
    pub fn history(&self) -> History {
        let transactions = match &self.shared.sink {
            Sink::Memory(transactions) => transactions.lock().clone(),
            Sink::File { .. } => Vec::new(),
        };
        History { base: self.shared.base, transactions }
    }

    /// Hands over what all recorders have, and says how many transactions were recorded.
    ///
    /// # Errors
    /// [`HistoryError::Io`], the first error that the file had at any time; it is reported here
    /// only, so that a full disk does not end the run that is being recorded.
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

/// What a worker records with. One that is [off](Recorder::off) costs a branch.
///
/// ```
/// use std::ops::Bound;
/// use latchwork_history::{Change, Direction, Outcome, Recording};
///
/// let recording = Recording::memory(0);
/// let recorder = recording.recorder();
/// let mut record = recorder.begin(0, 1, 1_000);
/// record.read(7, b"stock", 0);
/// let scan = record.scan(7, Bound::Included(b"a"), Bound::Unbounded, Direction::Up);
/// record.saw(scan, b"apple", Some(64));
/// record.stopped(scan, b"apple");
/// record.write(7, b"stock", Change::Put);
/// recorder.finish(record, Outcome::Committed { cts: 128 }, 2_000);
/// assert_eq!(recording.history().transactions.len(), 1);
/// ```
#[derive(Clone, Default)]
pub struct Recorder(Option<Arc<Worker>>);

impl Recorder {
    /// One that records nothing.
    pub fn off() -> Recorder {
        Recorder(None)
    }

    /// Whether it records.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Begins to record a transaction. `now` is in nanoseconds of the clock that all of them share,
    /// taken before its first access.
    #[inline]
    pub fn begin(&self, node: u16, worker: u16, now: u64) -> Record {
        match &self.0 {
            None => Record(None),
            Some(_) => Record(Some(Box::new(Transaction {
                id: TransactionId { node, worker, sequence: 0 },
                begin: now,
                end: now,
                outcome: Outcome::Unknown { cts: 0 },
                operations: Vec::new(),
            }))),
        }
    }

    /// Records how it ended; `now` is after the last of its writes can be seen, and before anybody
    /// is told. A record that is dropped instead is not recorded: allowed only if the transaction
    /// wrote nothing that anybody could see.
    #[inline]
    pub fn finish(&self, record: Record, outcome: Outcome, now: u64) {
        if let (Some(worker), Some(transaction)) = (&self.0, record.0) {
            worker.finish(*transaction, outcome, now);
        }
    }
}

impl Worker {
    fn finish(&self, mut transaction: Transaction, outcome: Outcome, now: u64) {
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

/// Which scan of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScanId(usize);

/// A transaction that is being recorded. Each call of one that is off is a branch.
#[derive(Default)]
pub struct Record(Option<Box<Transaction>>);

impl Record {
    /// A record of nothing.
    pub fn off() -> Record {
        Record(None)
    }

    /// Whether it records, for callers whom the arguments cost something.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// A look-up that saw `version` (see [`Operation::Read`]). Not for what the transaction itself
    /// wrote.
    #[inline]
    pub fn read(&mut self, table: u32, key: &[u8], version: Version) {
        self.push(|| Operation::Read { table, key: key.into(), version, hash: None });
    }

    /// The same, with the hash of the value: the check compares it with what the writer recorded.
    #[inline]
    pub fn read_value(&mut self, table: u32, key: &[u8], version: Version, hash: u64) {
        self.push(|| Operation::Read { table, key: key.into(), version, hash: Some(hash) });
    }

    /// A write, or an entry of an index that comes or goes with a row.
    #[inline]
    pub fn write(&mut self, table: u32, key: &[u8], change: Change) {
        self.push(|| Operation::Write { table, key: key.into(), change });
    }

    /// Begins a scan; what it finds is said with [`saw`](Record::saw).
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
            Operation::Scan(Scan { table, from, to, direction, stopped: None, seen: Vec::new() })
        });
        ScanId(self.0.as_ref().map_or(0, |transaction| transaction.operations.len() - 1))
    }

    /// A key that the scan found, with what [`Seen::version`] says of it.
    #[inline]
    pub fn saw(&mut self, scan: ScanId, key: &[u8], version: Option<Version>) {
        if let Some(scan) = self.scan_mut(scan) {
            scan.seen.push(Seen { key: key.into(), version });
        }
    }

    /// The scan ended at this key, which it looked at, and not at the end of its range.
    #[inline]
    pub fn stopped(&mut self, scan: ScanId, key: &[u8]) {
        if let Some(scan) = self.scan_mut(scan) {
            scan.stopped = Some(key.into());
        }
    }

    /// Takes over what another record has: of a transaction that several nodes run together. Both
    /// are on, or off.
    pub fn absorb(&mut self, part: Record) {
        if let (Some(transaction), Some(part)) = (&mut self.0, part.0) {
            transaction.operations.extend(part.operations);
        }
    }

    #[inline]
    fn push(&mut self, operation: impl FnOnce() -> Operation) {
        if let Some(transaction) = &mut self.0 {
            transaction.operations.push(operation());
        }
    }

    fn scan_mut(&mut self, scan: ScanId) -> Option<&mut Scan> {
        match self.0.as_mut()?.operations.get_mut(scan.0)? {
            Operation::Scan(scan) => Some(scan),
            Operation::Read { .. } | Operation::Write { .. } => None,
        }
    }
}
