//! [`OneOwner`]: the skeleton of a protocol, which the guide "Add a protocol" explains. A line has
//! at most one owner, which gives the line back after each access. A node that finds the line taken
//! tries again a little later.
//!
//! The owner stands in the word that the pool has for each line. Zero: the line is free. Nodes send
//! each other no message. The skeleton promises nothing when a verb fails or a node dies: then the
//! line fails on its node, or stays taken.

use std::cell::RefCell;
use std::convert::Infallible;
use std::time::Duration;

use latchwork_cache::{DirtyBounds, Frame, Ownership};
use latchwork_engine::{Alarm, CoherenceProtocol, LineAccess, LineSite, LineState, WorkerCore};
use latchwork_verbs::{
    ComputeNodeId, GlobalAddr, LocalBuffer, Message as Wire, Target, VerbError, WorkRequest as Verb,
};
use slab::Slab;

/// The time between two attempts.
const PAUSE: Duration = Duration::from_micros(2);

// ANCHOR: line
/// What a node does with a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Doing {
    /// Nothing: the line is at rest.
    Nothing,
    /// Swaps its id into the word, and reads the line behind.
    Taking,
    /// Waits for the next attempt.
    Pausing,
    /// Writes the changes back, and clears the word behind.
    Giving,
}

/// The protocol's part of a line record.
#[derive(Debug)]
pub(crate) struct OwnedLine {
    hold: Ownership,
    doing: Doing,
}

impl LineState for OwnedLine {
    fn hold(&self) -> Ownership {
        self.hold
    }

    fn is_wanted(&self) -> bool {
        matches!(self.doing, Doing::Taking | Doing::Pausing)
    }

    fn is_at_rest(&self) -> bool {
        self.doing == Doing::Nothing
    }
}
// ANCHOR_END: line

/// A protocol with one owner for each line.
pub(crate) struct OneOwner;

type Site<'a> = LineSite<'a, OneOwner>;

// ANCHOR: steps
impl OneOwner {
    /// Posts the requests of one step as one batch.
    fn post(site: &mut Site<'_>, doing: Doing, requests: &[Verb]) {
        let key = site.in_flight.borrow_mut().insert((site.addr, doing));
        match site.worker.post(Target::Memory(site.addr.node()), requests, key as u64) {
            Ok(()) => site.line.doing = doing,
            Err(error) => {
                site.in_flight.borrow_mut().remove(key);
                site.local.fail(error);
            }
        }
    }

    /// Tries to become the owner. The READ comes after the atomic, so it reads what the last owner
    /// has written back.
    fn take(site: &mut Site<'_>) {
        let node = &site.worker.node;
        let local = node.buffer(site.local.frame.expect("a wanted line has a frame"));
        let (remote, desired) = (word(site), u64::from(node.id().get()));
        let swap = Verb::CompareSwap { remote, expected: 0, desired };
        let read = Verb::ReadIf { remote: site.addr.offset(), local, mask: u64::MAX, value: 0 };
        site.local.frame_in_verb = true;
        Self::post(site, Doing::Taking, &[swap, read]);
    }

    /// Gives the line back, if local code has stopped using it. Local code is shut out before the
    /// dirty bytes are taken. The WRITE comes before the word is cleared.
    fn give(site: &mut Site<'_>) {
        let node = &*site.worker.node;
        let frame = site.local.frame.expect("an owner has a frame");
        if !site.local.copy(node, DirtyBounds::EMPTY, false, false).try_invalidate() {
            return;
        }
        site.line.hold = Ownership::Invalid;
        let range = site.worker.take_dirty(frame).range();
        let (start, len) = (range.start as u64, range.len() as u32);
        let whole = node.buffer(frame);
        let local = LocalBuffer { offset: whole.offset + start, len, ..whole };
        let write = Verb::Write { remote: site.addr.offset() + start, local };
        let clear = Verb::WriteWord { remote: word(site), value: 0 };
        // Until the batch is complete, the engine keeps a frame that a verb reads.
        site.local.frame_in_verb = len > 0;
        let requests = [write, clear];
        Self::post(site, Doing::Giving, if len > 0 { &requests } else { &requests[1..] });
    }

    /// The line is neither held nor in an operation: takes it, if an access waits for it.
    fn take_for_waiters(site: &mut Site<'_>) {
        site.line.doing = Doing::Nothing;
        if site.local.waiters.wanted().is_some() {
            Self::take(site);
        }
    }
}
// ANCHOR_END: steps

/// The offset of the line's word at its memory node.
fn word(site: &Site<'_>) -> u64 {
    site.worker.node.geometry().latch_addr(site.addr).offset()
}

// ANCHOR: protocol
impl CoherenceProtocol for OneOwner {
    type Line = OwnedLine;
    type InFlight = RefCell<Slab<(GlobalAddr, Doing)>>;
    type Message = Infallible;
    type End = (Doing, Result<u64, VerbError>);

    fn lazy_release(&self) -> bool {
        false
    }

    fn at_rest(
        &self,
        _node: ComputeNodeId,
        _: GlobalAddr,
        hold: Ownership,
        _: Option<&Frame>,
    ) -> OwnedLine {
        OwnedLine { hold, doing: Doing::Nothing }
    }

    fn want(&self, site: &mut Site<'_>, _access: LineAccess) {
        // In all other states, the end of the operation or the alarm takes the line.
        if site.line.doing == Doing::Nothing {
            Self::take(site);
        }
    }

    fn evict(&self, site: &mut Site<'_>) {
        if site.line.doing == Doing::Nothing {
            Self::give(site);
        }
    }

    fn alarm(&self, site: &mut Site<'_>, _number: u8) {
        if site.line.doing == Doing::Pausing {
            Self::take_for_waiters(site);
        }
    }

    fn completed(
        &self,
        _worker: &WorkerCore,
        in_flight: &Self::InFlight,
        tag: u64,
        result: Result<u64, VerbError>,
    ) -> Option<(GlobalAddr, Self::End)> {
        let (addr, doing) = in_flight.borrow_mut().remove(tag as usize);
        Some((addr, (doing, result)))
    }

    fn ended(&self, site: &mut Site<'_>, (doing, result): Self::End) {
        let node = &*site.worker.node;
        match (doing, result) {
            (Doing::Taking, Ok(0)) => {
                (site.line.hold, site.line.doing) = (Ownership::Exclusive, Doing::Nothing);
                let mut copy = site.local.copy(node, DirtyBounds::EMPTY, false, false);
                copy.publish(Ownership::Exclusive);
            }
            (Doing::Taking, Ok(_)) => {
                site.line.doing = Doing::Pausing;
                let at = site.worker.handle.now() + PAUSE;
                node.timers().set(at, site.addr, Alarm::Protocol(0));
            }
            (_, Ok(_)) => Self::take_for_waiters(site),
            (_, Err(error)) => {
                site.line.doing = Doing::Nothing;
                site.local.fail(error);
                site.worker.give_frame_back(site.local);
            }
        }
    }

    fn decode(&self, _wire: &Wire) -> Option<Infallible> {
        None
    }

    fn received(&self, _site: &mut Site<'_>, message: Infallible) {
        match message {}
    }

    fn send_away(
        &self,
        _worker: &WorkerCore,
        _addr: GlobalAddr,
        _from: ComputeNodeId,
        message: Infallible,
    ) {
        match message {}
    }
}
// ANCHOR_END: protocol
