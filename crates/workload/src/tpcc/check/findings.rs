//! What a check found, condition by condition.

use crate::result::CheckOutcome;
use std::collections::BTreeMap;
use std::fmt;

/// The conditions of the standard.
pub const CONDITIONS: usize = 12;

/// The place in the findings of rows that belong nowhere, before the standard's conditions.
pub(super) const PLACEMENT: usize = 0;

/// So many offenders of each condition are named.
const NAMED_MAX: usize = 10;

/// Someone who breaks a condition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Who, and how.
    pub text: String,
}

/// What was found of one condition.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ConditionReport {
    /// Comparisons.
    pub compared: u64,
    /// Those that failed.
    pub violations: u64,
    /// The first of these.
    pub named: Vec<Violation>,
}

/// Findings while they are made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Findings {
    conditions: [ConditionReport; 1 + CONDITIONS],
}

impl Findings {
    /// Notes a comparison, and who failed it where it did.
    #[inline]
    pub(super) fn compare(&mut self, condition: usize, holds: bool, who: impl FnOnce() -> String) {
        let report = &mut self.conditions[condition];
        report.compared += 1;
        if !holds {
            report.violations += 1;
            if report.named.len() < NAMED_MAX {
                report.named.push(Violation { text: who() });
            }
        }
    }

    pub(super) fn into_report(self) -> Report {
        Report { conditions: self.conditions }
    }
}

/// Whether a database is consistent, and if not, why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// First the placement of rows, then the standard's conditions.
    conditions: [ConditionReport; 1 + CONDITIONS],
}

impl Report {
    /// A condition, 1 to 12; 0 is that each row belongs to a warehouse, a district and a customer
    /// that the database has, of which only failures are counted. `None` for others.
    pub fn condition(&self, number: usize) -> Option<&ConditionReport> {
        self.conditions.get(number)
    }

    /// Whether nothing breaks a condition, and each was compared at least once.
    pub fn is_ok(&self) -> bool {
        (0..=CONDITIONS).all(|number| self.holds(number))
    }

    /// The numbers of the conditions that do not hold.
    pub fn broken(&self) -> Vec<usize> {
        (0..=CONDITIONS).filter(|number| !self.holds(*number)).collect()
    }

    fn holds(&self, number: usize) -> bool {
        let report = &self.conditions[number];
        report.violations == 0 && (number == PLACEMENT || report.compared > 0)
    }

    /// Adds what was found of other warehouses.
    pub fn merge(&mut self, other: Report) {
        for (mine, theirs) in self.conditions.iter_mut().zip(other.conditions) {
            mine.compared += theirs.compared;
            mine.violations += theirs.violations;
            let room = NAMED_MAX - mine.named.len();
            mine.named.extend(theirs.named.into_iter().take(room));
        }
    }

    /// The outcomes by name, for a result document.
    pub fn outcomes(&self) -> BTreeMap<String, CheckOutcome> {
        let outcome = |holds| if holds { CheckOutcome::Ok } else { CheckOutcome::Failed };
        (0..=CONDITIONS).map(|number| (check_name(number), outcome(self.holds(number)))).collect()
    }
}

fn check_name(number: usize) -> String {
    match number {
        PLACEMENT => "tpcc-rows".to_owned(),
        number => format!("tpcc-3.3.2.{number:02}"),
    }
}

/// One line for each condition, and one for each offender that is named.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, report) in self.conditions.iter().enumerate() {
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

/// Money as people write it.
pub(super) fn money(cents: i128) -> String {
    let sign = if cents < 0 { "-" } else { "" };
    let cents = cents.unsigned_abs();
    format!("{sign}{}.{:02}", cents / 100, cents % 100)
}
