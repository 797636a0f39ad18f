//! The checks of worlds and of runs on threads.

pub(crate) mod buffers;
pub(crate) mod copies;
pub(crate) mod counter;
pub(crate) mod history;
pub(crate) mod leaks;
pub(crate) mod objects;
mod owners;
pub(crate) mod steps;
mod values;

use std::fmt;

use crate::WorldCheck;

/// The result of a check. An error is the failed check with its finding.
pub(crate) type Verdict = Result<(), (WorldCheck, String)>;

/// The result of a check of a whole history. Without a finding, the number of objects for which the
/// check gave up.
pub(crate) type CheckResult = Result<u64, (WorldCheck, String)>;

/// A text with one line for each item, for at most `most` items.
pub(crate) fn listed<T: fmt::Display>(lines: impl IntoIterator<Item = T>, most: usize) -> String {
    let mut text = String::new();
    for (k, line) in lines.into_iter().enumerate() {
        if k == most {
            text.push_str("\n  and more");
            break;
        }
        text.push_str(&format!("\n  {line}"));
    }
    text
}
