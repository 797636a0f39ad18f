//! The graceful leave of a [`Joined`]: the releases of the node, in their order.
//!
//! ```text
//!   lines ──► (group: all nodes) ──► no operation needs a line ──► memory ──► epoch slot ──► id
//! ```

use std::time::Duration;

use latchwork_fabric::Port;
use latchwork_runtime::{Executor, Handle, RealDriver};

use super::withdraw::unregister;
use super::{JoinError, Joined};
use crate::build::worker_config;
use crate::protocol::Worker;

impl Joined {
    /// Leaves the cluster gracefully:
    ///
    /// 1. The node releases every line.
    /// 2. The node waits until no operation is in progress that may request a line here, or until
    ///    the limit. Then it releases the lines that came in the meantime.
    /// 3. The node returns the unused part of the memory that it claimed. The lines that it made
    ///    stay.
    /// 4. The node gives up its epoch slot in the pool, and then its id.
    ///
    /// # Errors
    /// A failed release, for example after the loss of a memory node. Then the node is dead for its
    /// peers at once, and keeps its epoch slot until a peer reclaims it. If only the last step
    /// failed, the slot is empty, and the node is dead when its lease ends.
    /// [`JoinError::LeaseLost`] when the lease has already ended.
    pub fn leave(self) -> Result<(), JoinError> {
        let patience = self.epochs.settings().deadline;
        self.leave_within(patience)
    }

    /// Like [`leave`](Joined::leave), with a limit for the operations of other nodes. A longer
    /// operation may find that this node has left, and fails.
    ///
    /// # Errors
    /// Like [`leave`](Joined::leave).
    pub fn leave_within(self, patience: Duration) -> Result<(), JoinError> {
        self.depart(false, patience)
    }

    /// Like [`leave_within`](Joined::leave_within), for a group that no longer needs anything it
    /// made. All nodes of the group call this. All memory that they claimed is free again. Before
    /// the call, the callers remove names that lead to this memory.
    ///
    /// The memory of a node stays claimed when a node of the group dies or does not come within
    /// `limit`. Any node may then have lines of that memory. The memory also stays claimed when an
    /// operation of another node outlasts `patience`. Two kinds of groups must not call this: a
    /// group that put its own lines into data of other nodes, and a group whose lines other nodes
    /// have freed.
    ///
    /// # Errors
    /// Like [`leave`](Joined::leave).
    pub fn release(self, limit: Duration, patience: Duration) -> Result<(), JoinError> {
        self.with_worker(async |worker, _, _| {
            worker.give_back().await?;
            Ok(worker.leave().await?)
        })?;
        // After this exchange no node of the group has a line in its cache or requests one. The
        // handler serves during the wait.
        let all = self.group.exchange("released", b"", limit);
        if let Err(error) = &all {
            tracing::warn!(%error, "the memory of this node stays taken: another one of the group may use it");
        }
        self.depart(all.is_ok(), patience)
    }

    /// Leaves. The node returns all chunks that it claimed, or only their unused parts.
    fn depart(self, with_chunks: bool, patience: Duration) -> Result<(), JoinError> {
        let (epochs, allocator) = (&self.epochs, self.node().allocator());
        self.with_worker(async |worker, port, handle| {
            worker.give_back().await?;
            // A node that requests a line here from now on read a latch word before, so its
            // operation was in progress. The same holds for an operation on the way to a line that
            // is not reachable any more.
            let over = epochs.outlast(port, handle, handle.now() + patience).await?;
            // A request in the meantime may have brought a line.
            worker.give_back().await?;
            worker.leave().await?;
            // Chunks stay claimed while an operation may still be on the way to them.
            if with_chunks && over {
                allocator.give_back_chunks(port).await?;
            } else {
                allocator.give_back_rests(port).await?;
            }
            Ok(unregister(epochs, port, handle, epochs.settings().deadline).await?)
        })?;
        self.membership.0.leave()?;
        Ok(())
    }

    /// Runs `body` with a worker and a port that outlives the worker. No other worker runs, only
    /// the handler.
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
        // The worker polls its own port. The steps after the worker's end need another port.
        let port = host.ports.port(node.id(), &handle)?;
        handle.add_poller(port.poller());
        let (own, inbox) = host.ports.of_worker(node.id(), &handle)?;
        let worker = Worker::start(node, own, inbox, &handle);
        let end = executor.block_on(body(worker, &port, &handle));
        end.map_err(|error| if self.is_member() { error } else { JoinError::LeaseLost })
    }
}
