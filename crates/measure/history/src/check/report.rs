//! What a check found, in words.

use std::fmt;

use super::index::Index;
use crate::TransactionId;

/// What is wrong, the worst first. Names in parentheses are those of Adya, Liskov, O'Neil,
/// "Generalized isolation level definitions" (ICDE 2000).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Class {
    /// Two transactions have one timestamp, or one that wrote has none. Versions are ordered by
    /// timestamps, so that this is the one way to a cycle of writes (G0).
    Timestamp,
    /// A version was read that nobody wrote, or a key was found that nobody put.
    Unwritten,
    /// A value was read that the writer of its version did not write.
    Value,
    /// A version was read whose writer aborted (G1a).
    AbortedRead,
    /// A value was read that its writer replaced before it committed (G1b).
    IntermediateRead,
    /// A cycle of writes and reads (G1c).
    CircularInformationFlow,
    /// Two read one version and both replaced it.
    LostUpdate,
    /// A cycle with one anti-dependency between rows: a reader saw some of a writer's changes, and
    /// not others (G-single).
    ReadSkew,
    /// A cycle with anti-dependencies between rows (G2-item): write skew, long fork.
    AntiDependency,
    /// A cycle with a key that a range read did not see (G2): a phantom.
    Phantom,
    /// Serializable, but not in an order that real time permits; checked on request.
    RealTime,
}

impl Class {
    /// Its name in the literature, or a word.
    pub fn name(self) -> &'static str {
        match self {
            Class::Timestamp => "timestamp",
            Class::Unwritten => "unwritten",
            Class::Value => "value",
            Class::AbortedRead => "G1a",
            Class::IntermediateRead => "G1b",
            Class::CircularInformationFlow => "G1c",
            Class::LostUpdate => "lost-update",
            Class::ReadSkew => "G-single",
            Class::AntiDependency => "G2-item",
            Class::Phantom => "G2",
            Class::RealTime => "real-time",
        }
    }

    /// What it means.
    pub fn meaning(self) -> &'static str {
        match self {
            Class::Timestamp => "timestamps do not tell transactions apart",
            Class::Unwritten => "what was read was never there",
            Class::Value => "a value is not the one that was written",
            Class::AbortedRead => "a read of an aborted write",
            Class::IntermediateRead => "a read of a value that was not committed",
            Class::CircularInformationFlow => "each saw what another wrote, in a circle",
            Class::LostUpdate => "two read the same version and both replaced it",
            Class::ReadSkew => "one saw some of another's writes, and not others",
            Class::AntiDependency => "each overwrote what another had read",
            Class::Phantom => "a row came or went in a range that was read",
            Class::RealTime => "the order contradicts real time",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why one transaction comes before another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Dependency {
    /// The other wrote the next version (ww).
    Overwrote,
    /// The other read its version (wr).
    Read,
    /// The other replaced what it read (rw).
    Replaced,
    /// The other's range read depends on what it put or deleted (wr).
    RangeRead,
    /// The other put or deleted a row of a range that it read (rw).
    RangeReplaced,
    /// It was over before the other began.
    RealTime,
}

/// A step of a cycle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// Who comes first.
    pub from: TransactionId,
    /// And who after it.
    pub to: TransactionId,
    /// Why.
    pub dependency: Dependency,
    /// The same for people, with key and versions.
    pub text: String,
}

/// Something that no serializable history has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Of which kind.
    pub class: Class,
    /// Who takes part.
    pub transactions: Vec<TransactionId>,
    /// The cycle, back to where it began; nothing for what is wrong without one.
    pub cycle: Vec<Step>,
    /// In words, for what has no cycle.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.class, self.class.meaning())?;
        if self.cycle.is_empty() {
            return writeln!(f, "  {} {}", self.transactions[0], self.text);
        }
        // A long cycle begins and ends like any other; what is between is in the structure.
        const SHOWN: usize = 16;
        for (at, step) in self.cycle.iter().enumerate() {
            if at < SHOWN / 2 || self.cycle.len() - at <= SHOWN / 2 {
                writeln!(f, "  {} < {}  {}", step.from, step.to, step.text)?;
            } else if at == SHOWN / 2 {
                writeln!(f, "  .. {} more ..", self.cycle.len() - SHOWN)?;
            }
        }
        Ok(())
    }
}

/// What a check found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Transactions that are committed.
    pub committed: u64,
    /// That aborted.
    pub aborted: u64,
    /// Whose outcome is not known.
    pub unknown: u64,
    /// Those among them that others have read from, and that therefore count as committed.
    pub unknown_seen: u64,
    /// Keys that were read or written.
    pub keys: u64,
    /// Dependencies, those through helper nodes not counted.
    pub dependencies: u64,
    /// Whether real time was checked.
    pub is_strict: bool,
    /// Reads that could be placed in more than one way, and were left out: of keys that an unknown
    /// transaction may have put or deleted, or where too many ways were to be tried.
    pub undecided: u64,
    /// What is wrong: of each kind some, cycles as short as they were found.
    pub violations: Vec<Violation>,
    /// How many there were in all; of those that share transactions one is counted.
    pub violations_found: u64,
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_serializable(&self) -> bool {
        self.violations_found == 0
    }

    /// Whether there is one of this class.
    pub fn has(&self, class: Class) -> bool {
        self.violations.iter().any(|violation| violation.class == class)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = if self.is_strict { "strictly serializable" } else { "serializable" };
        let verdict = if self.is_serializable() { "" } else { "NOT " };
        writeln!(f, "{verdict}{level}")?;
        writeln!(
            f,
            "{} committed, {} aborted, {} unknown ({} of them seen), {} keys, {} dependencies",
            self.committed,
            self.aborted,
            self.unknown,
            self.unknown_seen,
            self.keys,
            self.dependencies
        )?;
        if self.undecided > 0 {
            writeln!(f, "{} reads were left out: what they saw is not certain", self.undecided)?;
        }
        for violation in &self.violations {
            write!(f, "\n{violation}")?;
        }
        let hidden = self.violations_found - self.violations.len() as u64;
        if hidden > 0 {
            writeln!(f, "\nand {hidden} more")?;
        }
        Ok(())
    }
}

/// A report that is being written.
pub(crate) struct Findings {
    pub(crate) report: Report,
    /// The most violations that are kept of each class.
    pub(crate) kept_max: usize,
}

impl Findings {
    pub(crate) fn add(&mut self, class: Class, transactions: &[TransactionId], text: String) {
        let transactions = transactions.to_vec();
        self.push(Violation { class, transactions, cycle: Vec::new(), text });
    }

    pub(crate) fn push(&mut self, violation: Violation) {
        self.report.violations_found += 1;
        let same = self.report.violations.iter().filter(|kept| kept.class == violation.class);
        if same.count() < self.kept_max {
            self.report.violations.push(violation);
        }
    }
}

/// A key as people read it: text where it is text, else bytes.
pub(crate) fn name(index: &Index<'_>, key: u32) -> String {
    let (table, key) = index.keys[key as usize];
    let is_text = !key.is_empty() && key.iter().all(|byte| byte.is_ascii_graphic());
    let key = match is_text {
        true => String::from_utf8_lossy(key).into_owned(),
        false => format!("0x{}", crate::hex::encode(key)),
    };
    format!("{table}/{key}")
}
