//! [`Ports`]: makes all ports of the nodes of this process.

use std::rc::Rc;

use latchwork_fabric::{AnyFabric, AnyInbox, Permission, Port, Threaded};
use latchwork_runtime::Handle;
use latchwork_verbs::{ComputeNodeId, SetupError};

/// A fabric, and this process's permission to use it. All ports of a process with a lease come from
/// here, so that each of them has the permission. The type is `Send`, because the thread of each
/// worker needs a copy.
#[derive(Clone)]
pub(crate) struct Ports {
    fabric: Threaded,
    permission: Permission,
}

impl Ports {
    /// The ports of a process that has the whole cluster. No other process exists that could see
    /// its nodes dead.
    pub(crate) fn new(fabric: Threaded) -> Ports {
        Ports { fabric, permission: Permission::default() }
    }

    /// The ports of a node that may touch memory only while its lease is certainly valid.
    ///
    /// The clock of the lease is `CLOCK_BOOTTIME`. This clock and the clock of the store continue
    /// while the machine is suspended. `CLOCK_MONOTONIC` stops during a suspension. By
    /// `CLOCK_MONOTONIC` a machine that wakes up after an hour would use the rest of its ended
    /// lease. Linux gives both clocks to a process without a system call, at the same cost.
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
