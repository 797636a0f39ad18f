//! Executes the batches of clients on memory of this process.

use std::sync::Arc;

use latchwork_runtime::sync::{AtomicU64, Ordering};
use latchwork_strict::strict_assert;
use latchwork_verbs::{Region, WORD, Words};
use latchwork_verbs_shm::Barriers;

use super::hosted::Hosted;
use crate::wire::{Batch, DATA_MAX, WireRequest, begin_reply, end_reply, peek};

/// The node of one connection, and the node's regions that the connection has used. This cache of
/// regions saves a lock per verb. The cache stays valid, because regions are only added and not
/// removed.
pub(crate) struct Ground {
    hosted: Arc<Hosted>,
    regions: Vec<Option<Arc<Region>>>,
}

/// The largest number of bytes of a request that the agent prefetches. The processor prefetches the
/// rest by itself.
const AHEAD_MAX: u32 = 1 << 10;
const _: () = assert!((AHEAD_MAX as usize) < DATA_MAX, "a look ahead reads more than a batch");

/// A batch that no correct client of this version sends to this node, with the error in the batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Violation(pub(crate) &'static str);

impl Ground {
    pub(crate) fn new(hosted: Arc<Hosted>) -> Self {
        Ground { hosted, regions: Vec::new() }
    }

    /// The memory of a region, if it exists.
    fn learn(&mut self, key: u16) -> Option<&Arc<Region>> {
        let at = usize::from(key);
        if self.regions.get(at).is_none_or(Option::is_none) {
            let found = self.hosted.region(key)?;
            if self.regions.len() <= at {
                self.regions.resize_with(at + 1, || None);
            }
            self.regions[at] = Some(found);
        }
        self.regions[at].as_ref()
    }

    /// Prefetches the memory that the batch of a frame touches first. The agent executes this frame
    /// soon. Returns the frame's length in bytes, if it is known. The batches of a worker are
    /// spread over the memory, so without prefetches most of the time would be waits for cache
    /// misses.
    #[inline]
    pub(crate) fn fetch_ahead(&self, frame: &[u8]) -> Option<usize> {
        peek(frame, |region, remote, len| {
            if let Some(Some(region)) = self.regions.get(usize::from(region)) {
                let start = usize::try_from(remote).unwrap_or(usize::MAX);
                let end = start.saturating_add(len.min(AHEAD_MAX) as usize);
                region.words().prefetch(start..end);
            }
        })
    }

    /// Executes a batch and appends its reply. A batch with a violation takes no effect.
    ///
    /// This thread executes the requests in their order, with the memory fences of the
    /// shared-memory fabric ([`Barriers`]). The caller calls [`Barriers::finish`] before it sends
    /// the reply.
    ///
    /// These memory fences order this thread's accesses as other threads of this process see them.
    /// The client's earlier actions also come before the batch. An earlier action is an access of a
    /// client in this process. Or it is a batch that another thread executed, and whose reply the
    /// client has received. The argument:
    ///
    /// 1. The kernel passes bytes from one thread to another under the lock of the socket.
    /// 2. This lock releases and acquires like any lock, for all memory.
    /// 3. So the accesses of the thread that sent the bytes are visible to the thread that received
    ///    them.
    pub(crate) fn execute(
        &mut self,
        batch: &Batch<'_>,
        barriers: &mut Barriers,
        out: &mut Vec<u8>,
    ) -> Result<(), Violation> {
        if batch.sends() && self.hosted.inbox.is_none() {
            return Err(Violation("a message for a memory node"));
        }
        if let Some(reach) = batch.reach() {
            let region = self.learn(batch.region).ok_or(Violation("a region that is not there"))?;
            if reach > region.len() as u64 {
                return Err(Violation("a request beyond the end of its region"));
            }
        }
        let inbox = self.hosted.inbox.as_ref();
        let region = self.regions.get(usize::from(batch.region)).and_then(Option::as_deref);
        strict_assert!(region.is_some() || batch.reach().is_none(), "a request without its region");
        let memory = region.map_or(&[][..], Region::atomics);
        let start = begin_reply(out, batch.seq, false);
        let (mut undone, mut found) = (0_u8, 0_u64);
        for (i, request) in batch.requests().enumerate() {
            match request {
                WireRequest::Read { condition: Some((mask, value)), .. }
                    if found & mask != value =>
                {
                    undone |= 1 << i;
                }
                WireRequest::Read { remote, len, .. } => {
                    barriers.before_read();
                    Words::new(memory).append_to(remote as usize, len as usize, out);
                    strict_assert!(
                        remote.is_multiple_of(WORD as u64) && (len as usize).is_multiple_of(WORD),
                        "a parsed READ is not made of words"
                    );
                }
                WireRequest::Write { remote, data } => {
                    barriers.before_write();
                    strict_assert!(
                        data.len().is_multiple_of(WORD),
                        "a parsed WRITE is not made of words"
                    );
                    Words::new(memory).write_bytes(remote as usize, data);
                }
                WireRequest::CompareSwap { remote, expected, desired } => {
                    let word = word(memory, remote);
                    let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
                    let swap = || word.compare_exchange(expected, desired, success, failure);
                    found = barriers.around_atomic(swap).unwrap_or_else(|old| old);
                    out.extend_from_slice(&found.to_le_bytes());
                }
                WireRequest::FetchAdd { remote, add } => {
                    let word = word(memory, remote);
                    found = barriers.around_atomic(|| word.fetch_add(add, Ordering::AcqRel));
                    out.extend_from_slice(&found.to_le_bytes());
                }
                WireRequest::Send(message) => {
                    if inbox.is_some_and(|inbox| inbox.deliver(&message.message())) {
                        barriers.after_delivery();
                    } else {
                        undone |= 1 << i;
                    }
                    strict_assert!(batch.sends(), "a message in a batch that sends none");
                }
            }
        }
        end_reply(out, start, undone);
        Ok(())
    }
}

/// The word of a checked request.
fn word(memory: &[AtomicU64], remote: u64) -> &AtomicU64 {
    strict_assert!(remote.is_multiple_of(WORD as u64), "a parsed atomic is not at a word");
    &memory[remote as usize / WORD]
}
