//! Line records: the state of lines that their frames do not hold.
//!
//! A line at rest has no record: its frame holds its whole state. A record is keyed by address, and
//! can stay when the line has left its frame. So an access to an evicted line waits in the record
//! until the release of that line is complete. SELCC needs that wait: a node has at most one
//! operation in flight on a latch word (rule R1 of `latchwork-latch`).

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use latchwork_cache::FrameId;
use latchwork_runtime::Time;
use latchwork_runtime::sync::Mutex;
use latchwork_verbs::{GlobalAddr, VerbError};

use crate::messages::{PendingProbe, TRIES_MAX};
use crate::waiters::Waiters;

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

pub(crate) type Records<L> = HashMap<GlobalAddr, Record<L>, BuildHasherDefault<AddrHasher>>;

// As many as the top six bits of the hash in `shard` distinguish.
const SHARDS: usize = 64;

/// All line records of a node.
pub(crate) struct RecordTable<L> {
    shards: Vec<Shard<L>>,
}

// Each shard is on CPU cache lines of its own, because workers lock different shards all the time.
#[repr(align(128))]
struct Shard<L>(Mutex<Records<L>>);

impl<L> RecordTable<L> {
    pub(crate) fn new() -> Self {
        RecordTable { shards: (0..SHARDS).map(|_| Shard(Mutex::default())).collect() }
    }

    pub(crate) fn shard(&self, addr: GlobalAddr) -> &Mutex<Records<L>> {
        let hash = addr.bits().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.shards[(hash >> 58) as usize % SHARDS].0
    }

    /// The shards. A caller locks each shard while it reads the records of the shard.
    pub(crate) fn shards(&self) -> impl Iterator<Item = &Mutex<Records<L>>> {
        self.shards.iter().map(|shard| &shard.0)
    }
}

/// The record of one line.
#[derive(Debug)]
pub(crate) struct Record<L> {
    /// The part of the protocol.
    pub(crate) line: L,
    /// The part of the engine.
    pub(crate) local: LocalSide,
}

/// The engine's part of a line record: the frame, the waiters, and the use of the line by local
/// code.
#[derive(Debug)]
pub struct LocalSide {
    /// The frame of the line. `None`: the line has none, or has left it.
    pub frame: Option<FrameId>,
    /// The accesses that wait for the line.
    pub waiters: Waiters,
    /// An access that does not wait for locks has requested the line. If the access is refused, its
    /// wait stays registered, and the line keeps its frame.
    pub(crate) counts_as_refused: bool,
    /// The latest time of an alarm for the end of a local writer's latch.
    pub(crate) let_go_at: Time,
    /// The time since which local code has kept a request waiting.
    pub blocked_since: Option<Time>,
    /// The last time at which an access that had waited for the local latch got the latch.
    pub passed_at: Time,
    /// Whether the record is in the node's list of blocked lines.
    pub(crate) listed: bool,
    /// Whether the operation in flight frees the frame for another line.
    pub(crate) evicting: bool,
    /// Whether the line is released as soon as it is at rest.
    pub(crate) unwanted: bool,
    /// Whether a verb of the last posted operation reads or writes the frame.
    pub frame_in_verb: bool,
    /// Pending probes: forwards that may not have arrived.
    pub(crate) probes: Vec<PendingProbe>,
    /// The error of an operation or an invalidation request: the node cannot request the line any
    /// more. While an answer to an invalidation request may still be written into the frame, the
    /// frame serves no other line.
    pub failed: Option<VerbError>,
}

impl<L> Record<L> {
    #[inline]
    pub(crate) fn new(line: L, frame: Option<FrameId>) -> Self {
        Record { line, local: LocalSide::new(frame) }
    }
}

impl LocalSide {
    /// The engine's part of a new record. `frame`: the frame of the line.
    #[inline]
    pub(crate) fn new(frame: Option<FrameId>) -> Self {
        LocalSide {
            frame,
            waiters: Waiters::default(),
            counts_as_refused: false,
            let_go_at: Time::ZERO,
            blocked_since: None,
            passed_at: Time::ZERO,
            listed: false,
            evicting: false,
            unwanted: false,
            frame_in_verb: false,
            probes: Vec::new(),
            failed: None,
        }
    }

    /// Fails the line: its waiters end with the error.
    pub fn fail(&mut self, error: VerbError) {
        self.failed = Some(error);
        self.waiters.fail(error);
    }

    /// The relations of the fields after each step of the record.
    pub(crate) fn check(&self) {
        self.waiters.check();
        assert!(
            self.failed.is_none() || self.waiters.wanted().is_none(),
            "an access waits for a line that no operation can bring: {self:?}"
        );
        assert!(
            !self.evicting || self.frame.is_some(),
            "a release reads a frame that the line has left: {self:?}"
        );
        assert!(
            !self.counts_as_refused || self.frame.is_some(),
            "a refused access counts for a frame that it does not have: {self:?}"
        );
        assert!(
            self.blocked_since.is_none() || self.listed,
            "no sweep serves the requests that local code keeps waiting: {self:?}"
        );
        for (number, probe) in self.probes.iter().enumerate() {
            let sent = &probe.sent;
            assert!(sent.ahead.is_some(), "only a forward is probed: {sent:?}");
            assert!(sent.group.is_none(), "a probed forward still has its operation: {sent:?}");
            assert!(!sent.awaited, "no line waits for an answer to a forward: {sent:?}");
            assert!(sent.tries <= TRIES_MAX, "a probe is repeated without an end: {sent:?}");
            let others = &self.probes[..number];
            assert!(
                others.iter().all(|other| other.sent.name() != sent.name()),
                "one probe reply would end two probes: {sent:?}"
            );
        }
    }

    /// Whether a forward of the line may or may not have arrived.
    #[inline]
    pub fn is_in_doubt(&self) -> bool {
        !self.probes.is_empty()
    }

    /// Whether the line has failed and its frame is released. Nothing can be posted for such a line
    /// or written into it any more.
    #[inline]
    pub fn is_lost(&self) -> bool {
        self.failed.is_some() && self.frame.is_none()
    }

    /// Whether the frame has all state of this part, and no access waits.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.waiters.is_empty() && !self.listed && self.failed.is_none()
    }
}
