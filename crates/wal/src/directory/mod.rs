//! [`LogDirectory`]: the logs and the checkpoint of one database, in the hands of one process.

mod settle;

pub(crate) use settle::read_whole;

use std::collections::BTreeMap;
use std::fmt;

use latchwork_runtime::sync::{Arc, AtomicU64, Mutex, Ordering};

use crate::checkpoint::Manifest;
use crate::format::names;
use crate::storage::{DirectoryLock, Locked, Storage};
use crate::{DatabaseId, NodeId, Timestamp, WalError};

/// A directory of logs that this process works in, alone.
///
/// Opening it makes of what a crash left something that goes on: see [`LogDirectory::open`]. Then
/// [`replay`](LogDirectory::replay) it, and start each node's [`Log`](crate::Log).
pub struct LogDirectory {
    storage: Arc<dyn Storage>,
    database: DatabaseId,
    nodes: Mutex<BTreeMap<NodeId, NodeLog>>,
    /// The checkpoint in place.
    manifest: Mutex<Option<Manifest>>,
    /// Its floor.
    floor: AtomicU64,
    checkpoints: Mutex<Checkpoints>,
    /// The directory was opened to be read: where the last segment of each node ends, the torn rest of which is still
    /// there.
    tails: Option<BTreeMap<(NodeId, u64), u64>>,
    /// Held until the last log is through with its files.
    _lock: Box<dyn DirectoryLock>,
}

/// Checkpoints that are being written.
#[derive(Debug)]
struct Checkpoints {
    /// The number of the next one: none is used twice, whatever became of it.
    next: u64,
    under_way: bool,
}

/// The segments of one node.
#[derive(Clone, Debug, Default)]
struct NodeLog {
    /// Somebody appends to the last one.
    open: bool,
    segments: Vec<Segment>,
    /// The highest timestamp in all that a node which is not open ever logged.
    through: Timestamp,
}

/// One segment of a node's log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Its number: one more than that of the segment before.
    pub number: u64,
    /// The highest timestamp in all segments before it.
    pub before: Timestamp,
}

impl LogDirectory {
    /// Takes the directory for this process, and settles what a crash left:
    ///
    /// - Each node's last segment is read. What stands behind its last whole group was never
    ///   acknowledged and is cut off; if a later group says that it was lasting, that is an error. The
    ///   segment is then written anew and put in place by a rename, even when nothing is to be cut: what was
    ///   read may be in the system's memory only, where a failed sync has left it, and what is replayed must
    ///   not be lost by the next crash.
    /// - What a checkpoint that was not finished left is removed.
    ///
    /// An empty directory is a new database. A crash while it is opened leaves what can be opened again.
    ///
    /// # Errors
    /// Another process has it; it is another database's, or of another version; something is damaged or
    /// missing; the system's errors.
    pub fn open(
        storage: Arc<dyn Storage>,
        database: DatabaseId,
    ) -> Result<Arc<LogDirectory>, WalError> {
        LogDirectory::begin(storage, database, false)
    }

    /// Takes the directory for this process, to [replay](LogDirectory::replay) it and no more: nothing in it is
    /// changed, and a device that is full is no obstacle. What a crash left behind the last whole group of a
    /// segment is passed over.
    ///
    /// What is read need not be lasting (see [`open`](LogDirectory::open)), so nothing may be built on it that
    /// outlives this process.
    ///
    /// # Errors
    /// As [`open`](LogDirectory::open).
    pub fn open_to_read(
        storage: Arc<dyn Storage>,
        database: DatabaseId,
    ) -> Result<Arc<LogDirectory>, WalError> {
        LogDirectory::begin(storage, database, true)
    }

    fn begin(
        storage: Arc<dyn Storage>,
        database: DatabaseId,
        to_read: bool,
    ) -> Result<Arc<LogDirectory>, WalError> {
        let directory = storage.describe();
        let lock = match storage.lock(names::LOCK) {
            Ok(Locked::Taken(lock)) => lock,
            Ok(Locked::Held { by }) => return Err(WalError::InUse { directory, by }),
            Err(error) => return Err(WalError::io("locking", &directory, error)),
        };
        let found = settle::look(&*storage, database)?;
        let tails = to_read.then(|| found.tails());
        if !to_read {
            found.settle(&*storage)?;
        }
        let settle::Found { nodes, manifest, .. } = found;
        let next = manifest.as_ref().map_or(0, |manifest| manifest.number) + 1;
        let checkpoints = Mutex::new(Checkpoints { next, under_way: false });
        let floor = manifest.as_ref().map_or(Timestamp::ZERO, |manifest| manifest.floor);
        Ok(Arc::new(LogDirectory {
            storage,
            database,
            nodes: Mutex::new(nodes),
            manifest: Mutex::new(manifest),
            floor: AtomicU64::new(floor.0),
            checkpoints,
            tails,
            _lock: lock,
        }))
    }

    /// Which database the directory holds; `None` when it is empty. Changes nothing and takes no lock.
    ///
    /// # Errors
    /// Another version; the system's errors.
    pub fn identify(storage: &dyn Storage) -> Result<Option<DatabaseId>, WalError> {
        settle::identify(storage)
    }

    /// The database.
    pub fn database(&self) -> DatabaseId {
        self.database
    }

    /// Where it is, for people.
    pub fn describe(&self) -> String {
        self.storage.describe()
    }

    pub(crate) fn storage(&self) -> &dyn Storage {
        &*self.storage
    }

    /// The nodes that have a log here, and its segments.
    pub fn segments(&self) -> Vec<(NodeId, Vec<Segment>)> {
        let nodes = self.nodes.lock();
        nodes.iter().map(|(node, log)| (*node, log.segments.clone())).collect()
    }

    /// The floor of the checkpoint in place: replay takes nothing older. Zero without a checkpoint.
    pub fn floor(&self) -> Timestamp {
        // Relaxed: nothing else is read because of it.
        Timestamp(self.floor.load(Ordering::Relaxed))
    }

    /// The checkpoint in place.
    pub(crate) fn manifest(&self) -> Option<Manifest> {
        self.manifest.lock().clone()
    }

    /// Another checkpoint is in place, and lasts.
    pub(crate) fn replace(&self, manifest: Manifest) {
        self.floor.store(manifest.floor.0, Ordering::Relaxed);
        *self.manifest.lock() = Some(manifest);
    }

    fn check_writable(&self) -> Result<(), WalError> {
        match self.tails {
            Some(_) => Err(WalError::ReadOnly { directory: self.describe() }),
            None => Ok(()),
        }
    }

    /// Where a segment ends, if it is torn and was left so.
    pub(crate) fn tail(&self, node: NodeId, number: u64) -> Option<u64> {
        self.tails.as_ref()?.get(&(node, number)).copied()
    }

    /// The number of a new checkpoint, the only one that is being written.
    pub(crate) fn begin_checkpoint(&self) -> Result<u64, WalError> {
        self.check_writable()?;
        let mut checkpoints = self.checkpoints.lock();
        if std::mem::replace(&mut checkpoints.under_way, true) {
            return Err(WalError::CheckpointUnderWay);
        }
        checkpoints.next += 1;
        Ok(checkpoints.next - 1)
    }

    pub(crate) fn end_checkpoint(&self) {
        self.checkpoints.lock().under_way = false;
    }

    /// Says that `node`'s log is open; which segment comes next, and what came before it.
    pub(crate) fn enter(&self, node: NodeId) -> Result<Segment, WalError> {
        self.check_writable()?;
        if node.0 >= Timestamp::NODES_MAX {
            return Err(WalError::Node { node });
        }
        let mut nodes = self.nodes.lock();
        let log = nodes.entry(node).or_default();
        if log.open {
            return Err(WalError::NodeInUse { node });
        }
        log.open = true;
        let number = log.segments.last().map_or(0, |last| last.number) + 1;
        Ok(Segment { number, before: log.through })
    }

    /// Whether nobody appends anywhere.
    pub(crate) fn check_closed(&self) -> Result<(), WalError> {
        let nodes = self.nodes.lock();
        match nodes.iter().find(|(_, log)| log.open) {
            Some((&node, _)) => Err(WalError::NodeInUse { node }),
            None => Ok(()),
        }
    }

    /// Says that `node`'s log is closed, with all timestamps up to `through`.
    pub(crate) fn leave(&self, node: NodeId, through: Timestamp) {
        if let Some(log) = self.nodes.lock().get_mut(&node) {
            log.open = false;
            log.through = log.through.max(through);
        }
    }

    /// Says that there is one more segment, and that it lasts.
    pub(crate) fn add(&self, node: NodeId, segment: Segment) {
        self.nodes.lock().entry(node).or_default().segments.push(segment);
    }

    /// Removes the oldest segments of `node`, up to the first that holds anything above `floor`, or to
    /// that from which the checkpoint in place needs it; how many.
    ///
    /// The checkpoint with this floor must be [published](crate::CheckpointWriter::publish). Of a node whose
    /// log is open the last segment stays.
    ///
    /// # Errors
    /// The system's. What was not removed stays, and does no harm.
    pub fn remove_through(&self, node: NodeId, floor: Timestamp) -> Result<usize, WalError> {
        self.check_writable()?;
        let floor = floor.min(self.floor());
        let needed = match self.manifest.lock().as_ref() {
            None => return Ok(0),
            Some(manifest) => manifest.continues.get(&node).copied().unwrap_or(u64::MAX),
        };
        // From the front only: so a segment's `before` tells whether the ones before it may be missing.
        let mut removed = 0;
        while let Some(number) = self.take_oldest(node, floor, needed) {
            let name = names::segment(node, number);
            self.storage.remove(&name).map_err(|e| WalError::io("removing", &name, e))?;
            removed += 1;
        }
        if removed > 0 {
            let synced = self.storage.sync_directory();
            synced.map_err(|e| WalError::io("syncing", &self.describe(), e))?;
        }
        Ok(removed)
    }

    fn take_oldest(&self, node: NodeId, floor: Timestamp, needed: u64) -> Option<u64> {
        let mut nodes = self.nodes.lock();
        let log = nodes.get_mut(&node)?;
        let first = log.segments.first()?;
        let through = match log.segments.get(1) {
            Some(next) => next.before,
            None if log.open => return None,
            None => log.through,
        };
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
