//! Executes verbs, and orders their effects by memory fences.

use latchwork_runtime::sync::{Ordering, fence};
use latchwork_strict::{strict_assert, strict_assert_eq};
use latchwork_verbs::{AtomicOutcome, Target, VerbError, Words, WorkRequest};

use crate::routes::Routes;

#[cfg(all(test, loom))]
mod interleavings;

/// Whether every read-modify-write instruction is a full memory fence, also a compare-and-swap that
/// fails. False for the model checker: it models the language, in which a read-modify-write is no
/// full memory fence.
const ATOMICS_ARE_BARRIERS: bool =
    cfg!(all(any(target_arch = "x86_64", target_arch = "x86"), not(loom)));

/// Keeps the effects of one worker's requests in order for all other threads.
///
/// READ and WRITE are relaxed loads and stores of words. So memory fences and the orders of atomics
/// make the order between requests:
///
/// - WRITE, then WRITE or a message: a release memory fence, or the queue's own release store. A
///   thread that sees the second request's effect with acquire order sees the WRITE.
/// - WRITE, then an atomic: the atomic is a release operation. Where an atomic is no full memory
///   fence, a full memory fence comes first. So the WRITE comes first even if the atomic is a
///   compare-and-swap that fails.
/// - An atomic, then READ: the atomic is an acquire operation, so the loads of the READ come after
///   the atomic. Two nodes may do this crosswise, each with a READ of the other's word, and at
///   least one must see the other's atomic. This needs a full memory fence. On x86 the locked
///   instruction is one; elsewhere a full memory fence follows.
/// - WRITE, then READ: a full memory fence, because stores may wait in the store buffer while later
///   loads go ahead.
/// - The poster's own loads, then READ: an acquire memory fence.
/// - The poster's own stores into its node's memory, then READ: a release memory fence. The READ
///   fills a frame in this memory, and optimistic readers may still read the frame's last line. A
///   reader that sees a byte of the new line also sees that the frame's state has changed.
///
/// At the end of a ring, and of a poll that retries batches, the same memory fence comes as before
/// a READ. The reason: after its completion, a WRITE or atomic must be visible to verbs that
/// *other* threads execute later. Another node may learn of the completion with acquire order and
/// then execute verbs. Such a node needs only the acquire memory fence of its own READ.
///
/// Public, because the agents of the socket fabric execute verbs in the same way for their clients.
#[derive(Default)]
pub struct Barriers {
    // True while an executed WRITE or atomic may still be invisible to other threads, because no
    // full memory fence has followed it.
    pending: bool,
}

impl Barriers {
    /// Must be called before the loads of a READ.
    #[inline]
    pub fn before_read(&mut self) {
        if self.pending {
            self.full();
        } else {
            fence(Ordering::AcqRel);
        }
    }

    /// Must be called before the stores of a WRITE.
    #[inline]
    pub fn before_write(&mut self) {
        fence(Ordering::Release);
        self.pending = true;
    }

    /// Executes an atomic, which must have acquire and release order.
    #[inline]
    pub fn around_atomic<T>(&mut self, atomic: impl FnOnce() -> T) -> T {
        if self.pending && !ATOMICS_ARE_BARRIERS {
            self.full();
        }
        let old = atomic();
        self.pending = !ATOMICS_ARE_BARRIERS;
        old
    }

    /// Must be called after the delivery of a message. The delivery has executed a full memory
    /// fence after the stores of the message.
    #[inline]
    pub fn after_delivery(&mut self) {
        self.pending = false;
    }

    fn full(&mut self) {
        fence(Ordering::SeqCst);
        self.pending = false;
    }

    /// Must be called after the last request, before completions are passed out.
    #[inline]
    pub fn finish(mut self) {
        self.before_read();
    }
}

/// The number of executed requests of a batch, and their results.
#[derive(Default)]
pub(crate) struct Progress {
    next: usize,
    atomics: usize,
    pub(crate) outcome: AtomicOutcome,
}

/// Why the execution of a batch stopped.
pub(crate) enum Stop {
    /// The next request is a message and the inbox is full.
    InboxFull,
    Failed(VerbError),
}

impl Progress {
    /// Executes `requests`, a checked batch for `target`, from the request where the last call
    /// stopped.
    pub(crate) fn advance(
        &mut self,
        routes: &Routes,
        barriers: &mut Barriers,
        target: Target,
        requests: &[WorkRequest],
    ) -> Result<(), Stop> {
        let to = routes.destination(target).map_err(Stop::Failed)?;
        strict_assert!(self.next < requests.len(), "a batch that has ended is executed again");
        for request in &requests[self.next..] {
            match *request {
                WorkRequest::ReadIf { mask, value, .. } if self.found(mask) != value => {}
                WorkRequest::Read { remote, local } | WorkRequest::ReadIf { remote, local, .. } => {
                    barriers.before_read();
                    let from = Words::new(to.words(remote, local.len));
                    Words::new(routes.local(local)).copy_from(from);
                }
                WorkRequest::Write { remote, local } => {
                    barriers.before_write();
                    let from = Words::new(routes.local(local));
                    Words::new(to.words(remote, local.len)).copy_from(from);
                }
                WorkRequest::WriteWord { remote, value } => {
                    barriers.before_write();
                    to.words(remote, 8)[0].store(value, Ordering::Relaxed);
                }
                WorkRequest::CompareSwap { remote, expected, desired } => {
                    let word = &to.words(remote, 8)[0];
                    let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
                    let swap = || word.compare_exchange(expected, desired, success, failure);
                    let old = barriers.around_atomic(swap).unwrap_or_else(|old| old);
                    self.keep(old);
                }
                WorkRequest::FetchAdd { remote, add } => {
                    let word = &to.words(remote, 8)[0];
                    let old = barriers.around_atomic(|| word.fetch_add(add, Ordering::AcqRel));
                    self.keep(old);
                }
                WorkRequest::Send(ref message) => {
                    if !to.send(message) {
                        return Err(Stop::InboxFull);
                    }
                    barriers.after_delivery();
                }
            }
            self.next += 1;
        }
        strict_assert_eq!(self.next, requests.len(), "a batch completes with all its requests");
        Ok(())
    }

    /// The value that the last atomic found, under `mask`; zero without an atomic.
    fn found(&self, mask: u64) -> u64 {
        self.atomics.checked_sub(1).map_or(0, |last| self.outcome.old[last] & mask)
    }

    fn keep(&mut self, old: u64) {
        self.outcome.old[self.atomics] = old;
        strict_assert!(self.atomics < self.outcome.old.len(), "a batch has too many atomics");
        self.atomics += 1;
    }
}
