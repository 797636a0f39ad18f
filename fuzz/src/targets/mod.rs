//! The targets: one module for each, `run` asserts, `mutate` makes inputs that get past the
//! outermost checks.

pub mod archive;
pub mod frames;
pub mod greetings;
pub mod history;
pub mod letters;
pub mod log;
pub mod planted;
pub mod profile;
pub mod properties;
pub mod scenario;

use crate::Mutator;

/// Something that reads bytes from outside.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its corpus.
    pub name: &'static str,
    /// Takes any bytes, panics at a bug, and returns the class of the outcome.
    pub run: fn(&[u8]) -> String,
    /// Changes an input.
    pub mutate: fn(&mut Mutator, &mut Vec<u8>),
    /// How many mutations an ordinary test tries: about a second's worth.
    pub tried: usize,
}

impl Target {
    /// The target of this name.
    pub fn find(name: &str) -> Option<Target> {
        TARGETS.iter().chain([&planted::TARGET]).find(|target| target.name == name).copied()
    }
}

/// All targets, without the [`planted`] one.
pub const TARGETS: [Target; 8] = [
    log::TARGET,
    frames::TARGET,
    greetings::TARGET,
    letters::TARGET,
    properties::TARGET,
    profile::TARGET,
    scenario::TARGET,
    history::TARGET,
];

/// Asserts what holds of an error about a text file: one line of bounded length, not empty.
pub(crate) fn assert_one_line(error: &str) {
    assert!(!error.is_empty(), "an error without words");
    assert!(!error.contains('\n'), "an error of several lines: {error}");
}
