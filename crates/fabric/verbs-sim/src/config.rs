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
    /// The times, and the permitted reorderings.
    pub timing: Timing,
    /// Limit of READs and atomics in flight from one endpoint to one target (at least a batch).
    pub reads_max: usize,
    /// Limit of requests in flight from one endpoint to one target (at least a batch).
    pub requests_max: usize,
    /// Limit of messages that wait in the inbox of one compute node, at least 1.
    pub inbox_capacity: usize,
    /// Time after which a message that met a full inbox tries again.
    pub inbox_retry: Duration,
    /// The faults that happen by chance; [`SimFabric::set_faults`](crate::SimFabric::set_faults)
    /// changes them later.
    pub faults: Faults,
    /// READs and WRITEs copy only this many of their first bytes, and take the time of all bytes.
    /// This is for measurements of protocols, where the rest is never read. A multiple of 8; `None`
    /// copies all.
    pub payload_max: Option<u32>,
    /// Whether a poster learns that no request of a failed batch was sent
    /// ([`VerbError::Unreachable`](latchwork_verbs::VerbError::Unreachable)). A fabric of
    /// connections can report this. With false, such batches end as `Disconnected`.
    pub tells_unsent: bool,
    /// Whether batches to a node that was [removed](crate::SimFabric::remove_peer) never end. This
    /// is a seeded bug of a fabric: tests use it to show that their checks notice it.
    pub strands: bool,
}

/// The source of all times.
#[derive(Clone, PartialEq, Debug)]
pub enum Timing {
    /// Times that the seed draws, with the reorderings that the contract permits: for finding
    /// races.
    Drawn(Drawn),
    /// The times of this kind of NIC: for measurements.
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
            tells_unsent: false,
            strands: false,
        }
    }
}

impl SimConfig {
    /// [`Drawn::rough`], with the usual limits.
    pub fn rough() -> Self {
        SimConfig::drawn(Drawn::rough())
    }

    /// Drawn times, with the usual limits.
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

    /// Raises limits that are too small to the smallest possible value, and rounds `payload_max`
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
