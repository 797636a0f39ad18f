//! [`Permission`]: whether a node may still touch memory.

use std::fmt;
use std::sync::Arc;

/// Whether a node may still touch memory; copies are the same permission. The default one never
/// ends, and asking it costs a branch.
///
/// # When it is asked, and what that leaves open
///
/// A [`Port`](crate::Port) asks right before it lets its endpoint submit anything, and not at the
/// start of the sweep, although the executor has looked at the clock there for free: a busy worker
/// is inside a sweep nearly all the time, so a process that is stopped (by a signal, by swap, by
/// its hypervisor) is most likely stopped between such a look and the doorbell. What is left is the
/// way from the answer to the doorbell itself: some hundred instructions, and on shared memory,
/// where the ringing thread copies, the batches of one sweep. A process that is stopped exactly
/// there rings too late by as long as it was stopped. Nothing on the node itself can exclude that;
/// two things outside of it do. The permission ends well before others act on it, which covers
/// short stops; and others act only after the fabric keeps the node out, which covers all of them
/// (sockets refuse its epoch, queue pairs are destroyed, a process on the same machine is killed,
/// and a stopped one does not run again before).
///
/// An idle port asks nothing: it rings nothing.
#[derive(Clone, Default)]
pub struct Permission(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl Permission {
    /// One that lasts as long as `lasts` says so. Once it has said no, it is to say no for ever.
    pub fn while_it(lasts: impl Fn() -> bool + Send + Sync + 'static) -> Permission {
        Permission(Some(Arc::new(lasts)))
    }

    /// Whether it may end at all.
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
