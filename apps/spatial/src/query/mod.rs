//! Questions about the rows of a file, and their answers.
//!
//! ```text
//!   Query ──► ask, on every worker ──► Answers ──► table, csv
//!        └──► scan, without the index ─────┘ compared, if asked for
//! ```

mod answers;
mod ask;
mod output;
mod question;
mod scan;

pub(crate) use answers::{Answer, Answers, digest};
pub(crate) use ask::{Ask, ask};
pub(crate) use output::{csv, table};
pub(crate) use question::{Query, Question};
pub(crate) use scan::scan;
