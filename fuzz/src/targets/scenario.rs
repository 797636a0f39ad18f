//! The target `scenario`: files of simulated worlds.

use latchwork_hunt::Scenario;

use super::target::{FuzzTarget, assert_one_line};
use crate::{Mutator, class_of};

/// Scenarios, as `sim run --scenario` reads them. The target does not run the worlds.
pub const TARGET: FuzzTarget =
    FuzzTarget { name: "scenario", run, mutate: Mutator::text, tried: 5_000 };

/// Reads a scenario, writes it, and reads it again.
///
/// - An error is one line, and the line that it names exists in the file.
/// - A valid scenario comes back unchanged, and passes its own check.
///
/// # Panics
/// When one of these does not hold.
pub fn run(data: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(data) else { return "not UTF-8".to_owned() };
    match Scenario::parse(text) {
        Ok(scenario) => {
            scenario.check().expect("it was accepted");
            let _ = scenario.total_operations();
            let again = Scenario::parse(&scenario.to_toml());
            assert_eq!(again.as_ref(), Ok(&scenario), "a scenario changes when it is written");
            format!("whole: {:?} {}", scenario.workload.kind(), scenario.faults.any())
        }
        Err(error) => {
            assert_one_line(&error.to_string());
            let lines = text.matches('\n').count() + 1;
            let line = error.line().unwrap_or(1);
            assert!((1..=lines).contains(&line), "line {line} of {lines}: {error}");
            // The rest of the text names parts of the file without quotes.
            class_of(&error).chars().take(48).collect()
        }
    }
}
