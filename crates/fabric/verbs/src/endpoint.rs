//! The traits that a fabric implements, and the checks that all of them make on a batch.

use std::time::Duration;

use crate::address::{LocalBuffer, RegionKey, Target};
use crate::error::VerbError;
use crate::request::{BATCH_ATOMICS_MAX, BATCH_MAX, Completion, Kind, Message, Request};
use crate::words::WORD;

/// One worker's connection to every node.
///
/// Dropping an endpoint abandons it: batches that were not submitted yet never take effect, and
/// completions that were not polled are lost. Verbs in flight still take effect.
pub trait Endpoint {
    /// Accepts a batch for `target`; its completion will carry `token`.
    ///
    /// The batch stands in the endpoint's software queue until [`ring`](Endpoint::ring), and after
    /// it for as long as the fabric's own queues are full: they push back, posting never fails for
    /// want of room. The local buffers belong to the fabric until the completion is polled.
    ///
    /// # Errors
    /// Whatever is wrong with the batch itself. Then nothing of it takes effect and no completion
    /// comes.
    fn post(&mut self, target: Target, token: u64, requests: &[Request]) -> Result<(), VerbError>;

    /// Says that a WRITE of `len` bytes to this place will most likely be posted soon. A hint
    /// without effect: where the poster's own CPU copies, it gets hold of the memory meanwhile.
    fn expect_write(&mut self, target: Target, remote: u64, len: u32) {
        let _ = (target, remote, len);
    }

    /// Submits what was posted. A worker rings once per sweep.
    fn ring(&mut self);

    /// Gives the completions that have arrived to `sink`, in any order, and submits batches that
    /// had been pushed back. True when there was one.
    ///
    /// After its completion a READ's data is in the local buffer and a WRITE is visible to every
    /// later verb of any node. It need not be visible to the target's CPU yet, which must be told:
    /// by a message or a sequence word that is written behind the data, in the same batch.
    fn poll(&mut self, sink: &mut dyn FnMut(Completion)) -> bool;

    /// Batches accepted whose completions have not been polled.
    fn in_flight(&self) -> usize;

    /// Whether the worker may park: true when everything in flight will wake its notifier.
    fn may_park(&self) -> bool;

    /// Sleeps until a completion may have arrived, for `time` at most; `false` at once where there
    /// is nothing to sleep on. For a worker that may not park, on a core that other threads want.
    fn nap(&self, time: Duration) -> bool {
        let _ = time;
        false
    }
}

/// The messages that arrived for one compute node. Any worker of the node may take them.
///
/// Whoever receives a message sees, with plain relaxed loads after it, all that the same batch
/// wrote before the message: receiving is an acquire operation.
pub trait Inbox {
    /// Gives messages to `sink`, a bounded number per call. True when there was one.
    ///
    /// Messages of different batches come in any order. The sink may post, ring, and receive.
    fn receive(&self, sink: &mut dyn FnMut(Message)) -> bool;
}

/// A worker's promise to poll an inbox. Made active; dropped when the worker stops.
///
/// A sender wakes nobody while some subscriber is active. That is safe because an active one polls
/// or parks, and parking looks at the inbox once more.
pub trait Subscription {
    /// Asks to stop polling, until the notifier fires. False when a message waits: the worker stays
    /// active and must poll. True when it may park, and must call
    /// [`unparked`](Subscription::unparked) before it polls again.
    fn park(&self) -> bool;

    /// Makes the worker active again after a park, whatever woke it.
    fn unparked(&self);
}

/// Checks a batch: sizes, alignment and bounds. What every backend does first in
/// [`Endpoint::post`].
///
/// `remote_len` is the length in bytes of the target's memory, if it has any, and `local_len` that
/// of a registered region of the posting node.
///
/// # Errors
/// What is wrong with the first request that is wrong.
#[inline]
pub fn check_batch(
    target: Target,
    requests: &[Request],
    remote_len: Option<u64>,
    mut local_len: impl FnMut(RegionKey) -> Option<u64>,
) -> Result<(), VerbError> {
    if requests.is_empty() || requests.len() > BATCH_MAX {
        return Err(VerbError::BatchLength { len: requests.len() });
    }
    let mut count = 0;
    for request in requests {
        match request.remote() {
            None if matches!(target, Target::Memory(_)) => {
                return Err(VerbError::SendToMemory { target });
            }
            None => {}
            Some((offset, len)) => {
                let size = remote_len.ok_or(VerbError::UnknownTarget { target })?;
                check_aligned(offset, len)?;
                if offset.checked_add(len).is_none_or(|end| end > size) {
                    return Err(VerbError::OutOfBounds { target, offset, len, size });
                }
            }
        }
        if let Some(LocalBuffer { region, offset, len }) = request.local() {
            let len = u64::from(len);
            let size = local_len(region).ok_or(VerbError::UnknownRegion { region })?;
            check_aligned(offset, len)?;
            if offset.checked_add(len).is_none_or(|end| end > size) {
                return Err(VerbError::LocalOutOfBounds { region, offset, len, size });
            }
        }
        count += usize::from(request.kind() == Kind::Atomic);
    }
    if count > BATCH_ATOMICS_MAX {
        return Err(VerbError::TooManyAtomics { count });
    }
    Ok(())
}

#[inline]
fn check_aligned(offset: u64, len: u64) -> Result<(), VerbError> {
    if (offset | len).is_multiple_of(WORD as u64) {
        Ok(())
    } else {
        Err(VerbError::Misaligned { offset, len })
    }
}
