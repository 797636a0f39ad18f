//! Line records: the state of lines that their frames do not hold.
//!
//! A line at rest has no record: the ownership in its frame is its whole state. A record is keyed
//! by address and outlives the frame. So an access to an evicted line waits for the line's own
//! release (rule R1).

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::task::Waker;
use std::time::Duration;

use latchwork_cache::{Cache, DirtyBounds, Frame, FrameId, Ownership};
use latchwork_coherence::{Mode, Need};
use latchwork_latch::{Hold, LatchWord, Line, LocalCopy, Want, WordOp};
use latchwork_runtime::Time;
use latchwork_runtime::sync::Mutex;
use latchwork_verbs::{GlobalAddr, VerbError};

use crate::lease::Lease;
use crate::letters::Doubt;

#[cfg(all(test, loom))]
mod interleavings;

/// Hashes addresses by their bits. A keyed hash would differ from run to run, for no gain.
#[derive(Default)]
pub(crate) struct AddrHasher(u64);

impl Hasher for AddrHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }
}

pub(crate) type Records = HashMap<GlobalAddr, Record, BuildHasherDefault<AddrHasher>>;

const SHARDS: usize = 64;

/// All line records of a node.
#[derive(Default)]
pub(crate) struct RecordTable {
    shards: Vec<Shard>,
}

// Each shard is on CPU cache lines of its own, because workers lock different shards all the time.
#[derive(Default)]
#[repr(align(128))]
struct Shard(Mutex<Records>);

impl RecordTable {
    pub(crate) fn new() -> Self {
        RecordTable { shards: (0..SHARDS).map(|_| Shard::default()).collect() }
    }

    pub(crate) fn shard(&self, addr: GlobalAddr) -> &Mutex<Records> {
        let hash = addr.bits().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.shards[(hash >> 58) as usize % SHARDS].0
    }

    /// The shards. A caller locks each shard while it reads the records of the shard.
    pub(crate) fn shards(&self) -> impl Iterator<Item = &Mutex<Records>> {
        self.shards.iter().map(|shard| &shard.0)
    }

    /// The number of lines with a record.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|s| s.0.lock().len()).sum()
    }
}

/// The outcome of an access that waits for a line.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The access still waits.
    Waiting,
    /// The line is here in the needed mode, and reserved.
    Granted,
    /// An upgrade has lost its copy.
    GaveWay,
    /// Another node has locked the line, and the access does not wait for locks.
    Locked,
    /// The fabric failed.
    Failed(VerbError),
}

/// What an access needs, and when the access ends without the line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) need: Need,
    /// An upgrade: the access ends when the copy is lost.
    pub(crate) upgrade: bool,
    /// Deadline: the result is useless after this time.
    pub(crate) by: Option<Time>,
    /// The access ends with an outcome where another node has locked the line.
    pub(crate) no_wait: bool,
}

impl Access {
    /// An access that waits for the line until its deadline.
    pub(crate) fn patient(need: Need) -> Access {
        Access { need, upgrade: false, by: None, no_wait: false }
    }
}

/// An access with a deadline gets this many attempts until then, if each back-off is as long as the
/// first. Nodes that have waited longer back off for a shorter time, so that newcomers do not get
/// every line.
const TURNS: u32 = 64;

/// A waiter: an access that waits for the line.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) id: u64,
    pub(crate) mode: Mode,
    /// Set for an upgrade, which ends when the copy is lost.
    pub(crate) upgrade: bool,
    pub(crate) outcome: Outcome,
    /// The node has sent an invalidation request since the access began to wait.
    pub(crate) asked: bool,
    /// Deadline: the result is useless after this time.
    pub(crate) by: Option<Time>,
    /// The access ends with an outcome where another node has locked the line.
    pub(crate) no_wait: bool,
    pub(crate) waker: Option<Waker>,
}

impl Waiter {
    pub(crate) fn end(&mut self, outcome: Outcome) {
        self.outcome = outcome;
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// The record of one line.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) line: Line,
    pub(crate) frame: Option<FrameId>,
    pub(crate) waiters: Vec<Waiter>,
    pub(crate) next_waiter: u64,
    /// The dirty bounds from a grant, for the copy that is published next.
    pub(crate) incoming_dirty: DirtyBounds,
    /// The end of the hold-off of local readers.
    pub(crate) hold_off_until: Time,
    /// The time of the first refusal since a want of the node was last met. Zero: no refusal.
    pub(crate) refused_since: Time,
    /// The last waiter was dropped, and it would not have waited for a lock.
    pub(crate) forsaken: bool,
    /// An alarm is still set for the end of a back-off that ended early.
    pub(crate) retry_is_set: bool,
    /// A reader that does not wait for locks has requested the line. If the reader is refused, its
    /// bit stays in the latch word, and the line keeps its frame.
    pub(crate) counts_as_refused: bool,
    /// The latest time of an alarm for the end of a local writer's latch.
    pub(crate) let_go_at: Time,
    /// The time since which local code has kept a request waiting.
    pub(crate) blocked_since: Option<Time>,
    /// The last time at which an access that had waited for the local latch got the latch.
    pub(crate) passed_at: Time,
    /// The line lease.
    pub(crate) lease: Lease,
    /// Whether the record is in the node's list of blocked lines.
    pub(crate) listed: bool,
    /// Whether the operation in flight frees the frame for another line.
    pub(crate) evicting: bool,
    /// Whether the line is released as soon as it is at rest.
    pub(crate) unwanted: bool,
    /// Whether a verb of the last posted operation reads or writes the frame.
    pub(crate) frame_in_verb: bool,
    /// Pending probes: forwards that may not have arrived.
    pub(crate) doubts: Vec<Doubt>,
    /// An operation that is complete except for the pending probes.
    pub(crate) landed: Option<(WordOp, LatchWord)>,
    /// The error of a word operation or an invalidation request: the node cannot request the line
    /// any more. After a failed invalidation request the frame serves no other line, because an
    /// answer may still be written into the frame.
    pub(crate) failed: Option<VerbError>,
}

impl Record {
    pub(crate) fn new(line: Line, frame: Option<FrameId>) -> Self {
        Record {
            line,
            frame,
            waiters: Vec::new(),
            next_waiter: 0,
            incoming_dirty: DirtyBounds::EMPTY,
            hold_off_until: Time::ZERO,
            refused_since: Time::ZERO,
            forsaken: false,
            retry_is_set: false,
            counts_as_refused: false,
            let_go_at: Time::ZERO,
            blocked_since: None,
            passed_at: Time::ZERO,
            lease: Lease::Off,
            listed: false,
            evicting: false,
            unwanted: false,
            frame_in_verb: false,
            doubts: Vec::new(),
            landed: None,
            failed: None,
        }
    }

    /// Adds a waiter for the access. Returns the number of the waiter.
    pub(crate) fn wait(&mut self, access: Access, waker: &Waker) -> u64 {
        let Access { need: Need { mode, .. }, upgrade, by, no_wait } = access;
        self.forsaken = false;
        let id = self.next_waiter;
        self.next_waiter += 1;
        let (outcome, waker) = (Outcome::Waiting, Some(waker.clone()));
        self.waiters.push(Waiter { id, mode, upgrade, outcome, asked: false, by, no_wait, waker });
        id
    }

    /// The back-off before the next attempt. It is `pause`, shortened if a waiter would otherwise
    /// have few attempts before its deadline. It is never shortened below `least`.
    pub(crate) fn pause(&self, pause: Duration, least: Duration, now: Time) -> Duration {
        let waiting = self.waiters.iter().filter(|w| matches!(w.outcome, Outcome::Waiting));
        let by = waiting.filter_map(|waiter| waiter.by).min();
        by.map_or(pause, |by| pause.min((by.max(now) - now) / TURNS).max(least.min(pause)))
    }

    pub(crate) fn fail(&mut self, error: VerbError) {
        self.failed = Some(error);
        self.disappoint(error);
    }

    /// Whether the line has failed and its frame is released. Nothing can be posted for such a line
    /// or written into it any more.
    pub(crate) fn is_lost(&self) -> bool {
        self.failed.is_some() && self.frame.is_none()
    }

    /// Fails all waiters of the line.
    pub(crate) fn disappoint(&mut self, error: VerbError) {
        // A waiter with an earlier grant has a reservation, and uses the line.
        let waiting = self.waiters.iter_mut().filter(|w| matches!(w.outcome, Outcome::Waiting));
        waiting.for_each(|waiter| waiter.end(Outcome::Failed(error)));
    }

    /// Whether the record adds nothing to the frame, and no access waits.
    pub(crate) fn is_over(&self, now: Time) -> bool {
        self.line.is_at_rest()
            && self.waiters.is_empty()
            && self.hold_off_until <= now
            && !self.listed
            && self.failed.is_none()
    }
}

/// The local copy of a line, as the line machine sees it.
pub(crate) struct FrameCopy<'a> {
    pub(crate) frame: Option<&'a Frame>,
    pub(crate) waiters: &'a mut Vec<Waiter>,
    /// See [`Record::forsaken`].
    pub(crate) forsaken: bool,
    pub(crate) dirty: DirtyBounds,
    /// Reservations have expired.
    pub(crate) lapsed: bool,
    /// A local writer holds the latch in virtual time, or local accesses wait for the latch. Both
    /// come before requests of other nodes.
    pub(crate) held: bool,
}

impl FrameCopy<'_> {
    fn frame(&self) -> &Frame {
        self.frame.expect("a line that is held or being obtained has a frame")
    }

    // The line is reserved in the same step. A request that is served next must not take the line
    // before each waiter has used it once.
    fn grant(&mut self, hold: Hold) {
        let frame = self.frame.expect("a line that is held has a frame");
        for waiter in self.waiters.iter_mut() {
            let met = meets(hold, waiter.mode) && matches!(waiter.outcome, Outcome::Waiting);
            if met {
                frame.reserve();
                waiter.end(Outcome::Granted);
            }
        }
    }

    /// Ends the upgrades, which have lost the copy that they saw.
    fn give_way(&mut self) {
        for waiter in self.waiters.iter_mut().filter(|w| w.upgrade) {
            if matches!(waiter.outcome, Outcome::Waiting) {
                waiter.end(Outcome::GaveWay);
            }
        }
    }

    fn is_reserved(&self) -> bool {
        !self.lapsed && self.frame().is_reserved()
    }
}

impl LocalCopy for FrameCopy<'_> {
    fn starved(&self) -> u8 {
        self.frame().starved()
    }

    fn set_starved(&mut self, priority: u8) {
        self.frame().set_starved(priority);
    }

    fn publish(&mut self, hold: Hold) {
        self.frame().set_dirty(self.dirty);
        self.frame().publish(ownership(hold));
        self.grant(hold);
    }

    fn promote(&mut self) {
        self.frame().promote();
        self.grant(Hold::Exclusive);
    }

    fn try_suspend(&mut self) -> bool {
        !self.is_reserved() && !self.held && self.frame().try_invalidate()
    }

    fn lose(&mut self) {
        self.give_way();
    }

    fn restore(&mut self) {
        // No node had the line exclusively in the meantime, so the memory node has all its bytes.
        self.frame().set_dirty(DirtyBounds::EMPTY);
        self.frame().publish(Ownership::Shared);
        self.grant(Hold::Shared);
    }

    fn try_invalidate(&mut self) -> bool {
        if self.is_reserved() || self.held || !self.frame().try_invalidate() {
            return false;
        }
        self.give_way();
        true
    }

    fn try_demote(&mut self) -> bool {
        !self.is_reserved() && !self.held && self.frame().try_demote()
    }

    fn locked(&self) -> Option<Want> {
        match self.frame?.kept() {
            Ownership::Invalid => None,
            Ownership::Shared => Some(Want::Shared),
            Ownership::Exclusive => Some(Want::Exclusive),
        }
    }

    fn locked_out(&mut self, want: Want) -> Option<Want> {
        let is_waiting = |waiter: &&mut Waiter| matches!(waiter.outcome, Outcome::Waiting);
        let mut ended = self.forsaken;
        for waiter in self.waiters.iter_mut().filter(is_waiting).filter(|w| w.no_wait) {
            waiter.end(Outcome::Locked);
            ended = true;
        }
        if !ended {
            return Some(want);
        }
        self.waiters.iter_mut().filter(is_waiting).map(|waiter| self::want(waiter.mode)).max()
    }
}

/// The want of the line machine for this mode.
pub(crate) fn want(mode: Mode) -> Want {
    match mode {
        Mode::Shared => Want::Shared,
        Mode::Exclusive => Want::Exclusive,
    }
}

pub(crate) fn meets(hold: Hold, mode: Mode) -> bool {
    match mode {
        Mode::Shared => hold >= Hold::Shared,
        Mode::Exclusive => hold == Hold::Exclusive,
    }
}

pub(crate) fn ownership(hold: Hold) -> Ownership {
    match hold {
        Hold::Nothing => Ownership::Invalid,
        Hold::Shared => Ownership::Shared,
        Hold::Exclusive => Ownership::Exclusive,
    }
}

/// The hold of a line at rest, read from its frame.
pub(crate) fn hold_at_rest(cache: &Cache, frame: Option<FrameId>) -> Hold {
    match frame.map(|id| cache.frame(id).state().ownership()) {
        None | Some(Ownership::Invalid) => Hold::Nothing,
        Some(Ownership::Shared) => Hold::Shared,
        Some(Ownership::Exclusive) => Hold::Exclusive,
    }
}
