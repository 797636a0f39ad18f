//! What follows a miss: attempts to use a line, and the waiters of its record, under the protocol
//! of the node.

use std::rc::Rc;
use std::task::{Poll, Waker};

use latchwork_cache::{FrameId, Ownership};
use latchwork_coherence::{AccessMode, MemoryError, Need};
use latchwork_strict::{strict_assert, strict_assert_eq};
use latchwork_verbs::GlobalAddr;

use crate::in_place;
use crate::inner::Inner;
use crate::lines::{Attempt, End, Try, WorkerLines};
use crate::protocol::{CoherenceProtocol, LineState};
use crate::record::Record;
use crate::waiters::{LineAccess, Outcome, meets};

impl<P: CoherenceProtocol> Inner<P> {
    fn attempt_with(
        &self,
        access: LineAccess,
        first: bool,
        record: &mut Record<P::Line>,
        waker: &Waker,
    ) -> Result<Attempt, MemoryError> {
        let Need { addr, mode } = access.need;
        if let Some(error) = record.local.failed {
            return Err(error.into());
        }
        let is_here = |_: &FrameId| meets(record.line.hold(), mode);
        if let Some(id) = record.local.frame.filter(is_here) {
            let frame = self.node_core.cache.frame(id);
            strict_assert_eq!(frame.addr(), addr, "a record and its frame serve one line");
            strict_assert!(
                meets(frame.state().ownership(), mode),
                "{addr} is here, but not usable"
            );
            let held =
                if first { self.core.held_for_newcomer(id, mode) } else { self.core.held(id) };
            let attempt = match held {
                // The line lease is over, so requests of other nodes come first. Afterwards the
                // waiter gets the ownership that is left, or the node requests the line.
                _ if record.line.gives_way() => {
                    return Ok(Attempt::Asked(record.local.waiters.wait(access, waker)));
                }
                _ if frame.state().is_latched() => Attempt::Latched(id),
                Some(until) => Attempt::Held(id, until),
                None => {
                    frame.reserve();
                    Attempt::Here(id)
                }
            };
            match attempt {
                Attempt::Here(_) if first => record.line.latch_was_free(),
                Attempt::Here(_) => record.local.passed_at = self.core.handle.now(),
                _ if first => record.line.latch_was_held(mode),
                _ => {}
            }
            return Ok(attempt);
        }
        let registers = mode == AccessMode::Shared || self.node.protocol.registers_writers();
        if access.no_wait && registers && !self.may_be_refused(record) {
            return Ok(Attempt::Locked);
        }
        if record.local.frame.is_none() {
            let Some(id) = self.node_core.cache.attach(addr) else { return Ok(Attempt::NoFrame) };
            strict_assert_eq!(
                record.line.hold(),
                Ownership::Invalid,
                "{addr} is owned without a frame"
            );
            record.local.frame = Some(id);
        }
        let id = record.local.waiters.wait(access, waker);
        self.node.protocol.want(&mut self.site(addr, record), access);
        Ok(Attempt::Asked(id))
    }
}

impl<P: CoherenceProtocol> WorkerLines for Inner<P> {
    fn attempt(
        &self,
        access: LineAccess,
        first: bool,
        waker: &Waker,
    ) -> Result<Attempt, MemoryError> {
        let addr = access.need.addr;
        let mut records = self.node.records.shard(addr).lock();
        let record = self.record(&mut records, addr);
        let result = self.attempt_with(access, first, record, waker);
        self.finish(&mut records, addr);
        if let Ok(Attempt::Asked(_)) = result {
            self.core.counters.cache_misses.add(1);
        }
        result
    }

    fn poll_waiter(
        &self,
        addr: GlobalAddr,
        id: u64,
        waker: &Waker,
    ) -> Poll<Result<End, MemoryError>> {
        let mut records = self.node.records.shard(addr).lock();
        let record = records.get_mut(&addr).expect("a record with waiters stays");
        let waiter = record.local.waiters.get(id).expect("still waiting");
        let end = match waiter.outcome {
            Outcome::Waiting => {
                waiter.waker = Some(waker.clone());
                return Poll::Pending;
            }
            Outcome::Granted => match (record.local.frame, record.local.failed) {
                (Some(frame), _) => {
                    strict_assert!(
                        self.node_core.cache.frame(frame).is_reserved(),
                        "a grant of {} without a reservation",
                        addr
                    );
                    Ok(End::Here(frame))
                }
                // The line was granted, and then an operation of the node failed.
                (None, Some(error)) => Err(error.into()),
                (None, None) => unreachable!("what is granted has a frame"),
            },
            Outcome::GaveWay => Ok(End::GaveWay),
            Outcome::Locked => Ok(End::Locked),
            Outcome::Failed(error) => Err(error.into()),
        };
        record.local.waiters.remove(id);
        self.finish(&mut records, addr);
        Poll::Ready(end)
    }

    fn drop_waiter(&self, addr: GlobalAddr, id: u64) {
        let mut records = self.node.records.shard(addr).lock();
        let Some(record) = records.get_mut(&addr) else { return };
        let Some(waiter) = record.local.waiters.drop(id) else { return };
        // The grant came, but the access was dropped. The reservation ends, and `finish` decides
        // about the line.
        if let (Outcome::Granted, Some(id)) = (waiter.outcome, record.local.frame) {
            self.node_core.cache.frame(id).unreserve();
            self.core.let_go.set(true);
        }
        self.finish(&mut records, addr);
    }

    fn evict(&self, addr: GlobalAddr) -> bool {
        Inner::evict(self, addr)
    }

    fn persist(&self, addr: GlobalAddr) -> Result<in_place::Attempt, MemoryError> {
        Inner::persist(self, addr)
    }

    fn accessed(&self, addr: GlobalAddr) {
        Inner::accessed(self, addr);
    }

    fn try_lock(&self, need: Need, reserved: bool, upgrades: bool) -> Result<Try, MemoryError> {
        Inner::try_lock(self, need, reserved, upgrades)
    }

    fn unlocked(&self, addr: GlobalAddr) {
        Inner::unlocked(self, addr);
    }

    fn outlive(self: Rc<Self>) {
        Inner::outlive(&self);
    }
}
