//! Calibration: measures, on the model of a NIC, the figures that publications report for the NIC.
//!
//! Each figure of [`NicProfile::published`] is measured in a small world of its own, in the same
//! way as by the published micro-benchmark. Endpoints post verbs and poll for completions on
//! simulated CPUs, without a coherence protocol.
//!
//! ```text
//!   latency      one node ──1 verb at a time──► one memory node
//!   one way      SEND: one node ◄──ping-pong──► another node
//!                WRITE: one node ──1 verb at a time──► one memory node, until the bytes are there
//!   inbound      16 nodes of 4 workers ──many──► one memory node
//!   outbound     one node of 16 workers ──many──► 16 memory nodes
//!   one worker   one node of one worker ──128 requests──► one memory node
//!   all to all   6 nodes of 8 workers ──many──► each other
//!   bandwidth    one node of one worker ──16 requests──► one memory node
//! ```
//!
//! # Example
//!
//! ```
//! use latchwork_verbs_sim::{NicProfile, calibrate};
//!
//! let profile = NicProfile::named("connectx5").unwrap();
//! let latency = calibrate::measure(&profile, &profile.published[0]).unwrap();
//! assert!(latency.is_within(), "{} instead of {}", latency.simulated, latency.published.value);
//! ```

mod load;
mod one_way;
mod table;
mod world;

use crate::profile::{Measure, NicProfile, Published, Unit};
use load::{Load, Spread, Verb};

pub use table::CalibrationTable;
pub use world::CalibrateError;

/// A published figure, and the figure that the model gives for the same measurement.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub struct Figure {
    /// The published figure.
    pub published: Published,
    /// The figure of the model, in the same unit.
    pub simulated: f64,
}

impl Figure {
    /// The simulated figure divided by the published figure.
    pub fn ratio(&self) -> f64 {
        self.simulated / self.published.value
    }

    /// Whether the two figures differ by no more than the published figure's tolerance.
    pub fn is_within(&self) -> bool {
        (self.ratio() - 1.0).abs() <= self.published.tolerance
    }
}

/// Measures all published figures of a profile, in the order of the profile.
///
/// # Errors
/// [`CalibrateError`].
pub fn calibrate(profile: &NicProfile) -> Result<Vec<Figure>, CalibrateError> {
    profile.published.iter().map(|published| measure(profile, published)).collect()
}

/// Measures one published figure on the model of the profile.
///
/// # Errors
/// [`CalibrateError`].
pub fn measure(profile: &NicProfile, published: &Published) -> Result<Figure, CalibrateError> {
    let simulated = figure(profile, published.measure, published.bytes)?;
    Ok(Figure { published: published.clone(), simulated })
}

fn figure(profile: &NicProfile, measure: Measure, bytes: u32) -> Result<f64, CalibrateError> {
    use Measure::*;
    let read = || Load::new(Verb::Read(bytes));
    let write = || Load::new(Verb::Write(bytes));
    let atomic = |spread| Load::new(Verb::Atomic(spread)).inbound();
    let load = match measure {
        ReadLatency => read(),
        WriteLatency => write(),
        AtomicLatency => Load::new(Verb::Atomic(Spread::OneAddress)),
        WriteOneWay => return one_way::write(profile, bytes),
        SendOneWay => return one_way::send(profile),
        ReadInbound => read().inbound(),
        WriteInbound => write().inbound(),
        ReadOutbound => read().outbound(),
        WriteOutbound => write().outbound(),
        ReadWorker => read().one_worker(),
        WriteWorker => write().one_worker(),
        ReadSwarm => read().swarm(),
        AtomicOneAddress => atomic(Spread::OneAddress),
        AtomicOneBucket => atomic(Spread::OneBucket),
        AtomicManyAddresses => atomic(Spread::All),
        AtomicOnChip => atomic(Spread::Chip),
        ReadBandwidth => read().streaming(),
        WriteBandwidth => write().streaming(),
    };
    let ran = load.run(profile, measure)?;
    Ok(match measure.unit() {
        Unit::Micros => ran.micros_each,
        Unit::MillionPerSecond => ran.per_micro,
        Unit::GigabitPerSecond => ran.per_micro * f64::from(bytes) * 8.0 / 1000.0,
    })
}
