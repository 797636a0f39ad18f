//! [`Ports`]: the only way in which a process of a cluster gets to its fabric.

use std::rc::Rc;

use latchwork_fabric::{Fabric, Inbox, Permission, Port, Threaded};
use latchwork_runtime::Handle;
use latchwork_verbs::{ComputeNodeId, SetupError};

/// A fabric, and the permission with which this process uses it: every port of the process is made
/// here, so that none is without. `Send`, for each worker's thread.
#[derive(Clone)]
pub(crate) struct Ports {
    fabric: Threaded,
    permission: Permission,
}

impl Ports {
    /// For a process that is the whole cluster, which nobody can find dead.
    pub(crate) fn new(fabric: Threaded) -> Ports {
        Ports { fabric, permission: Permission::default() }
    }

    /// For a node that may touch memory while its lease is certain to last.
    ///
    /// The clock of a lease goes on while the machine is suspended (`CLOCK_BOOTTIME`), as the
    /// store's does, which is elsewhere: by a clock that stands still meanwhile
    /// (`CLOCK_MONOTONIC`), a machine that wakes up after an hour would ring for as long as the
    /// lease had left. Linux gives both to a process without a call into the kernel, and for the
    /// same price.
    #[cfg(feature = "tcp")]
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
    ) -> Result<(Rc<Port>, Inbox), SetupError> {
        let port = self.port(node, handle)?;
        Ok((port, Fabric::from(self.fabric.clone()).inbox(node)?))
    }

    /// A port of `node`.
    pub(crate) fn port(
        &self,
        node: ComputeNodeId,
        handle: &Handle,
    ) -> Result<Rc<Port>, SetupError> {
        let fabric = Fabric::from(self.fabric.clone());
        Port::permitted(&fabric, node, handle, self.permission.clone())
    }
}
