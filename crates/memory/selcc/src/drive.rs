//! Drives the line machines: events go in, verbs and messages come out.

use latchwork_cache::DirtyBounds;
use latchwork_coherence::AccessMode;
use latchwork_engine::{Alarm, Bytes, WorkerCore};
use latchwork_latch::{Action, Answer, Event, GrantMode, Hold, LatchMessage, NodeSet};
use latchwork_runtime::Time;
use latchwork_strict::{strict_assert, strict_assert_eq, strict_assert_ne};
use latchwork_verbs::{ComputeNodeId, GlobalAddr, Target, VerbError, prefetch_write};

use crate::counts::LatchCount;
use crate::line::{Copy, ownership, want};
use crate::mend::mend_for_waiter;
use crate::pauses::{after_refusals, in_time, release_hold_off, window};
use crate::selcc::{LatchSite, Selcc};
use crate::wire::LineMessage;

/// The alarm of a line whose back-off after a refusal is over, or whose hold-off after a release.
const RETRY: Alarm = Alarm::Protocol(0);
/// The alarm of a line whose readers need not hold off any more.
const HOLD_OFF_OVER: Alarm = Alarm::Protocol(1);

/// At most this many bytes of a granted line are prefetched.
const READY_MAX: usize = 4 << 10;

/// What an action that failed leaves undone.
#[derive(Clone, Copy)]
enum Aim {
    /// An operation on the word, or a pause.
    Own,
    /// An invalidation request of this node to that one.
    Request(ComputeNodeId),
    /// A message on which only its receiver depends.
    Report,
    /// Any other message.
    Message,
}

impl Aim {
    #[inline]
    fn of(action: &Action, me: ComputeNodeId) -> Aim {
        match action {
            Action::Post(_) | Action::Pause { .. } => Aim::Own,
            Action::Send { to, message: LatchMessage::Request(request) } if request.from == me => {
                Aim::Request(*to)
            }
            Action::Send {
                message:
                    LatchMessage::Answer { .. }
                    | LatchMessage::Settled { .. }
                    | LatchMessage::Taken { .. }
                    | LatchMessage::GaveUp { .. },
                ..
            } => Aim::Report,
            _ => Aim::Message,
        }
    }
}

impl Selcc {
    /// Feeds one event to the line machine and performs the resulting actions.
    pub(crate) fn drive(&self, site: &mut LatchSite<'_>, event: Event) {
        // A lost line has no frame to act on. No access waits for a failed line, so the node does
        // not request such a line again.
        if site.local.is_lost() || site.local.failed.is_some() && matches!(event, Event::Retry) {
            return;
        }
        let worker = site.worker;
        let node = &*worker.node;
        let mut actions = site.in_flight.actions.take();
        strict_assert!(actions.is_empty(), "a step of a line begins within a step");
        let now = worker.handle.sweep_time();
        let lapse = node.settings().lapse;
        let lapsed = site.local.blocked_since.is_some_and(|since| since + lapse <= now);
        let evicting = matches!(event, Event::Evict);
        let held = site.local.frame.and_then(|id| worker.held(id));
        let local_code_first = self.is_local_code_first(site, now);
        let (dirty, held_here) = (site.line.incoming_dirty, held.is_some() || local_code_first);
        let rules_now;
        let rules = match self.settings.survive {
            true => {
                if let &Event::Completed { op, old } = &event
                    && node.mendable() != 0
                {
                    mend_for_waiter(worker, site.addr, op, old);
                }
                rules_now = self.rules_now(node);
                &rules_now
            }
            false => &self.rules,
        };
        let copy = site.local.copy(node, dirty, lapsed, held_here);
        let line = &mut *site.line;
        let (before, wanted) = (line.machine.hold(), line.machine.is_wanted());
        line.machine.step(rules, event, &mut Copy { copy }, &mut actions);
        line.incoming_dirty = DirtyBounds::EMPTY;
        strict_assert!(
            actions.iter().filter(|action| matches!(action, Action::Post(_))).count() <= 1,
            "R1: one step posts two operations on {}: {actions:?}",
            site.addr
        );
        let after = line.machine.hold();
        // The want was met or withdrawn. A want counts as met even if the line was granted to
        // another node in the same step. A copy that comes back after a pledge does not meet a want
        // to write.
        if wanted && !line.machine.is_wanted() {
            line.refused_since = Time::ZERO;
        }
        if after < before && !evicting {
            worker.taken(site.addr, site.local, ownership(before), ownership(after));
        }
        let mut group = None;
        // Actions are popped from the end of the reversed list. There is mostly one action, and an
        // action is large. A drain would touch the rest of the buffer when the drain ends.
        actions.reverse();
        let mut unasked = None;
        while let Some(action) = actions.pop() {
            let aim = Aim::of(&action, node.id());
            if let Err(error) = self.perform(site, action, &mut group) {
                self.not_performed(site, aim, error, &mut unasked);
            }
        }
        site.in_flight.actions.replace(actions);
        if let Some((nodes, error)) = unasked {
            self.cannot_ask(site, nodes, error);
        }
        if let Some(until) = held
            && (evicting || site.line.machine.is_blocked())
        {
            worker.look_again_when_let_go(site.addr, site.local, until);
        }
    }

    /// Handles the error of an action. `unasked` gets the nodes that got no request of this node.
    #[cold]
    fn not_performed(
        &self,
        site: &mut LatchSite<'_>,
        aim: Aim,
        error: VerbError,
        unasked: &mut Option<(NodeSet, VerbError)>,
    ) {
        match aim {
            Aim::Request(to) if error.is_unsent() => {
                let (nodes, _) = unasked.unwrap_or((NodeSet::EMPTY, error));
                *unasked = Some((nodes.with(to), error));
            }
            // A receiver that cannot be reached is dead or has left, or waits until its deadline.
            Aim::Report => {}
            // The round about the receiver, which is dead, closes what depended on it.
            Aim::Request(_) | Aim::Message if self.settings.survive && error.is_of_target() => {}
            _ => site.local.fail(error),
        }
    }

    fn perform(
        &self,
        site: &mut LatchSite<'_>,
        action: Action,
        group: &mut Option<usize>,
    ) -> Result<(), VerbError> {
        let (worker, addr) = (site.worker, site.addr);
        let node = &*worker.node;
        let settings = &self.settings;
        match action {
            Action::Post(op) => {
                let frame = site.local.frame.expect("a line whose word is operated on has a frame");
                let (rules, group) = (&self.rules, group.take());
                let posted = match rules.survive {
                    true => site.in_flight.post::<true>(worker, addr, frame, op, rules, group),
                    false => site.in_flight.post::<false>(worker, addr, frame, op, rules, group),
                };
                site.local.frame_in_verb = posted?;
                Ok(())
            }
            Action::Send { to, message } => self.send(site, to, message),
            Action::Forward { request, message } => {
                strict_assert_ne!(request.from, node.id(), "a node forwards {addr} to itself");
                strict_assert!(
                    matches!(message, LatchMessage::Grant { .. }),
                    "a line goes without a grant: {message:?}"
                );
                let frame = site.local.frame.expect("who forwards a line has it");
                let local = node.buffer(frame);
                let dirty = match &message {
                    LatchMessage::Grant { mode: GrantMode::Exclusive, .. }
                        if !self.rules.survive =>
                    {
                        node.cache().frame(frame).dirty()
                    }
                    // The giver writes the dirty bytes back itself.
                    _ => DirtyBounds::EMPTY,
                };
                let body = LineMessage { dirty, message }.encode();
                let joined = site.in_flight.join(group, addr, node.step());
                let bytes = Bytes { region: node.arena(), remote: request.buffer, local };
                let sent = worker.forward(addr, request.from, body, bytes, joined);
                if sent.is_err() {
                    site.in_flight.unjoin(group);
                }
                sent
            }
            Action::Pause { priority } => {
                let now = worker.handle.now();
                if site.line.refused_since == Time::ZERO {
                    site.line.refused_since = now;
                }
                if site.line.retry_is_set {
                    return Ok(());
                }
                let refused_for = now - site.line.refused_since;
                let asks = self.policy.rules.invalidate;
                let mut pause = after_refusals(settings, asks, priority, refused_for);
                if !asks {
                    // Without requests (SEL) no holder grants the line to a waiter. So a waiter has
                    // to look at the word at a moment at which the line is free.
                    let by = site.local.waiters.earliest_deadline();
                    pause = in_time(pause, settings.pause, by, now);
                }
                // The time is drawn between 0.5 and 1.5 of the back-off, so that two nodes fall out
                // of step.
                let nanos = pause.as_nanos() as u64;
                let drawn = nanos / 2 + worker.handle.random_below(nanos.max(1));
                let at = now + std::time::Duration::from_nanos(drawn);
                node.timers().set(at, addr, RETRY);
                Ok(())
            }
            Action::ReleaseHoldOff { priority } => {
                let wait = release_hold_off(settings, priority);
                node.timers().set(worker.handle.now() + wait, addr, RETRY);
                Ok(())
            }
            Action::HoldOff { priority } => {
                // A writer that was never refused has priority zero, so its hold-off is zero. Most
                // likely that writer is first without a hold-off.
                let wait = window(settings, priority);
                if !wait.is_zero() {
                    LatchCount::HoldOffs.count(worker);
                    strict_assert!(wait <= settings.hold_off_max, "readers hold off for {wait:?}");
                    let until = worker.handle.now() + wait;
                    site.line.hold_off_until = until;
                    node.timers().set(until, addr, HOLD_OFF_OVER);
                }
                Ok(())
            }
        }
    }

    /// Sends a message of the line machine.
    fn send(
        &self,
        site: &mut LatchSite<'_>,
        to: ComputeNodeId,
        message: LatchMessage,
    ) -> Result<(), VerbError> {
        let worker = site.worker;
        let node = &*worker.node;
        let mut awaited = false;
        let message = match message {
            // A request of another node: a grant had no room for it, or it came after the grant.
            LatchMessage::Request(request) if request.from != node.id() => {
                LatchCount::RequestsPassedOn.count(worker);
                LatchMessage::Request(request)
            }
            LatchMessage::Request(_)
                if (node.settings().heeds_the_gone || self.settings.survive)
                    && node.is_gone(to) =>
            {
                let target = Target::Compute(to, node.arena().0);
                return Err(VerbError::Unreachable { target });
            }
            LatchMessage::Request(mut request) => {
                worker.counters.invalidations_sent.add(1);
                let first = site.local.waiters.note_request();
                worker.counters.accesses_invalidating.add(first);
                let frame = site.local.frame.expect("who asks for a line has a frame for it");
                request.buffer = node.buffer(frame).offset;
                strict_assert_ne!(to, node.id(), "a node requests {} from itself", site.addr);
                strict_assert_eq!(
                    node.cache().frame(frame).addr(),
                    site.addr,
                    "the line would be written into the frame of another"
                );
                awaited = true;
                LatchMessage::Request(request)
            }
            other => other,
        };
        match &message {
            LatchMessage::Answer { answer: Answer::Dropped, .. } => {
                worker.counters.invalidations_dropped.add(1);
                // An exclusive holder drops a request for its priority only: the holder has room
                // for one request of every node.
                if site.line.machine.hold() == Hold::Exclusive {
                    LatchCount::RefusedByPriority.count(worker);
                }
            }
            LatchMessage::Answer { answer: Answer::Busy, .. } => {
                worker.counters.invalidations_locked_out.add(1);
                // The count bounds the wait of other nodes. The node locks of this node may follow
                // one another without a gap.
                if let Some(frame) = site.local.frame {
                    node.cache().frame(frame).note_refusal();
                }
            }
            LatchMessage::Pledged { .. } => LatchCount::Pledges.count(worker),
            LatchMessage::GaveUp { .. } => LatchCount::PledgesGivenUp.count(worker),
            _ => {}
        }
        worker.send(site.addr, to, LineMessage::of(message).encode(), awaited)
    }

    /// Handles a message that has arrived.
    pub(crate) fn take_message(&self, site: &mut LatchSite<'_>, received: LineMessage) {
        let LineMessage { dirty, message } = received;
        site.line.incoming_dirty = dirty.within(site.worker.node.cache().line_size());
        get_ready(site, &message);
        self.drive(site, Event::Received(message));
    }

    /// Answers a message about a line that has failed at this node and has lost its frame.
    pub(crate) fn answer_for_lost(
        &self,
        worker: &WorkerCore,
        addr: GlobalAddr,
        from: ComputeNodeId,
        message: &LatchMessage,
    ) {
        let (to, answer) = match message {
            LatchMessage::Request(request) => {
                worker.counters.invalidations_dropped.add(1);
                let (asked, seq, answer) = (request.asked, request.seq, Answer::Dropped);
                (request.from, LatchMessage::Answer { asked, seq, answer })
            }
            &LatchMessage::Pledged { seq, .. } => {
                LatchCount::PledgesGivenUp.count(worker);
                (from, LatchMessage::GaveUp { by: worker.node.id(), seq })
            }
            _ => return,
        };
        // An error is ignored: a node without a connection to this node cannot get the answer.
        let _ = worker.send(addr, to, LineMessage::of(answer).encode(), false);
    }

    /// Gives up the pledges for a failed line, so that other nodes do not lose the line, too.
    pub(crate) fn abandon_pledges(&self, site: &mut LatchSite<'_>) {
        let mut actions = Vec::new();
        site.line.machine.abandon_pledges(&mut actions);
        for action in actions {
            // A node that cannot be reached waits until its deadline, as for any dead node.
            let _ = self.perform(site, action, &mut None);
        }
    }

    /// Handles requests of this node that never reached these nodes, with `survive`: they have
    /// nothing to give, and the next attempt looks at the word again.
    fn got_no_request(&self, site: &mut LatchSite<'_>, nodes: NodeSet) {
        let (seq, answer) = (site.line.machine.seq(), Answer::Dropped);
        for asked in nodes.iter() {
            self.drive(site, Event::Received(LatchMessage::Answer { asked, seq, answer }));
        }
    }

    /// Handles invalidation requests of this node that never reached the nodes `unasked`, which are
    /// dead or have left.
    /// 1. All waiters for the line fail.
    /// 2. The nodes of `unasked` never write an answer into the frame of the line.
    /// 3. So the line need not keep its frame for these nodes. Otherwise an access to many lines of
    ///    such nodes would leave no frame for other lines.
    ///
    /// If the latch word holds nothing of this node except the ownership of the line, the want is
    /// withdrawn. After the answers of the other nodes, the line is in its earlier state: a copy
    /// that could not be upgraded is read and evicted as before. If the bit of a waiting reader
    /// stays in the word, the record must remember that bit. So in this case the line fails.
    ///
    /// With `survive` no line fails, see [`got_no_request`](Selcc::got_no_request).
    pub(crate) fn cannot_ask(&self, site: &mut LatchSite<'_>, unasked: NodeSet, error: VerbError) {
        strict_assert!(
            error.is_unsent(),
            "a request that may have arrived can be answered: {error}"
        );
        if self.settings.survive {
            return self.got_no_request(site, unasked);
        }
        let heeds = site.worker.node.settings().heeds_the_gone;
        if heeds && site.local.failed.is_none() && site.line.machine.can_unask() {
            site.local.waiters.fail(error);
            return self.drive(site, Event::Unsent(unasked));
        }
        site.local.fail(error);
        self.abandon_pledges(site);
        let machine = &site.line.machine;
        if heeds && machine.hold() == Hold::Nothing && machine.only_requests(unasked) {
            site.worker.give_frame_back(site.local);
        }
    }

    /// Requests the line for an access, unless the access has to hold off.
    pub(crate) fn request(&self, site: &mut LatchSite<'_>, mode: AccessMode, no_wait: bool) {
        if holds_off(site, mode) {
            return;
        }
        self.drive(site, Event::Want(want(mode)));
        if no_wait && site.line.machine.is_pausing() {
            self.end_pause(site);
        }
    }

    /// Ends a back-off early, for an access that must know at once whether the line is locked.
    ///
    /// The alarm of the back-off stays and serves the next back-off. So however many such accesses
    /// come, the line has one alarm, and waiters that back off request the line no more often.
    fn end_pause(&self, site: &mut LatchSite<'_>) {
        site.line.retry_is_set = true;
        self.drive(site, Event::Retry);
    }

    /// Requests the line for its waiters, unless they have to hold off.
    pub(crate) fn request_for_waiters(&self, site: &mut LatchSite<'_>) {
        let Some(mode) = site.local.waiters.wanted() else { return };
        // An access that came during the lease may want less than one that waits since before.
        let want = want(mode);
        if !holds_off(site, mode) && site.line.machine.wanted() < Some(want) {
            self.drive(site, Event::Want(want));
        }
    }

    /// Handles the end of a back-off or of a hold-off.
    pub(crate) fn ring(&self, site: &mut LatchSite<'_>, number: u8) {
        match Alarm::Protocol(number) {
            RETRY => {
                site.line.retry_is_set = false;
                self.drive(site, Event::Retry);
            }
            // A later hold-off has its own alarm.
            _ if site.line.hold_off_until > site.worker.handle.sweep_time() => {}
            _ => {
                // The hold-off is set to zero, not only past its end. A worker with an earlier
                // sweep time would still see the hold-off, and no other alarm would come.
                site.line.hold_off_until = Time::ZERO;
                self.request_for_waiters(site);
            }
        }
    }
}

/// Whether accesses of this mode hold off and leave the line to a writer.
fn holds_off(site: &LatchSite<'_>, mode: AccessMode) -> bool {
    mode == AccessMode::Shared
        && site.line.machine.hold() == Hold::Nothing
        && site.line.hold_off_until > site.worker.handle.sweep_time()
}

/// Prefetches the memory that the message will most likely touch:
///
/// - for a request, the requester's frame, into which the holder forwards the line;
/// - for a grant, the own frame, with the bytes that the giver has just written.
///
/// The prefetches run in parallel with the step. Without them, each first use would fetch one CPU
/// cache line after the other.
fn get_ready(site: &LatchSite<'_>, message: &LatchMessage) {
    let node = &*site.worker.node;
    let cache = node.cache();
    match message {
        LatchMessage::Request(request) if site.line.machine.hold() == Hold::Exclusive => {
            let target = Target::Compute(request.from, node.arena().0);
            site.worker.port.expect_write(target, request.buffer, cache.line_size() as u32);
        }
        LatchMessage::Grant { mode, .. } => {
            let Some(id) = site.local.frame else { return };
            let line = cache.line(id);
            match mode {
                GrantMode::Shared => line.prefetch(0..line.len().min(READY_MAX)),
                GrantMode::Exclusive => {
                    prefetch_write(line.slice(0..line.len().min(READY_MAX)).as_atomics());
                }
            }
        }
        _ => {}
    }
}
