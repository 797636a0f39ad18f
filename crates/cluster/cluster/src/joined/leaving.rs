//! The end in order of a [`Joined`]: what it gives back, to whom, and in which order.
//!
//! ```text
//!   lines ──► (the group's nodes too) ──► operations that may ask for one are over ──► memory ──► place in the pool ──► id
//! ```

use std::sync::Arc;
use std::time::Duration;

use latchwork_fabric::Port;
use latchwork_memnode::{Epochs, PoolError};
use latchwork_runtime::{Executor, ExecutorConfig, Handle, RealDriver};
use latchwork_selcc::Worker;
use latchwork_verbs::ComputeNodeId;

use super::{JoinError, Joined};
use crate::build::worker_config;
use crate::ports::Ports;

/// How long a node that could not start may take to give back what it has taken.
const WITHDRAW: Duration = Duration::from_secs(2);

impl Joined {
    /// Leaves the cluster in order: gives back every line, waits until nobody is about to ask for
    /// one here, and gives up its place in the pool and in membership. What it made stays; of the
    /// memory that it took it gives back what it has not used.
    ///
    /// # Errors
    /// What could not be given back, as when a memory node is gone: then the node's place is not
    /// given up, and it is dead for its peers when its lease has ended. [`JoinError::LeaseLost`]
    /// when that is so already.
    pub fn leave(self) -> Result<(), JoinError> {
        let patience = self.epochs.settings().deadline;
        self.leave_within(patience)
    }

    /// As [`leave`](Joined::leave); operations of other nodes that take longer than `patience` may
    /// find this one gone, and fail.
    ///
    /// # Errors
    /// As [`leave`](Joined::leave).
    pub fn leave_within(self, patience: Duration) -> Result<(), JoinError> {
        self.depart(false, patience)
    }

    /// As [`leave_within`](Joined::leave_within), by all nodes of the group, which are done with
    /// everything that they have made: each of them calls this. All memory that they took is free
    /// again. Names that lead there are removed before.
    ///
    /// It stays taken when one of them has not come within `limit`, or has died: lines may be
    /// anywhere then. Nor is this for a group that has put lines of its own into others' data, or
    /// whose lines others have freed.
    ///
    /// # Errors
    /// As [`leave`](Joined::leave).
    pub fn release(self, limit: Duration, patience: Duration) -> Result<(), JoinError> {
        self.with_worker(async |worker, _, _| {
            worker.give_back().await?;
            Ok(worker.leave().await?)
        })?;
        // Behind this nobody in the group has a line in its cache, or asks for one. The handler
        // serves while it is waited for.
        let all = self.group.exchange("released", b"", limit);
        if let Err(error) = &all {
            tracing::warn!(%error, "the memory of this node stays taken: another one of the group may use it");
        }
        self.depart(all.is_ok(), patience)
    }

    /// Leaves, and gives back all chunks that the node took, or what it did not use of them.
    fn depart(self, with_chunks: bool, patience: Duration) -> Result<(), JoinError> {
        let (epochs, allocator) = (&self.epochs, self.node().allocator());
        self.with_worker(async |worker, port, handle| {
            worker.give_back().await?;
            // Whoever asks here now has read a latch word before: its operation was in progress. So
            // was that of whoever is on the way to a line that nobody can find any more.
            let over = epochs.outlast(port, handle, handle.now() + patience).await?;
            // What came meanwhile may have brought a line.
            worker.give_back().await?;
            worker.leave().await?;
            // Chunks to which somebody may still be on the way stay taken.
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

    /// Runs `body` with a worker, beside which there is none but the handler, and with a port that
    /// outlasts it.
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
        // The worker polls its own port; what comes after its end needs another.
        let port = host.ports.port(node.id(), &handle)?;
        handle.add_poller(port.poller());
        let (own, inbox) = host.ports.of_worker(node.id(), &handle)?;
        let worker = Worker::start(node, own, inbox, &handle);
        let end = executor.block_on(body(worker, &port, &handle));
        end.map_err(|error| if self.is_member() { error } else { JoinError::LeaseLost })
    }
}

/// Gives up the slot of a node that has touched nothing.
pub(super) fn withdraw(ports: &Ports, id: ComputeNodeId, epochs: &Arc<Epochs>) {
    let mut executor = Executor::new(RealDriver::new(), ExecutorConfig::default());
    let handle = executor.handle();
    let given_up = ports.port(id, &handle).map(|port| {
        handle.add_poller(port.poller());
        executor.block_on(unregister(epochs, &port, &handle, WITHDRAW))
    });
    if !matches!(given_up, Ok(Ok(()))) {
        tracing::warn!(
            node = id.get(),
            "a place in the pool could not be given up, and stays taken"
        );
    }
}

/// Gives up the node's slot, once the handler has no operation either.
async fn unregister(
    epochs: &Epochs,
    port: &Port,
    handle: &Handle,
    patience: Duration,
) -> Result<(), PoolError> {
    let deadline = handle.now() + patience;
    loop {
        match epochs.unregister(port).await {
            Err(PoolError::Busy { .. }) if handle.now() < deadline => {
                handle.sleep(Duration::from_millis(1)).await;
            }
            end => return end,
        }
    }
}
