//! The reasons why the tree could not be checked.

use std::io;

use thiserror::Error as ThisError;

/// The reason why the tree could not be checked.
#[derive(Debug, ThisError)]
pub(crate) enum Error {
    #[error("{path} cannot be read: {cause}")]
    Read { path: String, cause: io::Error },
    #[error("{path} cannot be written: {cause}")]
    Write { path: String, cause: io::Error },
    #[error("{path}:{line}: not Rust that this task can parse: {what}")]
    Syntax { path: String, line: usize, what: String },
    #[error("{path}: {cause}")]
    Manifest { path: String, cause: Box<toml::de::Error> },
    #[error("{path}:{line}: {what}")]
    Rule { path: String, line: usize, what: String },
    #[error(
        "no kind `{0}`: name one of circles, arrows, comments, words, imports, unused, flags, tables, names"
    )]
    Kind(String),
}

impl Error {
    pub(crate) fn read(path: &str, cause: io::Error) -> Error {
        Error::Read { path: path.to_owned(), cause }
    }

    pub(crate) fn syntax(path: &str, cause: &syn::Error) -> Error {
        let line = cause.span().start().line;
        Error::Syntax { path: path.to_owned(), line, what: cause.to_string() }
    }
}
