//! [`Source`]: where a property was assigned, for error messages.

use std::fmt;
use std::sync::Arc;

/// The source of a property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A line of a file, counted from 1.
    File {
        /// The file name as given.
        name: Arc<str>,
        /// The line on which the assignment begins.
        line: usize,
    },
    /// An assignment on the command line (`-p key=value`).
    CommandLine,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::File { name, line } => write!(f, "{name}:{line}"),
            Source::CommandLine => f.write_str("-p"),
        }
    }
}
