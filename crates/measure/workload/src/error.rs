//! Errors of a workload and of its files.

use std::path::PathBuf;

use latchwork_files::InputError;

use crate::properties::Source;

/// Why a workload or a property file is refused. Each text is one line that states valid input.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// A property file cannot be read.
    #[error("{path}: {cause}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        cause: InputError,
    },
    /// A line of a property file, or an assignment on the command line, is malformed.
    #[error("{at}: {}", printable(problem))]
    Syntax {
        /// The position of the line.
        at: Source,
        /// The mistake, and the valid form.
        problem: String,
    },
    /// A key that no workload has.
    #[error("{at}: unknown workload key `{}`{}", printable(key), suggestions(near))]
    UnknownKey {
        /// The position of the key.
        at: Source,
        /// The key as written.
        key: String,
        /// Known keys that are similar, the most similar first.
        near: Vec<&'static str>,
    },
    /// A known key with an invalid value.
    #[error("{at}: `{key}={}`: {expected}", printable(value))]
    BadValue {
        /// The position of the value.
        at: Source,
        /// The key.
        key: &'static str,
        /// The value as written.
        value: String,
        /// The valid values.
        expected: String,
    },
    /// Several settings that are valid alone and impossible together.
    #[error("{0}")]
    Conflict(String),
    /// A distribution with impossible parameters.
    #[error("{distribution} distribution: {problem}")]
    Distribution {
        /// The distribution.
        distribution: &'static str,
        /// The mistake.
        problem: String,
    },
}

/// The text without control characters. Escapes in a property file can put line ends and terminal
/// control characters into keys and values.
pub(crate) fn printable(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
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

#[cfg(test)]
mod tests {
    use crate::properties::Properties;
    use crate::ycsb::CoreWorkload;

    /// Bug, found by fuzzing: a key or a value with an escaped line end made an error of two lines.
    /// A terminal escape character in a value reached the terminal.
    #[test]
    fn an_error_is_one_line_whatever_it_quotes() {
        for (text, shown) in [
            ("recordc\\nount=5", "`recordc\u{fffd}ount`"),
            ("recordcount=\\u001b[2J5", "`recordcount=\u{fffd}[2J5`"),
        ] {
            let mut properties = Properties::default();
            properties.parse(text, "f").unwrap();
            let error = CoreWorkload::from_properties(&properties).unwrap_err().to_string();
            assert!(error.contains(shown) && !error.contains(char::is_control), "{error:?}");
        }
    }
}
