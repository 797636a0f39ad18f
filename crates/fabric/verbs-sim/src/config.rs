//! [`SimConfig`]: what a simulated fabric is like.

use std::time::Duration;

use latchwork_verbs::BATCH_MAX;

use crate::drawn::Drawn;
use crate::faults::Faults;
use crate::profile::NicProfile;

/// What the simulated network and its NICs are like.
#[derive(Clone, PartialEq, Debug)]
pub struct SimConfig {
    /// How long things take, and which freedoms are used.
    pub timing: Timing,
    /// READs and atomics of one endpoint to one target under way at most (at least a batch).
    pub reads_max: usize,
    /// Requests of one endpoint to one target under way at most (at least a batch).
    pub requests_max: usize,
    /// Messages that wait in the inbox of one compute node at most, at least 1.
    pub inbox_capacity: usize,
    /// When a message that met a full inbox tries again.
    pub inbox_retry: Duration,
    /// What goes wrong by chance; [`Fabric::set_faults`](crate::Fabric::set_faults) changes it
    /// later.
    pub faults: Faults,
    /// READs and WRITEs copy only so many of their first bytes, although they take the time of all:
    /// for measuring protocols, where nobody looks at the rest. A multiple of 8; `None` copies all.
    pub payload_max: Option<u32>,
    /// Whether it is told of batches that nothing of them was sent
    /// ([`VerbError::Unreachable`](latchwork_verbs::VerbError::Unreachable)), as a fabric of
    /// connections can; otherwise they only fail.
    pub tells_unsent: bool,
    /// Whether batches to a node that was [removed](crate::Fabric::remove_peer) never end. A
    /// fabric's bug: only tests want it, which show that it would be noticed.
    pub strands: bool,
}

/// How long things take.
#[derive(Clone, PartialEq, Debug)]
pub enum Timing {
    /// As the seed draws, with every reordering that the contract permits: for looking for races.
    Drawn(Drawn),
    /// As NICs of this kind take: for measuring.
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

    /// The limits, as far as they make sense.
    pub(crate) fn sane(mut self) -> Self {
        if let Timing::Drawn(drawn) = &mut self.timing {
            drawn.make_sane();
        }
        self.reads_max = self.reads_max.max(BATCH_MAX);
        self.requests_max = self.requests_max.max(BATCH_MAX);
        self.inbox_capacity = self.inbox_capacity.max(1);
        self.payload_max = self.payload_max.map(|bytes| bytes & !7);
        self
    }
}
