//! [`Permission`]: whether a node may still touch memory.

use std::fmt;
use std::sync::Arc;

/// Whether a node may still touch memory. Clones are the same permission. The default permission
/// never ends, and its check costs one branch.
///
/// # When a port checks the permission, and the remaining gap
///
/// A [`Port`](crate::Port) checks the permission right before its endpoint may submit a batch. A
/// check at the start of the sweep would be cheaper, because the executor reads the clock there
/// anyway. But a busy worker is inside a sweep nearly all the time. So a process that is stopped
/// (by a signal, by swap, by its hypervisor) most likely stops between such an early check and the
/// doorbell.
///
/// The remaining gap is the path from the check to the doorbell. The path is some hundred
/// instructions. On shared memory, where the ringing thread copies, the path also has the batches
/// of one sweep. A process that is stopped on this path rings the doorbell when it runs again,
/// which may be after the end of the permission. No check on the node itself can close the gap. Two
/// facts outside of the node close it:
///
/// 1. The permission ends well before other nodes act on its end. This covers short stops.
/// 2. Other nodes act only after they have fenced the node. This covers all stops. Over sockets,
///    agents refuse the node's member epoch. On RDMA, peers destroy the queue pairs. On shared
///    memory, the process is killed, and a stopped process does not run again before the kill ends
///    it.
///
/// A port without batches in flight does not check the permission, because it has nothing to
/// submit.
#[derive(Clone, Default)]
pub struct Permission(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl Permission {
    /// Makes a permission that holds while `lasts` returns true. After its first false, `lasts`
    /// must always return false.
    pub fn while_it(lasts: impl Fn() -> bool + Send + Sync + 'static) -> Permission {
        Permission(Some(Arc::new(lasts)))
    }

    /// Whether the permission can end at all.
    #[inline]
    pub(crate) fn can_end(&self) -> bool {
        self.0.is_some()
    }

    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.0.as_ref().is_some_and(|lasts| !lasts())
    }
}

impl fmt::Debug for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = if self.can_end() { "may end" } else { "for ever" };
        f.debug_tuple("Permission").field(&end).finish()
    }
}
