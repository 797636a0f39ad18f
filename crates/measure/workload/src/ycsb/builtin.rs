//! The six core workloads, as property files of this project.

use std::fmt;
use std::str::FromStr;

use super::settings::CoreWorkload;
use crate::WorkloadError;
use crate::properties::Properties;

/// One of YCSB's core workloads A to F.
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
}

impl Builtin {
    /// All six workloads.
    pub const ALL: [Builtin; 6] =
        [Builtin::A, Builtin::B, Builtin::C, Builtin::D, Builtin::E, Builtin::F];

    /// The workload's letter.
    pub fn letter(self) -> char {
        match self {
            Builtin::A => 'a',
            Builtin::B => 'b',
            Builtin::C => 'c',
            Builtin::D => 'd',
            Builtin::E => 'e',
            Builtin::F => 'f',
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
        }
    }

    /// Adds the workload's assignments to `properties`.
    ///
    /// # Errors
    ///
    /// Fails only if the built-in file is malformed. A test reads all six files.
    pub fn add_to(self, properties: &mut Properties) -> Result<(), WorkloadError> {
        properties.parse(self.text(), &format!("workload {self}"))
    }

    /// The workload as its file describes it.
    ///
    /// # Errors
    ///
    /// Fails only if the built-in file is malformed. A test reads all six files.
    pub fn workload(self) -> Result<CoreWorkload, WorkloadError> {
        let mut properties = Properties::default();
        self.add_to(&mut properties)?;
        Ok(CoreWorkload::from_properties(&properties)?.0)
    }
}

impl fmt::Display for Builtin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.letter().fmt(f)
    }
}

impl FromStr for Builtin {
    type Err = String;

    fn from_str(text: &str) -> Result<Builtin, String> {
        let wanted = text.strip_prefix("workload").unwrap_or(text).to_ascii_lowercase();
        Builtin::ALL
            .into_iter()
            .find(|builtin| builtin.to_string() == wanted)
            .ok_or_else(|| "must be one of a, b, c, d, e, f".to_owned())
    }
}
