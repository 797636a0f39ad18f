//! The operations of one worker, drawn one after the other.

use std::sync::Arc;

use super::content::FieldIndex;
use super::inserts::InsertCounter;
use super::key::RecordNumber;
use super::operation::{Fields, YcsbOperation};
use super::settings::{CoreWorkload, RequestDistribution, ScanLengthDistribution};
use crate::WorkloadError;
use crate::distribution::{
    Discrete, Exponential, Hotspot, LatestDistribution, ScaledZipfian, ScrambledZipfian,
    Sequential, Uniform, YCSB_THETA, Zipfian,
};
use crate::random::WorkloadRandom;

/// A draw can give a record that is not inserted yet. After this many such draws, a loaded record
/// is drawn uniformly.
const REDRAWS_MAX: u32 = 256;

/// One worker among all workers of all compute nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorkerIndex {
    /// The worker's number, from 0.
    pub index: u64,
    /// The number of workers.
    pub count: u64,
}

/// The distribution of requested records. Its item 0 is the first loaded record. The items of
/// inserted records follow those of the loaded ones.
#[derive(Clone, Debug)]
enum Requests {
    Uniform(Uniform),
    ZipfianRecords(Zipfian),
    Scaled(ScaledZipfian),
    ScrambledZipfian(ScrambledZipfian),
    Latest(LatestDistribution),
    Hotspot(Hotspot),
    Sequential(Sequential),
    Exponential(Exponential),
}

#[derive(Clone, Debug)]
enum ScanLengths {
    Uniform(Uniform),
    Zipfian(Zipfian),
}

/// An endless stream of operations. Without inserts, the stream follows from the workload, the
/// worker and the seed. Drawing allocates nothing.
///
/// ```
/// use latchwork_workload::ycsb::{
///     Builtin, InsertCounter, OperationStream, WorkerIndex, YcsbOperation,
/// };
/// use std::sync::Arc;
///
/// let workload = Builtin::D.workload()?;
/// let inserts = Arc::new(InsertCounter::new(workload.first_insert()));
/// let worker = WorkerIndex { index: 0, count: 4 };
/// let stream = OperationStream::new(&workload, &inserts, worker, 42)?;
/// for operation in stream.take(100) {
///     if let YcsbOperation::Insert { record } = operation {
///         inserts.acknowledge(record); // once it is in the store
///     }
/// }
/// # Ok::<(), latchwork_workload::WorkloadError>(())
/// ```
#[derive(Debug)]
pub struct OperationStream {
    random: WorkloadRandom,
    mix: Discrete<6>,
    requests: Requests,
    first: u64,
    loaded: u64,
    first_insert: u64,
    fields: u64,
    read_all_fields: bool,
    write_all_fields: bool,
    scan_lengths: ScanLengths,
    scan_min: u32,
    upserts: Discrete<2>,
    inserts: Arc<InsertCounter>,
}

impl OperationStream {
    /// The stream of one worker. `inserts` is shared by all workers and starts at
    /// [`CoreWorkload::first_insert`].
    ///
    /// # Errors
    ///
    /// Fails when a distribution is impossible.
    pub fn new(
        workload: &CoreWorkload,
        inserts: &Arc<InsertCounter>,
        worker: WorkerIndex,
        seed: u64,
    ) -> Result<OperationStream, WorkloadError> {
        let scan = workload.scan_length;
        let lengths = u64::from(scan.max - scan.min.min(scan.max)) + 1;
        Ok(OperationStream {
            random: WorkloadRandom::for_stream(seed, worker.index),
            mix: Discrete::new(workload.mix.weights())?,
            requests: Requests::new(workload, worker)?,
            first: workload.records.start,
            loaded: workload.record_count(),
            first_insert: workload.first_insert().0,
            fields: u64::from(workload.layout.fields()),
            read_all_fields: workload.read_all_fields,
            write_all_fields: workload.write_all_fields,
            scan_lengths: match scan.distribution {
                ScanLengthDistribution::Uniform => ScanLengths::Uniform(Uniform::new(lengths)?),
                ScanLengthDistribution::Zipfian => {
                    ScanLengths::Zipfian(Zipfian::new(lengths, YCSB_THETA)?)
                }
            },
            scan_min: scan.min,
            upserts: Discrete::new([workload.upsert_existing, 1.0 - workload.upsert_existing])?,
            inserts: Arc::clone(inserts),
        })
    }

    /// The next operation.
    #[inline]
    pub fn draw(&mut self) -> YcsbOperation {
        match self.mix.draw(&mut self.random) {
            0 => YcsbOperation::Read {
                record: self.record(),
                fields: self.fields(self.read_all_fields),
            },
            1 => YcsbOperation::Update {
                record: self.record(),
                fields: self.fields(self.write_all_fields),
            },
            2 => YcsbOperation::Insert { record: self.inserts.claim() },
            3 => {
                let first = self.record();
                let longer = match &self.scan_lengths {
                    ScanLengths::Uniform(lengths) => lengths.draw(&mut self.random),
                    ScanLengths::Zipfian(lengths) => lengths.draw(&mut self.random),
                };
                let records = self.scan_min.saturating_add(longer as u32);
                YcsbOperation::Scan { first, records, fields: self.fields(self.read_all_fields) }
            }
            4 => YcsbOperation::ReadModifyWrite {
                record: self.record(),
                read: self.fields(self.read_all_fields),
                write: self.fields(self.write_all_fields),
            },
            _ if self.upserts.draw(&mut self.random) == 0 => {
                YcsbOperation::Upsert { record: self.record(), is_new: false }
            }
            _ => YcsbOperation::Upsert { record: self.inserts.claim(), is_new: true },
        }
    }

    #[inline]
    fn fields(&mut self, all: bool) -> Fields {
        if all {
            Fields::All
        } else {
            Fields::One(FieldIndex(self.random.below(self.fields) as u16))
        }
    }

    /// A record to request: a loaded record, or a record whose insert has ended.
    #[inline]
    fn record(&mut self) -> RecordNumber {
        let known = self.loaded + self.inserts.known().0.saturating_sub(self.first_insert);
        for _ in 0..REDRAWS_MAX {
            let item = self.requests.draw(&mut self.random, known);
            if item < known {
                return match item.checked_sub(self.loaded) {
                    Some(inserted) => self.inserts.record(self.first_insert + inserted),
                    None => RecordNumber(self.first + item),
                };
            }
        }
        RecordNumber(self.first + self.random.below(self.loaded))
    }
}

impl Iterator for OperationStream {
    type Item = YcsbOperation;

    fn next(&mut self) -> Option<YcsbOperation> {
        Some(self.draw())
    }
}

impl Requests {
    fn new(workload: &CoreWorkload, worker: WorkerIndex) -> Result<Requests, WorkloadError> {
        let loaded = workload.record_count();
        Ok(match workload.requests {
            RequestDistribution::Uniform => Requests::Uniform(Uniform::new(loaded)?),
            RequestDistribution::ZipfianRecords { theta, .. } => match &workload.scaled {
                Some(scaled) => Requests::Scaled(scaled.clone()),
                None => Requests::ZipfianRecords(Zipfian::new(loaded, theta)?),
            },
            RequestDistribution::ScrambledZipfian => {
                let items = loaded + expected_inserts(workload) + 1;
                Requests::ScrambledZipfian(ScrambledZipfian::new(items)?)
            }
            RequestDistribution::Latest { theta } => {
                Requests::Latest(LatestDistribution::new(loaded, theta)?)
            }
            RequestDistribution::Hotspot { data, operations } => {
                Requests::Hotspot(Hotspot::new(loaded, data, operations)?)
            }
            RequestDistribution::Sequential => {
                Requests::Sequential(Sequential::new(loaded, worker.index, worker.count)?)
            }
            RequestDistribution::Exponential { percentile, fraction } => {
                Requests::Exponential(Exponential::new(percentile, loaded as f64 * fraction)?)
            }
        })
    }

    #[inline]
    fn draw(&mut self, random: &mut WorkloadRandom, known: u64) -> u64 {
        match self {
            Requests::Uniform(uniform) => uniform.draw(random),
            Requests::ZipfianRecords(zipfian) => {
                zipfian.grow_to(known);
                zipfian.draw(random)
            }
            Requests::Scaled(zipfian) => zipfian.draw(random),
            Requests::ScrambledZipfian(zipfian) => zipfian.draw(random),
            Requests::Latest(latest) => latest.draw(random, known),
            Requests::Hotspot(hotspot) => hotspot.draw(random),
            Requests::Sequential(sequential) => sequential.draw(),
            Requests::Exponential(exponential) => exponential.draw(random, known),
        }
    }
}

/// The number of records that a scrambled zipfian includes from the start, beside the loaded
/// records. Because of this room, inserts do not change which records are popular.
///
/// The number is twice the expected number of inserts, as in YCSB. Departure from YCSB: the number
/// is at most the number of loaded records, because a long run would otherwise repeat most of its
/// draws. Without a number of operations, this maximum applies.
fn expected_inserts(workload: &CoreWorkload) -> u64 {
    let share = workload.inserting_share();
    if share == 0.0 {
        return 0;
    }
    let operations = workload.operations.map_or(f64::INFINITY, |count| count as f64);
    ((operations * share * 2.0) as u64).min(workload.record_count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::zeta;
    use crate::properties::Properties;
    use crate::ycsb::OperationKind;

    fn workload(assignments: &[&str]) -> CoreWorkload {
        let mut properties = Properties::default();
        for assignment in assignments {
            properties.assign(assignment).unwrap();
        }
        CoreWorkload::from_properties(&properties).unwrap().0
    }

    fn stream(workload: &CoreWorkload, seed: u64) -> OperationStream {
        let inserts = Arc::new(InsertCounter::new(workload.first_insert()));
        let worker = WorkerIndex { index: 0, count: 1 };
        OperationStream::new(workload, &inserts, worker, seed).unwrap()
    }

    #[test]
    fn the_same_seed_gives_the_same_operations() {
        let workload = workload(&["requestdistribution=zipfian", "scanproportion=0.3"]);
        let draw = |seed| stream(&workload, seed).take(200).collect::<Vec<_>>();
        assert_eq!(draw(5), draw(5));
        assert_ne!(draw(5), draw(6));
    }

    #[test]
    fn operations_come_in_their_proportions() {
        let workload = workload(&[
            "readproportion=2",
            "updateproportion=1",
            "insertproportion=1",
            "scanproportion=4",
            "readmodifywriteproportion=2",
            "upsertproportion=2.5",
            "upsertexisting=0.8",
            "recordcount=100",
        ]);
        let mut seen = [0; 6];
        let mut new = 0;
        for operation in stream(&workload, 1).take(125_000) {
            seen[operation.kind() as usize] += 1;
            new += i32::from(matches!(operation, YcsbOperation::Upsert { is_new: true, .. }));
        }
        assert_eq!(OperationKind::Upsert as usize, 5);
        let expected = [20_000i32, 10_000, 10_000, 40_000, 20_000, 25_000];
        for (seen, expected) in seen.iter().zip(expected).chain([(&new, 5_000)]) {
            assert!((seen - expected).abs() < 700, "{seen} {expected}");
        }
    }

    #[test]
    fn a_scaled_zipfian_keeps_the_hottest_record_as_hot_as_at_full_size() {
        let hottest = |scale: &str| {
            let workload = workload(&[
                "recordcount=2000",
                "requestdistribution=zipfian-records",
                &format!("zipfianscale={scale}"),
            ]);
            let records =
                stream(&workload, 3).take(100_000).filter_map(|operation| match operation {
                    YcsbOperation::Read { record, .. } | YcsbOperation::Update { record, .. } => {
                        Some(record)
                    }
                    _ => None,
                });
            records.filter(|record| *record == RecordNumber(0)).count()
        };
        let share = |items: u64| 100_000.0 / zeta(items, YCSB_THETA);
        for (scale, items) in [("1", 2_000), ("1000", 2_000_000)] {
            let (seen, expected) = (hottest(scale) as f64, share(items));
            assert!((seen - expected).abs() < expected / 20.0, "{scale}: {seen} of {expected}");
        }
    }

    #[test]
    fn no_distribution_asks_for_a_record_that_is_not_inserted_yet() {
        for distribution in [
            "uniform",
            "zipfian",
            "zipfian-records",
            "latest",
            "hotspot",
            "sequential",
            "exponential",
        ] {
            let workload = workload(&[
                "recordcount=1500",
                "insertstart=1000",
                "insertcount=100",
                "insertproportion=0.3",
                &format!("requestdistribution={distribution}"),
            ]);
            let mut stream = stream(&workload, 9);
            let mut open = Vec::new();
            let mut newest = 0;
            for step in 0..20_000 {
                match stream.draw() {
                    YcsbOperation::Insert { record } => open.push(record),
                    YcsbOperation::Read { record, .. } | YcsbOperation::Update { record, .. } => {
                        let is_inserted = record.0 >= 1500 && record < stream.inserts.known();
                        assert!((1000..1100).contains(&record.0) || is_inserted, "{record}");
                        newest = newest.max(record.0);
                    }
                    other => panic!("{other:?}"),
                }
                if step % 7 == 0 && open.len() > 3 {
                    stream.inserts.acknowledge(open.swap_remove(1));
                    stream.inserts.acknowledge(open.remove(0));
                }
            }
            let follows = ["latest", "exponential", "zipfian", "zipfian-records"];
            assert_eq!(newest >= 1500, follows.contains(&distribution), "{distribution} {newest}");
        }
    }

    #[test]
    fn scan_lengths_stay_between_their_bounds() {
        for (distribution, mean) in [("uniform", 55.0), ("zipfian", 27.0)] {
            let workload = workload(&[
                "scanproportion=1",
                "readproportion=0",
                "updateproportion=0",
                "minscanlength=10",
                "maxscanlength=100",
                &format!("scanlengthdistribution={distribution}"),
            ]);
            let mut sum = 0.0;
            for operation in stream(&workload, 3).take(10_000) {
                let YcsbOperation::Scan { records, .. } = operation else {
                    panic!("{operation:?}")
                };
                assert!((10..=100).contains(&records));
                sum += f64::from(records);
            }
            assert!((sum / 10_000.0 - mean).abs() < 5.0, "{distribution}: {}", sum / 10_000.0);
        }
    }

    #[test]
    fn single_fields_are_drawn_evenly() {
        let workload = workload(&["readallfields=false", "updateproportion=0", "readproportion=1"]);
        let mut seen = [0; 10];
        for operation in stream(&workload, 3).take(10_000) {
            let YcsbOperation::Read { fields: Fields::One(field), .. } = operation else {
                panic!("{operation:?}")
            };
            seen[usize::from(field.0)] += 1;
        }
        assert!(seen.iter().all(|n| (850..1150).contains(n)), "{seen:?}");
    }

    #[test]
    fn sequential_workers_share_the_records() {
        let workload = workload(&["requestdistribution=sequential", "recordcount=10"]);
        let inserts = Arc::new(InsertCounter::new(workload.first_insert()));
        let mut drawn: Vec<u64> = (0..2)
            .flat_map(|index| {
                let worker = WorkerIndex { index, count: 2 };
                let mut stream = OperationStream::new(&workload, &inserts, worker, 1).unwrap();
                (0..5).map(|_| stream.record().0).collect::<Vec<_>>()
            })
            .collect();
        drawn.sort();
        assert_eq!(drawn, (0..10).collect::<Vec<_>>());
    }
}
