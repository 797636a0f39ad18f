//! [`Given`]: a flag with its values and their source.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Command};

use super::flags::{Flag, variable};
use crate::AppError;
use crate::parse::one_line;

/// The source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    File {
        path: PathBuf,
        line: usize,
    },
    Variable(String),
    CommandLine,
    /// `--set` on the command line.
    Set,
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File { path, line } => write!(out, "{}:{line}", path.display()),
            Origin::Variable(name) => write!(out, "{name}"),
            Origin::CommandLine | Origin::Set => write!(out, "command line"),
        }
    }
}

impl Origin {
    /// The error for a wrong value of `key` from this source.
    pub(super) fn wrong(&self, key: &str, what: impl fmt::Display) -> AppError {
        AppError::Usage(match self {
            // The variable's name says which flag it is, except for `set`, which has other names in
            // its value.
            Origin::Variable(name) if variable(key).eq_ignore_ascii_case(name) => {
                format!("{name}: {what}")
            }
            Origin::Set => format!("--set {key}: {what}"),
            origin => format!("{origin}: {key}: {what}"),
        })
    }

    /// The source in a file: the line of the byte at `at`.
    pub(super) fn in_file(path: &Path, text: &str, at: usize) -> Origin {
        let line = text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
        Origin::File { path: path.to_owned(), line }
    }
}

/// A flag with the values that one source gives.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) flag: Flag,
    pub(super) values: Vec<OsString>,
    pub(super) origin: Origin,
}

impl Given {
    /// Whether this is a switch that is off. Such a switch has no effect and excludes nothing.
    pub(super) fn is_idle(&self) -> bool {
        self.flag.is_switch && self.values.iter().all(|value| value == "false" || value == "off")
    }

    /// The flag as arguments of a command line.
    pub(super) fn arguments(&self) -> impl Iterator<Item = OsString> + '_ {
        self.values.iter().map(|value| {
            let mut argument = OsString::from(format!("--{}=", self.flag.name));
            argument.push(value);
            argument
        })
    }

    /// Checks the values by themselves. An error names the source.
    pub(super) fn check(&self, relaxed: &Command) -> Result<(), AppError> {
        let arguments = std::iter::once(OsString::from("program")).chain(self.arguments());
        let Err(error) = relaxed.clone().try_get_matches_from(arguments) else { return Ok(()) };
        let text = |kind| match error.get(kind) {
            Some(ContextValue::String(text)) => Some(text.clone()),
            Some(ContextValue::Strings(texts)) => Some(texts.join(", ")),
            _ => None,
        };
        let what = match error.kind() {
            ErrorKind::ValueValidation => std::error::Error::source(&error).map(|e| e.to_string()),
            ErrorKind::InvalidValue => {
                text(ContextKind::ValidValue).map(|valid| format!("use one of {valid}"))
            }
            ErrorKind::WrongNumberOfValues
            | ErrorKind::TooManyValues
            | ErrorKind::TooFewValues
            | ErrorKind::NoEquals
            | ErrorKind::InvalidUtf8 => None,
            // The error is about other flags, which are checked later.
            _ => return Ok(()),
        };
        let value = text(ContextKind::InvalidValue);
        let value = value.or_else(|| self.values.first().map(|v| v.to_string_lossy().into()));
        let (value, what) = (value.unwrap_or_default(), what.unwrap_or_else(|| one_line(&error)));
        Err(match self.origin {
            Origin::Set => AppError::Usage(format!("--set {}={value}: {what}", self.flag.name)),
            _ => self.origin.wrong(&self.flag.name, format!("{value}: {what}")),
        })
    }
}

/// The flags that a command line gives, in the order of their declaration.
pub(super) fn on_command_line(flags: &[Flag], matches: &ArgMatches) -> Vec<Given> {
    let given = flags.iter().filter_map(|flag| {
        let is_given =
            matches.value_source(&flag.id) == Some(clap::parser::ValueSource::CommandLine);
        let values = matches.get_raw(&flag.id).filter(|_| is_given)?;
        Some(Given {
            flag: flag.clone(),
            values: values.map(OsString::from).collect(),
            origin: Origin::CommandLine,
        })
    });
    given.collect()
}
