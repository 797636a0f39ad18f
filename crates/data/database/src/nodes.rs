//! [`Nodes`]: the compute nodes of this process that use a database.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use latchwork_cluster::Member;
use latchwork_runtime::sync::{AtomicUsize, Mutex, Ordering};
use latchwork_runtime::{Handle, Time};
use latchwork_strict::strict_assert;
use latchwork_txn::TransactionNode;

use crate::DatabaseOpenError;

/// The interval at which a waiting worker checks whether another worker has done its part.
pub(crate) const LOOK: Duration = Duration::from_micros(100);
const _: () = assert!(!LOOK.is_zero(), "a waiting worker spins");

/// For each compute node, the state that its workers share for a database: a [`TransactionNode`].
/// The first worker of a node makes the state.
#[derive(Default)]
pub struct Nodes(Vec<Place>);

#[derive(Default)]
struct Place {
    node: Mutex<Option<Arc<TransactionNode>>>,
    /// The number of workers that have ended.
    ended: AtomicUsize,
}

/// The limit of a wait for other workers, and the condition that stops the wait.
pub struct Wait<'a> {
    /// The longest wait.
    pub limit: Duration,
    /// Whether the caller has stopped the wait.
    pub stopped: &'a dyn Fn() -> bool,
}

impl fmt::Debug for Wait<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl Wait<'_> {
    /// Waits until `found` returns a value. `what` gives the text of a timeout error.
    pub(crate) async fn until<T>(
        &self,
        handle: &Handle,
        what: impl Fn() -> String,
        mut found: impl AsyncFnMut() -> Result<Option<T>, DatabaseOpenError>,
    ) -> Result<T, DatabaseOpenError> {
        let deadline = handle.now() + self.limit;
        loop {
            if let Some(found) = found().await? {
                return Ok(found);
            }
            if (self.stopped)() {
                return Err(DatabaseOpenError::Stopped);
            }
            if handle.now() >= deadline {
                return Err(DatabaseOpenError::Late { what: what(), waited: self.limit });
            }
            handle.sleep(LOOK).await;
        }
    }
}

impl Nodes {
    /// Makes slots for `nodes` compute nodes, none of which has started.
    pub fn new(nodes: usize) -> Nodes {
        Nodes((0..nodes).map(|_| Place::default()).collect())
    }

    /// Begins a phase, in which every worker takes part again. `anew`: the states of the nodes are
    /// made again.
    pub fn begin(&self, anew: bool) {
        for place in &self.0 {
            if anew {
                *place.node.lock() = None;
            }
            place.ended.store(0, Ordering::Relaxed);
        }
    }

    /// Returns the state of a worker's node. The first worker of the node makes the state with
    /// `make`.
    ///
    /// # Errors
    /// Those of `make`; [`DatabaseOpenError::Late`]; [`DatabaseOpenError::Stopped`].
    pub async fn of(
        &self,
        member: &Member,
        wait: &Wait<'_>,
        make: impl FnOnce() -> Result<Arc<TransactionNode>, DatabaseOpenError>,
    ) -> Result<Arc<TransactionNode>, DatabaseOpenError> {
        strict_assert!(member.node < self.0.len(), "a node that the instance does not know");
        let place = &self.0[member.node];
        if member.worker == 0 && place.node.lock().is_none() {
            let node = make()?;
            *place.node.lock() = Some(node);
        }
        let what =
            || format!("the first worker of compute node {} did not come up", member.node + 1);
        wait.until(&member.handle, what, async || Ok(place.node.lock().clone())).await
    }

    /// The nodes that have started, with their indexes.
    pub fn up(&self) -> impl Iterator<Item = (usize, Arc<TransactionNode>)> {
        let node = |(index, place): (usize, &Place)| Some((index, place.node.lock().clone()?));
        self.0.iter().enumerate().filter_map(node)
    }

    /// Waits for all compute nodes, and returns them.
    ///
    /// # Errors
    /// [`DatabaseOpenError::Late`]; [`DatabaseOpenError::Stopped`].
    pub async fn all(
        &self,
        handle: &Handle,
        wait: &Wait<'_>,
    ) -> Result<Vec<Arc<TransactionNode>>, DatabaseOpenError> {
        let up = || self.up().map(|(_, node)| node).collect::<Vec<_>>();
        let what = || format!("{} of {} compute nodes came up", up().len(), self.0.len());
        let all = async || {
            let up = up();
            Ok((up.len() == self.0.len()).then_some(up))
        };
        wait.until(handle, what, all).await
    }

    /// Ends a worker's part of a phase. Without a log, and on other workers than the first one of a
    /// node, the call returns at once. The first worker of a node may run the task that writes the
    /// log. So it waits until all `workers` of the node have ended, or `wait` ends. After that it
    /// waits until the log has written everything.
    ///
    /// # Errors
    /// Those of the log.
    pub async fn end(
        &self,
        member: &Member,
        workers: usize,
        wait: &Wait<'_>,
    ) -> Result<(), DatabaseOpenError> {
        let place = &self.0[member.node];
        strict_assert!(
            place.ended.load(Ordering::Relaxed) < workers,
            "a worker ends its phase twice"
        );
        // Release and Acquire: the records that other workers have appended come before the flush.
        place.ended.fetch_add(1, Ordering::Release);
        let log = place.node.lock().as_ref().and_then(|node| node.log().cloned());
        let Some(log) = log.filter(|_| member.worker == 0) else { return Ok(()) };
        let all = async || Ok((place.ended.load(Ordering::Acquire) >= workers).then_some(()));
        // The log is flushed even if other workers have failed.
        let _ = wait.until(&member.handle, String::new, all).await;
        let flushed = log.flush(&member.handle, deadline(&member.handle, wait)).await;
        // The trouble of the log explains a deadline that has passed.
        Ok(flushed.map_err(|error| log.trouble().unwrap_or(error))?)
    }
}

pub(crate) fn deadline(handle: &Handle, wait: &Wait<'_>) -> Time {
    handle.now() + wait.limit
}

impl fmt::Debug for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.up().map(|(index, _)| index)).finish()
    }
}
