//! [`Alone`]: a protocol for the tests of the engine. Its node is the only one, so every line that
//! it reads is its own.

use std::cell::RefCell;
use std::convert::Infallible;

use latchwork_cache::{DirtyBounds, Frame, Ownership};
use latchwork_coherence::AccessMode;
use latchwork_verbs::{ComputeNodeId, GlobalAddr, Message as Wire, Target, VerbError, WorkRequest};
use slab::Slab;

use crate::protocol::{CoherenceProtocol, LineSite, LineState};
use crate::waiters::LineAccess;
use crate::worker_core::WorkerCore;

/// A protocol for one node.
pub(crate) struct Alone;

/// A line of the only node.
#[derive(Debug)]
pub(crate) struct AloneLine {
    hold: Ownership,
    reading: bool,
}

impl LineState for AloneLine {
    fn hold(&self) -> Ownership {
        self.hold
    }

    fn is_wanted(&self) -> bool {
        self.reading
    }

    fn is_at_rest(&self) -> bool {
        !self.reading
    }
}

impl CoherenceProtocol for Alone {
    type Line = AloneLine;
    type InFlight = RefCell<Slab<(GlobalAddr, Ownership)>>;
    type Message = Infallible;
    type End = Result<Ownership, VerbError>;

    fn lazy_release(&self) -> bool {
        true
    }

    fn at_rest(
        &self,
        _node: ComputeNodeId,
        _: GlobalAddr,
        hold: Ownership,
        _: Option<&Frame>,
    ) -> AloneLine {
        AloneLine { hold, reading: false }
    }

    fn want(&self, site: &mut LineSite<'_, Self>, access: LineAccess) {
        if site.line.reading {
            return;
        }
        let hold = match access.need.mode {
            AccessMode::Shared => Ownership::Shared,
            AccessMode::Exclusive => Ownership::Exclusive,
        };
        let frame = site.local.frame.expect("a wanted line has a frame");
        let local = site.worker.node.buffer(frame);
        let read = WorkRequest::Read { remote: site.addr.offset(), local };
        let key = site.in_flight.borrow_mut().insert((site.addr, hold));
        match site.worker.post(Target::Memory(site.addr.node()), &[read], key as u64) {
            Ok(()) => site.line.reading = true,
            Err(error) => site.local.fail(error),
        }
    }

    fn evict(&self, site: &mut LineSite<'_, Self>) {
        let copy = &mut site.local.copy(&site.worker.node, DirtyBounds::EMPTY, false, false);
        if !site.line.reading && copy.try_invalidate() {
            site.line.hold = Ownership::Invalid;
        }
    }

    fn decode(&self, _wire: &Wire) -> Option<Infallible> {
        None
    }

    fn received(&self, _site: &mut LineSite<'_, Self>, message: Infallible) {
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

    fn completed(
        &self,
        _worker: &WorkerCore,
        in_flight: &Self::InFlight,
        tag: u64,
        result: Result<u64, VerbError>,
    ) -> Option<(GlobalAddr, Self::End)> {
        let (addr, hold) = in_flight.borrow_mut().remove(tag as usize);
        Some((addr, result.map(|_| hold)))
    }

    fn ended(&self, site: &mut LineSite<'_, Self>, end: Self::End) {
        site.line.reading = false;
        let hold = match end {
            Ok(hold) => hold,
            Err(error) => return site.local.fail(error),
        };
        let mut copy = site.local.copy(&site.worker.node, DirtyBounds::EMPTY, false, false);
        match site.line.hold {
            Ownership::Invalid => copy.publish(hold),
            _ => copy.promote(),
        }
        site.line.hold = hold;
    }
}
