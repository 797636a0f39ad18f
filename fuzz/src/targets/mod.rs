//! The targets, one module each. In each, `run` asserts the properties, and `mutate` makes inputs
//! that pass the outermost checks of the parser.

pub mod archive;
pub mod frames;
pub mod greetings;
pub mod history;
pub mod homes;
pub mod letters;
pub mod log;
pub mod planted;
pub mod profile;
pub mod properties;
pub mod scenario;
mod target;

pub use target::FuzzTarget;

impl FuzzTarget {
    /// The target with this name.
    pub fn find(name: &str) -> Option<FuzzTarget> {
        TARGETS.iter().chain([&planted::TARGET]).find(|target| target.name == name).copied()
    }
}

/// All targets except [`planted`].
pub const TARGETS: [FuzzTarget; 9] = [
    log::TARGET,
    frames::TARGET,
    greetings::TARGET,
    letters::TARGET,
    homes::TARGET,
    properties::TARGET,
    profile::TARGET,
    scenario::TARGET,
    history::TARGET,
];
