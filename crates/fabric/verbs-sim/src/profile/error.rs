//! [`ProfileError`]: the reason why a profile cannot be used.

use std::path::PathBuf;

/// Why a profile cannot be used. Each error text is one line, and often names an accepted value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The text is neither the name of a profile nor a file.
    #[error(
        "no NIC profile is called `{name}`: give one of {known}, or the path of a profile file"
    )]
    Unknown {
        /// The requested name.
        name: String,
        /// The names of the crate's profiles.
        known: String,
    },
    /// The file cannot be read.
    #[error("{path}: {cause}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        cause: latchwork_files::InputError,
    },
    /// A line of the file is wrong.
    #[error("{file}:{line}: {problem}")]
    Bad {
        /// The file.
        file: String,
        /// The line, counted from 1.
        line: usize,
        /// The problem, usually with the text of the line and an accepted value.
        problem: String,
    },
}
