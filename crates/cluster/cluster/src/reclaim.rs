//! Reclaims a dead compute node. The steps are the same in clusters of processes and in simulated
//! clusters.

use std::time::Duration;

use latchwork_fabric::Port;
use latchwork_memnode::Epochs;
use latchwork_runtime::Handle;
use latchwork_verbs::ComputeNodeId;

/// The time limit of one attempt.
const PATIENCE: Duration = Duration::from_secs(5);

/// Empties the epoch slot of a dead node. The executor of `handle` must poll `port`. Returns
/// whether the slot is empty. A failed attempt can be repeated.
pub(crate) async fn empty_slot(port: &Port, handle: &Handle, dead: ComputeNodeId) -> bool {
    let deadline = handle.now() + PATIENCE;
    let end = handle.timeout(deadline, Epochs::retire(port, dead)).await;
    matches!(end, Ok(Ok(())))
}
