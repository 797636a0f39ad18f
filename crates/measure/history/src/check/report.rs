//! The report of a check: classes, violations, and their text.

use std::fmt;

use super::index::Index;
use crate::TransactionId;

/// Classes of violations, the worst first. Names in parentheses are from Adya, Liskov, O'Neil,
/// "Generalized isolation level definitions" (ICDE 2000).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Class {
    /// Two committed writers have one timestamp, or a committed writer has none. Timestamps order
    /// the versions, so a cycle of writes alone (G0) is impossible without this violation.
    Timestamp,
    /// A read found a version that no transaction wrote, or a key that no transaction put.
    Unwritten,
    /// A read found a value that the writer of the version did not write.
    Value,
    /// A read found a version of an aborted writer (G1a).
    AbortedRead,
    /// A read found a value that the writer itself replaced before its commit (G1b).
    IntermediateRead,
    /// A cycle of writes and reads (G1c).
    CircularInformationFlow,
    /// Two transactions read one version and both replaced it.
    LostUpdate,
    /// A cycle with one anti-dependency (rw edge) between rows: a reader saw some of a writer's
    /// changes and missed others (G-single).
    ReadSkew,
    /// A cycle with several anti-dependencies between rows (G2-item): write skew, long fork.
    AntiDependency,
    /// A cycle with an anti-dependency of a range read (G2): a phantom.
    Phantom,
    /// A cycle that has an edge of real time: the part is serializable, but in no order that agrees
    /// with real time. Only a strict check finds it.
    RealTime,
}

impl Class {
    /// The short name: the literature's name if there is one.
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

    /// The meaning in one sentence.
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

/// Why the transaction `from` of a [`CycleStep`] comes before the transaction `to`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Dependency {
    /// `from` wrote a version, and `to` wrote the next version (ww).
    Overwrote,
    /// `from` wrote a version, and `to` read that version (wr).
    Read,
    /// `from` read a version, and `to` wrote the next version (rw).
    Replaced,
    /// `to` read a range, and the result depends on a put or a deletion of `from` (wr).
    RangeRead,
    /// `from` read a range, and `to` put or deleted a key of that range later (rw).
    RangeReplaced,
    /// `from` ended before `to` began.
    RealTime,
}

/// A step of a cycle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CycleStep {
    /// The earlier transaction.
    pub from: TransactionId,
    /// The later transaction.
    pub to: TransactionId,
    /// The reason for the order.
    pub dependency: Dependency,
    /// The step for people, with key and versions.
    pub text: String,
}

/// An anomaly that no serializable history has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HistoryViolation {
    /// The class.
    pub class: Class,
    /// The transactions that take part.
    pub transactions: Vec<TransactionId>,
    /// The steps of the cycle. The last step leads back to the first transaction. Empty for a
    /// violation without a cycle.
    pub cycle: Vec<CycleStep>,
    /// The violation in words, if it has no cycle.
    pub text: String,
}

impl fmt::Display for HistoryViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.class, self.class.meaning())?;
        if self.cycle.is_empty() {
            return writeln!(f, "  {} {}", self.transactions[0], self.text);
        }
        // The text shows only the start and the end of a long cycle. The structure has all steps.
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

/// The findings of a check.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HistoryReport {
    /// Committed transactions.
    pub committed: u64,
    /// Aborted transactions.
    pub aborted: u64,
    /// Transactions with an unknown outcome.
    pub unknown: u64,
    /// Transactions of unknown outcome from which a transaction that counts has read. Such
    /// transactions count as committed.
    pub unknown_seen: u64,
    /// Keys that were read or written.
    pub keys: u64,
    /// Edges with a key. Of a path through helper nodes, only the edge at the writer has a key.
    pub dependencies: u64,
    /// Whether real time was checked.
    pub is_strict: bool,
    /// Undecided reads, which the check left out. A transaction of unknown outcome may have put or
    /// deleted the key, or the search through possible states gave up.
    pub undecided: u64,
    /// Some violations of each class, with the shortest cycles that were found.
    pub violations: Vec<HistoryViolation>,
    /// The number of violations found. A cyclic part of the graph counts as one violation, however
    /// many cycles it has.
    pub violations_found: u64,
}

impl HistoryReport {
    /// Whether the check found no violation.
    pub fn is_serializable(&self) -> bool {
        self.violations_found == 0
    }

    /// Whether there is a violation of this class.
    pub fn has(&self, class: Class) -> bool {
        self.violations.iter().any(|violation| violation.class == class)
    }
}

impl fmt::Display for HistoryReport {
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

/// A report in progress.
pub(crate) struct Findings {
    pub(crate) report: HistoryReport,
    /// Maximum number of violations per class that the report keeps.
    pub(crate) kept_max: usize,
}

impl Findings {
    pub(crate) fn add(&mut self, class: Class, transactions: &[TransactionId], text: String) {
        let transactions = transactions.to_vec();
        self.push(HistoryViolation { class, transactions, cycle: Vec::new(), text });
    }

    pub(crate) fn push(&mut self, violation: HistoryViolation) {
        self.report.violations_found += 1;
        let same = self.report.violations.iter().filter(|kept| kept.class == violation.class);
        if same.count() < self.kept_max {
            self.report.violations.push(violation);
        }
    }
}

/// A key with its table, for reports: as text if the key is printable ASCII without spaces, else as
/// hexadecimal digits.
pub(crate) fn name(index: &Index<'_>, key: u32) -> String {
    let (table, key) = index.keys[key as usize];
    let is_text = !key.is_empty() && key.iter().all(|byte| byte.is_ascii_graphic());
    let key = match is_text {
        true => String::from_utf8_lossy(key).into_owned(),
        false => format!("0x{}", data_encoding::HEXLOWER.encode(key)),
    };
    format!("{table}/{key}")
}
