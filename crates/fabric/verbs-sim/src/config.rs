//! [`SimConfig`]: the properties of a simulated fabric.

use std::time::Duration;

use latchwork_strict::strict_assert;
use latchwork_verbs::BATCH_MAX;

use crate::drawn::Drawn;
use crate::faults::Faults;
use crate::profile::NicProfile;

/// The properties of the simulated network and its NICs.
#[derive(Clone, PartialEq, Debug)]
pub struct SimConfig {
    /// The source of all times, and the permitted reorderings.
    pub timing: Timing,
    /// The largest number of READs and atomics in flight from one endpoint to one target. A value
    /// below [`BATCH_MAX`] counts as [`BATCH_MAX`].
    pub reads_max: usize,
    /// The largest number of requests in flight from one endpoint to one target. A value below
    /// [`BATCH_MAX`] counts as [`BATCH_MAX`].
    pub requests_max: usize,
    /// The largest number of messages in the inbox of one compute node, at least 1.
    pub inbox_capacity: usize,
    /// The time after which a message that found a full inbox tries again.
    pub inbox_retry: Duration,
    /// The faults that happen by chance; [`SimFabric::set_faults`](crate::SimFabric::set_faults)
    /// changes them later.
    pub faults: Faults,
    /// READs and WRITEs copy only this many of their first bytes, but take the time of all bytes.
    /// This is for measurements that do not read the other bytes. A multiple of 8; `None` copies
    /// all bytes.
    pub payload_max: Option<u32>,
    /// The length in bytes up to which a WRITE to a memory node is whole if its sender dies, or if
    /// its connection fails. Of a longer WRITE that is next in its batch when the sender dies,
    /// memory gets a drawn number of the first words. `u32::MAX`, the default: each WRITE is whole
    /// if its sender dies, nothing is drawn, and a failing connection tears any WRITE.
    pub whole_write: u32,
    /// Whether a poster learns that no request of a failed batch was sent
    /// ([`VerbError::Unreachable`](latchwork_verbs::VerbError::Unreachable)). Real fabrics with
    /// connections can report this. With false, a batch that was not sent ends as `Disconnected`.
    pub tells_unsent: bool,
    /// Whether batches to a node that was [removed](crate::SimFabric::remove_peer) never end. This
    /// is a seeded bug: tests use it to show that a check detects batches without an end.
    pub strands: bool,
}

/// The source of all times.
#[derive(Clone, PartialEq, Debug)]
pub enum Timing {
    /// Random times, drawn from the seed, with the reorderings that the contract permits. For
    /// finding races.
    Drawn(Drawn),
    /// The times of this kind of NIC. For measurements.
    Nic(NicProfile),
}

impl Default for SimConfig {
    fn default() -> Self {
        SimConfig {
            timing: Timing::Drawn(Drawn::default()),
            reads_max: 16,
            requests_max: 128,
            inbox_capacity: 1024,
            inbox_retry: Duration::from_micros(5),
            faults: Faults::NONE,
            payload_max: None,
            whole_write: u32::MAX,
            tells_unsent: false,
            strands: false,
        }
    }
}

impl SimConfig {
    /// The times of [`Drawn::rough`], with the default limits.
    pub fn rough() -> Self {
        SimConfig::drawn(Drawn::rough())
    }

    /// Drawn times, with the default limits.
    pub fn drawn(drawn: Drawn) -> Self {
        SimConfig { timing: Timing::Drawn(drawn), ..SimConfig::default() }
    }

    /// The times and limits of a kind of NIC.
    pub fn nic(profile: NicProfile) -> Self {
        SimConfig {
            reads_max: profile.reads_max as usize,
            requests_max: profile.requests_max as usize,
            timing: Timing::Nic(profile),
            ..SimConfig::default()
        }
    }

    /// Raises each limit that is too small to its smallest possible value, and rounds `payload_max`
    /// down to whole words.
    pub(crate) fn sane(mut self) -> Self {
        if let Timing::Drawn(drawn) = &mut self.timing {
            drawn.make_sane();
        }
        self.reads_max = self.reads_max.max(BATCH_MAX);
        self.requests_max = self.requests_max.max(BATCH_MAX);
        self.inbox_capacity = self.inbox_capacity.max(1);
        strict_assert!(
            self.reads_max >= BATCH_MAX
                && self.requests_max >= BATCH_MAX
                && self.inbox_capacity > 0,
            "a batch never fits its send queue"
        );
        self.payload_max = self.payload_max.map(|bytes| bytes & !7);
        strict_assert!(
            self.payload_max.is_none_or(|bytes| bytes.is_multiple_of(8)),
            "a payload is cut inside a word"
        );
        self
    }
}
