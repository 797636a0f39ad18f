//! What is checked, and when.

pub(crate) mod buffers;
pub(crate) mod copies;
pub(crate) mod counter;
pub(crate) mod history;
pub(crate) mod leaks;
mod owners;
pub(crate) mod steps;
mod values;

use std::fmt;

use crate::Check;

/// What a check found: which one, and what it says.
pub(crate) type Verdict = Result<(), (Check, String)>;

/// What the judge of a whole record found. When nothing was wrong: of how many objects it could not
/// tell, since too many of their calls overlap.
pub(crate) type Judgement = Result<u64, (Check, String)>;

/// Many lines of a text, at most `most` of them.
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
