//! [`Ports`]: makes the ports of a process in a cluster.

use std::rc::Rc;

use latchwork_fabric::{AnyFabric, AnyInbox, Permission, Port, Threaded};
use latchwork_runtime::Handle;
use latchwork_verbs::{ComputeNodeId, SetupError};

/// A fabric, and this process's permission to use it. Every port of a process with a lease is made
/// here, so that every such port has the permission. The type is `Send`, because each worker's
/// thread needs one.
#[derive(Clone)]
pub(crate) struct Ports {
    fabric: Threaded,
    permission: Permission,
}

impl Ports {
    /// The ports of a process that is the whole cluster. No other process can find it dead.
    pub(crate) fn new(fabric: Threaded) -> Ports {
        Ports { fabric, permission: Permission::default() }
    }

    /// The ports of a node that may touch memory only while its lease is certainly valid.
    ///
    /// The clock of the lease, `CLOCK_BOOTTIME`, runs on while the machine is suspended. The clock
    /// of the store runs on too. `CLOCK_MONOTONIC` stops during a suspension. By that clock a
    /// machine that wakes up after an hour would use the rest of its lease. Linux gives both clocks
    /// to a process without a system call, at the same cost.
    #[cfg(feature = "processes")]
    pub(crate) fn leased(fabric: Threaded, lease: latchwork_membership::Lease) -> Ports {
        Ports { fabric, permission: Permission::while_it(move || lease.is_valid()) }
    }

    pub(crate) fn prefault(&self) {
        self.fabric.prefault();
    }

    /// A port of a worker of `node`, and the node's inbox.
    pub(crate) fn of_worker(
        &self,
        node: ComputeNodeId,
        handle: &Handle,
    ) -> Result<(Rc<Port>, AnyInbox), SetupError> {
        let port = self.port(node, handle)?;
        Ok((port, AnyFabric::from(self.fabric.clone()).inbox(node)?))
    }

    /// A port of `node`.
    pub(crate) fn port(
        &self,
        node: ComputeNodeId,
        handle: &Handle,
    ) -> Result<Rc<Port>, SetupError> {
        let fabric = AnyFabric::from(self.fabric.clone());
        Port::permitted(&fabric, node, handle, self.permission.clone())
    }
}
