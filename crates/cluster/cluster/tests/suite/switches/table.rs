//! All settings, with each value that is worth a try.

use std::collections::BTreeSet;
use std::time::Duration;

use latchwork_cluster::{ClusterConfig, Member, Protocol};
use latchwork_workload::random::WorkloadRandom;

use crate::switches::load::{LINES, Load, Next, accesses};

/// Half of the accesses are to four popular lines, and half to any line.
fn skewed(_: &Member, random: &mut WorkloadRandom, _: usize) -> usize {
    let below = if random.below(2) == 0 { 4 } else { LINES as u64 };
    random.below(below) as usize
}

fn at_one(_: &Member, _: &mut WorkloadRandom, _: usize) -> usize {
    0
}

/// The result of a world in which nodes compete for lines and have small caches. The world also has
/// the conditions that this setting needs for an effect.
fn outcome(name: &str, value: Option<&str>) -> (Duration, String) {
    let load = Load { frames: LINES / 4, reads: 50, ..Load::default() };
    let (load, next): (_, Next) = match name {
        // Many local workers make accesses wait for each other.
        "lease" => (Load { reads: 0, workers: 8, ..load }, at_one),
        // The cache has more frames than an eviction samples.
        "evict-sample" => (Load { frames: LINES / 2, ..load }, skewed),
        _ => (load, skewed),
    };
    let mut settings: Vec<_> = value.map(|value| (name, value)).into_iter().collect();
    // This setting applies only to lines that are released early.
    settings.extend((name == "linger").then_some(("release", "adaptive")));
    let (time, counters) = accesses(load, Protocol::Selcc, &settings, next);
    (time, format!("{counters:?}"))
}

/// Other tests check what each setting does (docs/evidence/testing.md). This test checks that each
/// setting has an effect at all. With a NIC profile a world is the same each time, so any
/// difference comes from the setting.
#[test]
fn none_does_nothing() {
    let default = outcome("", None);
    assert_eq!(outcome("", None), default, "the same world twice");
    let mut without = BTreeSet::new();
    for setting in ClusterConfig::settings().iter().filter(|setting| !setting.tries.is_empty()) {
        let base = match setting.name {
            "lease" | "evict-sample" | "linger" => outcome(setting.name, None),
            _ => default.clone(),
        };
        let tries = setting.tries.iter();
        let same = tries.filter(|value| outcome(setting.name, Some(value)) == base);
        without.extend(same.map(|value| (setting.name, *value)));
    }
    assert!(without.is_empty(), "they change nothing: {without:?}");
}
