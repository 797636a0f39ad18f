//! Records of lines that are under way: what the frame alone does not say.
//!
//! A line at rest has no record; its frame's ownership is all there is to know. The record is keyed
//! by address and outlives the frame, so that a line that is evicted and wanted again waits for its
//! own release (rule R1).

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

/// Addresses are spread by their bits; a keyed hash would differ from run to run for no gain.
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

/// All records of a node.
#[derive(Default)]
pub(crate) struct RecordTable {
    shards: Vec<Shard>,
}

// Each on CPU cache lines of its own: workers lock different shards all the time.
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

    /// The shards, each to be locked for as long as its records are looked at.
    pub(crate) fn shards(&self) -> impl Iterator<Item = &Mutex<Records>> {
        self.shards.iter().map(|shard| &shard.0)
    }

    /// How many lines are under way.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|s| s.0.lock().len()).sum()
    }
}

/// What an access that waits for the line will be told.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Nothing yet.
    Waiting,
    /// The line is here as needed, and reserved.
    Granted,
    /// The copy that the access wanted to upgrade is lost.
    GaveWay,
    /// Another node has locked the line, and the access does not wait for that.
    Locked,
    /// The fabric failed.
    Failed(VerbError),
}

/// What an access asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) need: Need,
    /// It ends when the copy is lost.
    pub(crate) upgrade: bool,
    /// It is of no use later.
    pub(crate) by: Option<Time>,
    /// It ends where another node has locked the line.
    pub(crate) no_wait: bool,
}

impl Access {
    /// One that waits for the line until its deadline.
    pub(crate) fn patient(need: Need) -> Access {
        Access { need, upgrade: false, by: None, no_wait: false }
    }
}

/// An access that is of no use after some time has this many turns until then, if each pause were
/// as long as the first. Nodes that have waited for longer pause less, so that no line is got by
/// newcomers alone.
const TURNS: u32 = 64;

/// An access that waits for the line.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) id: u64,
    pub(crate) mode: Mode,
    /// Set for upgrades, which end when the copy is lost.
    pub(crate) upgrade: bool,
    pub(crate) outcome: Outcome,
    /// Another node was asked for the line meanwhile.
    pub(crate) asked: bool,
    /// It is of no use later.
    pub(crate) by: Option<Time>,
    /// It ends where another node has locked the line.
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

/// A line that is under way.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) line: Line,
    pub(crate) frame: Option<FrameId>,
    pub(crate) waiters: Vec<Waiter>,
    pub(crate) next_waiter: u64,
    /// Dirty bounds that came with a grant, for the copy that is published next.
    pub(crate) incoming_dirty: DirtyBounds,
    /// Local readers wait until then.
    pub(crate) hold_off_until: Time,
    /// When the node was refused, the first time since it last got what it wanted; zero: it was
    /// not.
    pub(crate) refused_since: Time,
    /// The last access that waited for the line does so no more, and would not have waited for a
    /// lock.
    pub(crate) forsaken: bool,
    /// An alarm is set for the end of a pause that has ended before its time.
    pub(crate) retry_is_set: bool,
    /// A reader that does not wait for locks has asked: if it is refused its bit stays in the word,
    /// and so does the frame.
    pub(crate) counts_as_refused: bool,
    /// The last time at which an alarm was set for a local writer to let go.
    pub(crate) let_go_at: Time,
    /// Since when local code has kept a request waiting.
    pub(crate) blocked_since: Option<Time>,
    /// When an access that had waited for the local latch last had its turn.
    pub(crate) passed_at: Time,
    /// How long local code may go on before requests.
    pub(crate) lease: Lease,
    /// Whether the record is in the node's list of blocked lines.
    pub(crate) listed: bool,
    /// Whether the operation in flight frees the frame for another line.
    pub(crate) evicting: bool,
    /// Whether the line is to be given back as soon as it is at rest.
    pub(crate) unwanted: bool,
    /// Whether a verb of the operation that was posted last reads or writes the frame.
    pub(crate) frame_in_verb: bool,
    /// Forwards that may not have arrived.
    pub(crate) doubts: Vec<Doubt>,
    /// An operation that is complete but for these.
    pub(crate) landed: Option<(WordOp, LatchWord)>,
    /// The fabric failed an operation on the word, or a question: the line cannot be asked for any
    /// more. After a question its frame is not used for another, since the answer may still come.
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

    /// One more access waits for the line; its number.
    pub(crate) fn wait(&mut self, access: Access, waker: &Waker) -> u64 {
        let Access { need: Need { mode, .. }, upgrade, by, no_wait } = access;
        self.forsaken = false;
        let id = self.next_waiter;
        self.next_waiter += 1;
        let (outcome, waker) = (Outcome::Waiting, Some(waker.clone()));
        self.waiters.push(Waiter { id, mode, upgrade, outcome, asked: false, by, no_wait, waker });
        id
    }

    /// The pause before the line is asked for again: `pause`, unless some access would have few
    /// turns then until it is of no use any more; but not less than `least`.
    pub(crate) fn pause(&self, pause: Duration, least: Duration, now: Time) -> Duration {
        let waiting = self.waiters.iter().filter(|w| matches!(w.outcome, Outcome::Waiting));
        let by = waiting.filter_map(|waiter| waiter.by).min();
        by.map_or(pause, |by| pause.min((by.max(now) - now) / TURNS).max(least.min(pause)))
    }

    pub(crate) fn fail(&mut self, error: VerbError) {
        self.failed = Some(error);
        self.disappoint(error);
    }

    /// Whether it was given up, and its frame as well: nothing can be posted for it, or written
    /// into it, any more.
    pub(crate) fn is_lost(&self) -> bool {
        self.failed.is_some() && self.frame.is_none()
    }

    /// Ends all accesses that wait for the line.
    pub(crate) fn disappoint(&mut self, error: VerbError) {
        // Who was granted the line before has a reservation, and uses it.
        let waiting = self.waiters.iter_mut().filter(|w| matches!(w.outcome, Outcome::Waiting));
        waiting.for_each(|waiter| waiter.end(Outcome::Failed(error)));
    }

    /// Whether all is as the frame says, and nobody waits.
    pub(crate) fn is_over(&self, now: Time) -> bool {
        self.line.is_at_rest()
            && self.waiters.is_empty()
            && self.hold_off_until <= now
            && !self.listed
            && self.failed.is_none()
    }
}

/// The frame, as the line's machine sees it.
pub(crate) struct FrameCopy<'a> {
    pub(crate) frame: Option<&'a Frame>,
    pub(crate) waiters: &'a mut Vec<Waiter>,
    /// Nobody waits any more who would wait for a lock.
    pub(crate) forsaken: bool,
    pub(crate) dirty: DirtyBounds,
    /// Reservations count no more.
    pub(crate) lapsed: bool,
    /// A local writer holds the latch, in virtual time; or local accesses wait for it, which come
    /// first.
    pub(crate) held: bool,
}

impl FrameCopy<'_> {
    fn frame(&self) -> &Frame {
        self.frame.expect("a line that is held or being obtained has a frame")
    }

    // Reserved here, in the same step: a request that is served next must not take the line away
    // before those who waited for it have used it once.
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

    /// The copy that upgrades have seen is gone.
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
        // Nobody had it to write since, so all of it is in the memory node.
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
        self.waiters
            .iter_mut()
            .filter(is_waiting)
            .map(|waiter| crate::engine::want(waiter.mode))
            .max()
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

/// What the frame of a line at rest says.
pub(crate) fn hold_at_rest(cache: &Cache, frame: Option<FrameId>) -> Hold {
    match frame.map(|id| cache.frame(id).state().ownership()) {
        None | Some(Ownership::Invalid) => Hold::Nothing,
        Some(Ownership::Shared) => Hold::Shared,
        Some(Ownership::Exclusive) => Hold::Exclusive,
    }
}
