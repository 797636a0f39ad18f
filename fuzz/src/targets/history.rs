//! The target `history`: files of recorded histories, and their check.

use std::path::Path;

use latchwork_history::{CheckOptions, TransactionHistory, check};

use super::target::{FuzzTarget, assert_one_line};
use crate::{Mutator, class_of};

/// Histories, as `history check` reads them.
pub const TARGET: FuzzTarget =
    FuzzTarget { name: "history", run, mutate: Mutator::text, tried: 10_000 };

/// Reads a history, writes it, reads it again, and checks it.
///
/// - An error is one line, which names the file.
/// - A valid history comes back unchanged, and the check ends for any history.
///
/// # Panics
/// When one of these does not hold.
pub fn run(data: &[u8]) -> String {
    let path = Path::new("fuzzed.jsonl");
    match TransactionHistory::read(data, path) {
        Ok(history) => {
            let mut written = Vec::new();
            history.write(&mut written).expect("memory takes all");
            let again =
                TransactionHistory::read(&written[..], path).expect("what was read can be written");
            assert_eq!(again, history, "a history changes when it is written");
            let report = check(&history, CheckOptions::default());
            assert!(!report.to_string().is_empty(), "a report without words");
            let classes: Vec<_> =
                report.violations.iter().take(3).map(|found| found.class).collect();
            format!("whole: {classes:?}")
        }
        Err(error) => {
            assert_one_line(&error.to_string());
            assert!(error.to_string().starts_with("fuzzed.jsonl"), "no file: {error}");
            class_of(&error)
        }
    }
}
