//! [`Alone`]: a protocol for the tests of the engine. Its node is the only one, so every line that
//! it reads is its own.

use std::cell::RefCell;

use latchwork_cache::{DirtyBounds, Ownership};
use latchwork_coherence::AccessMode;
use latchwork_runtime::Time;
use latchwork_verbs::{ComputeNodeId, GlobalAddr, Message as Wire, Target, VerbError, WorkRequest};
use slab::Slab;

use crate::alarms::Alarm;
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

    fn is_asked_for(&self) -> bool {
        false
    }

    fn is_blocked(&self) -> bool {
        false
    }

    fn is_at_rest(&self) -> bool {
        !self.reading
    }

    fn is_over(&self, _now: Time) -> bool {
        !self.reading
    }

    fn is_idle(&self) -> bool {
        self.hold == Ownership::Invalid && !self.reading
    }

    fn is_asking(&self, _peer: ComputeNodeId) -> bool {
        false
    }

    fn gives_way(&self) -> bool {
        false
    }

    fn latch_was_free(&mut self) {}

    fn latch_was_held(&mut self, _mode: AccessMode) {}
}

/// There are no messages.
pub(crate) enum Never {}

impl CoherenceProtocol for Alone {
    type Line = AloneLine;
    type InFlight = RefCell<Slab<(GlobalAddr, Ownership)>>;
    type Message = Never;
    type End = Result<Ownership, VerbError>;

    fn lazy_release(&self) -> bool {
        true
    }

    fn at_rest(&self, _node: ComputeNodeId, hold: Ownership) -> AloneLine {
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

    fn serve(&self, _site: &mut LineSite<'_, Self>) {}

    fn alarm(&self, _site: &mut LineSite<'_, Self>, _alarm: Alarm) {}

    fn finish(&self, _site: &mut LineSite<'_, Self>) {}

    fn decode(&self, _wire: &Wire) -> Option<Never> {
        None
    }

    fn received(&self, _site: &mut LineSite<'_, Self>, message: Never) {
        match message {}
    }

    fn send_away(
        &self,
        _worker: &WorkerCore,
        _addr: GlobalAddr,
        _from: ComputeNodeId,
        message: Never,
    ) {
        match message {}
    }

    fn unsent(&self, _site: &mut LineSite<'_, Self>, _to: ComputeNodeId, _error: VerbError) {}

    fn failed(&self, _site: &mut LineSite<'_, Self>) {}

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

    fn forwarded(
        &self,
        _worker: &WorkerCore,
        _in_flight: &Self::InFlight,
        _group: usize,
    ) -> Option<(GlobalAddr, Self::End)> {
        None
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

    fn probed(&self, _site: &mut LineSite<'_, Self>) {}
}
