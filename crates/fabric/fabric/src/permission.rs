//! [`Permission`]: whether a node may still touch memory.

use std::fmt;
use std::sync::Arc;

/// Whether a node may still touch memory. Clones are the same permission. The default permission
/// never ends, and its check costs one branch.
///
/// # When a port checks the permission, and the gap that is left
///
/// A [`Port`](crate::Port) checks the permission right before its endpoint may submit anything. The
/// executor has read the clock at the start of the sweep, and a check there would be free. But a
/// busy worker is inside a sweep nearly all the time. So a process that is stopped (by a signal, by
/// swap, by its hypervisor) most likely stops between such an early check and the doorbell.
///
/// The gap that is left is the path from the check to the doorbell itself. The path is some hundred
/// instructions. On shared memory, where the ringing thread copies, the path also has the batches
/// of one sweep. A process that is stopped on this path rings late by the time of its stop. No
/// check on the node itself can close the gap. Two facts outside of the node close it:
///
/// 1. The permission ends well before other nodes act on its end. That covers short stops.
/// 2. Other nodes act only after the fabric has fenced the node. That covers all stops. Sockets
///    refuse the node's epoch, queue pairs are destroyed, and a process on the same machine is
///    killed. A stopped process does not run again before the kill ends it.
///
/// An idle port does not check the permission, because it rings nothing.
#[derive(Clone, Default)]
pub struct Permission(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl Permission {
    /// Makes a permission that lasts while `lasts` returns true. After its first false, `lasts`
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
