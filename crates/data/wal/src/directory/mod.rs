//! [`LogDirectory`]: the logs and the checkpoint of one database, in the hands of one process.

mod loss;
mod settle;
mod survey;

pub use loss::Loss;
pub(crate) use survey::read_whole;

use std::collections::BTreeMap;
use std::fmt;

use latchwork_runtime::sync::{Arc, AtomicU64, Mutex, Ordering};

use crate::checkpoint::{LogEnd, Manifest};
use crate::format::{Known, names};
use crate::storage::{DirectoryLock, Locked, Storage};
use crate::witness::Witness;
use crate::{DatabaseId, End, NodeId, Timestamp, WalError};

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
    witness: Mutex<Noted>,
    /// The directory was opened to be read: where the last segment of each node ends, the torn rest
    /// of which is still there.
    tails: Option<BTreeMap<(NodeId, u64), u64>>,
    losses: Vec<Loss>,
    /// Held until the last log is through with its files; `None` where there is none to hold.
    _lock: Option<Box<dyn DirectoryLock>>,
}

/// How a directory is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Opening {
    /// Changes nothing: see [`LogDirectory::open_to_read`].
    pub to_read: bool,
    /// Goes on where logs have lost what was durable, with a state that was: see
    /// [`LogDirectory::open_as`].
    pub accept_loss: bool,
}

/// Checkpoints that are being written.
#[derive(Debug)]
struct Checkpoints {
    /// The number of the next one: none is used twice, whatever became of it.
    next: u64,
    under_way: bool,
}

/// What is known of the file `WITNESS`. Its lock is held while the file is written.
#[derive(Debug)]
struct Noted {
    /// There is one, and its name is durable.
    exists: bool,
    /// How often it was written.
    times: u64,
    /// How far it says that logs are durable.
    ends: BTreeMap<NodeId, End>,
}

/// The segments of one node.
#[derive(Clone, Debug, Default)]
struct NodeLog {
    /// A [`Log`](crate::Log) appends to the last one.
    open: bool,
    segments: Vec<Segment>,
    /// The highest timestamp in all that is durable.
    through: Timestamp,
    /// How far the log is durable.
    end: End,
    /// Where it ends with its end record; `None` when the log was not closed in this life.
    closed: Option<End>,
    /// Groups since the log's beginning that other nodes may see, where that is not what is
    /// durable.
    visible: Option<Arc<AtomicU64>>,
}

/// One segment of a node's log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Its number: one more than that of the segment before.
    pub number: u64,
    /// The highest timestamp in all segments before it.
    pub before: Timestamp,
    /// Groups in all segments before it.
    pub groups: u64,
}

impl LogDirectory {
    /// Takes the directory for this process, and settles what a crash left:
    ///
    /// - Each node's last segment is read. What stands behind its last whole group was never
    ///   acknowledged and is cut off; if a later group, another log or the witness says that it was
    ///   durable, that is an error. The segment is then written anew and put in place by a rename,
    ///   even when nothing is to be cut: what was read may be in the system's memory only, where a
    ///   failed sync has left it, and what is replayed must not be lost by the next crash.
    /// - What a checkpoint that was not finished left is removed.
    ///
    /// An empty directory is a new database. A crash while it is opened leaves what can be opened
    /// again.
    ///
    /// # Errors
    /// Another process has it; it is another database's, or of another version; something is
    /// damaged or missing; the system's errors.
    pub fn open(
        storage: Arc<dyn Storage>,
        database: DatabaseId,
    ) -> Result<Arc<LogDirectory>, WalError> {
        LogDirectory::open_as(storage, database, Opening::default())
    }

    /// Opens the directory to [replay](LogDirectory::replay) it and no more: nothing in it is
    /// changed, and a device that is full, or cannot be written, is no obstacle. What a crash left
    /// behind the last whole group of a segment is passed over.
    ///
    /// The lock file is asked for its lock if there is one, and none is made: a directory without
    /// it has no owner. Processes that read do not exclude one another.
    ///
    /// What is read need not be durable (see [`open`](LogDirectory::open)), so nothing may be built
    /// on it that outlives this process.
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
    /// With [`accept_loss`](Opening::accept_loss), logs that have lost what was durable are no
    /// error. All logs are then cut to one state that was: no commit is left that may have seen a
    /// lost one. [`losses`](LogDirectory::losses) has what was lost. The cut is decided by one
    /// rename, before anything is changed: a crash at any point leaves what the next opening
    /// completes, however it is opened.
    ///
    /// # Errors
    /// As [`open`](LogDirectory::open). A loss cannot be accepted of the checkpoint, nor of what
    /// the checkpoint may show.
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
            true => loss::accept(&*storage, database)?,
            false => survey::look(&*storage, database)?,
        };
        let tails = opening.to_read.then(|| found.tails());
        let exists = found.is_known();
        if !opening.to_read {
            found.settle(&*storage)?;
        }
        let survey::Found { nodes, manifest, losses, .. } = found;
        let next = manifest.as_ref().map_or(0, |manifest| manifest.number) + 1;
        let checkpoints = Mutex::new(Checkpoints { next, under_way: false });
        let floor = manifest.as_ref().map_or(Timestamp::ZERO, |manifest| manifest.floor);
        let ends = nodes.iter().map(|(node, log)| (*node, log.end)).collect();
        Ok(Arc::new(LogDirectory {
            storage,
            database,
            nodes: Mutex::new(nodes),
            manifest: Mutex::new(manifest),
            floor: AtomicU64::new(floor.0),
            checkpoints,
            witness: Mutex::new(Noted { exists, times: 0, ends }),
            tails,
            losses,
            _lock: lock,
        }))
    }

    /// Which database the directory holds; `None` when it is empty. Changes nothing and takes no
    /// lock.
    ///
    /// # Errors
    /// Another version; the system's errors.
    pub fn identify(storage: &dyn Storage) -> Result<Option<DatabaseId>, WalError> {
        survey::identify(storage)
    }

    /// The database.
    pub fn database(&self) -> DatabaseId {
        self.database
    }

    /// Where it is, for people.
    pub fn describe(&self) -> String {
        self.storage.describe()
    }

    /// What was lost, and what was given up with it, where that was
    /// [accepted](Opening::accept_loss): by this opening, or by one before it that a crash
    /// interrupted, and which this one completes. Empty when nothing was lost.
    pub fn losses(&self) -> &[Loss] {
        &self.losses
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

    /// Another checkpoint is in place, and is durable.
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

    /// Says that `node`'s log is open; which segment comes next, and what came before it. `visible`
    /// counts the groups that other nodes may see, where those may see what is not durable.
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
            // Of a log that is gone the numbers are not used again: the witness speaks of them.
            number: last.max(log.end.segment) + 1,
            before: log.through,
            groups: log.end.groups,
        };
        if let Some(visible) = &visible {
            // Relaxed: no other node sees anything of this log yet.
            visible.store(log.end.groups, Ordering::Relaxed);
        }
        (log.open, log.closed, log.visible) = (true, None, visible);
        Ok(segment)
    }

    /// Whether no log is open.
    pub(crate) fn check_closed(&self) -> Result<(), WalError> {
        let nodes = self.nodes.lock();
        match nodes.iter().find(|(_, log)| log.open) {
            Some((&node, _)) => Err(WalError::NodeInUse { node }),
            None => Ok(()),
        }
    }

    /// Says that `node`'s log is closed, with all timestamps up to `through`, and where it ends
    /// with its end record, if it has one.
    pub(crate) fn leave(&self, node: NodeId, through: Timestamp, closed: Option<End>) {
        if let Some(log) = self.nodes.lock().get_mut(&node) {
            (log.open, log.closed, log.visible) = (false, closed, None);
            log.through = log.through.max(through);
        }
    }

    /// Says that there is one more segment, and that it is durable.
    pub(crate) fn add(&self, node: NodeId, segment: Segment) {
        self.nodes.lock().entry(node).or_default().segments.push(segment);
    }

    // ---- how far logs are durable ----------------------------------------------------------------

    /// Says that `node`'s log is durable up to `end`, with all timestamps up to `through`. Comes
    /// before its commits are acknowledged: what another node sees of them, its next
    /// [mark](crate::format::Mark) knows.
    pub(crate) fn publish(&self, node: NodeId, end: End, through: Timestamp) {
        if let Some(log) = self.nodes.lock().get_mut(&node) {
            assert!(!end.is_short_of(&log.end), "a durable log does not become shorter");
            (log.end, log.through) = (end, log.through.max(through));
        }
    }

    /// What is known of all logs but `node`'s.
    pub(crate) fn known_beside(&self, node: NodeId) -> BTreeMap<NodeId, Known> {
        let nodes = self.nodes.lock();
        let others = nodes.iter().filter(|(other, _)| **other != node);
        // Relaxed: what a commit of `node` has seen of another log was counted before it could be
        // seen, and this follows the commit's append. Happens-before makes the count visible,
        // whatever the ordering here.
        let seen =
            |log: &NodeLog| log.visible.as_ref().map_or(0, |all| all.load(Ordering::Relaxed));
        let known = others.map(|(other, log)| {
            (*other, Known { end: log.end, seen: seen(log).max(log.end.groups) })
        });
        known.filter(|(_, known)| known.seen > 0).collect()
    }

    /// Where all logs end, for a checkpoint.
    pub(crate) fn log_ends(&self) -> BTreeMap<NodeId, LogEnd> {
        let nodes = self.nodes.lock();
        let end = |log: &NodeLog| LogEnd { end: log.end, through: log.through };
        nodes.iter().map(|(node, log)| (*node, end(log))).collect()
    }

    /// How often the witness was written, and whether it lacks something of `node`'s log.
    pub(crate) fn noted(&self, node: NodeId) -> (u64, bool) {
        let end = self.nodes.lock().get(&node).map(|log| log.end);
        let witness = self.witness.lock();
        (witness.times, witness.ends.get(&node).copied() != end)
    }

    /// Writes the witness anew. `durably`: also its name, as the last of what a log that is closed
    /// leaves.
    pub(crate) fn note(&self, durably: bool) -> Result<(), WalError> {
        let mut noted = self.witness.lock();
        // Under the lock: of two who write, the later one has read the later ends.
        let ends: BTreeMap<NodeId, End> = {
            let nodes = self.nodes.lock();
            nodes.iter().map(|(node, log)| (*node, log.closed.unwrap_or(log.end))).collect()
        };
        let checkpoint = self.manifest.lock().is_some();
        let witness = Witness { checkpoint, ..Witness::of(self.database, ends.clone()) };
        witness.write(&*self.storage)?;
        if durably {
            let synced = self.storage.sync_directory();
            synced.map_err(|e| WalError::io("syncing", &self.describe(), e))?;
            noted.exists = true;
        }
        (noted.times, noted.ends) = (noted.times + 1, ends);
        Ok(())
    }

    /// Sees to it that there is a witness: it comes before everything else in a directory.
    pub(crate) fn ensure_witness(&self) -> Result<(), WalError> {
        let exists = self.witness.lock().exists;
        if exists { Ok(()) } else { self.note(true) }
    }

    // ---- segments that are not needed any more ---------------------------------------------------

    /// Removes the oldest segments of `node`, up to the first that holds anything above `floor`, or
    /// to that from which the checkpoint in place needs it; how many.
    ///
    /// The checkpoint with this floor must be [published](crate::CheckpointWriter::publish). Of a
    /// node whose log is open the last segment stays.
    ///
    /// # Errors
    /// The system's. What was not removed stays, and does no harm.
    pub fn remove_through(&self, node: NodeId, floor: Timestamp) -> Result<usize, WalError> {
        self.check_writable()?;
        let floor = floor.min(self.floor());
        let Some(manifest) = self.manifest() else { return Ok(0) };
        // From the front only: so a segment's `before` tells whether the ones before it may be
        // missing.
        let mut removed = 0;
        while let Some(number) = self.take_oldest(node, floor, &manifest) {
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

    fn take_oldest(&self, node: NodeId, floor: Timestamp, manifest: &Manifest) -> Option<u64> {
        let needed = manifest.continues.get(&node).copied().unwrap_or(u64::MAX);
        let mut nodes = self.nodes.lock();
        let log = nodes.get_mut(&node)?;
        let first = log.segments.first()?;
        let through = match log.segments.get(1) {
            Some(next) => next.before,
            None if log.open => return None,
            // The last one tells how far the log went. It goes when the checkpoint says so in its
            // place.
            None if !manifest.covers(node, log.end.groups) => return None,
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
