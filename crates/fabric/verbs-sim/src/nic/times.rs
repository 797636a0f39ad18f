//! [`NicTimes`]: the figures of a profile, converted to the units in which the simulator adds them.

use std::borrow::Cow;
use std::time::Duration;

use latchwork_simulation::Time;
use latchwork_strict::strict_assert;
use latchwork_verbs::{CHIP_BASE, Message, WORD, WorkRequest, WorkRequestKind};

use crate::profile::NicProfile;

/// A time in picoseconds, because a word takes less than a nanosecond on a fast wire.
pub(super) type Ps = u64;

/// Picoseconds per nanosecond.
pub(super) const PS_PER_NS: Ps = 1_000;

/// The longest time of any part of a verb on the slowest NIC: about a quarter of an hour. With this
/// limit, the times of a verb and of thousands of waiting verbs add up without overflow.
const LONGEST: Ps = 1_000_000_000_000_000;
const _: () = assert!(LONGEST > PS_PER_NS && LONGEST < Ps::MAX / 1000, "sums of times do not wrap");

pub(super) fn ps(time: Time) -> Ps {
    time.as_nanos().saturating_mul(PS_PER_NS)
}

/// The first whole nanosecond at or after `at`.
pub(super) fn time(at: Ps) -> Time {
    Time::from_nanos(at.div_ceil(PS_PER_NS))
}

/// The figures of a profile in picoseconds and bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NicTimes {
    pub(super) send: Ps,
    pub(super) send_read: Ps,
    pub(super) serve: Ps,
    pub(super) serve_read: Ps,
    pub(super) serve_atomic: Ps,
    /// The time of 1024 bytes on the wire, rounded down.
    pub(super) kib: Ps,
    /// The time of 1024 bytes of a packet between wire and memory.
    pub(super) packet_kib: Ps,
    pub(super) packet: u64,
    pub(super) inline_max: u64,
    pub(super) gather: Ps,
    pub(super) one_way: Ps,
    pub(super) jitter: Ps,
    pub(super) write: Ps,
    pub(super) read: Ps,
    pub(super) atomic_fetch: Ps,
    pub(super) atomic: Ps,
    pub(super) atomic_cold: Ps,
    pub(super) bucket_mask: u64,
    /// The time of an atomic on on-chip memory, at the engine and in its bucket.
    pub(super) chip_atomic: Ps,
    /// The places for atomics that wait for their bucket; 0 for no limit.
    pub(super) places: usize,
    pub(super) completion: Ps,
    pub(super) queue_pairs: usize,
    pub(super) shared_engine: bool,
    pub(crate) post: Duration,
    pub(crate) doorbell: Duration,
    pub(crate) poll: Duration,
}

impl NicTimes {
    pub(crate) fn new(profile: &NicProfile) -> NicTimes {
        let per_million = |rate: f64| (1e6 / rate) as Ps;
        let ns = |ns: u64| ns.saturating_mul(PS_PER_NS);
        // The time of 1024 bytes of 8 bits at `gbit_s` bits per nanosecond.
        let per_kib = |gbit_s: f64| (1024.0 * 8.0 / gbit_s * PS_PER_NS as f64) as Ps;
        NicTimes {
            send: per_million(profile.send_rate_mops),
            send_read: per_million(profile.send_read_rate_mops),
            serve: per_million(profile.serve_rate_mops),
            serve_read: per_million(profile.serve_read_rate_mops),
            serve_atomic: per_million(profile.serve_atomic_rate_mops),
            kib: per_kib(profile.bandwidth_gbit_s),
            packet_kib: per_kib(profile.packet_gbit_s),
            packet: u64::from(profile.packet_bytes),
            inline_max: u64::from(profile.inline_max_bytes),
            gather: ns(profile.gather_ns),
            one_way: ns(profile.one_way_ns),
            jitter: ns(profile.jitter_ns),
            write: ns(profile.write_ns),
            read: ns(profile.read_ns),
            atomic_fetch: ns(profile.atomic_fetch_ns),
            atomic: ns(profile.atomic_ns),
            atomic_cold: ns(profile.atomic_cold_ns),
            bucket_mask: (1 << profile.atomic_bucket_bits.min(63)) - 1,
            chip_atomic: per_million(profile.chip_atomic_rate_mops),
            places: profile.atomics_waiting_max as usize,
            completion: ns(profile.completion_ns),
            queue_pairs: profile.queue_pairs.max(1) as usize,
            shared_engine: profile.engines == 1,
            post: Duration::from_nanos(profile.cpu.post_ns),
            doorbell: Duration::from_nanos(profile.cpu.doorbell_ns),
            poll: Duration::from_nanos(profile.cpu.poll_ns),
        }
    }

    pub(super) fn wire(&self, bytes: u64) -> Ps {
        (bytes.saturating_mul(self.kib) / 1024).min(LONGEST)
    }

    /// The delay of `bytes` between memory and wire: the time of the first packet, because later
    /// packets overlap.
    pub(super) fn packet(&self, bytes: u64) -> Ps {
        (bytes.min(self.packet).saturating_mul(self.packet_kib) / 1024).min(LONGEST)
    }

    /// The time that a requester's NIC needs before the first byte of a request can leave.
    pub(super) fn gather(&self, request: &WorkRequest) -> Ps {
        let bytes = outgoing_bytes(request);
        let fetched = if bytes <= self.inline_max { 0 } else { self.gather };
        fetched + self.packet(bytes)
    }

    /// The engine time to issue a request.
    pub(super) fn send(&self, request: &WorkRequest) -> Ps {
        match request.kind() {
            WorkRequestKind::Write | WorkRequestKind::Send => self.send,
            WorkRequestKind::Read | WorkRequestKind::Atomic => self.send_read,
        }
    }

    /// The engine time to serve a request.
    pub(super) fn serve(&self, request: &WorkRequest) -> Ps {
        match request.kind() {
            WorkRequestKind::Write | WorkRequestKind::Send => self.serve,
            WorkRequestKind::Read => self.serve_read,
            WorkRequestKind::Atomic if is_on_chip(request) => self.chip_atomic,
            WorkRequestKind::Atomic => self.serve_atomic,
        }
    }

    /// The times of a NIC that is `slowness` times slower.
    pub(super) fn slowed(&self, slowness: u32) -> Cow<'_, NicTimes> {
        // Almost every NIC has factor 1, and then no copy is made.
        if slowness <= 1 { Cow::Borrowed(self) } else { Cow::Owned(self.multiplied(slowness)) }
    }

    #[cold]
    fn multiplied(mut self, slowness: u32) -> NicTimes {
        strict_assert!(slowness > 1, "a usual speed is multiplied");
        let slowness = Ps::from(slowness);
        let times = [
            &mut self.send,
            &mut self.send_read,
            &mut self.serve,
            &mut self.serve_read,
            &mut self.serve_atomic,
            &mut self.kib,
            &mut self.packet_kib,
            &mut self.gather,
            &mut self.one_way,
            &mut self.write,
            &mut self.read,
            &mut self.atomic_fetch,
            &mut self.atomic,
            &mut self.atomic_cold,
            &mut self.chip_atomic,
            &mut self.completion,
        ];
        times.into_iter().for_each(|time| *time = time.saturating_mul(slowness).min(LONGEST));
        strict_assert!(
            self.send <= LONGEST && self.one_way <= LONGEST,
            "a time is longer than the longest"
        );
        self
    }
}

/// Whether a request is for on-chip memory, which the NIC reaches without PCIe.
#[inline]
pub(super) fn is_on_chip(request: &WorkRequest) -> bool {
    request.remote().is_some_and(|(offset, _)| offset >= CHIP_BASE)
}

/// The payload bytes that a request carries to the responder.
pub(super) fn outgoing_bytes(request: &WorkRequest) -> u64 {
    match request {
        WorkRequest::Write { local, .. } => u64::from(local.len),
        WorkRequest::WriteWord { .. } => WORD as u64,
        WorkRequest::Send(_) => (Message::WORDS * WORD) as u64,
        // The addend, or the expected and the desired word.
        WorkRequest::FetchAdd { .. } => WORD as u64,
        WorkRequest::CompareSwap { .. } => 2 * WORD as u64,
        WorkRequest::Read { .. } | WorkRequest::ReadIf { .. } => 0,
    }
}

/// The payload bytes that the response to a request carries back.
pub(super) fn response_bytes(request: &WorkRequest) -> u64 {
    match request {
        WorkRequest::Read { local, .. } | WorkRequest::ReadIf { local, .. } => u64::from(local.len),
        WorkRequest::FetchAdd { .. } | WorkRequest::CompareSwap { .. } => WORD as u64,
        _ => 0,
    }
}
