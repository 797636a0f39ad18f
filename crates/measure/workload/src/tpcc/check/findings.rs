//! The findings of a check, by condition.

use std::collections::BTreeMap;
use std::fmt;

use latchwork_report::result::CheckOutcome;

/// The number of the standard's conditions.
pub const CONDITIONS: usize = 12;

/// The index of findings about rows of a warehouse, district or customer that does not exist. The
/// standard's conditions have the indexes from 1.
pub(super) const PLACEMENT: usize = 0;

/// The index of findings of the stock check.
pub(super) const STOCK: usize = CONDITIONS + 1;

const PLACES: usize = STOCK + 1;

/// Maximum number of violations per condition that the report names. The others are only counted.
const NAMED_MAX: usize = 10;

/// A row or sum that breaks a condition.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct ConditionViolation {
    /// The row or the sum, and its values.
    pub text: String,
}

/// The findings on one condition.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct ConditionReport {
    /// Comparisons.
    pub compared: u64,
    /// Failed comparisons.
    pub violations: u64,
    /// The first violations.
    pub named: Vec<ConditionViolation>,
}

/// Findings during the check.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Findings {
    conditions: [ConditionReport; PLACES],
}

impl Findings {
    /// Counts a comparison. If it failed, counts a violation and keeps its text, up to
    /// [`NAMED_MAX`] texts.
    #[inline]
    pub(super) fn compare(&mut self, condition: usize, holds: bool, who: impl FnOnce() -> String) {
        let report = &mut self.conditions[condition];
        report.compared += 1;
        if !holds {
            report.violations += 1;
            if report.named.len() < NAMED_MAX {
                report.named.push(ConditionViolation { text: who() });
            }
        }
    }

    pub(super) fn into_report(self) -> ConsistencyReport {
        ConsistencyReport { findings: self }
    }
}

/// Whether a database is consistent, and if not, why.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct ConsistencyReport {
    /// First the placement of rows, then the standard's conditions, then the stocks.
    findings: Findings,
}

impl ConsistencyReport {
    /// The findings of a condition; `None` for an unknown number.
    ///
    /// - 0: each row belongs to an existing warehouse, district and customer. Only failures are
    ///   counted.
    /// - 1 to 12: the standard's conditions.
    /// - 13: the findings that [`StockCheck`](super::StockCheck) added.
    pub fn condition(&self, number: usize) -> Option<&ConditionReport> {
        self.findings.conditions.get(number)
    }

    /// Whether there is no violation, and each of the standard's conditions was compared at least
    /// once.
    pub fn is_ok(&self) -> bool {
        (0..PLACES).all(|number| self.holds(number))
    }

    /// The numbers of the conditions that do not hold.
    pub fn broken(&self) -> Vec<usize> {
        (0..PLACES).filter(|number| !self.holds(*number)).collect()
    }

    fn holds(&self, number: usize) -> bool {
        let report = &self.findings.conditions[number];
        report.violations == 0 && (!(1..=CONDITIONS).contains(&number) || report.compared > 0)
    }

    pub(super) fn findings(&mut self) -> &mut Findings {
        &mut self.findings
    }

    /// Adds the findings of other warehouses.
    pub fn merge(&mut self, other: ConsistencyReport) {
        for (mine, theirs) in self.findings.conditions.iter_mut().zip(other.findings.conditions) {
            mine.compared += theirs.compared;
            mine.violations += theirs.violations;
            let room = NAMED_MAX - mine.named.len();
            mine.named.extend(theirs.named.into_iter().take(room));
        }
    }

    /// The outcomes by name, for a result document.
    pub fn outcomes(&self) -> BTreeMap<String, CheckOutcome> {
        let outcome = |holds| if holds { CheckOutcome::Ok } else { CheckOutcome::Failed };
        (0..PLACES)
            .filter(|number| *number != STOCK || self.findings.conditions[STOCK].compared > 0)
            .map(|number| (check_name(number), outcome(self.holds(number))))
            .collect()
    }
}

fn check_name(number: usize) -> String {
    match number {
        PLACEMENT => "tpcc-rows".to_owned(),
        STOCK => "tpcc-stock".to_owned(),
        number => format!("tpcc-3.3.2.{number:02}"),
    }
}

/// One line for each condition, and one line for each named violation.
impl fmt::Display for ConsistencyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, report) in self.findings.conditions.iter().enumerate() {
            if number == STOCK && report.compared == 0 {
                continue;
            }
            let verdict = if self.holds(number) { "ok" } else { "FAILED" };
            write!(f, "{}: {verdict}", check_name(number))?;
            match (number, report.compared) {
                (PLACEMENT, _) => {}
                (_, 0) => write!(f, ", nothing to compare: the database is empty")?,
                (_, compared) => write!(f, ", {compared} compared")?,
            }
            match report.violations {
                0 => writeln!(f)?,
                violations => writeln!(f, ", {violations} wrong")?,
            }
            for violation in &report.named {
                writeln!(f, "  {}", violation.text)?;
            }
            if report.violations > report.named.len() as u64 {
                writeln!(f, "  and {} more", report.violations - report.named.len() as u64)?;
            }
        }
        Ok(())
    }
}

/// Cents as text, with two decimals.
pub(super) fn money(cents: i128) -> String {
    let sign = if cents < 0 { "-" } else { "" };
    let cents = cents.unsigned_abs();
    format!("{sign}{}.{:02}", cents / 100, cents % 100)
}
