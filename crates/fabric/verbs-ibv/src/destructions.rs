//! [`Destructions`]: counts the destructions of queue pairs of fenced peers that are in progress.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use latchwork_strict::strict_assert;

use crate::directory::Peer;

/// The number of destructions in progress, for each peer.
///
/// A fence is complete when the peer has no destruction in progress. A destruction may outlast the
/// call of `fence` that began it. So a later call finds no queue pair and must still wait for the
/// destruction.
#[derive(Default)]
pub(crate) struct Destructions {
    in_progress: Mutex<BTreeMap<Peer, usize>>,
    ended: Condvar,
}

impl Destructions {
    /// Counts a destruction. The caller removes the queue pairs from the node's list only
    /// afterwards, so a later call of `fence` finds the queue pairs or this count.
    pub(crate) fn begin(&self, peer: Peer) {
        *self.counts().entry(peer).or_default() += 1;
    }

    pub(crate) fn end(&self, peer: Peer) {
        let mut counts = self.counts();
        let count = counts.get_mut(&peer).map_or(0, |count| {
            *count -= 1;
            *count
        });
        strict_assert!(counts.contains_key(&peer), "a destruction ends that did not begin");
        if count == 0 {
            counts.remove(&peer);
        }
        drop(counts);
        self.ended.notify_all();
    }

    /// Waits until no destruction is in progress for `peer`. False when this takes longer than
    /// `patience`.
    pub(crate) fn wait(&self, peer: Peer, patience: Duration) -> bool {
        let some = |counts: &mut BTreeMap<Peer, usize>| counts.contains_key(&peer);
        let waited = self.ended.wait_timeout_while(self.counts(), patience, some);
        let (counts, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !counts.contains_key(&peer)
    }

    // A poisoned lock is ignored: each change of the map is complete before a panic can follow.
    fn counts(&self) -> MutexGuard<'_, BTreeMap<Peer, usize>> {
        self.in_progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use latchwork_verbs::{ComputeNodeId, MemoryNodeId};

    use super::*;

    /// Bug: a fence that was repeated after a timeout returned success at once, while the first
    /// call's thread still destroyed queue pairs. Mechanism: the second call found no queue pairs.
    /// Fix: both calls wait for the destructions in progress.
    #[test]
    fn a_repeated_fence_waits_for_the_destruction_that_the_first_call_began() {
        let peer = Peer::Compute(ComputeNodeId::new(1).expect("an id"));
        let destructions = Destructions::default();
        destructions.begin(peer);
        destructions.begin(peer);
        for _ in 0..2 {
            assert!(!destructions.wait(peer, Duration::from_millis(1)));
        }
        destructions.end(peer);
        assert!(!destructions.wait(peer, Duration::ZERO), "one is still in progress");
        assert!(destructions.wait(Peer::Memory(MemoryNodeId(1)), Duration::ZERO), "another peer");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| destructions.wait(peer, Duration::from_secs(60)));
            destructions.end(peer);
            assert!(waits.join().expect("no panic"));
        });
    }
}
