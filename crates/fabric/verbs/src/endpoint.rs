//! The traits that a fabric implements, and the checks that every fabric makes on a batch.

use std::time::Duration;

use crate::address::{CHIP_BASE, LocalBuffer, RegionKey, Target, WORD};
use crate::error::VerbError;
use crate::extent::Extent;
use crate::limits::{BATCH_ATOMICS_MAX, BATCH_MAX};
use crate::request::{Completion, Message, WorkRequest, WorkRequestKind};

/// One worker's connection to every node.
///
/// Dropping an endpoint abandons the endpoint's batches. A batch that was not submitted never takes
/// effect. A completion that was not polled is lost. A submitted batch still takes effect, unless
/// its target or its connection fails or is too slow.
pub trait Endpoint {
    /// Accepts a batch for `target`; the completion of the batch carries `token`.
    ///
    /// The batch waits in the endpoint's software queue until [`ring`](Endpoint::ring). After a
    /// node was cut off or replaced, a fabric may also submit the batch in a later post. While the
    /// fabric's own queues are full, the batch stays in the software queue after the ring. Posting
    /// never fails for lack of room. The local buffers belong to the fabric until the completion is
    /// polled.
    ///
    /// # Errors
    /// Any error in the batch itself, also a target that does not exist. A refused batch has no
    /// effect and no completion.
    fn post(
        &mut self,
        target: Target,
        token: u64,
        requests: &[WorkRequest],
    ) -> Result<(), VerbError>;

    /// Announces that a WRITE of `len` bytes to offset `remote` of `target` is likely to be posted
    /// soon. A hint without effect on results: a fabric that copies with the poster's CPU
    /// prefetches the memory.
    fn expect_write(&mut self, target: Target, remote: u64, len: u32) {
        let _ = (target, remote, len);
    }

    /// Submits the posted batches, as far as the fabric's queues have room. A worker rings once per
    /// sweep.
    fn ring(&mut self);

    /// Passes the completions that have arrived to `sink`, in any order, and submits batches that
    /// waited for room in a full queue. Returns true when at least one completion arrived.
    ///
    /// After the successful completion of a READ, the data is in the local buffer. After the
    /// successful completion of a WRITE, the data is visible to every later verb of any node. The
    /// target's CPU need not see the data yet. To notify that CPU, the same batch sends a message,
    /// or writes a word that the CPU polls, after the data.
    fn poll(&mut self, sink: &mut dyn FnMut(Completion)) -> bool;

    /// The number of accepted batches whose completions have not been polled.
    fn in_flight(&self) -> usize;

    /// Whether the worker may park: true when the completion of every batch in flight notifies the
    /// worker.
    fn may_park(&self) -> bool;

    /// Sleeps until a completion may have arrived, for at most `time`. Returns `false` at once when
    /// the fabric has nothing to sleep on. A worker that may not park calls this function when
    /// other threads want its core.
    fn doze(&self, time: Duration) -> bool {
        let _ = time;
        false
    }
}

/// The messages that arrived for one compute node. Any worker of the node may receive them.
///
/// Receiving is an acquire operation: after a message, plain relaxed loads see everything that the
/// same batch wrote before the message.
pub trait Inbox {
    /// Passes messages to `sink`, a bounded number per call. Returns true when at least one message
    /// arrived.
    ///
    /// Messages of different batches come in any order. The sink may post, ring, and receive.
    fn receive(&self, sink: &mut dyn FnMut(Message)) -> bool;
}

/// A worker's promise to poll an inbox. A new subscription is active. A worker that stops drops its
/// subscription.
///
/// A sender that finds an active subscription wakes no worker. The message is still received: an
/// active worker polls, parks or drops its subscription. Parking and dropping check the inbox once
/// more.
pub trait Subscription {
    /// Announces that the worker stops polling until its notifier fires.
    ///
    /// Returns false when a message may be in the inbox, or when the fabric cannot wake the worker
    /// for a message. The worker then stays active and must poll. Returns true when the worker may
    /// park. After a park the worker must call [`unparked`](Subscription::unparked) before the next
    /// poll.
    fn park(&self) -> bool;

    /// Makes the worker active again after a park, whatever the cause of the wake.
    fn unparked(&self);
}

/// Checks the sizes, the alignment and the bounds of a batch. Every backend calls this function in
/// [`Endpoint::post`], before any request of the batch takes effect.
///
/// `extent` has the lengths of the target's memory; `None` when the target has no memory.
/// `local_len` gives the length in bytes of a registered region of the posting node.
///
/// # Errors
/// The error of the first request that is wrong, or of the batch as a whole.
#[inline]
pub fn check_batch(
    target: Target,
    requests: &[WorkRequest],
    extent: Option<Extent>,
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
                let Extent { bytes, chip_bytes } =
                    extent.ok_or(VerbError::UnknownTarget { target })?;
                check_aligned(offset, len)?;
                let (start, size) = match offset.checked_sub(CHIP_BASE) {
                    None => (offset, bytes),
                    Some(start) => (start, chip_bytes),
                };
                if start.checked_add(len).is_none_or(|end| end > size) {
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
        count += usize::from(request.kind() == WorkRequestKind::Atomic);
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
