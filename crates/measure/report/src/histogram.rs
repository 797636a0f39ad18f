//! Latencies of operations by kind, in nanoseconds.

use std::marker::PhantomData;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The longest latency that a histogram distinguishes. Longer latencies are recorded as this value.
const LATENCY_MAX: Duration = Duration::from_secs(600);

/// Significant decimal digits that a recorded latency keeps.
const DIGITS: u8 = 3;

/// The kinds of operations of a program. Each kind has its own measurements.
pub trait OperationKindSet: Copy {
    /// The name of each kind. YCSB's names are in capitals.
    const NAMES: &'static [&'static str];

    /// The index of this kind in [`NAMES`](OperationKindSet::NAMES).
    fn index(self) -> usize;
}

/// The end of an unsuccessful operation, by the names of YCSB's status codes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OperationFailure {
    /// The store reported an error.
    Error,
    /// The record did not exist.
    NotFound,
    /// The content of the record is not the content of any write.
    UnexpectedState,
}

impl OperationFailure {
    const ALL: [OperationFailure; 3] =
        [OperationFailure::Error, OperationFailure::NotFound, OperationFailure::UnexpectedState];

    /// YCSB's name.
    pub fn name(self) -> &'static str {
        match self {
            OperationFailure::Error => "ERROR",
            OperationFailure::NotFound => "NOT_FOUND",
            OperationFailure::UnexpectedState => "UNEXPECTED_STATE",
        }
    }
}

/// Measurements of one kind.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Series {
    #[serde(with = "sparse")]
    measured: Histogram<u64>,
    #[serde(with = "sparse_if_any")]
    intended: Option<Histogram<u64>>,
    failures: [u64; OperationFailure::ALL.len()],
}

/// The latencies of one worker, or of many after [`merge`](Latencies::merge).
///
/// With a target rate, a slow operation delays the operations behind it. Latencies from the real
/// starts hide that delay (coordinated omission). So under a target rate each latency is recorded
/// twice: from the real start, and from the intended start in the schedule.
///
/// ```
/// use std::time::Duration;
///
/// use latchwork_report::histogram::{Latencies, OperationKindSet};
///
/// #[derive(Clone, Copy)]
/// enum Kind {
///     Read,
/// }
///
/// impl OperationKindSet for Kind {
///     const NAMES: &'static [&'static str] = &["READ"];
///
///     fn index(self) -> usize {
///         self as usize
///     }
/// }
///
/// let mut worker = Latencies::new();
/// for us in 1..=100 {
///     worker.record(Kind::Read, Duration::from_micros(us), None);
/// }
/// let mut all = Latencies::new();
/// all.merge(&worker);
/// let read = &all.measured()[0];
/// assert_eq!((read.name.as_str(), read.ok), ("READ", 100));
/// assert!((read.latency.unwrap().p95 - 95.0).abs() < 0.1);
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Latencies<K> {
    series: Vec<Option<Box<Series>>>,
    #[serde(skip)]
    kinds: PhantomData<K>,
}

/// A summary of the measurements of one kind.
#[derive(Clone, PartialEq, Debug)]
pub struct Measured {
    /// The kind.
    pub name: String,
    /// Successful operations.
    pub ok: u64,
    /// Unsuccessful operations by the name of their status, without zeros.
    pub failed: Vec<(&'static str, u64)>,
    /// Latencies of the successful operations from their real starts, if there are any.
    pub latency: Option<LatencySummary>,
    /// The same latencies from the intended starts, under a target rate.
    pub intended: Option<LatencySummary>,
}

/// A histogram in a few numbers. All fields except `count` are in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct LatencySummary {
    /// Operations.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// Shortest.
    pub min: f64,
    /// Median.
    pub p50: f64,
    /// 95 % took at most this long.
    pub p95: f64,
    /// 99 % took at most this long.
    pub p99: f64,
    /// 99.9 % took at most this long.
    pub p999: f64,
    /// Longest.
    pub max: f64,
}

/// The transfer form of a histogram between processes: the recorded values with their counts.
mod sparse {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{Histogram, empty};

    pub(super) fn counts(histogram: &Histogram<u64>) -> Vec<(u64, u64)> {
        let recorded = histogram.iter_recorded();
        recorded.map(|at| (at.value_iterated_to(), at.count_at_value())).collect()
    }

    pub(super) fn rebuilt(counts: Vec<(u64, u64)>) -> Histogram<u64> {
        let mut histogram = empty();
        for (value, count) in counts {
            histogram.saturating_record_n(value, count);
        }
        histogram
    }

    pub(super) fn serialize<S: Serializer>(
        histogram: &Histogram<u64>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        counts(histogram).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Histogram<u64>, D::Error> {
        Vec::deserialize(from).map(rebuilt)
    }
}

/// As [`sparse`], for an optional histogram.
mod sparse_if_any {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{Histogram, sparse};

    pub(super) fn serialize<S: Serializer>(
        histogram: &Option<Histogram<u64>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        histogram.as_ref().map(sparse::counts).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Histogram<u64>>, D::Error> {
        Ok(Option::deserialize(from)?.map(sparse::rebuilt))
    }
}

fn nanos(latency: Duration) -> u64 {
    u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX)
}

fn empty() -> Histogram<u64> {
    Histogram::new_with_bounds(1, nanos(LATENCY_MAX), DIGITS)
        .expect("the bounds are constants that the histogram can have")
}

fn summary(histogram: &Histogram<u64>) -> Option<LatencySummary> {
    let us = |ns: u64| ns as f64 / 1000.0;
    let quantile = |q: f64| us(histogram.value_at_quantile(q).min(histogram.max()));
    (!histogram.is_empty()).then(|| LatencySummary {
        count: histogram.len(),
        mean: histogram.mean() / 1000.0,
        min: us(histogram.min()),
        p50: quantile(0.5),
        p95: quantile(0.95),
        p99: quantile(0.99),
        p999: quantile(0.999),
        max: us(histogram.max()),
    })
}

fn add(to: &mut Histogram<u64>, from: &Histogram<u64>) {
    to.add(from).expect("all histograms here have the same bounds");
}

impl Series {
    fn new() -> Box<Series> {
        Box::new(Series {
            measured: empty(),
            intended: None,
            failures: [0; OperationFailure::ALL.len()],
        })
    }
}

impl<K: OperationKindSet> Latencies<K> {
    /// Latencies without any measurement.
    pub fn new() -> Latencies<K> {
        Latencies { series: K::NAMES.iter().map(|_| None).collect(), kinds: PhantomData }
    }

    fn series(&mut self, kind: K) -> &mut Series {
        self.series[kind.index()].get_or_insert_with(Series::new)
    }

    /// Records a successful operation: its latency from the real start, and its latency from the
    /// intended start if the run has a target rate.
    ///
    /// The first latency of a kind allocates a histogram. The first latency of a kind from an
    /// intended start allocates another.
    #[inline]
    pub fn record(&mut self, kind: K, latency: Duration, since_intended: Option<Duration>) {
        let series = self.series(kind);
        series.measured.saturating_record(nanos(latency));
        if let Some(since) = since_intended {
            series.intended.get_or_insert_with(empty).saturating_record(nanos(since));
        }
    }

    /// Counts a failed operation. Its latency is not recorded.
    pub fn record_failure(&mut self, kind: K, failure: OperationFailure) {
        self.series(kind).failures[failure as usize] += 1;
    }

    /// Adds all measurements of `other`.
    pub fn merge(&mut self, other: &Latencies<K>) {
        for (mine, theirs) in self.series.iter_mut().zip(&other.series) {
            let Some(theirs) = theirs else { continue };
            let mine = mine.get_or_insert_with(Series::new);
            add(&mut mine.measured, &theirs.measured);
            if let Some(intended) = &theirs.intended {
                add(mine.intended.get_or_insert_with(empty), intended);
            }
            for (mine, theirs) in mine.failures.iter_mut().zip(theirs.failures) {
                *mine += theirs;
            }
        }
    }

    /// Successful operations.
    pub fn ok(&self) -> u64 {
        self.series.iter().flatten().map(|series| series.measured.len()).sum()
    }

    /// Failed operations.
    pub fn failed(&self) -> u64 {
        self.series.iter().flatten().map(|series| series.failures.iter().sum::<u64>()).sum()
    }

    /// The `q`-quantile (`q` from 0 to 1) of the latencies of a kind from the real starts. `None`
    /// without a successful operation of the kind.
    pub fn quantile(&self, kind: K, q: f64) -> Option<Duration> {
        let histogram = &self.series[kind.index()].as_ref()?.measured;
        let ns = || histogram.value_at_quantile(q).min(histogram.max());
        (!histogram.is_empty()).then(|| Duration::from_nanos(ns()))
    }

    /// The name, the latencies from the real starts, and the failures of each kind that occurred.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = (&'static str, &Histogram<u64>, u64)> {
        let named = K::NAMES.iter().zip(&self.series);
        named.filter_map(|(name, series)| {
            let series = series.as_deref()?;
            Some((*name, &series.measured, series.failures.iter().sum()))
        })
    }

    /// The kinds that occurred, in the order of [`NAMES`](OperationKindSet::NAMES).
    pub fn measured(&self) -> Vec<Measured> {
        let named = K::NAMES.iter().zip(&self.series);
        named
            .filter_map(|(name, series)| Some((name, series.as_deref()?)))
            .map(|(name, series)| {
                let failed = OperationFailure::ALL.map(|f| (f.name(), series.failures[f as usize]));
                Measured {
                    name: (*name).to_owned(),
                    ok: series.measured.len(),
                    failed: failed.into_iter().filter(|(_, count)| *count > 0).collect(),
                    latency: summary(&series.measured),
                    intended: series.intended.as_ref().and_then(summary),
                }
            })
            .filter(|measured| measured.ok > 0 || !measured.failed.is_empty())
            .collect()
    }
}

impl<K: OperationKindSet> Default for Latencies<K> {
    fn default() -> Latencies<K> {
        Latencies::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::OperationKind::{Insert, Read, Update};

    const US: Duration = Duration::from_micros(1);

    #[test]
    fn nanoseconds_are_kept_to_three_digits() {
        let mut latencies = Latencies::new();
        for ns in [83, 1_234, 56_789_000] {
            latencies.record(Read, Duration::from_nanos(ns), None);
        }
        let read = latencies.measured()[0].latency.unwrap();
        assert_eq!(read.min, 0.083);
        assert!((read.p50 - 1.234).abs() < 0.002, "{}", read.p50);
        assert!((read.max - 56_789.0).abs() < 60.0, "{}", read.max);
    }

    #[test]
    fn merging_adds_kinds_failures_and_intended_latencies() {
        let (mut a, mut b) = (Latencies::new(), Latencies::new());
        a.record(Read, US, Some(3 * US));
        b.record(Read, 2 * US, Some(2 * US));
        b.record(Insert, US, None);
        b.record_failure(Update, OperationFailure::NotFound);
        b.record_failure(Read, OperationFailure::UnexpectedState);
        a.merge(&b);
        assert_eq!((a.ok(), a.failed()), (3, 2));
        let measured = a.measured();
        let names: Vec<&str> = measured.iter().map(|m| m.name.as_str()).collect();
        assert_eq!(names, ["READ", "UPDATE", "INSERT"]);
        assert_eq!(measured[0].failed, [("UNEXPECTED_STATE", 1)]);
        assert_eq!(measured[0].intended.unwrap().count, 2);
        assert_eq!((measured[1].ok, measured[1].latency), (0, None));
        assert_eq!(measured[2].intended, None);
    }

    #[test]
    fn a_stall_shows_in_intended_latencies_only() {
        let mut latencies = Latencies::new();
        // One operation stalls for a millisecond; the next hundred operations are due during the
        // stall.
        latencies.record(Read, 1000 * US, Some(1000 * US));
        for behind in 1..=100 {
            latencies.record(Read, US, Some((1000 - 10 * behind) * US + US));
        }
        let read = &latencies.measured()[0];
        assert!(read.latency.unwrap().p95 < 1.1);
        assert!(read.intended.unwrap().p95 > 900.0);
    }

    #[test]
    fn a_latency_beyond_the_scale_is_the_longest_not_a_panic() {
        let mut latencies = Latencies::new();
        latencies.record(Read, Duration::MAX, None);
        latencies.record(Read, Duration::ZERO, None);
        assert_eq!(latencies.ok(), 2);
        assert!(latencies.measured()[0].latency.unwrap().max > 5.9e8);
    }
}
