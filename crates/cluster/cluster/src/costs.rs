//! The CPU costs of work, from a NIC profile.

use std::time::Duration;

use latchwork_engine::CpuCosts;
use latchwork_verbs_sim::CpuProfile;

/// The costs of work on cached lines, for `NodeSettings::costs`. The simulated fabric charges the
/// other costs of the profile.
pub(crate) fn cpu_costs(profile: &CpuProfile) -> CpuCosts {
    CpuCosts {
        hit: Duration::from_nanos(profile.hit_ns),
        copy_per_kib: Duration::from_nanos(profile.copy_ns_per_kib),
        latch_hold: Duration::from_nanos(profile.latch_ns),
        message: Duration::from_nanos(profile.message_ns),
    }
}
