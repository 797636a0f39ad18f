//! [`Opened`]: one worker's part in an open database.

use std::cell::Cell;
use std::fmt;
use std::ops::Deref;
use std::rc::Rc;

use latchwork_cluster::{Member, Worker};
use latchwork_txn::{Checkpoint, Database};

use crate::{DatabaseOpenError, Instance};

/// A database that one worker has open. An `Opened` dereferences to [`Database`]. Clones share one
/// state.
#[derive(Clone)]
pub struct Opened {
    instance: Instance,
    database: Database<Worker>,
    member: Member,
    /// Whether this worker has ended its part. The clones share it.
    is_closed: Rc<Cell<bool>>,
}

impl Opened {
    pub(crate) fn new(instance: Instance, database: Database<Worker>, member: Member) -> Opened {
        Opened { instance, database, member, is_closed: Rc::default() }
    }

    /// The worker's membership in the cluster.
    pub fn member(&self) -> &Member {
        &self.member
    }

    /// The database.
    pub fn database(&self) -> &Database<Worker> {
        &self.database
    }

    /// The instance of the database.
    pub fn instance(&self) -> &Instance {
        &self.instance
    }

    /// Writes a checkpoint of the whole database, and removes the log segments that it makes
    /// unnecessary. Transactions continue during the call. Only one worker may do this at a time.
    /// Without checkpoints the logs only grow, and each replay takes longer.
    ///
    /// # Errors
    /// [`DatabaseOpenError::NoLog`]; [`DatabaseOpenError::Late`] when a compute node has not
    /// started; those of [`Database::checkpoint`].
    pub async fn checkpoint(&self) -> Result<Checkpoint, DatabaseOpenError> {
        self.instance.0.checkpoint(&self.database, &self.member.handle).await
    }

    /// Ends this worker's part of the phase. With a log, the first worker of a node waits for the
    /// other workers of its node. After that it waits until the log has written everything. A
    /// second close of this worker, by any clone, does nothing.
    ///
    /// # Errors
    /// Those of the log.
    pub async fn close(self) -> Result<(), DatabaseOpenError> {
        let Opened { instance, database, member, is_closed } = self;
        drop(database);
        // `end` counts the workers that have ended, so each worker must call it once only.
        if is_closed.replace(true) { Ok(()) } else { instance.0.end(&member).await }
    }
}

impl Instance {
    /// Opens the database on one worker. Every worker of every compute node must do this at the
    /// same time. The first worker makes the database, all workers recover it, and then the first
    /// worker makes the missing tables.
    ///
    /// # Errors
    /// An error of this worker, of another worker, or of an earlier opening;
    /// [`DatabaseOpenError::Late`] when a worker does not come in time;
    /// [`DatabaseOpenError::NoMember`]; [`DatabaseOpenError::OtherCluster`];
    /// [`DatabaseOpenError::InMemory`] and [`DatabaseOpenError::HasLog`] when the memory has a
    /// database that the instance may not use.
    pub async fn open(&self, member: &Member) -> Result<Opened, DatabaseOpenError> {
        let inner = &self.0;
        if !inner.nodes_here.contains(&member.node) || member.worker >= inner.workers {
            let (nodes, workers) = (inner.nodes_here.len(), inner.workers);
            let (worker, node) = (member.worker, member.node);
            return Err(DatabaseOpenError::NoMember { worker, node, nodes, workers });
        }
        // These two checks come before any change. If one fails, the instance stays as it was.
        inner.belong(member.memory.node().allocator().pool())?;
        inner.steps.check()?;
        // If this future is dropped in the middle of a step, the instance fails. Otherwise a second
        // attempt could count a step twice.
        let dropped = || format!("{} did not go on with the opening", member.name());
        let guard = inner.steps.guard(dropped);
        // Boxed, because the future is large and runs once.
        let opened = Box::pin(inner.open(member)).await;
        let opened = opened.map_err(|error| inner.failed(error));
        guard.lift();
        opened.map(|database| Opened::new(self.clone(), database, member.clone()))
    }
}

impl Deref for Opened {
    type Target = Database<Worker>;

    fn deref(&self) -> &Database<Worker> {
        &self.database
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Opened");
        out.field("database", &self.database).field("worker", &self.member.index);
        out.finish_non_exhaustive()
    }
}
