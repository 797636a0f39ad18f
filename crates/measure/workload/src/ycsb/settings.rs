//! The settings of a workload, from its properties.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use super::histogram::{self, LengthHistogram};
use super::key::{InsertOrder, KeyEncoding, KeyFormat, RecordNumber, ZERO_PADDING_MAX};
use super::known::CLASSES;
use super::reader::Reader;
use super::record::{FieldLength, RecordLayout};
use crate::WorkloadError;
use crate::distribution::{ScaledZipfian, YCSB_THETA, Zipfian};
use crate::properties::Properties;

/// The number of records without the property `recordcount`.
const RECORDS_DEFAULT: u64 = 1_000_000;

/// The maximum of `recordcount`.
const RECORDS_MAX: u64 = 1 << 48;

/// The file of lengths without the property `fieldlengthhistogram`, in the working directory.
const HISTOGRAM_DEFAULT: &str = "hist.txt";

/// The time between status lines without the property `status.interval`.
const STATUS_INTERVAL: Duration = Duration::from_secs(10);

/// The share of upserts of existing records without the property `upsertexisting` (Sherman 5.1).
const UPSERT_EXISTING: f64 = 2.0 / 3.0;

/// Weights of the kinds of operations. The share of a kind is its weight divided by the sum.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Mix {
    /// Reads.
    pub read: f64,
    /// Updates.
    pub update: f64,
    /// Inserts.
    pub insert: f64,
    /// Scans.
    pub scan: f64,
    /// Read-modify-writes.
    pub read_modify_write: f64,
    /// Upserts.
    pub upsert: f64,
}

impl Mix {
    /// The weights in the order of [`OperationKind`](super::OperationKind).
    pub fn weights(&self) -> [f64; 6] {
        [self.read, self.update, self.insert, self.scan, self.read_modify_write, self.upsert]
    }

    /// The sum of the weights.
    pub fn sum(&self) -> f64 {
        self.weights().iter().sum()
    }
}

/// The distribution of requested records.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum RequestDistribution {
    /// Every loaded record with the same probability.
    Uniform,
    /// A zipfian over the records in the order of insertion: `requestdistribution=zipfian-records`.
    ZipfianRecords {
        /// The skew.
        theta: f64,
        /// The property `zipfianscale`: the zipfian has the shares of a distribution over this many
        /// times the records (see [`ScaledZipfian`]).
        scale: u64,
    },
    /// YCSB's `zipfian`: a zipfian over ten billion ranks, hashed onto the records.
    ScrambledZipfian,
    /// A zipfian over ages: the newest record is requested most often.
    Latest {
        /// The skew.
        theta: f64,
    },
    /// A fraction of the records receives a fraction of the requests.
    Hotspot {
        /// Fraction of the records.
        data: f64,
        /// Fraction of the operations.
        operations: f64,
    },
    /// All records in the order of their numbers, again and again.
    Sequential,
    /// Popularity falls exponentially with the age of the record.
    Exponential {
        /// Percentage of the requests to the newest part.
        percentile: f64,
        /// The newest part, as a fraction of the records.
        fraction: f64,
    },
}

impl RequestDistribution {
    /// The distribution's name.
    pub fn name(&self) -> &'static str {
        match self {
            RequestDistribution::Uniform => "uniform",
            RequestDistribution::ZipfianRecords { .. } => "zipfian-records",
            RequestDistribution::ScrambledZipfian => "scrambled-zipfian",
            RequestDistribution::Latest { .. } => "latest",
            RequestDistribution::Hotspot { .. } => "hotspot",
            RequestDistribution::Sequential => "sequential",
            RequestDistribution::Exponential { .. } => "exponential",
        }
    }
}

/// How the lengths of scans are distributed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScanLengthDistribution {
    /// Every length with the same probability.
    Uniform,
    /// A zipfian that favours short scans.
    Zipfian,
}

/// The number of records that a scan requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScanLength {
    /// The minimum.
    pub min: u32,
    /// The maximum.
    pub max: u32,
    /// The distribution between minimum and maximum.
    pub distribution: ScanLengthDistribution,
}

/// Settings of YCSB's client that workload files may have. The flags of a program take precedence.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ClientSettings {
    /// `threadcount`: workers.
    pub threads: Option<u32>,
    /// `target`: operations per second, all workers together.
    pub target_ops_s: Option<f64>,
    /// `maxexecutiontime`: the duration of the run. A plain number is in seconds.
    pub time_max: Option<Duration>,
    /// `status`: whether status lines are printed, as with `-s`.
    pub has_status: bool,
    /// `status.interval`: how often. A plain number is in seconds.
    pub status_interval: Duration,
}

/// The settings of YCSB's core workload.
///
/// ```
/// use latchwork_workload::{properties::Properties, ycsb::CoreWorkload};
///
/// let mut properties = Properties::default();
/// properties.assign("recordcount=5000")?;
/// properties.assign("readproportion=1")?;
/// properties.assign("updateproportion=0")?;
/// let (workload, warnings) = CoreWorkload::from_properties(&properties)?;
/// assert_eq!(workload.records, 0..5000);
/// assert_eq!(workload.layout.len_max(), 1000);
/// assert!(warnings.is_empty());
///
/// properties.assign("readproportoin=1")?;
/// let error = CoreWorkload::from_properties(&properties).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "-p: unknown workload key `readproportoin`; did you mean `readproportion`?"
/// );
/// # Ok::<(), latchwork_workload::WorkloadError>(())
/// ```
#[derive(Clone, Debug)]
pub struct CoreWorkload {
    /// The table's name.
    pub table: String,
    /// Numbers of the loaded records: the part of `recordcount` that `insertstart` and
    /// `insertcount` name.
    pub records: Range<u64>,
    /// The number of the first record that a run inserts: `recordcount`, behind all parts.
    first_insert: u64,
    /// The number of operations of a run, if `operationcount` gives one above 0.
    pub operations: Option<u64>,
    /// The layout of a record.
    pub layout: RecordLayout,
    /// A field's name is this prefix and the field's number.
    pub field_name_prefix: String,
    /// The format of keys.
    pub keys: KeyFormat,
    /// Shares of the operations.
    pub mix: Mix,
    /// The share of upserts whose record is there already.
    pub upsert_existing: f64,
    /// The distribution of requested records.
    pub requests: RequestDistribution,
    /// The lengths of scans.
    pub scan_length: ScanLength,
    /// Whether reads request all fields instead of one.
    pub read_all_fields: bool,
    /// Whether updates write all fields instead of one.
    pub write_all_fields: bool,
    /// Whether every read record is checked.
    pub data_integrity: bool,
    /// The client settings in the files.
    pub client: ClientSettings,
    /// The table behind a scaled zipfian, which all streams share.
    pub(super) scaled: Option<ScaledZipfian>,
}

impl CoreWorkload {
    /// The workload that the properties describe, with warnings. Warnings are about ignored keys,
    /// keys that one file has twice, and proportions that do not add up to 1. Missing keys have
    /// YCSB's defaults, except `recordcount`, which is a million.
    ///
    /// # Errors
    ///
    /// Fails at an unknown key, at an invalid value, and at values that are impossible together.
    /// The text is one line that names the key and its position.
    pub fn from_properties(
        properties: &Properties,
    ) -> Result<(CoreWorkload, Vec<String>), WorkloadError> {
        let (reader, mut warnings) = Reader::new(properties)?;
        if reader.text("workload").is_some_and(|class| !CLASSES.contains(&class)) {
            return Err(reader.refuse("workload", format!("must be {}", CLASSES[0])));
        }
        let (records, first_insert) = records(&reader)?;
        let workload = CoreWorkload {
            table: reader.text("table").unwrap_or("usertable").to_owned(),
            records,
            first_insert,
            operations: reader.number("operationcount", 0..=u64::MAX)?.filter(|count| *count > 0),
            layout: layout(&reader)?,
            field_name_prefix: reader.text("fieldnameprefix").unwrap_or("field").to_owned(),
            keys: keys(&reader)?,
            mix: mix(&reader, &mut warnings)?,
            upsert_existing: reader.fraction("upsertexisting", UPSERT_EXISTING)?,
            requests: requests(&reader)?,
            scan_length: scan_length(&reader)?,
            read_all_fields: reader.flag("readallfields", true)?,
            write_all_fields: reader.flag("writeallfields", false)?,
            data_integrity: reader.flag("dataintegrity", false)?,
            client: client(&reader)?,
            scaled: None,
        };
        Ok((workload.with_table(&reader)?, warnings))
    }

    fn with_table(mut self, reader: &Reader<'_>) -> Result<CoreWorkload, WorkloadError> {
        let RequestDistribution::ZipfianRecords { theta, scale } = self.requests else {
            return Ok(self);
        };
        if scale > 1 && self.mix.insert > 0.0 {
            let problem = "needs insertproportion=0: it is made for the records that are loaded";
            return Err(reader.refuse("zipfianscale", problem));
        }
        if scale > 1 {
            self.scaled = Some(ScaledZipfian::new(self.record_count(), scale, theta)?);
        }
        Ok(self)
    }

    /// The share of operations that insert a record of a new number.
    pub fn inserting_share(&self) -> f64 {
        let inserting = self.mix.insert + self.mix.upsert * (1.0 - self.upsert_existing);
        inserting / self.mix.sum()
    }

    /// The number of records that are loaded.
    pub fn record_count(&self) -> u64 {
        self.records.end - self.records.start
    }

    /// The number of the first record that a run inserts.
    pub fn first_insert(&self) -> RecordNumber {
        RecordNumber(self.first_insert)
    }

    /// The records that one of `workers` workers loads. The shares of all workers cover every
    /// record once.
    pub fn load_share(&self, worker: u64, workers: u64) -> Range<u64> {
        let count = u128::from(self.record_count());
        let bound = |w: u64| {
            let share = count * u128::from(w.min(workers)) / u128::from(workers.max(1));
            self.records.start + share as u64
        };
        bound(worker)..bound(worker + 1)
    }
}

/// The records to load, and the end of all records.
fn records(reader: &Reader<'_>) -> Result<(Range<u64>, u64), WorkloadError> {
    let end = reader.number("recordcount", 1..=RECORDS_MAX)?.unwrap_or(RECORDS_DEFAULT);
    let start = reader.number("insertstart", 0..=RECORDS_MAX)?.unwrap_or(0);
    if start >= end {
        return Err(reader.refuse("insertstart", format!("must be below recordcount={end}")));
    }
    let count = reader.number("insertcount", 1..=RECORDS_MAX)?.unwrap_or(end - start);
    if count > end - start {
        let most = end - start;
        let would_do = format!("must be at most {most}: recordcount={end} ends all records");
        return Err(reader.refuse("insertcount", would_do));
    }
    Ok((start..start + count, end))
}

fn layout(reader: &Reader<'_>) -> Result<RecordLayout, WorkloadError> {
    #[derive(Clone, Copy, PartialEq)]
    enum Shape {
        Constant,
        Uniform,
        Zipfian,
        Histogram,
    }
    let fields = reader.number("fieldcount", 1..=u16::MAX)?.unwrap_or(10);
    let max = reader.bytes("fieldlength", 1..=u16::MAX)?.unwrap_or(100);
    let min = reader.bytes("minfieldlength", 1..=u16::MAX)?.unwrap_or(1);
    let shapes = [
        ("constant", Shape::Constant),
        ("uniform", Shape::Uniform),
        ("zipfian", Shape::Zipfian),
        ("histogram", Shape::Histogram),
    ];
    let shape = reader.choice("fieldlengthdistribution", &shapes)?.unwrap_or(Shape::Constant);
    if matches!(shape, Shape::Uniform | Shape::Zipfian) && min > max {
        return Err(reader.refuse("minfieldlength", format!("must be at most fieldlength={max}")));
    }
    let length = match shape {
        Shape::Constant => FieldLength::Constant(max),
        Shape::Uniform => FieldLength::Uniform { min, max },
        Shape::Zipfian => {
            let longer = Zipfian::new(u64::from(max - min) + 1, YCSB_THETA)?;
            FieldLength::Zipfian { min, longer }
        }
        Shape::Histogram => FieldLength::Histogram(length_histogram(reader)?),
    };
    RecordLayout::new(fields, length)
}

fn length_histogram(reader: &Reader<'_>) -> Result<LengthHistogram, WorkloadError> {
    const KEY: &str = "fieldlengthhistogram";
    let path = reader.text(KEY).unwrap_or(HISTOGRAM_DEFAULT);
    match latchwork_files::read_text(Path::new(path), histogram::FILE) {
        Ok(text) => LengthHistogram::parse(&text, path),
        Err(cause) if reader.has(KEY) => Err(reader.refuse(KEY, cause.to_string())),
        Err(cause) => Err(reader.refuse(KEY, format!("{path}, the default: {cause}"))),
    }
}

fn keys(reader: &Reader<'_>) -> Result<KeyFormat, WorkloadError> {
    let orders = [("hashed", InsertOrder::Hashed), ("ordered", InsertOrder::Ordered)];
    let encodings = [("decimal", KeyEncoding::Decimal), ("binary", KeyEncoding::Binary)];
    let encoding = reader.choice("keyencoding", &encodings)?.unwrap_or_default();
    if encoding == KeyEncoding::Binary && reader.has("zeropadding") {
        return Err(reader.refuse("zeropadding", "needs keyencoding=decimal".to_owned()));
    }
    Ok(KeyFormat {
        encoding,
        order: reader.choice("insertorder", &orders)?.unwrap_or_default(),
        zero_padding: reader.number("zeropadding", 0..=ZERO_PADDING_MAX)?.unwrap_or(1),
    })
}

fn mix(reader: &Reader<'_>, warnings: &mut Vec<String>) -> Result<Mix, WorkloadError> {
    let mix = Mix {
        read: reader.weight("readproportion")?.unwrap_or(0.95),
        update: reader.weight("updateproportion")?.unwrap_or(0.05),
        insert: reader.weight("insertproportion")?.unwrap_or(0.0),
        scan: reader.weight("scanproportion")?.unwrap_or(0.0),
        read_modify_write: reader.weight("readmodifywriteproportion")?.unwrap_or(0.0),
        upsert: reader.weight("upsertproportion")?.unwrap_or(0.0),
    };
    let sum = mix.sum();
    if sum.is_infinite() {
        return Err(WorkloadError::Conflict(
            "the proportions of reads, updates, inserts, scans, read-modify-writes and upserts are too \
             large to add up; use shares of 1, for example readproportion=0.5"
                .to_owned(),
        ));
    }
    if sum <= 0.0 {
        return Err(WorkloadError::Conflict(
            "the proportions of reads, updates, inserts, scans, read-modify-writes and upserts are all \
             0; set at least one, for example readproportion=1"
                .to_owned(),
        ));
    }
    if (sum - 1.0).abs() > 1e-6 {
        warnings.push(format!(
            "the proportions of the operations add up to {sum}; each is taken as a share of that"
        ));
    }
    Ok(mix)
}

fn requests(reader: &Reader<'_>) -> Result<RequestDistribution, WorkloadError> {
    let theta = reader.between("zipfianconstant", YCSB_THETA, 0.0, 1.0)?;
    let scale = reader.number("zipfianscale", 1..=1 << 32)?.unwrap_or(1);
    let hotspot = RequestDistribution::Hotspot {
        data: reader.fraction("hotspotdatafraction", 0.2)?,
        operations: reader.fraction("hotspotopnfraction", 0.8)?,
    };
    let exponential = RequestDistribution::Exponential {
        percentile: reader.between("exponential.percentile", 95.0, 0.0, 100.0)?,
        fraction: reader.between("exponential.frac", 0.857_142_857_1, 0.0, 1000.0)?,
    };
    let choices = [
        ("uniform", RequestDistribution::Uniform),
        ("zipfian", RequestDistribution::ScrambledZipfian),
        ("scrambled-zipfian", RequestDistribution::ScrambledZipfian),
        ("zipfian-records", RequestDistribution::ZipfianRecords { theta, scale }),
        ("latest", RequestDistribution::Latest { theta }),
        ("hotspot", hotspot),
        ("sequential", RequestDistribution::Sequential),
        ("exponential", exponential),
    ];
    let requests =
        reader.choice("requestdistribution", &choices)?.unwrap_or(RequestDistribution::Uniform);
    if requests == RequestDistribution::ScrambledZipfian && theta != YCSB_THETA {
        return Err(reader.refuse(
            "zipfianconstant",
            format!(
                "YCSB's scrambled zipfian is made for {YCSB_THETA} only; \
                 other skews need requestdistribution=zipfian-records"
            ),
        ));
    }
    if scale > 1 && !matches!(requests, RequestDistribution::ZipfianRecords { .. }) {
        return Err(reader.refuse("zipfianscale", "needs requestdistribution=zipfian-records"));
    }
    Ok(requests)
}

fn scan_length(reader: &Reader<'_>) -> Result<ScanLength, WorkloadError> {
    let distributions = [
        ("uniform", ScanLengthDistribution::Uniform),
        ("zipfian", ScanLengthDistribution::Zipfian),
    ];
    let max = reader.number("maxscanlength", 1..=u32::MAX)?.unwrap_or(1000);
    let min = reader.number("minscanlength", 1..=u32::MAX)?.unwrap_or(1);
    if min > max {
        let key = if reader.has("minscanlength") { "minscanlength" } else { "maxscanlength" };
        return Err(reader.refuse(key, format!("scans from {min} to {max} records cannot be")));
    }
    let distribution = reader.choice("scanlengthdistribution", &distributions)?;
    Ok(ScanLength {
        min,
        max,
        distribution: distribution.unwrap_or(ScanLengthDistribution::Uniform),
    })
}

fn client(reader: &Reader<'_>) -> Result<ClientSettings, WorkloadError> {
    let status_interval = reader.time("status.interval")?.unwrap_or(STATUS_INTERVAL);
    if status_interval.is_zero() {
        return Err(reader.refuse("status.interval", "must be above 0"));
    }
    Ok(ClientSettings {
        threads: reader.number("threadcount", 1..=u32::MAX)?,
        target_ops_s: reader.weight("target")?.filter(|target| *target > 0.0),
        time_max: reader.time("maxexecutiontime")?.filter(|time| !time.is_zero()),
        has_status: reader.flag("status", false)?,
        status_interval,
    })
}
