//! The graceful leave of a [`Joined`]: what the node releases, and in which order.
//!
//! ```text
//!   lines ──► (group: all nodes) ──► no operation needs a line ──► memory ──► epoch slot ──► id
//! ```

use std::time::Duration;

use latchwork_engine::Worker;
use latchwork_fabric::Port;
use latchwork_memnode::PoolError;
use latchwork_runtime::{Executor, Handle, RealDriver};

use super::withdraw::unregister;
use super::{JoinError, Joined};
use crate::build::worker_config;

impl Joined {
    /// Leaves the cluster gracefully:
    ///
    /// 1. The node releases every line.
    /// 2. The node waits until every operation has ended that may still request a line from it, for
    ///    at most the deadline of an operation. Then it releases the lines that arrived during the
    ///    wait.
    /// 3. The node returns the unused part of the memory that it claimed. The lines that it
    ///    allocated stay.
    /// 4. The node empties its own epoch slot in the pool, and then gives its id up.
    ///
    /// # Errors
    /// A step failed, for example after the loss of a memory node. In this case the node is dead
    /// for its peers at once, and keeps its epoch slot until a peer reclaims the node. If only the
    /// last step failed, the slot is empty, and the node is dead when its lease ends.
    /// [`JoinError::LeaseLost`] when the lease has already ended.
    pub fn leave(self) -> Result<(), JoinError> {
        let patience = self.epochs.settings().deadline;
        self.depart(false, patience)
    }

    /// Like [`leave`](Joined::leave), for a group of nodes that needs none of the
    /// memory that it claimed. All nodes of the group call this, and all their claimed memory
    /// becomes free. Before the call, the callers remove the names that lead to this memory.
    ///
    /// The memory of this node stays claimed in two cases. First, a node of the group dies or does
    /// not come within `limit`, so that it may still have lines of that memory. Second, an
    /// operation of another node takes longer than `patience`.
    ///
    /// Two kinds of groups must not call this: a group that put its own lines into data of other
    /// nodes, and a group whose lines other nodes have freed.
    ///
    /// # Errors
    /// Like [`leave`](Joined::leave).
    pub fn release(self, limit: Duration, patience: Duration) -> Result<(), JoinError> {
        self.with_worker(async |worker, _, _| {
            worker.give_back().await?;
            Ok(worker.leave().await?)
        })?;
        // After this exchange no node of the group has a line in its cache or requests a line. The
        // handler of this node serves requests during the wait.
        let all = self.group.exchange("released", b"", limit);
        if let Err(error) = &all {
            tracing::warn!(%error, "the memory of this node stays taken: another one of the group may use it");
        }
        self.depart(all.is_ok(), patience)
    }

    /// Leaves the cluster. The node returns all chunks that it claimed, or only their unused parts.
    fn depart(self, with_chunks: bool, patience: Duration) -> Result<(), JoinError> {
        let (epochs, allocator) = (&self.epochs, self.node().allocator());
        self.with_worker(async |worker, port, handle| {
            worker.give_back().await?;
            // From now on a node requests a line here only if it read a latch word before now. So
            // its operation is in progress now. The same holds for an operation on the way to a
            // line that is no longer reachable.
            let over = epochs.outlast(port, handle, handle.now() + patience).await?;
            // A request that was in progress may have brought a line.
            worker.give_back().await?;
            worker.leave().await?;
            let limit = epochs.settings().deadline;
            let given_back = async {
                // Chunks stay claimed while an operation may still be on the way to one of their
                // lines.
                match with_chunks && over {
                    true => allocator.give_back_chunks(port).await.map(drop),
                    false => allocator.give_back_rests(port).await,
                }
            };
            let timeout = PoolError::Timeout { what: "giving back chunks", waited: limit };
            let ended = handle.timeout(handle.now() + limit, given_back).await;
            ended.unwrap_or(Err(timeout))?;
            if let Some(journal) = self.node().journal() {
                let timeout =
                    PoolError::Timeout { what: "giving back journal slots", waited: limit };
                let left = handle.timeout(handle.now() + limit, journal.leave(port)).await;
                left.unwrap_or(Err(timeout))?;
            }
            Ok(unregister(epochs, port, handle, limit).await?)
        })?;
        self.membership.0.leave()?;
        Ok(())
    }

    /// Runs `body` with a worker, and with a port that the caller can use after the worker's end.
    /// No other worker runs, only the handler.
    fn with_worker(
        &self,
        body: impl AsyncFnOnce(Worker, &Port, &Handle) -> Result<(), JoinError>,
    ) -> Result<(), JoinError> {
        if !self.is_member() {
            return Err(JoinError::LeaseLost);
        }
        let (host, node) = (&self.host, self.node());
        let mut executor = Executor::new(
            RealDriver::with_clock(host.clock),
            worker_config(&host.config, usize::MAX),
        );
        let handle = executor.handle();
        // The executor stops polling the worker's port at the worker's end, so the later steps need
        // this port.
        let port = host.ports.port(node.id(), &handle)?;
        handle.add_poller(port.poller());
        let (own, inbox) = host.ports.of_worker(node.id(), &handle)?;
        let worker = Worker::start(node, own, inbox, &handle);
        let end = executor.block_on(body(worker, &port, &handle));
        end.map_err(|error| if self.is_member() { error } else { JoinError::LeaseLost })
    }
}
