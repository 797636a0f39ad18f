//! Drives the line machine of a node: events go in, messages and lines come out.

use std::time::Duration;

use latchwork_cache::DirtyBounds;
use latchwork_directory::{Action, Bytes, Event, Hold, Message, Party, Sent, Want};
use latchwork_engine::{Alarm, Bytes as Ahead};
use latchwork_strict::strict_assert;
use latchwork_verbs::{LocalBuffer, Target, VerbError};

use crate::directory::{Directory, Site};
use crate::line::{Copy, ownership};
use crate::wire::encode;

/// The alarm of a back-off after a refusal.
const RETRY: u8 = 0;

/// The alarm of a back-off after a declined eviction.
const STAY_OVER: u8 = 1;

/// The mean time of a back-off. Each is drawn between half of it and three halves.
const PAUSE: Duration = Duration::from_micros(4);

/// After this many refusals the back-offs double. A refusal may last until the home knows of a
/// death. So a back-off is about a sixteenth of the time since the first refusal.
const REFUSALS: u32 = 16;

/// The number of times that the back-offs double.
const GROWTH_MAX: u32 = 12;

impl Directory {
    /// Feeds one event to the line machine and performs the resulting actions.
    pub(crate) fn drive(&self, site: &mut Site<'_>, event: Event) {
        // A lost line has no frame to act on. No access waits for a failed line, so the node does
        // not request such a line again.
        if site.local.is_lost()
            || site.local.failed.is_some() && matches!(event, Event::Retry | Event::GiveUp)
        {
            return;
        }
        let worker = site.worker;
        let node = &*worker.node;
        let mut actions = site.in_flight.actions.take();
        strict_assert!(actions.is_empty(), "a step of a line begins within a step");
        let lapse = node.settings().lapse;
        let now = worker.handle.sweep_time();
        let lapsed = site.local.blocked_since.is_some_and(|since| since + lapse <= now);
        let evicting = matches!(event, Event::Evict);
        let held = site.local.frame.and_then(|id| worker.held(id));
        let copy = site.local.copy(node, site.line.incoming, lapsed, held.is_some());
        let whole = DirtyBounds::of(0..node.cache().line_size());
        let machine = &mut site.line.machine;
        let (before, tenure) = (machine.hold(), machine.tenure());
        machine.step(&self.rules, event, &mut Copy { copy, whole }, &mut actions);
        let after = machine.hold();
        if machine.tenure() != tenure {
            site.line.declined = 0;
        }
        if after != Hold::Nothing {
            site.line.refusals = 0;
            // The line may have come before the last sharer discarded its copy, so the bounds are
            // kept until the copy is published.
            site.line.incoming = DirtyBounds::EMPTY;
        }
        if after < before && !evicting {
            worker.taken(site.addr, site.local, ownership(before), ownership(after));
        }
        if after == Hold::Nothing && before != Hold::Nothing && evicting {
            // The home may decline, so the frame stays until the answer.
            site.local.frame_in_verb = true;
        }
        if after != Hold::Nothing
            && let Some(frame) = site.local.frame
        {
            node.cache().frame(frame).set_note(site.line.note());
        }
        let mut unsent = None;
        for action in actions.drain(..) {
            let is_request = is_request(&action);
            match self.perform(site, action) {
                Err(error) if is_request => unsent = Some(error),
                Err(error) => site.local.fail(error),
                Ok(()) => {}
            }
        }
        site.in_flight.actions.replace(actions);
        if let Some(error) = unsent {
            self.fail_request(site, error);
        }
        if let Some(until) = held
            && (evicting || site.line.machine.is_blocked(&self.rules))
        {
            worker.look_again_when_let_go(site.addr, site.local, until);
        }
        self.hand_over(site);
    }

    /// Takes a message that is for this node as a node, not as the home.
    pub(crate) fn take(&self, site: &mut Site<'_>, from: Party, message: Message) {
        match message {
            // The step ends the eviction when it ends itself. The own home answers at once, before
            // the engine has decided about the frame.
            Message::Evicted { accepted } => site.line.evicted = Some(accepted),
            message @ (Message::Settle { .. } | Message::Rebase { .. }) => {
                self.demanded(site, message);
            }
            Message::Directive(directive) if site.worker.node.is_gone(directive.to) => {
                self.drive(site, Event::Ignored(directive));
            }
            message => self.drive(site, Event::Received(from, message)),
        }
    }

    /// Ends the accesses that wait for a request that certainly never reached the home. No answer
    /// can come, so the frame is free, and the next access requests the line again.
    pub(crate) fn fail_request(&self, site: &mut Site<'_>, error: VerbError) {
        site.local.waiters.fail(error);
        self.drive(site, Event::Unsent);
    }

    fn perform(&self, site: &mut Site<'_>, action: Action) -> Result<(), VerbError> {
        match action {
            Action::Send(sent) => {
                let reports =
                    sent.to == Party::Home && matches!(sent.message, Message::Done { .. });
                if reports && self.rules.is_at_home() && !site.line.is_still() {
                    strict_assert!(site.line.report.is_none(), "two requests are in progress");
                    site.line.report = Some(sent);
                    return Ok(());
                }
                // A node without a connection is dead or has left, and its death is reported.
                let to_home = sent.to == Party::Home;
                self.send(site, sent).or_else(|error| if to_home { Err(error) } else { Ok(()) })
            }
            Action::Fail(node) => {
                let target = Target::Compute(node, site.worker.node.arena().0);
                site.local.waiters.fail(VerbError::Disconnected { target });
                Ok(())
            }
            Action::Pause => {
                set_back_off(site, site.line.refusals, RETRY);
                site.line.refusals = site.line.refusals.saturating_add(1);
                Ok(())
            }
        }
    }

    fn send(&self, site: &mut Site<'_>, sent: Sent) -> Result<(), VerbError> {
        let Sent { to, bytes, mut message } = sent;
        let (worker, addr) = (site.worker, site.addr);
        let node = &*worker.node;
        let receiver = match to {
            Party::Node(id) => id,
            Party::Home => site.line.home_node,
        };
        let frame = site.local.frame;
        let own = frame.map(|id| node.buffer(id));
        let mut awaited = false;
        match &mut message {
            Message::Request(request) => {
                request.buffer = own.expect("a wanted line has a frame").offset;
                awaited = true;
            }
            Message::Directive(directive) => {
                directive.buffer = own.expect("a requested line has a frame").offset;
                worker.counters.invalidations_sent.add(1);
                let first = site.local.waiters.note_request();
                worker.counters.accesses_invalidating.add(first);
            }
            Message::Busy { .. } if to != Party::Home => {
                worker.counters.invalidations_locked_out.add(1);
                if let Some(id) = frame {
                    node.cache().frame(id).note_refusal();
                }
            }
            _ => {}
        }
        // With the end of a tenure goes the duty to write the changes back.
        let ends = site.line.machine.hold() == Hold::Nothing
            && matches!(
                message,
                Message::Done { .. } | Message::Line { mode: Want::Exclusive, .. }
            );
        let leaves = ends && to != Party::Home || bytes == Bytes::Changes;
        let dirty = match frame.filter(|_| leaves) {
            Some(id) => worker.take_dirty(id),
            None => DirtyBounds::EMPTY,
        };
        if to == Party::Home && receiver == node.id() {
            return self.send_to_own_home(site, message, dirty);
        }
        let ahead = match (bytes, own) {
            (Bytes::Line { buffer }, Some(local)) => {
                Some(Ahead { region: node.arena(), remote: buffer, local })
            }
            (Bytes::Changes, Some(local)) if !dirty.is_empty() => {
                let (start, len) = (dirty.range().start as u64, dirty.range().len() as u32);
                worker.counters.bytes_written_back.add(u64::from(len));
                let local = LocalBuffer { offset: local.offset + start, len, ..local };
                let region = self.place.key(node.arena());
                Some(Ahead { region, remote: addr.offset() + start, local })
            }
            _ => None,
        };
        let body = encode(to, false, &message, dirty);
        let Some(ahead) = ahead else {
            return worker.send(addr, receiver, body, awaited);
        };
        let group = site.in_flight.lines.borrow_mut().insert(addr);
        site.line.forwards += 1;
        worker.forward(addr, receiver, body, ahead, group).inspect_err(|_| {
            site.in_flight.lines.borrow_mut().remove(group);
            site.line.forwards -= 1;
        })
    }

    /// Takes the duty to write changes back that comes with a message.
    pub(crate) fn take_changes(&self, site: &mut Site<'_>, message: &Message, dirty: DirtyBounds) {
        match message {
            Message::Line { .. } => site.line.incoming = dirty,
            // The copy is shared, so no local code writes it, and it becomes exclusive.
            Message::Done { .. } if site.line.machine.hold() == Hold::Shared => {
                if let Some(id) = site.local.frame {
                    let frame = site.worker.node.cache().frame(id);
                    frame.set_dirty(frame.dirty().union(dirty));
                }
            }
            _ => {}
        }
    }

    /// Hands the home's answer to an eviction to the machine, when no batch reads the frame.
    pub(crate) fn end_eviction(&self, site: &mut Site<'_>) {
        if site.line.is_still()
            && let Some(accepted) = site.line.evicted.take()
        {
            site.worker.end_release(site.local);
            site.local.frame_in_verb = false;
            let line = &mut *site.line;
            line.declined = line.declined.saturating_add(u8::from(!accepted));
            let evicted = Message::Evicted { accepted };
            self.drive(site, Event::Received(Party::Home, evicted));
            if site.line.machine.hold() != Hold::Nothing {
                // The home may decline until it knows of a death.
                site.line.stays = true;
                set_back_off(site, u32::from(site.line.declined), STAY_OVER);
            }
        }
    }

    /// Goes on after a back-off.
    pub(crate) fn back_off_over(&self, site: &mut Site<'_>, alarm: u8) {
        if alarm == STAY_OVER {
            // The next sweep evicts lines if frames still run short.
            site.line.stays = false;
            return;
        }
        let waits = site.local.waiters.wanted().is_some();
        self.drive(site, if waits { Event::Retry } else { Event::GiveUp });
    }

    /// Sends the report that waited for the arrival of the line, and meets demands of the home that
    /// have waited.
    pub(crate) fn catch_up(&self, site: &mut Site<'_>) {
        if site.line.is_still()
            && let Some(report) = site.line.report.take()
            && let Err(error) = self.send(site, report)
        {
            site.local.fail(error);
        }
        for message in std::mem::take(&mut site.line.deferred) {
            self.demanded(site, message);
        }
    }

    /// Takes a demand of the home in a recovery, or keeps it until the node can meet it.
    pub(crate) fn demanded(&self, site: &mut Site<'_>, message: Message) {
        let node = &site.worker.node;
        let ready = match &message {
            Message::Settle { dead, .. } => dead.iter().all(|dead| node.is_gone(dead)),
            // Changes that are on the way would otherwise overwrite later ones.
            Message::Rebase { .. } => site.line.is_still() && site.line.report.is_none(),
            _ => true,
        };
        match ready {
            true => self.drive(site, Event::Received(Party::Home, message)),
            false => site.line.deferred.push(message),
        }
    }
}

fn is_request(action: &Action) -> bool {
    matches!(action, Action::Send(sent) if matches!(sent.message, Message::Request(_)))
}

/// Sets an alarm for the end of a back-off after this many refusals.
fn set_back_off(site: &Site<'_>, refusals: u32, alarm: u8) {
    let growth = (refusals / REFUSALS).min(GROWTH_MAX);
    let nanos = (PAUSE.as_nanos() as u64) << growth;
    let drawn = nanos / 2 + site.worker.handle.random_below(nanos);
    let at = site.worker.handle.now() + Duration::from_nanos(drawn);
    site.worker.node.timers().set(at, site.addr, Alarm::Protocol(alarm));
}
