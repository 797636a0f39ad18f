//! [`CoherenceProtocol`]: the calls of the engine to a coherence protocol.
//!
//! The engine has the frames, the waiters, the messages and the alarms of a node. The protocol
//! decides which node owns a line. Each line record has a part that belongs to the protocol
//! ([`CoherenceProtocol::Line`]). A call with a [`LineSite`] runs under the lock of the line's
//! shard of the record table. So the protocol posts, sends and sets alarms, but must not wait.
//!
//! ```text
//!   access, eviction ─ want, evict ─►┌──────────┐─ post, send, forward ─► WorkerCore ─► fabric
//!   end of local use ─ serve ───────►│ protocol │                                         │
//!   alarms ─────────── alarm ───────►│          │─ publish, try_invalidate, .. ► FrameCopy│
//!   messages ───────── received ────►└──────────┘◄─ completed, then ended ────────────────┘
//! ```

use std::fmt;
use std::time::Duration;

use latchwork_cache::{Frame, Ownership};
use latchwork_coherence::AccessMode;
use latchwork_runtime::Time;
use latchwork_verbs::{ComputeNodeId, GlobalAddr, Message as Wire, Target, VerbError};

use crate::in_place::Persist;
use crate::record::LocalSide;
use crate::waiters::LineAccess;
use crate::worker_core::WorkerCore;

/// The protocol's part of a line record. The functions with a body fit a protocol whose nodes send
/// each other no requests.
pub trait LineState: fmt::Debug + Send + 'static {
    /// The node's right to use its copy of the line.
    fn hold(&self) -> Ownership;

    /// Whether the node wants the line for local code.
    fn is_wanted(&self) -> bool;

    /// Whether nothing is in flight, queued or wanted.
    fn is_at_rest(&self) -> bool;

    /// Whether requests of other nodes are queued.
    #[inline]
    fn is_asked_for(&self) -> bool {
        false
    }

    /// Whether queued requests wait until local code stops using the line.
    #[inline]
    fn is_blocked(&self) -> bool {
        false
    }

    /// Whether the line is at rest, and at `now` the frame holds the whole state of the line.
    #[inline]
    fn is_over(&self, now: Time) -> bool {
        let _ = now;
        self.is_at_rest()
    }

    /// Whether a record at rest is kept for other nodes: this node is the home of the line.
    #[inline]
    fn is_for_others(&self) -> bool {
        false
    }

    /// Whether the node has no copy, and nothing in flight can write into its frame.
    #[inline]
    fn is_idle(&self) -> bool {
        self.is_at_rest() && self.hold() == Ownership::Invalid
    }

    /// Whether the wait of a refused access keeps the frame, also when no access waits any more.
    #[inline]
    fn keeps_refused(&self) -> bool {
        self.hold() == Ownership::Invalid && self.is_wanted()
    }

    /// Whether a request of this node to `peer` is open.
    fn is_asking(&self, peer: ComputeNodeId) -> bool {
        let _ = peer;
        false
    }

    /// Whether a forward of the line is in flight whose receiver is not settled, and is none of
    /// the dead nodes `gone`: bit id-1 for each.
    fn gives(&self, gone: u64) -> bool {
        let _ = gone;
        false
    }

    /// Whether nothing of the line depends on the dead node `peer`, and no operation in flight
    /// names it.
    fn is_clear_of(&self, peer: ComputeNodeId) -> bool {
        let _ = peer;
        true
    }

    /// Whether this node, as the home of the line, recovers it from the end of `peer`.
    fn recovers_from(&self, peer: ComputeNodeId) -> bool {
        let _ = peer;
        false
    }

    /// Whether requests of other nodes come before local accesses without a reservation.
    #[inline]
    fn gives_way(&self) -> bool {
        false
    }

    /// Notes that a local access found the local latch free at its first attempt.
    #[inline]
    fn latch_was_free(&mut self) {}

    /// Notes that a local access of this mode has to wait for the local latch.
    fn latch_was_held(&mut self, mode: AccessMode) {
        let _ = mode;
    }
}

/// One line at one worker, as a step of the protocol sees it.
pub struct LineSite<'a, P: CoherenceProtocol> {
    /// The worker that takes the step.
    pub worker: &'a WorkerCore,
    /// What the protocol keeps of the worker's operations in flight.
    pub in_flight: &'a P::InFlight,
    /// The line.
    pub addr: GlobalAddr,
    /// The protocol's part of the line's record.
    pub line: &'a mut P::Line,
    /// The engine's part of the line's record.
    pub local: &'a mut LocalSide,
}

/// A coherence protocol. The functions with a body fit a protocol that sets no alarm and forwards
/// no line, and whose nodes send each other no requests.
pub trait CoherenceProtocol: Send + Sync + Sized + 'static {
    /// The protocol's part of a line record.
    type Line: LineState;
    /// The operations of one worker in flight.
    type InFlight: Default + 'static;
    /// A message about a line.
    type Message;
    /// The outcome of an operation on a line.
    type End;

    /// Whether a node keeps a line after the access, until another node requests the line or its
    /// frame is needed (SELCC 4.1). Otherwise the line is released with the access.
    fn lazy_release(&self) -> bool;

    /// Whether a writer clears all shared copies of a line with one operation. Then the early
    /// release of a copy would only cost one more.
    fn clears_copies_at_once(&self) -> bool {
        false
    }

    /// Whether a writer that a lock refuses stays registered until the lock ends, as a reader does.
    fn registers_writers(&self) -> bool {
        false
    }

    /// Whether the end of an operation on an evicted line ends the release of the line. Otherwise
    /// the protocol ends it, by [`WorkerCore::end_release`].
    fn operation_ends_release(&self) -> bool {
        true
    }

    /// The part of a new record, for the line `addr` at rest with this ownership. `frame`: the
    /// frame of the line, with the [note](Frame::note) of the protocol.
    fn at_rest(
        &self,
        node: ComputeNodeId,
        addr: GlobalAddr,
        hold: Ownership,
        frame: Option<&Frame>,
    ) -> Self::Line;

    // ---- what local code does ----

    /// Requests the line for an access that has just begun to wait.
    fn want(&self, site: &mut LineSite<'_, Self>, access: LineAccess);

    /// Releases the line, if the line is at rest and not in use. The engine calls this when the
    /// frame is needed, or for an early release.
    fn evict(&self, site: &mut LineSite<'_, Self>);

    /// Whether the node writes changes back in place, and after which time it does so by itself to
    /// a line that stays dirty. Zero: never. `None`: nothing is lost with a line that is not
    /// written back, or nothing can be saved.
    fn persists(&self) -> Option<Duration> {
        None
    }

    /// Writes the changes of the line back in place, if that is possible now. The engine calls this
    /// only if the protocol [persists](CoherenceProtocol::persists). The protocol reports the end
    /// of a write-back to [`WorkerCore::persisted`].
    fn persist(&self, site: &mut LineSite<'_, Self>) -> Persist {
        let _ = site;
        Persist::Done
    }

    /// Serves the queued requests: local code may have stopped using the line.
    fn serve(&self, site: &mut LineSite<'_, Self>) {
        let _ = site;
    }

    /// Handles an alarm that the protocol has set under this number
    /// ([`Alarm::Protocol`](crate::Alarm::Protocol)).
    fn alarm(&self, site: &mut LineSite<'_, Self>, number: u8) {
        let _ = (site, number);
    }

    /// Updates the line after the last event of a step of the engine.
    #[inline]
    fn finish(&self, site: &mut LineSite<'_, Self>) {
        let _ = site;
    }

    // ---- messages ----

    /// Reads a message about a line. `None` when `wire` is no message of this protocol. A peer of
    /// another version may send such a message.
    fn decode(&self, wire: &Wire) -> Option<Self::Message>;

    /// Handles a message.
    fn received(&self, site: &mut LineSite<'_, Self>, message: Self::Message);

    /// Answers a message of `from` about a line that has failed here and has lost its frame.
    fn send_away(
        &self,
        worker: &WorkerCore,
        addr: GlobalAddr,
        from: ComputeNodeId,
        message: Self::Message,
    );

    /// Handles a request of this node that never reached `to`.
    fn unsent(&self, site: &mut LineSite<'_, Self>, to: ComputeNodeId, error: VerbError) {
        let _ = (site, to, error);
    }

    /// Whether [`peer_gone`](CoherenceProtocol::peer_gone) may do more than fail the line.
    fn acts_on_deaths(&self) -> bool {
        false
    }

    /// Reacts to the news that `peer` is dead or has left, after all its messages that have
    /// arrived. By default, a line with an open request to the peer fails.
    fn peer_gone(&self, site: &mut LineSite<'_, Self>, peer: ComputeNodeId) {
        fail_for_gone(self, site, peer);
    }

    /// Whether the lines of a dead node can be recovered: the node takes the steps of a
    /// [round](crate::Node::let_go).
    fn survives(&self) -> bool {
        false
    }

    /// Whether an operation is in flight that was posted before this step of a
    /// [round](crate::Node::let_go).
    fn has_older(&self, in_flight: &Self::InFlight, step: u64) -> bool {
        let _ = (in_flight, step);
        false
    }

    /// Answers the queued requests: this node lets go of a dead node.
    fn let_go(&self, site: &mut LineSite<'_, Self>) {
        let _ = site;
    }

    /// Resolves what the line waits for: no living node has a request of this node.
    fn lost(&self, site: &mut LineSite<'_, Self>) {
        let _ = site;
    }

    /// Ends the waits of other nodes for an attempt of this node, after the line has failed here.
    fn failed(&self, site: &mut LineSite<'_, Self>) {
        let _ = site;
    }

    // ---- completions ----

    /// Handles the completion of a batch that the protocol has posted under `tag`. Returns the end
    /// of the operation, if this was its last batch.
    fn completed(
        &self,
        worker: &WorkerCore,
        in_flight: &Self::InFlight,
        tag: u64,
        result: Result<u64, VerbError>,
    ) -> Option<(GlobalAddr, Self::End)>;

    /// The end of an operation that ended behind the last completion, without one of its own. The
    /// engine asks after each completion, until there is none.
    #[inline]
    fn also_ended(&self, in_flight: &Self::InFlight) -> Option<(GlobalAddr, Self::End)> {
        let _ = in_flight;
        None
    }

    /// Handles the end of a forward that belongs to the operation `group`. Returns the end of the
    /// operation, if this was its last batch.
    fn forwarded(
        &self,
        worker: &WorkerCore,
        in_flight: &Self::InFlight,
        group: usize,
    ) -> Option<(GlobalAddr, Self::End)> {
        let _ = (worker, in_flight, group);
        None
    }

    /// Handles the end of an operation on the line.
    fn ended(&self, site: &mut LineSite<'_, Self>, end: Self::End);

    /// Notes that a probe of a forward of the line has ended.
    fn probed(&self, site: &mut LineSite<'_, Self>) {
        let _ = site;
    }
}

/// Fails the line if it has an open request to `peer`, which is dead or has left.
pub fn fail_for_gone<P: CoherenceProtocol>(
    protocol: &P,
    site: &mut LineSite<'_, P>,
    peer: ComputeNodeId,
) {
    if site.line.is_asking(peer) && site.local.failed.is_none() {
        let target = Target::Compute(peer, site.worker.node.arena().0);
        site.local.fail(VerbError::Disconnected { target });
        protocol.failed(site);
    }
}
