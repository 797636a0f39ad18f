//! What the worlds of all measurements share: errors, the time limit, the configuration.

use std::sync::Arc;

use latchwork_simulation::RunEnd;
use latchwork_verbs::{Region, SetupError};

use crate::config::SimConfig;
use crate::profile::{Measure, NicProfile};

/// Why a measurement gave no figure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CalibrateError {
    /// The world of a measurement cannot be made.
    #[error("the world of a measurement cannot be made: {0}")]
    Setup(#[from] SetupError),
    /// The world ended early, or exceeded the time limit.
    #[error(
        "{measure}: no end after {seconds} s of virtual time ({end:?}): are the times of the profile that long?"
    )]
    World {
        /// The measure.
        measure: Measure,
        /// The limit of virtual time.
        seconds: u64,
        /// How the world ended.
        end: RunEnd,
    },
}

/// The limit of virtual time for a measurement, in seconds.
pub(super) const LIMIT_SECONDS: u64 = 100;

pub(super) fn zeroed(bytes: u64) -> Result<Arc<Region>, SetupError> {
    Ok(Region::zeroed(bytes as usize)?)
}

/// The configuration of a measurement. A READ or WRITE copies only 8 bytes, because no measurement
/// reads the other bytes.
pub(super) fn config(profile: &NicProfile) -> SimConfig {
    SimConfig { payload_max: Some(8), ..SimConfig::nic(profile.clone()) }
}
