//! The verbs themselves, and the barriers that make their order.

use latchwork_runtime::sync::{Ordering, fence};
use latchwork_verbs::{Outcome, Request, Target, VerbError, Words};

use crate::routes::Routes;

#[cfg(all(test, loom))]
mod interleavings;

/// Whether every read-modify-write instruction is a full barrier, also one that fails to exchange.
/// The model checker knows the language, where none is.
const ATOMICS_ARE_BARRIERS: bool =
    cfg!(all(any(target_arch = "x86_64", target_arch = "x86"), not(loom)));

/// Keeps the effects of one worker's requests in order, in the eyes of all other threads.
///
/// READ and WRITE are relaxed loads and stores of words, so the order between them must come from
/// what stands between them:
///
/// - WRITE, then WRITE or a message: a release fence (the queue's own release store). A thread that
///   sees the second with acquire order sees the first.
/// - WRITE, then an atomic: the atomic is a release operation. Where it is no full barrier, a full
///   fence comes first, so that even an exchange that fails comes after the WRITE.
/// - an atomic, then READ: the atomic is an acquire operation, so the READ's loads are not early.
///   For two nodes that do this crosswise (each must not miss the other's atomic) it must be a full
///   barrier: the locked instruction is one on x86, elsewhere a full fence follows.
/// - WRITE, then READ: a full fence, since stores wait in the store buffer while loads go ahead.
/// - what the poster saw, then READ: an acquire fence for its loads, and a release fence for its
///   stores into the node's own memory, where optimistic readers look: who sees a byte of the next
///   line also sees that the frame was taken from the last one.
///
/// The end of a ring is treated like a READ: after the completion the WRITE or atomic must be
/// visible to verbs that *other* threads execute later. What other nodes do with acquire order
/// after they learned of the completion needs no fence of theirs but the acquire fence that every
/// READ has.
///
/// Public for fabrics whose agents execute verbs in the same way, on behalf of others.
#[derive(Default)]
pub struct Barriers {
    // A WRITE, or an atomic that is no barrier, may still be invisible to others.
    pending: bool,
}

impl Barriers {
    /// To be called before the loads of a READ.
    #[inline]
    pub fn before_read(&mut self) {
        if self.pending {
            self.full();
        } else {
            fence(Ordering::AcqRel);
        }
    }

    /// To be called before the stores of a WRITE.
    #[inline]
    pub fn before_write(&mut self) {
        fence(Ordering::Release);
        self.pending = true;
    }

    /// Executes an atomic, which must acquire and release.
    #[inline]
    pub fn around_atomic<T>(&mut self, atomic: impl FnOnce() -> T) -> T {
        if self.pending && !ATOMICS_ARE_BARRIERS {
            self.full();
        }
        let old = atomic();
        self.pending = !ATOMICS_ARE_BARRIERS;
        old
    }

    /// To be called when a message was delivered, which ends in a full barrier.
    #[inline]
    pub fn after_delivery(&mut self) {
        self.pending = false;
    }

    fn full(&mut self) {
        fence(Ordering::SeqCst);
        self.pending = false;
    }

    /// Must be called behind the last request, before completions are given out.
    #[inline]
    pub fn finish(mut self) {
        self.before_read();
    }
}

/// How far a batch has come.
#[derive(Default)]
pub(crate) struct Progress {
    next: usize,
    atomics: usize,
    pub(crate) outcome: Outcome,
}

/// Why the execution of a batch stopped.
pub(crate) enum Stop {
    /// The next request is a message and the inbox is full.
    InboxFull,
    Failed(VerbError),
}

impl Progress {
    /// Executes `requests`, a checked batch for `target`, from where it stopped the last time.
    pub(crate) fn advance(
        &mut self,
        routes: &Routes,
        barriers: &mut Barriers,
        target: Target,
        requests: &[Request],
    ) -> Result<(), Stop> {
        let to = routes.destination(target).map_err(Stop::Failed)?;
        for request in &requests[self.next..] {
            match *request {
                Request::ReadIf { mask, value, .. } if self.found(mask) != value => {}
                Request::Read { remote, local } | Request::ReadIf { remote, local, .. } => {
                    barriers.before_read();
                    let from = Words::new(to.words(remote, local.len));
                    Words::new(routes.local(local)).copy_from(from);
                }
                Request::Write { remote, local } => {
                    barriers.before_write();
                    let from = Words::new(routes.local(local));
                    Words::new(to.words(remote, local.len)).copy_from(from);
                }
                Request::WriteWord { remote, value } => {
                    barriers.before_write();
                    to.words(remote, 8)[0].store(value, Ordering::Relaxed);
                }
                Request::CompareSwap { remote, expected, desired } => {
                    let word = &to.words(remote, 8)[0];
                    let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
                    let swap = || word.compare_exchange(expected, desired, success, failure);
                    let old = barriers.around_atomic(swap).unwrap_or_else(|old| old);
                    self.keep(old);
                }
                Request::FetchAdd { remote, add } => {
                    let word = &to.words(remote, 8)[0];
                    let old = barriers.around_atomic(|| word.fetch_add(add, Ordering::AcqRel));
                    self.keep(old);
                }
                Request::Send(ref message) => {
                    if !to.send(message) {
                        return Err(Stop::InboxFull);
                    }
                    barriers.after_delivery();
                }
            }
            self.next += 1;
        }
        Ok(())
    }

    /// What the last atomic found, as far as `mask` shows it; zero where there was none.
    fn found(&self, mask: u64) -> u64 {
        self.atomics.checked_sub(1).map_or(0, |last| self.outcome.old[last] & mask)
    }

    fn keep(&mut self, old: u64) {
        self.outcome.old[self.atomics] = old;
        self.atomics += 1;
    }
}
