//! [`LogDirectory`]: the logs and the checkpoint of one database, opened by one process.

mod accept;
mod cut;
mod loss;
mod node_log;
mod plan;
mod scan;

pub use loss::Loss;
pub use node_log::Segment;
pub(crate) use scan::read_whole;

use std::collections::BTreeMap;
use std::fmt;
use std::thread;
use std::time::Duration;

use latchwork_runtime::Time;
use latchwork_runtime::sync::{Arc, AtomicU64, Mutex, Ordering};
use latchwork_strict::strict_assert;

use crate::checkpoint::{CheckpointedEnd, Manifest};
use crate::format::{Known, names};
use crate::storage::{DirectoryLock, Locked, Storage};
use crate::witness::Witness;
use crate::{DatabaseId, LogEnd, NodeId, Timestamp, WalError};
use node_log::NodeLog;

/// The time between two warnings that the device refuses something.
const WARN_AGAIN: Duration = Duration::from_secs(1);

/// A directory of logs, opened by this process. A process that opened the directory to write
/// excludes all other processes.
///
/// An opening to write repairs the incomplete files that a crash left: see [`LogDirectory::open`].
/// The next steps are [`replay`](LogDirectory::replay) and one [`Log`](crate::Log) for each node.
pub struct LogDirectory {
    storage: Arc<dyn Storage>,
    database: DatabaseId,
    nodes: Mutex<BTreeMap<NodeId, NodeLog>>,
    /// The checkpoint in place.
    manifest: Mutex<Option<Manifest>>,
    /// The floor of the checkpoint in place.
    floor: AtomicU64,
    checkpoints: Mutex<Checkpoints>,
    witness: Mutex<Noted>,
    /// The error of the first sync of names that failed.
    names: Mutex<Result<(), WalError>>,
    /// The time of the last warning of a log that was refused.
    warned: Mutex<Option<Time>>,
    /// Opened to read: the length of each last segment up to its torn tail, which stays in the
    /// file. `None` when opened to write.
    tails: Option<BTreeMap<(NodeId, u64), u64>>,
    losses: Vec<Loss>,
    /// Losses were accepted at the opening.
    accepts: bool,
    /// Held until the last reference to this value is dropped. `None` when the directory was opened
    /// to read and has no lock file.
    _lock: Option<Box<dyn DirectoryLock>>,
}

/// The options of an opening.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Opening {
    /// The opening changes nothing: see [`LogDirectory::open_to_read`].
    pub to_read: bool,
    /// The opening accepts that logs have lost durable records, and cuts all logs to a consistent
    /// state: see [`LogDirectory::open_as`].
    pub accept_loss: bool,
}

/// The state of checkpoint writing.
#[derive(Debug)]
struct Checkpoints {
    /// The number of the next checkpoint. This process uses no number twice, not even after a
    /// failed checkpoint.
    next: u64,
    under_way: bool,
}

/// The state of the file `WITNESS`, as this process knows it. The lock of this value is held while
/// the file is written.
#[derive(Debug)]
struct Noted {
    /// The file exists, and its name is durable.
    exists: bool,
    /// The number of times that this process wrote the file.
    times: u64,
    /// The durable end of each log, as the file states it.
    ends: BTreeMap<NodeId, LogEnd>,
}

impl LogDirectory {
    /// Locks the directory for this process, and repairs the incomplete files that a crash left:
    ///
    /// - The last segment of each node is read. Bytes behind its last whole log record were never
    ///   acknowledged and are cut. If a later record, another log, the checkpoint or the witness
    ///   shows that the lost part was durable, opening fails. The segment is then copied, and the
    ///   copy replaces the segment by a rename, even when nothing is cut. Reason: after a failed
    ///   sync, a read may return bytes that are only in the memory of the system. The next crash
    ///   must not lose records that were replayed.
    /// - A last segment that was never begun is removed.
    /// - Files of an unfinished checkpoint are removed, and segments that the checkpoint covers.
    /// - The cut of an [accepted](Opening::accept_loss) loss is completed.
    ///
    /// An empty directory is a new database. A crash during opening leaves a directory that can be
    /// opened again.
    ///
    /// # Errors
    /// Another process has opened the directory; the directory belongs to another database or
    /// another version; something is damaged or missing; the system's errors.
    pub fn open(
        storage: Arc<dyn Storage>,
        database: DatabaseId,
    ) -> Result<Arc<LogDirectory>, WalError> {
        LogDirectory::open_as(storage, database, Opening::default())
    }

    /// Opens the directory only to [replay](LogDirectory::replay) it. Nothing in the directory
    /// changes, so a full or read-only device is no obstacle. The torn tail of a segment is
    /// ignored.
    ///
    /// If a lock file exists, this process takes a shared lock on it. If none exists, none is made:
    /// a directory without a lock file has no owner. Reading processes do not exclude one another.
    ///
    /// The data read need not be durable (see [`open`](LogDirectory::open)). So nothing that
    /// outlives this process may be built on it.
    ///
    /// # Errors
    /// As [`open`](LogDirectory::open).
    pub fn open_to_read(
        storage: Arc<dyn Storage>,
        database: DatabaseId,
    ) -> Result<Arc<LogDirectory>, WalError> {
        LogDirectory::open_as(storage, database, Opening { to_read: true, ..Opening::default() })
    }

    /// Opens the directory as `opening` says.
    ///
    /// With [`accept_loss`](Opening::accept_loss), logs that have lost durable records are no
    /// error. All logs are then cut to one consistent state: no remaining commit may have seen a
    /// lost one. [`losses`](LogDirectory::losses) reports the lost records. One rename decides the
    /// cut, before any log changes. From then on every opening ends the logs there, whatever its
    /// options are, until the cut is complete. After a crash, the next opening to write completes
    /// the cut. With [`to_read`](Opening::to_read) nothing is written: the cut holds for this
    /// opening only.
    ///
    /// # Errors
    /// As [`open`](LogDirectory::open). The loss of the checkpoint or of a part of it cannot be
    /// accepted, nor that of commits that the checkpoint may show. The error of an opening without
    /// [`accept_loss`](Opening::accept_loss) advises it only where that gives a state.
    pub fn open_as(
        storage: Arc<dyn Storage>,
        database: DatabaseId,
        opening: Opening,
    ) -> Result<Arc<LogDirectory>, WalError> {
        let directory = storage.describe();
        let locking = match opening.to_read {
            true => storage.lock_to_read(names::LOCK),
            false => storage.lock(names::LOCK).map(Some),
        };
        let lock = match locking {
            Ok(Some(Locked::Taken(lock))) => Some(lock),
            Ok(None) => None,
            Ok(Some(Locked::Held { by })) => return Err(WalError::InUse { directory, by }),
            Err(error) => return Err(WalError::io("locking", &directory, error)),
        };
        let found = match opening.accept_loss {
            true => accept::accept(&*storage, database)?,
            false => scan::look(&*storage, database)
                .map_err(|error| error.advise(|| LogDirectory::can_accept(&storage, database)))?,
        };
        if !opening.to_read {
            found.settle(&*storage)?;
        }
        Ok(Arc::new(LogDirectory::of(storage, found, opening, lock)))
    }

    /// Whether an opening that accepts losses gives a state. Changes nothing.
    fn can_accept(storage: &Arc<dyn Storage>, database: DatabaseId) -> bool {
        let opening = Opening { to_read: true, accept_loss: true };
        let threads = thread::available_parallelism().map_or(1, usize::from);
        accept::accept(&**storage, database)
            .and_then(|found| {
                LogDirectory::of(storage.clone(), found, opening, None).replay(threads)
            })
            .is_ok()
    }

    /// An error of a replay, with the advice that helps.
    pub(crate) fn advise(&self, error: WalError) -> WalError {
        error.advise(|| !self.accepts && LogDirectory::can_accept(&self.storage, self.database))
    }

    fn of(
        storage: Arc<dyn Storage>,
        found: scan::Found,
        opening: Opening,
        lock: Option<Box<dyn DirectoryLock>>,
    ) -> LogDirectory {
        let tails = opening.to_read.then(|| found.tails());
        let exists = found.is_known();
        let scan::Found { database, nodes, manifest, losses, .. } = found;
        let next = manifest.as_ref().map_or(0, |manifest| manifest.number) + 1;
        strict_assert!(next > 0, "checkpoints are numbered from 1");
        let checkpoints = Mutex::new(Checkpoints { next, under_way: false });
        let floor = manifest.as_ref().map_or(Timestamp::ZERO, |manifest| manifest.floor);
        let ends = nodes.iter().map(|(node, log)| (*node, log.end)).collect();
        LogDirectory {
            storage,
            database,
            nodes: Mutex::new(nodes),
            manifest: Mutex::new(manifest),
            floor: AtomicU64::new(floor.0),
            checkpoints,
            witness: Mutex::new(Noted { exists, times: 0, ends }),
            names: Mutex::new(Ok(())),
            warned: Mutex::new(None),
            tails,
            losses,
            accepts: opening.accept_loss,
            _lock: lock,
        }
    }

    /// The database of the directory; `None` when no file names one, as in an empty directory.
    /// Changes nothing and takes no lock.
    ///
    /// # Errors
    /// Another version; damage; the system's errors.
    pub fn identify(storage: &dyn Storage) -> Result<Option<DatabaseId>, WalError> {
        scan::identify(storage)
    }

    /// The database of this directory.
    pub fn database(&self) -> DatabaseId {
        self.database
    }

    /// The location of the directory, for messages.
    pub fn describe(&self) -> String {
        self.storage.describe()
    }

    /// The records that each log lost and gave up, when the loss was
    /// [accepted](Opening::accept_loss). An earlier opening may have decided the cut and then
    /// crashed; the opening that completes the cut reports the same losses. Empty when nothing was
    /// lost. Has every log when the file `WITNESS` was lost.
    pub fn losses(&self) -> &[Loss] {
        &self.losses
    }

    pub(crate) fn storage(&self) -> &dyn Storage {
        &*self.storage
    }

    /// Makes the names of the files durable. A sync that failed may have lost the name of a segment
    /// that another thread has just begun, and the next sync of the system would succeed all the
    /// same. So after a failure no sync succeeds, until the directory is opened again.
    pub(crate) fn sync_names(&self) -> Result<(), WalError> {
        let mut names = self.names.lock();
        if names.is_ok() {
            let synced = self.storage.sync_directory();
            *names = synced.map_err(|e| WalError::io("syncing", &self.describe(), e).into_failed());
        }
        names.clone()
    }

    /// Whether a log may warn at `now` that the device refuses something. One warning in a second
    /// is enough for all logs, because each flush batch may be refused.
    pub(crate) fn may_warn(&self, now: Time) -> bool {
        let mut warned = self.warned.lock();
        let may = warned.is_none_or(|last| now >= last + WARN_AGAIN);
        if may {
            *warned = Some(now);
        }
        may
    }

    /// The nodes that have a log here, with the segments of each log. A log without files has none.
    pub fn segments(&self) -> Vec<(NodeId, Vec<Segment>)> {
        let nodes = self.nodes.lock();
        nodes.iter().map(|(node, log)| (*node, log.segments.clone())).collect()
    }

    /// The floor of the checkpoint in place; zero without a checkpoint. Replay ignores log records
    /// up to the floor.
    pub fn floor(&self) -> Timestamp {
        // Relaxed: no reader of this value relies on it to see other memory.
        Timestamp(self.floor.load(Ordering::Relaxed))
    }

    /// The checkpoint in place.
    pub(crate) fn manifest(&self) -> Option<Manifest> {
        self.manifest.lock().clone()
    }

    /// Notes that another checkpoint is in place and durable.
    pub(crate) fn replace(&self, manifest: Manifest) {
        strict_assert!(
            manifest.floor.0 >= self.floor.load(Ordering::Relaxed),
            "the floor of the checkpoints runs backwards"
        );
        self.floor.store(manifest.floor.0, Ordering::Relaxed);
        strict_assert!(
            self.manifest.lock().as_ref().is_none_or(|old| old.number < manifest.number),
            "a checkpoint is replaced by an older one"
        );
        *self.manifest.lock() = Some(manifest);
    }

    fn check_writable(&self) -> Result<(), WalError> {
        match self.tails {
            Some(_) => Err(WalError::ReadOnly { directory: self.describe() }),
            None => Ok(()),
        }
    }

    /// The length of a segment without its torn tail, if the tail is still in the file.
    pub(crate) fn tail(&self, node: NodeId, number: u64) -> Option<u64> {
        self.tails.as_ref()?.get(&(node, number)).copied()
    }

    /// Returns the number of a new checkpoint. Only one checkpoint can be written at a time.
    pub(crate) fn begin_checkpoint(&self) -> Result<u64, WalError> {
        self.check_writable()?;
        let mut checkpoints = self.checkpoints.lock();
        if std::mem::replace(&mut checkpoints.under_way, true) {
            return Err(WalError::CheckpointUnderWay);
        }
        checkpoints.next += 1;
        strict_assert!(checkpoints.under_way, "a checkpoint begins unnoticed");
        strict_assert!(
            self.manifest
                .lock()
                .as_ref()
                .is_none_or(|manifest| manifest.number < checkpoints.next - 1),
            "the number of a checkpoint is used again"
        );
        Ok(checkpoints.next - 1)
    }

    pub(crate) fn end_checkpoint(&self) {
        self.checkpoints.lock().under_way = false;
    }

    /// Marks `node`'s log as open, and returns its next segment. `visible` counts the log records
    /// that other nodes may see, durable or not.
    pub(crate) fn enter(
        &self,
        node: NodeId,
        visible: Option<Arc<AtomicU64>>,
    ) -> Result<Segment, WalError> {
        self.check_writable()?;
        if node.0 >= Timestamp::NODES_MAX {
            return Err(WalError::Node { node });
        }
        let mut nodes = self.nodes.lock();
        let log = nodes.entry(node).or_default();
        if log.open {
            return Err(WalError::NodeInUse { node });
        }
        let last = log.segments.last().map_or(0, |last| last.number);
        let segment = Segment {
            // The segment numbers of a log without files are not used again, because the witness
            // refers to them.
            number: last.max(log.end.segment) + 1,
            before: log.through,
            groups: log.end.groups,
        };
        strict_assert!(segment.number > 0, "segments are numbered from 1");
        strict_assert!(
            segment.number > last && segment.number > log.end.segment,
            "the number of a segment is used again"
        );
        strict_assert!(
            log.segments.last().is_none_or(|last| last.before <= segment.before),
            "the timestamps of segments run backwards"
        );
        if let Some(visible) = &visible {
            // Relaxed: no other node sees a record of this opening yet.
            visible.store(log.end.groups, Ordering::Relaxed);
        }
        (log.open, log.closed, log.visible) = (true, None, visible);
        Ok(segment)
    }

    /// Fails if a log is open.
    pub(crate) fn check_closed(&self) -> Result<(), WalError> {
        let nodes = self.nodes.lock();
        match nodes.iter().find(|(_, log)| log.open) {
            Some((&node, _)) => Err(WalError::NodeInUse { node }),
            None => Ok(()),
        }
    }

    /// Marks `node`'s log as closed. `through` is its highest timestamp; `closed` is its end behind
    /// the end record, if it has one.
    pub(crate) fn leave(&self, node: NodeId, through: Timestamp, closed: Option<LogEnd>) {
        if let Some(log) = self.nodes.lock().get_mut(&node) {
            strict_assert!(log.open, "a log is closed twice");
            strict_assert!(
                closed.is_none_or(|closed| !closed.is_short_of(&log.end)),
                "the end record of a log loses commits"
            );
            (log.open, log.closed, log.visible) = (false, closed, None);
            strict_assert!(log.through >= through, "a log forgets how far it went");
            log.through = log.through.max(through);
        }
    }

    /// Notes a new segment, which is durable.
    pub(crate) fn add(&self, node: NodeId, segment: Segment) {
        strict_assert!(
            self.nodes.lock().get(&node).is_none_or(|log| log
                .segments
                .last()
                .is_none_or(|last| last.number < segment.number)),
            "segments are added in order"
        );
        strict_assert!(node.0 < Timestamp::NODES_MAX, "a segment of no log");
        self.nodes.lock().entry(node).or_default().segments.push(segment);
    }

    // ---- how far logs are durable ---------------------------------------------------------------

    /// Notes that `node`'s log is durable up to `end`, with all timestamps up to `through`. The
    /// flusher calls this before it reports these records as durable. So if another node sees one
    /// of these commits after that report, the next [mark](crate::format::Mark) of that node covers
    /// the commit. In asynchronous mode other nodes see commits earlier; the count `visible` covers
    /// those.
    pub(crate) fn publish(&self, node: NodeId, end: LogEnd, through: Timestamp) {
        if let Some(log) = self.nodes.lock().get_mut(&node) {
            strict_assert!(log.open, "a log that is not open becomes durable");
            assert!(!end.is_short_of(&log.end), "a durable log does not become shorter");
            strict_assert!(
                (end.segment, end.bytes) >= (log.end.segment, log.end.bytes),
                "the durable end of a log runs backwards"
            );
            strict_assert!(
                log.segments.last().is_some_and(|last| last.number == end.segment),
                "a durable end outside the last segment"
            );
            strict_assert!(
                end.bytes >= crate::format::FILE_HEADER as u64,
                "a durable end inside the header"
            );
            strict_assert!(
                log.visible
                    .as_ref()
                    .is_none_or(|visible| visible.load(Ordering::Relaxed) >= end.groups),
                "more commits are durable than are visible"
            );
            (log.end, log.through) = (end, log.through.max(through));
        }
    }

    /// How far all logs with records are durable and visible, except `node`'s log.
    pub(crate) fn known_elsewhere(&self, node: NodeId) -> BTreeMap<NodeId, Known> {
        let nodes = self.nodes.lock();
        let others = nodes.iter().filter(|(other, _)| **other != node);
        // Relaxed is enough, because happens-before makes the count visible:
        // 1. A commit of another log is counted before it can be seen.
        // 2. A commit of `node` is appended after it has seen the other commit.
        // 3. This read follows that append.
        let known = others.map(|(other, log)| (*other, Known { end: log.end, seen: log.seen() }));
        known.filter(|(_, known)| known.seen > 0).collect()
    }

    /// The ends of all logs with the records that other nodes may see, durable or not. A record is
    /// counted before it is seen, and no log takes one during the call. So no record up to these
    /// ends has seen a record behind them.
    pub(crate) fn visible_ends(&self) -> BTreeMap<NodeId, LogEnd> {
        let nodes = self.nodes.lock();
        let end = |log: &NodeLog| LogEnd { groups: log.seen(), ..log.end };
        nodes.iter().map(|(node, log)| (*node, end(log))).collect()
    }

    /// The durable ends of all logs, for a checkpoint.
    pub(crate) fn log_ends(&self) -> BTreeMap<NodeId, CheckpointedEnd> {
        let nodes = self.nodes.lock();
        let end = |log: &NodeLog| CheckpointedEnd { end: log.end, through: log.through };
        nodes.iter().map(|(node, log)| (*node, end(log))).collect()
    }

    /// The number of times that this process wrote the witness, and whether the witness lacks
    /// records of `node`'s log.
    pub(crate) fn noted(&self, node: NodeId) -> (u64, bool) {
        let end = self.nodes.lock().get(&node).map(|log| log.end);
        let witness = self.witness.lock();
        (witness.times, witness.ends.get(&node).copied() != end)
    }

    /// Writes the witness anew. With `durably` the directory is synced too, so that no crash brings
    /// back the previous witness.
    pub(crate) fn note(&self, durably: bool) -> Result<(), WalError> {
        let mut noted = self.witness.lock();
        // The ends are read under the lock of the witness. So of two writers, the later one has
        // read the later ends.
        let ends: BTreeMap<NodeId, LogEnd> = {
            let nodes = self.nodes.lock();
            nodes.iter().map(|(node, log)| (*node, log.closed.unwrap_or(log.end))).collect()
        };
        let checkpoint = self.manifest.lock().is_some();
        strict_assert!(
            noted.ends.keys().all(|node| ends.contains_key(node)),
            "the witness leaves a log out"
        );
        let witness = Witness { checkpoint, ..Witness::of(self.database, ends.clone()) };
        witness.write(&*self.storage)?;
        if durably {
            self.sync_names()?;
            noted.exists = true;
        }
        (noted.times, noted.ends) = (noted.times + 1, ends);
        Ok(())
    }

    /// Makes sure that a witness exists. The witness precedes the first segment and the first
    /// manifest.
    pub(crate) fn ensure_witness(&self) -> Result<(), WalError> {
        let exists = self.witness.lock().exists;
        if exists { Ok(()) } else { self.note(true) }
    }

    // ---- segments that are not needed any more --------------------------------------------------

    /// Removes the oldest segments of `node`, and returns their count. Removal stops at the first
    /// segment that holds a timestamp above `floor` or above the floor of the checkpoint in place,
    /// or that this checkpoint needs.
    ///
    /// The last segment of an open log stays. The last segment of a closed log goes only if the
    /// checkpoint states the end of the log.
    ///
    /// # Errors
    /// The directory was opened to read; the system's errors. A segment that was not removed only
    /// takes room.
    pub fn remove_through(&self, node: NodeId, floor: Timestamp) -> Result<usize, WalError> {
        self.check_writable()?;
        let floor = floor.min(self.floor());
        let Some(manifest) = self.manifest() else { return Ok(0) };
        // Removal goes from the front only. So the field `before` of a segment shows whether the
        // previous segments may be missing.
        let mut removed = 0;
        strict_assert!(floor <= self.floor(), "segments above the checkpoint are removed");
        while let Some(number) = self.take_oldest(node, floor, &manifest) {
            let name = names::segment(node, number);
            self.storage.remove(&name).map_err(|e| WalError::io("removing", &name, e))?;
            removed += 1;
        }
        if removed > 0 {
            self.sync_names()?;
        }
        Ok(removed)
    }

    fn take_oldest(&self, node: NodeId, floor: Timestamp, manifest: &Manifest) -> Option<u64> {
        let needed = manifest.continues.get(&node).copied().unwrap_or(u64::MAX);
        let mut nodes = self.nodes.lock();
        let log = nodes.get_mut(&node)?;
        let first = log.segments.first()?;
        let through = match log.segments.get(1) {
            Some(next) => next.before,
            None if log.open => return None,
            // The last segment shows how far the log went. So it is removed only if the checkpoint
            // states the end of the log.
            None if !manifest.covers(node, log.end.groups) => return None,
            None => log.through,
        };
        strict_assert!(
            log.segments.is_sorted_by_key(|segment| segment.number),
            "the segments of a log are out of order"
        );
        (through <= floor && first.number < needed).then(|| log.segments.remove(0).number)
    }
}

impl fmt::Debug for LogDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogDirectory")
            .field("storage", &self.storage)
            .field("database", &self.database)
            .field("nodes", &*self.nodes.lock())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::storage::Torn;

    /// Bug: a device without room caused a warning for each commit.
    #[test]
    fn all_logs_together_warn_once_in_a_second() {
        let directory = LogDirectory::open(Arc::new(Torn::new(1)), DatabaseId(7)).expect("empty");
        let times = (0..5000).map(|ms| Time::ZERO + Duration::from_millis(ms));
        assert_eq!(times.filter(|time| directory.may_warn(*time)).count(), 5);
    }
}
