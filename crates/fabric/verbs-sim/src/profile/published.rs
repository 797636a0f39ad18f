//! [`Published`]: a published measurement, with which calibration compares the model.

use std::fmt;

use latchwork_verbs::{Message, WORD};
use serde::{Deserialize, Serialize};

use super::fields;

/// One published figure.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(try_from = "RawPublished")]
pub struct Published {
    /// What was measured.
    pub measure: Measure,
    /// Payload of each request, where the measure has a payload.
    pub bytes: u32,
    /// The figure.
    pub value: f64,
    /// The unit of the measure.
    pub unit: Unit,
    /// Permitted difference between the model's figure and this figure, as a part of this figure.
    pub tolerance: f64,
    /// The publication that has the figure.
    pub source: String,
}

/// A figure as a profile file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPublished {
    measure: Measure,
    #[serde(default, deserialize_with = "fields::bytes")]
    bytes: Option<u32>,
    #[serde(deserialize_with = "fields::value")]
    value: f64,
    unit: Unit,
    #[serde(deserialize_with = "fields::tolerance")]
    tolerance: f64,
    #[serde(deserialize_with = "fields::text")]
    source: String,
}

impl TryFrom<RawPublished> for Published {
    type Error = String;

    fn try_from(raw: RawPublished) -> Result<Published, String> {
        let RawPublished { measure, bytes, value, unit, tolerance, source } = raw;
        if unit != measure.unit() {
            return Err(format!("{measure}: the unit must be {:?}", measure.unit().to_string()));
        }
        let bytes = match (measure.fixed_bytes(), bytes) {
            (Some(fixed), None) => fixed,
            (None, Some(bytes)) => bytes,
            (Some(_), Some(_)) => return Err(format!("{measure}: this measure has no `bytes`")),
            (None, None) => return Err(format!("{measure}: this measure needs `bytes`")),
        };
        Ok(Published { measure, bytes, value, unit, tolerance, source })
    }
}

/// What a micro-benchmark measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// One READ at a time, from posting to its completion.
    ReadLatency,
    /// One WRITE at a time, from posting to its completion.
    WriteLatency,
    /// One atomic at a time, from posting to its completion.
    AtomicLatency,
    /// Half of a ping-pong of WRITEs. A polling CPU sees each WRITE in memory.
    WriteOneWay,
    /// Half of a ping-pong of SENDs between two CPUs.
    SendOneWay,
    /// READs of many nodes, served by one NIC.
    ReadInbound,
    /// WRITEs of many nodes, served by one NIC.
    WriteInbound,
    /// READs of many workers of one node, to many targets.
    ReadOutbound,
    /// WRITEs of many workers of one node, to many targets.
    WriteOutbound,
    /// READs of one worker to one target.
    ReadWorker,
    /// WRITEs of one worker to one target.
    WriteWorker,
    /// READs of many nodes, each to all other nodes; the rate of one node.
    ReadSwarm,
    /// Atomics of many nodes on one word.
    AtomicOneAddress,
    /// Atomics of many nodes on words whose addresses differ only above the bucket bits.
    AtomicOneBucket,
    /// Atomics of many nodes on words all over the memory.
    AtomicManyAddresses,
    /// Atomics of many nodes on words all over the on-chip memory.
    AtomicOnChip,
    /// The bytes per second of READs from one node to another.
    ReadBandwidth,
    /// The bytes per second of WRITEs from one node to another.
    WriteBandwidth,
}

impl Measure {
    /// The unit of the measure's figures.
    pub const fn unit(self) -> Unit {
        use Measure::*;
        match self {
            ReadLatency | WriteLatency | AtomicLatency | WriteOneWay | SendOneWay => Unit::Micros,
            ReadBandwidth | WriteBandwidth => Unit::GigabitPerSecond,
            _ => Unit::MillionPerSecond,
        }
    }

    /// The payload in bytes, if the measure has a fixed payload: one word, or one message.
    pub(crate) const fn fixed_bytes(self) -> Option<u32> {
        use Measure::*;
        match self {
            AtomicLatency | AtomicOneAddress | AtomicOneBucket | AtomicManyAddresses
            | AtomicOnChip => Some(8),
            SendOneWay => Some((Message::WORDS * WORD) as u32),
            _ => None,
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Measure::*;
        f.write_str(match self {
            ReadLatency => "READ latency",
            WriteLatency => "WRITE latency",
            AtomicLatency => "atomic latency",
            WriteOneWay => "WRITE one way",
            SendOneWay => "SEND one way",
            ReadInbound => "READs inbound",
            WriteInbound => "WRITEs inbound",
            ReadOutbound => "READs outbound",
            WriteOutbound => "WRITEs outbound",
            ReadWorker => "READs of one worker",
            WriteWorker => "WRITEs of one worker",
            ReadSwarm => "READs, all to all",
            AtomicOneAddress => "atomics, one address",
            AtomicOneBucket => "atomics, one bucket",
            AtomicManyAddresses => "atomics, many addresses",
            AtomicOnChip => "atomics, on chip",
            ReadBandwidth => "READ bandwidth",
            WriteBandwidth => "WRITE bandwidth",
        })
    }
}

/// The unit of a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Unit {
    /// Microseconds.
    #[serde(rename = "us")]
    Micros,
    /// Millions of requests per second.
    #[serde(rename = "Mops")]
    MillionPerSecond,
    /// Payload, in 10^9 bits per second.
    #[serde(rename = "Gbit/s")]
    GigabitPerSecond,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unit::Micros => "us",
            Unit::MillionPerSecond => "Mops",
            Unit::GigabitPerSecond => "Gbit/s",
        })
    }
}
