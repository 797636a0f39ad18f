//! The end of what a dead compute node holds up in the pool: the same steps wherever the cluster
//! is, of processes or simulated.

use std::time::Duration;

use latchwork_fabric::Port;
use latchwork_memnode::Epochs;
use latchwork_runtime::Handle;
use latchwork_verbs::ComputeNodeId;

/// How long one attempt may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whether a dead node may be buried, from what each member says that is still there: whether it
/// keeps the dead one out.
pub(crate) fn may_begin(keep_out: impl IntoIterator<Item = bool>) -> bool {
    keep_out.into_iter().all(|keeps_out| keeps_out)
}

/// Empties the epoch slot of a dead node, by a port that the executor of `handle` polls. Whether
/// that is done; where it is not, it can be tried again.
pub(crate) async fn empty_slot(port: &Port, handle: &Handle, dead: ComputeNodeId) -> bool {
    let deadline = handle.now() + PATIENCE;
    let end = handle.timeout(deadline, Epochs::retire(port, dead)).await;
    matches!(end, Ok(Ok(())))
}
