//! What can be wrong with a workload, and its files.

use crate::properties::Source;
use latchwork_files::InputError;
use std::path::PathBuf;

/// Why a workload or a property file is refused. The text of each is one line
/// that says what would do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// A property file cannot be read.
    #[error("{path}: {cause}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: InputError,
    },
    /// A line of a property file, or an assignment on the command line, cannot be understood.
    #[error("{at}: {problem}")]
    Syntax {
        /// Where it stands.
        at: Source,
        /// What is wrong, and what would do.
        problem: String,
    },
    /// A key that no workload has.
    #[error("{at}: unknown workload key `{key}`{}", suggestions(near))]
    UnknownKey {
        /// Where it stands.
        at: Source,
        /// The key as written.
        key: String,
        /// Known keys that look like it, best first.
        near: Vec<&'static str>,
    },
    /// A known key with a value that it cannot have.
    #[error("{at}: `{key}={value}`: {expected}")]
    BadValue {
        /// Where it stands.
        at: Source,
        /// The key.
        key: &'static str,
        /// The value as written.
        value: String,
        /// What would do.
        expected: String,
    },
    /// Several settings that are fine alone and impossible together.
    #[error("{0}")]
    Conflict(String),
    /// A distribution with impossible parameters.
    #[error("{distribution} distribution: {problem}")]
    Distribution {
        /// The distribution.
        distribution: &'static str,
        /// What is wrong.
        problem: String,
    },
}

fn suggestions(near: &[&'static str]) -> String {
    match near {
        [] => {
            "; `-p key=value` and property files take the keys of YCSB's core workload".to_owned()
        }
        keys => {
            let quoted: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
            format!("; did you mean {}?", quoted.join(" or "))
        }
    }
}
