//! The checks of a world, and when they run.

pub(crate) mod buffers;
pub(crate) mod copies;
pub(crate) mod counter;
pub(crate) mod history;
pub(crate) mod leaks;
mod owners;
pub(crate) mod steps;
mod values;

use std::fmt;

use crate::WorldCheck;

/// The result of a check: nothing, or the check with its finding.
pub(crate) type Verdict = Result<(), (WorldCheck, String)>;

/// The result of a check of a whole history. Without a finding it is the number of objects without
/// a result, because too many of their calls overlap.
pub(crate) type CheckResult = Result<u64, (WorldCheck, String)>;

/// Lists the lines of a text, at most `most` of them.
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
