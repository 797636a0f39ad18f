//! Drives the line machines: events go in, verbs and messages come out.
//!
//! All functions here run under the lock of the line's shard. They post and never wait. Two
//! properties follow:
//!
//! - The actions of one step reach the worker's send queue in the order of the line machine.
//! - The state word of a frame changes before the release of the line is posted.

use latchwork_cache::DirtyBounds;
use latchwork_coherence::Mode;
use latchwork_latch::{Action, Answer, Event, GrantMode, Hold, Line, Message, NodeSet, Seq};
use latchwork_runtime::Time;
use latchwork_verbs::{
    ComputeNodeId, GlobalAddr, Message as Wire, Target, VerbError, prefetch_write,
};

use crate::lease::Lease;
use crate::letters::Bytes;
use crate::record::{FrameCopy, Outcome, Record, Records, hold_at_rest, want};
use crate::timers::Alarm;
use crate::wire::{Body, Letter};
use crate::worker_core::Inner;

/// The number of bytes of a granted line that are prefetched.
const READY_MAX: usize = 4 << 10;

/// Whether only another node depends on this action.
fn is_report(action: &Action) -> bool {
    let Action::Send { message, .. } = action else { return false };
    matches!(
        message,
        Message::Answer { .. }
            | Message::Settled { .. }
            | Message::Taken { .. }
            | Message::GaveUp { .. }
    )
}

impl Inner {
    /// Returns the line's record. A line without a record gets one from the state of its frame.
    pub(crate) fn record<'r>(&self, records: &'r mut Records, addr: GlobalAddr) -> &'r mut Record {
        records.entry(addr).or_insert_with(|| {
            let frame = self.node.cache.find(addr);
            let hold = hold_at_rest(&self.node.cache, frame);
            Record::new(Line::at_rest(self.node.id, hold, Seq::default()), frame)
        })
    }

    /// Feeds one event to the line machine and performs the resulting actions.
    pub(crate) fn drive(&self, addr: GlobalAddr, record: &mut Record, event: Event) {
        // No access here waits for a failed line, so the node does not request the line again.
        if record.is_lost() || record.failed.is_some() && event == Event::Retry {
            return;
        }
        let node = &*self.node;
        let mut actions = self.actions.take();
        let now = self.handle.sweep_time();
        let lapse = node.settings.lapse;
        let lapsed = record.blocked_since.is_some_and(|since| since + lapse <= now);
        let evicting = event == Event::Evict;
        let held = record.frame.and_then(|id| self.held(id));
        let local_code_first = self.is_local_code_first(record, now);
        let mut copy = FrameCopy {
            frame: record.frame.map(|id| node.cache.frame(id)),
            waiters: &mut record.waiters,
            forsaken: record.forsaken,
            dirty: record.incoming_dirty,
            lapsed,
            held: held.is_some() || local_code_first,
        };
        let (before, wanted) = (record.line.hold(), record.line.is_wanted());
        record.line.step(&node.rules, event, &mut copy, &mut actions);
        record.incoming_dirty = DirtyBounds::EMPTY;
        let now_held = record.line.hold();
        if now_held < before && !evicting {
            self.taken(addr, record, before);
        }
        // This also holds when the line was granted to another node in the same step. A pledge that
        // was given up does not meet the want.
        if wanted && !record.line.is_wanted() {
            record.refused_since = Time::ZERO;
        }
        let mut group = None;
        // Actions are taken from the end. An action is large, there is mostly one, and the end of a
        // drain touches all that may be left.
        actions.reverse();
        let mut unasked = None;
        while let Some(action) = actions.pop() {
            let (asked, reports) = (self.asked_by(&action), is_report(&action));
            if let Err(error) = self.perform(addr, record, action, &mut group) {
                match asked.filter(|_| error.is_unsent()) {
                    Some(to) => {
                        let (nodes, _) = unasked.unwrap_or((NodeSet::EMPTY, error));
                        unasked = Some((nodes.with(to), error));
                    }
                    // A node that is dead or has left does not wait for the report, and this node
                    // does not wait for it.
                    None if reports => {}
                    None => record.fail(error),
                }
            }
        }
        self.actions.replace(actions);
        if let Some((nodes, error)) = unasked {
            self.cannot_ask(addr, record, nodes, error);
        }
        if let Some(until) = held
            && (evicting || record.line.is_blocked())
        {
            self.look_again_when_let_go(addr, record, until);
        }
    }

    /// Updates the record after its events and removes a record that is over. Callers call this
    /// after the last event under one hold of the shard's lock.
    pub(crate) fn finish(&self, records: &mut Records, addr: GlobalAddr) {
        let node = &*self.node;
        let Some(record) = records.get_mut(&addr) else { return };
        // No other node requests most of the lines with a record.
        let asked_for = record.line.is_asked_for();
        if asked_for || !matches!(record.lease, Lease::Off) {
            self.see_to_lease(addr, record);
        }
        if asked_for && record.line.is_blocked() && !record.is_lost() {
            // The time is read anew. The sweep may have begun long ago, since the end of a sweep
            // takes completions, too.
            record.blocked_since.get_or_insert_with(|| self.handle.now());
            if !record.listed {
                record.listed = true;
                node.blocked.add(addr);
            }
        } else {
            record.blocked_since = None;
        }
        self.see_to_locks(addr, record);
        self.see_to_refusal(record);
        if record.failed.is_some() {
            return;
        }
        let unused = record.line.is_idle() && record.waiters.is_empty();
        if let Some(id) = record.frame.take_if(|_| unused) {
            node.cache.detach(id);
            node.frame_waiters.wake();
        }
        self.release_eagerly(addr, record);
        if record.is_over(self.handle.sweep_time()) {
            records.remove(&addr);
        }
    }

    /// The node to which an action sends an invalidation request of this node.
    fn asked_by(&self, action: &Action) -> Option<ComputeNodeId> {
        match action {
            Action::Send { to, message: Message::Request(request) }
                if request.from == self.node.id =>
            {
                Some(*to)
            }
            _ => None,
        }
    }

    pub(crate) fn perform(
        &self,
        addr: GlobalAddr,
        record: &mut Record,
        action: Action,
        group: &mut Option<usize>,
    ) -> Result<(), VerbError> {
        let node = &*self.node;
        let settings = &node.settings;
        match action {
            Action::Post(op) => {
                let frame = record.frame.expect("a line whose word is operated on has a frame");
                record.frame_in_verb = self.post_operation(addr, frame, op, group.take())?;
                Ok(())
            }
            Action::Send { to, message } => {
                let message = match message {
                    // A request of another node, for which a grant had no room.
                    Message::Request(request) if request.from != node.id => {
                        self.counters.requests_passed_on.add(1);
                        Message::Request(request)
                    }
                    Message::Request(_) if settings.heeds_the_gone && node.is_gone(to) => {
                        let target = Target::Compute(to, node.arena.0);
                        return Err(VerbError::Unreachable { target });
                    }
                    Message::Request(mut request) => {
                        self.counters.invalidations_sent.add(1);
                        for waiter in record.waiters.iter_mut().filter(|waiter| !waiter.asked) {
                            waiter.asked = true;
                            self.counters.accesses_invalidating.add(1);
                        }
                        let frame = record.frame.expect("who asks for a line has a frame for it");
                        request.buffer = node.cache.buffer(frame, node.arena).offset;
                        Message::Request(request)
                    }
                    other => other,
                };
                match &message {
                    Message::Answer { answer: Answer::Dropped, .. } => {
                        self.counters.invalidations_dropped.add(1);
                        // An exclusive holder drops a request for its priority only: the holder has
                        // room for one request of every node.
                        if record.line.hold() == Hold::Exclusive {
                            self.counters.refused_by_priority.add(1);
                        }
                    }
                    Message::Answer { answer: Answer::Busy, .. } => {
                        self.counters.invalidations_locked_out.add(1);
                        // The count bounds the wait of other nodes. The node locks of this node may
                        // follow one another without a gap.
                        if let Some(frame) = record.frame {
                            node.cache.frame(frame).note_refusal();
                        }
                    }
                    Message::Pledged { .. } => self.counters.pledges.add(1),
                    Message::GaveUp { .. } => self.counters.pledges_given_up.add(1),
                    _ => {}
                }
                self.send(addr, to, Body::Line(message))
            }
            Action::Forward { request, message } => {
                let frame = record.frame.expect("who forwards a line has it");
                let local = node.cache.buffer(frame, node.arena);
                let dirty = match &message {
                    Message::Grant { mode: GrantMode::Exclusive, .. } => {
                        node.cache.frame(frame).dirty()
                    }
                    // The giver writes the dirty bytes back when it grants a shared copy.
                    _ => DirtyBounds::EMPTY,
                };
                let letter = Letter { addr, dirty, body: Body::Line(message) };
                let group = self.join_group(group, addr);
                self.forward(request.from, letter, Bytes { remote: request.buffer, local }, group)
            }
            Action::Pause { priority } => {
                let now = self.handle.now();
                if record.refused_since == Time::ZERO {
                    record.refused_since = now;
                }
                if record.retry_is_set {
                    return Ok(());
                }
                let mut pause = settings.pause_after(priority, now - record.refused_since);
                if !settings.policy.rules.invalidate {
                    // No node grants the line to the longest waiter, so a waiter has to be awake
                    // when the line is free.
                    pause = record.pause(pause, settings.pause, now);
                }
                // The time is drawn between 0.5 and 1.5 of the back-off, so that two nodes fall out
                // of step.
                let nanos = pause.as_nanos() as u64;
                let drawn = nanos / 2 + self.handle.random_below(nanos.max(1));
                let at = now + std::time::Duration::from_nanos(drawn);
                node.timers.set(at, addr, Alarm::Retry);
                Ok(())
            }
            Action::StandBack { priority } => {
                let wait = settings.stand_back(priority);
                node.timers.set(self.handle.now() + wait, addr, Alarm::Retry);
                Ok(())
            }
            Action::HoldOff { priority } => {
                // A writer that was never refused has priority zero, so its hold-off is zero. Most
                // likely that writer is first without a hold-off.
                let wait = settings.window(priority);
                if !wait.is_zero() {
                    self.counters.holdoffs.add(1);
                    record.hold_off_until = self.handle.now() + wait;
                    node.timers.set(record.hold_off_until, addr, Alarm::HoldOffOver);
                }
                Ok(())
            }
        }
    }

    // ---- what arrives ----------------------------------------------------------------------------

    /// Handles a message that has arrived.
    pub(crate) fn received(&self, wire: &Wire) {
        let Some((letter, stamp)) = Letter::decode(wire) else {
            return self.received_mail(wire);
        };
        let Letter { addr, dirty, body } = letter;
        if let Some(costs) = self.costs {
            self.handle.charge(costs.message);
        }
        if !self.node.geometry.is_line(addr) {
            return;
        }
        if !self.node.seen.take(wire.from, stamp) {
            self.counters.repeats.add(1);
            if self.node.settings.drops_repeats {
                return;
            }
        }
        match body {
            Body::Line(message) => {
                let mut records = self.node.records.shard(addr).lock();
                let record = self.record(&mut records, addr);
                if record.is_lost() {
                    drop(records);
                    return self.send_away(addr, wire.from, &message);
                }
                record.incoming_dirty = dirty;
                self.get_ready(record, &message);
                self.drive(addr, record, Event::Received(message));
                if record.failed.is_some() {
                    self.abandon_pledges(addr, record);
                }
                self.finish(&mut records, addr);
            }
            Body::Doubt(of) => self.answer_doubt(addr, wire.from, of),
            Body::Verdict { of, arrived } => self.verdict(addr, (wire.from, of), arrived),
        }
    }

    /// Prefetches the memory that the message will most likely touch:
    ///
    /// - for a request, the requester's frame, into which the holder forwards the line;
    /// - for a grant, the own frame, with the bytes that the giver has just written.
    ///
    /// The prefetches run in parallel with the step. Without them, each first use would fetch one
    /// CPU cache line after the other.
    fn get_ready(&self, record: &Record, message: &Message) {
        let cache = &self.node.cache;
        match message {
            Message::Request(request) if record.line.hold() == Hold::Exclusive => {
                let target = Target::Compute(request.from, self.node.arena.0);
                self.port.expect_write(target, request.buffer, cache.line_size() as u32);
            }
            Message::Grant { mode, .. } => {
                let Some(id) = record.frame else { return };
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

    /// Answers a message about a line that has failed at this node and has lost its frame.
    fn send_away(&self, addr: GlobalAddr, from: ComputeNodeId, message: &Message) {
        let (to, answer) = match message {
            Message::Request(request) => {
                self.counters.invalidations_dropped.add(1);
                let (asked, seq, answer) = (request.asked, request.seq, Answer::Dropped);
                (request.from, Message::Answer { asked, seq, answer })
            }
            &Message::Pledged { seq, .. } => {
                self.counters.pledges_given_up.add(1);
                (from, Message::GaveUp { by: self.node.id, seq })
            }
            _ => return,
        };
        // A node that cannot be reached does not wait for the answer.
        let _ = self.send(addr, to, Body::Line(answer));
    }

    /// Gives up the pledges for a failed line, so that other nodes do not lose the line, too.
    pub(crate) fn abandon_pledges(&self, addr: GlobalAddr, record: &mut Record) {
        let mut actions = Vec::new();
        record.line.abandon_pledges(&mut actions);
        for action in actions {
            // A node that cannot be reached waits until its deadline, as for any dead node.
            let _ = self.perform(addr, record, action, &mut None);
        }
    }

    /// Serves the alarms that are due. Returns whether there were any.
    pub(crate) fn ring_alarms(&self) -> bool {
        let now = self.handle.sweep_time();
        let mut any = false;
        while let Some((addr, alarm)) = self.node.timers.pop_due(now) {
            any = true;
            if alarm == Alarm::LetGo && !self.node.settings.policy.lazy_release {
                self.releases.borrow_mut().push(addr);
            }
            let mut records = self.node.records.shard(addr).lock();
            if let Some(record) = records.get_mut(&addr) {
                match alarm {
                    Alarm::Retry => {
                        record.retry_is_set = false;
                        self.drive(addr, record, Event::Retry);
                    }
                    Alarm::LetGo => self.drive(addr, record, Event::Serve),
                    // A later hold-off has its own alarm.
                    Alarm::HoldOffOver if record.hold_off_until > now => {}
                    Alarm::HoldOffOver => {
                        // The hold-off is set to zero, not only past its end. A worker with an
                        // earlier sweep time would still see the hold-off, and no other alarm would
                        // come.
                        record.hold_off_until = Time::ZERO;
                        self.want_for_waiters(addr, record);
                    }
                }
            }
            self.finish(&mut records, addr);
        }
        any
    }

    /// Ends a back-off early, for an access that must know at once whether the line is locked.
    ///
    /// The alarm of the back-off stays and serves the next back-off. So the number of such accesses
    /// does not change two things: the line has one alarm, and waiters that back off request the
    /// line no more often.
    pub(crate) fn end_pause(&self, addr: GlobalAddr, record: &mut Record) {
        record.retry_is_set = true;
        self.drive(addr, record, Event::Retry);
    }

    /// Requests the line for its waiters, unless they have to hold off.
    pub(crate) fn want_for_waiters(&self, addr: GlobalAddr, record: &mut Record) {
        let waiting = record.waiters.iter().filter(|w| matches!(w.outcome, Outcome::Waiting));
        let Some(mode) = waiting.map(|w| w.mode).max() else { return };
        if !self.holds_off(record, mode) && !record.line.is_wanted() {
            self.drive(addr, record, Event::Want(want(mode)));
        }
    }

    /// Whether accesses of this mode hold off and leave the line to a writer.
    pub(crate) fn holds_off(&self, record: &Record, mode: Mode) -> bool {
        mode == Mode::Shared
            && record.line.hold() == Hold::Nothing
            && record.hold_off_until > self.handle.sweep_time()
    }

    /// Serves the requests again that local code has kept waiting.
    #[inline]
    pub(crate) fn serve_blocked(&self) -> bool {
        !self.node.blocked.is_empty() && self.serve_all_blocked()
    }

    fn serve_all_blocked(&self) -> bool {
        let mut served = false;
        for addr in self.node.blocked.take() {
            let mut records = self.node.records.shard(addr).lock();
            if let Some(record) = records.get_mut(&addr) {
                record.listed = false;
                self.drive(addr, record, Event::Serve);
                served |= !record.line.is_blocked();
            }
            self.finish(&mut records, addr);
        }
        served
    }
}
