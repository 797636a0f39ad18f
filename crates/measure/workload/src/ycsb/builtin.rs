//! YCSB's six core workloads and the five workloads of Sherman's evaluation, as property files of
//! this project.

use std::fmt;
use std::str::FromStr;

use super::settings::CoreWorkload;
use crate::WorkloadError;
use crate::properties::Properties;

/// One of YCSB's core workloads A to F, or of Sherman's workloads (Sherman 5.1, table 2).
///
/// ```
/// use latchwork_workload::ycsb::Builtin;
///
/// let workload = "a".parse::<Builtin>().unwrap().workload()?;
/// assert_eq!((workload.mix.read, workload.mix.update), (0.5, 0.5));
/// # Ok::<(), latchwork_workload::WorkloadError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Builtin {
    /// Update heavy: half reads, half updates.
    A,
    /// Read mostly: 95 % reads, 5 % updates.
    B,
    /// Read only.
    C,
    /// Read latest: 95 % reads of new records, 5 % inserts.
    D,
    /// Short ranges: 95 % scans, 5 % inserts.
    E,
    /// Half reads, half read-modify-writes.
    F,
    /// Upserts only.
    WriteOnly,
    /// Half reads, half upserts.
    WriteIntensive,
    /// 95 % reads, 5 % upserts.
    ReadIntensive,
    /// Scans of 100 records only.
    RangeOnly,
    /// Half scans of 100 records, half upserts.
    RangeWrite,
}

impl Builtin {
    /// All workloads.
    pub const ALL: [Builtin; 11] = [
        Builtin::A,
        Builtin::B,
        Builtin::C,
        Builtin::D,
        Builtin::E,
        Builtin::F,
        Builtin::WriteOnly,
        Builtin::WriteIntensive,
        Builtin::ReadIntensive,
        Builtin::RangeOnly,
        Builtin::RangeWrite,
    ];

    /// The workload's name.
    pub fn name(self) -> &'static str {
        match self {
            Builtin::A => "a",
            Builtin::B => "b",
            Builtin::C => "c",
            Builtin::D => "d",
            Builtin::E => "e",
            Builtin::F => "f",
            Builtin::WriteOnly => "write-only",
            Builtin::WriteIntensive => "write-intensive",
            Builtin::ReadIntensive => "read-intensive",
            Builtin::RangeOnly => "range-only",
            Builtin::RangeWrite => "range-write",
        }
    }

    /// The text of its property file.
    pub fn text(self) -> &'static str {
        match self {
            Builtin::A => include_str!("../../workloads/a.properties"),
            Builtin::B => include_str!("../../workloads/b.properties"),
            Builtin::C => include_str!("../../workloads/c.properties"),
            Builtin::D => include_str!("../../workloads/d.properties"),
            Builtin::E => include_str!("../../workloads/e.properties"),
            Builtin::F => include_str!("../../workloads/f.properties"),
            Builtin::WriteOnly => include_str!("../../workloads/write-only.properties"),
            Builtin::WriteIntensive => include_str!("../../workloads/write-intensive.properties"),
            Builtin::ReadIntensive => include_str!("../../workloads/read-intensive.properties"),
            Builtin::RangeOnly => include_str!("../../workloads/range-only.properties"),
            Builtin::RangeWrite => include_str!("../../workloads/range-write.properties"),
        }
    }

    /// Adds the workload's assignments to `properties`.
    ///
    /// # Errors
    ///
    /// Fails only if the built-in file is malformed. A test reads all files.
    pub fn add_to(self, properties: &mut Properties) -> Result<(), WorkloadError> {
        properties.parse(self.text(), &format!("workload {self}"))
    }

    /// The workload as its file describes it.
    ///
    /// # Errors
    ///
    /// Fails only if the built-in file is malformed. A test reads all files.
    pub fn workload(self) -> Result<CoreWorkload, WorkloadError> {
        let mut properties = Properties::default();
        self.add_to(&mut properties)?;
        Ok(CoreWorkload::from_properties(&properties)?.0)
    }
}

impl fmt::Display for Builtin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Builtin {
    type Err = String;

    fn from_str(text: &str) -> Result<Builtin, String> {
        let wanted = text.strip_prefix("workload").unwrap_or(text).to_ascii_lowercase();
        Builtin::ALL
            .into_iter()
            .find(|builtin| builtin.name() == wanted)
            .ok_or_else(|| format!("must be one of {}", Builtin::ALL.map(Builtin::name).join(", ")))
    }
}
