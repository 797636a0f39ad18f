//! [`TcpEndpoint`]: collects posted batches, and sends them at the doorbell.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use latchwork_runtime::Time;
use latchwork_strict::strict_assert;
use latchwork_verbs::{Completion, Target, VerbError, WorkRequest, check_batch};
use rustix::event::Timespec;

use super::connect::{Wanted, connect};
use super::locals::Locals;
use super::send_queue::{Attempt, Lane, Times};
use crate::agent::Hosted;
use crate::inner::Inner;
use crate::peers::Peer;
use crate::security::random;
use crate::wire::TcpNode;

/// One worker's endpoint on the fabric of sockets; see [`latchwork_verbs::Endpoint`].
///
/// The endpoint has its own connection to each node that it uses, and makes the connection at the
/// first use. The doorbell sends the posted batches, usually all batches for one node in one write.
/// Batches that find no connection or no room are sent by a later poll. Each poll also takes the
/// replies. A worker with batches in flight must poll. A worker without batches in flight may park.
///
/// A post to an unknown region of another process's node requests the list of regions from the
/// node's agent. The post blocks the thread until the answer, for at most twice
/// [`TcpConfig::connect_time`](crate::TcpConfig::connect_time).
pub struct TcpEndpoint {
    inner: Arc<Inner>,
    locals: Locals,
    lanes: Vec<Lane>,
    /// Send queues to removed nodes, kept until all of their batches have ended.
    former: Vec<Lane>,
    /// The count of removed peers at the last check of
    /// [`Peers::removals`](crate::peers::Peers::removals).
    removals: u64,
    completed: VecDeque<Completion>,
    in_flight: usize,
}

impl TcpEndpoint {
    pub(crate) fn new(inner: Arc<Inner>, own: Arc<Hosted>) -> Self {
        let removals = inner.peers.removals();
        TcpEndpoint {
            inner,
            locals: Locals { own, regions: Vec::new() },
            lanes: Vec::new(),
            former: Vec::new(),
            removals,
            completed: VecDeque::new(),
            in_flight: 0,
        }
    }

    /// Moves the send queues to removed nodes to `former`, so that later batches go to a new start
    /// of the node.
    fn retire(&mut self) {
        let removals = self.inner.peers.removals();
        if removals == self.removals {
            return;
        }
        self.removals = removals;
        let peers = &self.inner.peers;
        let is_former = |lane: &mut Lane| {
            peers.get(lane.peer.node).is_none_or(|peer| !Arc::ptr_eq(&peer, &lane.peer))
        };
        self.former.extend(self.lanes.extract_if(.., is_former));
        strict_assert!(
            self.lanes.iter().all(|lane| self
                .former
                .iter()
                .all(|former| !Arc::ptr_eq(&former.peer, &lane.peer))),
            "a lane of a removed node is used"
        );
    }

    /// The index of the send queue to a target's node. The search is linear, because an endpoint
    /// has few send queues.
    fn lane(&mut self, target: Target) -> Option<usize> {
        let node = match target {
            Target::Memory(id) => TcpNode::Memory(id),
            Target::Compute(id, _) => TcpNode::Compute(id),
        };
        self.retire();
        let known = self.lanes.iter().position(|lane| lane.peer.node == node);
        if known.is_none() {
            let peer = self.inner.peers.get(node)?;
            // If the system gives no random bytes, the session is 0. Such a session is not used,
            // because connecting also needs random bytes.
            let session = random().unwrap_or_default();
            let (patience, clock) = (self.inner.config.patience, self.inner.clock);
            self.lanes.push(Lane::new(peer, session, Times { patience, clock }));
        }
        strict_assert!(
            self.lanes.iter().filter(|lane| lane.peer.node == node).count() == 1,
            "two lanes to one node"
        );
        Some(known.unwrap_or(self.lanes.len() - 1))
    }

    fn step(&mut self, now: Time) {
        let TcpEndpoint { inner, locals, lanes, former, completed, .. } = self;
        former.retain(Lane::is_busy);
        for lane in lanes.iter_mut().chain(former).filter(|lane| lane.is_busy()) {
            lane.step(
                now,
                locals,
                &mut |peer, session| start(inner, &locals.own, peer, session),
                completed,
            );
        }
    }
}

/// Starts an attempt to connect, on a thread of the agents.
fn start(inner: &Inner, own: &Hosted, peer: &Peer, session: [u8; 16]) -> Attempt {
    let epoch = (inner.config.epoch, peer.incarnation());
    let wanted = Wanted::new(peer.addr, (own.node, peer.node), epoch, session);
    let (security, limit) = (inner.config.security.clone(), inner.config.connect_time);
    let (sender, receiver) = channel();
    inner.turns.next().spawn(async move {
        // If the endpoint was dropped in the meantime, the result is not needed.
        let _ = sender.send(connect(&security, &wanted, limit).await);
    });
    receiver
}

impl latchwork_verbs::Endpoint for TcpEndpoint {
    fn post(
        &mut self,
        target: Target,
        token: u64,
        requests: &[WorkRequest],
    ) -> Result<(), VerbError> {
        let region = match target {
            Target::Memory(_) => 0,
            Target::Compute(_, region) => region,
        };
        let lane = self.lane(target).ok_or(VerbError::UnknownTarget { target })?;
        let lane = &mut self.lanes[lane];
        let mut extent = lane.extent(region);
        if extent.is_none() && requests.iter().any(|request| request.remote().is_some()) {
            let peer = Arc::clone(&lane.peer);
            // If the node cannot be reached, its region stays unknown and the check below refuses
            // the batch.
            if self.inner.ask(&peer, self.locals.own.node).is_ok() {
                extent = peer.extent(region);
            }
        }
        check_batch(target, requests, extent, |key| self.locals.learn(key))?;
        // If another thread has removed the node in the meantime, this batch ends like the batches
        // that were posted before the removal.
        lane.push(region, extent.unwrap_or_default(), token, requests);
        self.in_flight += 1;
        strict_assert!(self.in_flight > 0);
        Ok(())
    }

    fn ring(&mut self) {
        if self.lanes.iter().any(Lane::has_queue) {
            self.step(self.inner.clock.now());
        }
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Completion)) -> bool {
        if self.in_flight > 0 {
            self.step(self.inner.clock.now());
        }
        let count = self.completed.len();
        strict_assert!(count <= self.in_flight, "more batches end than were posted");
        self.in_flight -= count;
        self.completed.drain(..).for_each(sink);
        count > 0
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn may_park(&self) -> bool {
        // A reply does not wake the worker, so the worker must poll for its replies.
        self.in_flight == 0
    }

    fn doze(&self, time: Duration) -> bool {
        let mut links: Vec<_> = self.lanes.iter().filter_map(Lane::awaits).collect();
        let time = timespec(time);
        // If the socket has an error, the doze ends, and the next step finds the error.
        !links.is_empty() && rustix::event::poll(&mut links, Some(&time)).is_ok()
    }
}

/// The time as the operating system takes it.
fn timespec(time: Duration) -> Timespec {
    let tv_sec = time.as_secs().try_into().unwrap_or(i64::MAX);
    Timespec { tv_sec, tv_nsec: time.subsec_nanos().into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bug: a doze of one second did not sleep at all. Mechanism: only the part of a second went to
    /// the operating system. Fix: the seconds go there as well.
    #[test]
    fn a_doze_keeps_its_whole_seconds() {
        let time = timespec(Duration::from_millis(2_500));
        assert_eq!((time.tv_sec, time.tv_nsec), (2, 500_000_000));
        assert_eq!(timespec(Duration::MAX).tv_sec, i64::MAX);
    }
}
