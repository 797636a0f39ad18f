//! [`withdraw`]: gives up the epoch slot of a node that could not start.

use std::sync::Arc;
use std::time::Duration;

use latchwork_fabric::Port;
use latchwork_memnode::{Epochs, PoolError};
use latchwork_runtime::{Executor, ExecutorConfig, Handle, RealDriver};
use latchwork_verbs::ComputeNodeId;

use crate::ports::Ports;

/// The time limit for a node that could not start to give its epoch slot up.
const WITHDRAW: Duration = Duration::from_secs(2);

/// Gives up the epoch slot of a node that has touched no line.
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

/// Gives up the node's epoch slot when the node has no operation in progress. Fails after
/// `patience`, for example because a task still has an operation in progress.
pub(super) async fn unregister(
    epochs: &Epochs,
    port: &Port,
    handle: &Handle,
    patience: Duration,
) -> Result<(), PoolError> {
    let deadline = handle.now() + patience;
    loop {
        let timeout = PoolError::Timeout { what: "giving up the epoch slot", waited: patience };
        let ended = handle.timeout(deadline, epochs.unregister(port)).await;
        match ended.unwrap_or(Err(timeout)) {
            Err(PoolError::Busy { .. }) if handle.now() < deadline => {
                handle.sleep(Duration::from_millis(1)).await;
            }
            end => return end,
        }
    }
}
