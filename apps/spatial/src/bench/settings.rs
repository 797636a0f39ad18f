//! The settings of the benchmark.

use std::time::Duration;

use latchwork_harness::{AppError, Plan, Warmup};
use latchwork_workload::spatial::{ObjectConfig, SpatialKind, SpatialMix, SpatialPlaces};
use serde_json::{Value, json};

use crate::args::{BenchFlags, CommonFlags, Distribution};

/// Operations to measure if the run has no limit.
const OPERATIONS_DEFAULT: u64 = 200_000;

/// A rate of inserts that no run reaches, in real time and in virtual time, for the size of memory.
const INSERTS_S: f64 = 500_000.0;
const INSERTS_S_VIRTUAL: f64 = 5_000_000.0;

/// The settings of the benchmark.
pub(crate) struct BenchSettings {
    places: SpatialPlaces,
    distribution: Distribution,
    mix: SpatialMix,
    entries: u64,
    /// The part of the square that a window has.
    selectivity: f64,
    side: f64,
    step: f64,
    seed: u64,
    operations: Option<u64>,
    time: Option<Duration>,
    warmup: Duration,
    inserts_s: f64,
    /// Entries that a query for the nearest returns.
    pub(crate) neighbours: usize,
    /// The clusters, their spread, and how they wander.
    spots: (u64, f64, f64, u64),
}

impl BenchSettings {
    /// Combines the flags.
    ///
    /// # Errors
    /// One line about the first impossible setting.
    pub(crate) fn new(
        bench: &BenchFlags,
        flags: &CommonFlags,
        is_simulated: bool,
    ) -> Result<BenchSettings, AppError> {
        let seed = flags.common.cluster.seed;
        let CommonFlags { spots, spread, spot_skew, wander, .. } = *flags;
        let places = match bench.distribution {
            Distribution::Uniform => SpatialPlaces::Uniform,
            Distribution::Clustered => SpatialPlaces::clustered(spots, spread, seed),
            Distribution::Hotspots => {
                let places = SpatialPlaces::hot_spots(spots, (spread, spot_skew), wander, seed);
                places.map_err(|error| {
                    AppError::Usage(format!("--set spot-skew={spot_skew}: {error}"))
                })?
            }
        };
        let none = bench.operations.is_none() && bench.time.is_none();
        Ok(BenchSettings {
            places,
            distribution: bench.distribution,
            mix: bench.workload,
            entries: bench.entries,
            selectivity: bench.selectivity / 100.0,
            side: flags.side,
            step: flags.step,
            seed,
            operations: bench.operations.or(none.then_some(OPERATIONS_DEFAULT)),
            time: bench.time,
            warmup: bench.warmup,
            inserts_s: if is_simulated { INSERTS_S_VIRTUAL } else { INSERTS_S },
            neighbours: flags.neighbours,
            spots: (spots, spread, spot_skew, wander),
        })
    }

    /// The objects of a run with so many clients.
    pub(crate) fn objects(&self, clients: u64) -> ObjectConfig {
        ObjectConfig {
            places: self.places.clone(),
            mix: self.mix,
            entries: self.entries,
            clients,
            side_max: self.side,
            window_side: self.selectivity.sqrt(),
            step_max: self.step,
            seed: self.seed,
        }
    }

    /// The plan of the run.
    pub(crate) fn plan(&self) -> Plan {
        let warmup = match self.warmup {
            Duration::ZERO => Warmup::Operations(0),
            time => Warmup::Time(time),
        };
        Plan { warmup, operations: self.operations, time: self.time }
    }

    /// Entries at the begin.
    pub(crate) fn entries(&self) -> u64 {
        self.entries
    }

    /// Entries at the end, at most.
    pub(crate) fn entries_max(&self) -> u64 {
        let inserts = self.mix.share(SpatialKind::Insert);
        let seconds = |time: Duration| time.as_secs_f64() * self.inserts_s;
        let by_time = self.time.map_or(f64::INFINITY, seconds);
        let measured = self.operations.map_or(by_time, |count| by_time.min(count as f64));
        self.entries + (inserts * (measured + seconds(self.warmup))) as u64
    }

    /// The settings for a result document.
    pub(crate) fn describe(&self) -> Value {
        let (spots, spread, skew, wander) = self.spots;
        let is_uniform = self.distribution == Distribution::Uniform;
        let wanders = self.distribution == Distribution::Hotspots;
        json!({
            "entries": self.entries,
            "workload": self.mix.to_string(),
            "distribution": match self.distribution {
                Distribution::Uniform => "uniform",
                Distribution::Clustered => "clustered",
                Distribution::Hotspots => "hotspots",
            },
            "selectivity": self.selectivity,
            "side": self.side,
            "step": self.step,
            "neighbours": self.neighbours,
            "warmup_s": self.warmup.as_secs_f64(),
            "spots": (!is_uniform).then_some(spots),
            "spread": (!is_uniform).then_some(spread),
            "spot_skew": wanders.then_some(skew),
            "wander": wanders.then_some(wander),
            "operations": self.operations,
            "time_s": self.time.map(|time| time.as_secs_f64()),
        })
    }

    /// The workload in words, for people.
    pub(crate) fn in_words(&self) -> String {
        let described = self.describe();
        let of = |name: &str| described[name].as_str().unwrap_or_default();
        format!(
            "{} on {} objects, {}; windows of {} % of the square",
            of("workload"),
            self.entries,
            of("distribution"),
            100.0 * self.selectivity
        )
    }
}
