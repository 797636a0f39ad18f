//! Property files of Java programs, and assignments on the command line. Each assignment keeps its
//! source for error messages.
//!
//! A later assignment replaces an earlier one. So the caller reads the files first, in the order of
//! the command line, and adds the assignments of the command line after them.
//!
//! ```
//! use latchwork_workload::properties::Properties;
//!
//! let mut properties = Properties::default();
//! properties.parse("# comment\nrecordcount = 1000\nreadproportion: 0.5\n", "my.properties")?;
//! properties.assign("recordcount=2000")?;
//! assert_eq!(properties.get("recordcount").unwrap().value, "2000");
//! assert_eq!(properties.get("readproportion").unwrap().at.to_string(), "my.properties:3");
//! # Ok::<(), latchwork_workload::WorkloadError>(())
//! ```

mod line;
mod near;
mod source;

pub(crate) use line::natural_lines;
pub use near::near_matches;
pub use source::Source;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use latchwork_files::{InputError, InputKind};

use crate::WorkloadError;
use crate::error::printable;

/// The limit for a property file: 1 MiB.
const FILE: InputKind = InputKind { name: "a property file", bytes_max: 1 << 20 };

/// One assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    /// The key. Escapes of a file are resolved.
    pub key: String,
    /// The value. Escapes of a file are resolved.
    pub value: String,
    /// The source.
    pub at: Source,
}

/// Assignments in the order in which they were made.
#[derive(Clone, Debug, Default)]
pub struct Properties {
    assignments: Vec<Property>,
    duplicates: Vec<Duplicate>,
}

/// A key that one file assigns twice, which is probably a mistake. The programs print a warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// The key.
    pub key: String,
    /// The earlier assignment.
    pub first: Source,
    /// The later assignment.
    pub second: Source,
}

impl fmt::Display for Duplicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Duplicate { key, first, second } = self;
        let key = printable(key);
        write!(f, "{second}: `{key}` stands at {first} already; the later value replaces it")
    }
}

impl Properties {
    /// Adds the assignments of a file. A file that is not UTF-8 is Latin-1, as Java wrote it.
    ///
    /// # Errors
    ///
    /// Fails when the file cannot be read or has a malformed line. The text names file and line.
    pub fn read_file(&mut self, path: &Path) -> Result<(), WorkloadError> {
        let name = path.display().to_string();
        let text = latchwork_files::read(path, FILE).and_then(text_of);
        let unreadable = |cause| WorkloadError::Unreadable { path: path.to_owned(), cause };
        self.parse(&text.map_err(unreadable)?, &name)
    }

    /// Adds the assignments of `text`, which error messages call `name`.
    ///
    /// # Errors
    ///
    /// Fails at the first malformed line.
    pub fn parse(&mut self, text: &str, name: &str) -> Result<(), WorkloadError> {
        let name: Arc<str> = name.into();
        let begin = self.assignments.len();
        for (number, logical) in line::logical_lines(text) {
            let at = Source::File { name: Arc::clone(&name), line: number };
            self.add(&logical, at)?;
        }
        let mut places: BTreeMap<&str, &Source> = BTreeMap::new();
        for Property { key, at, .. } in &self.assignments[begin..] {
            if let Some(first) = places.insert(key, at) {
                let (key, first, second) = (key.clone(), first.clone(), at.clone());
                self.duplicates.push(Duplicate { key, first, second });
            }
        }
        Ok(())
    }

    /// Adds one assignment from the command line, `key=value`. The text after the first `=` is the
    /// value. White space around key and value is removed, and escapes are not resolved.
    ///
    /// # Errors
    ///
    /// Fails when there is no `=` or no key.
    pub fn assign(&mut self, assignment: &str) -> Result<(), WorkloadError> {
        match assignment.split_once('=').map(|(key, value)| (key.trim(), value.trim())) {
            Some((key, value)) if !key.is_empty() => {
                let (key, value) = (key.to_owned(), value.to_owned());
                self.assignments.push(Property { key, value, at: Source::CommandLine });
                Ok(())
            }
            _ => Err(WorkloadError::Syntax {
                at: Source::CommandLine,
                problem: format!("`{assignment}` is not of the form key=value"),
            }),
        }
    }

    fn add(&mut self, logical: &str, at: Source) -> Result<(), WorkloadError> {
        match line::split(logical) {
            Ok((key, value)) => {
                self.assignments.push(Property { key, value, at });
                Ok(())
            }
            Err(problem) => Err(WorkloadError::Syntax { at, problem: problem.to_owned() }),
        }
    }

    /// The effective assignment of `key`, which is the last one.
    pub fn get(&self, key: &str) -> Option<&Property> {
        self.assignments.iter().rev().find(|property| property.key == key)
    }

    /// Keys that one file assigns more than once. A key that two files assign, or a file and the
    /// command line, is not in this list.
    pub(crate) fn duplicates(&self) -> &[Duplicate] {
        &self.duplicates
    }

    /// All assignments in order, including replaced ones.
    pub fn iter(&self) -> impl Iterator<Item = &Property> {
        self.assignments.iter()
    }
}

fn text_of(bytes: Vec<u8>) -> Result<String, InputError> {
    match latchwork_files::text(bytes.clone()) {
        Err(InputError::NotText { .. }) => Ok(bytes.into_iter().map(char::from).collect()),
        text => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Vec<(String, String)> {
        let mut properties = Properties::default();
        properties.parse(text, "t").unwrap();
        properties.iter().map(|p| (p.key.clone(), p.value.clone())).collect()
    }

    fn pair(key: &str, value: &str) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }

    #[test]
    fn every_separator_of_java_is_understood() {
        let text = "a=1\nb = 2\nc:3\nd : 4\ne 5\n  f\t=\t6\ng=\nh\ni==7\n";
        let expected = [
            pair("a", "1"),
            pair("b", "2"),
            pair("c", "3"),
            pair("d", "4"),
            pair("e", "5"),
            pair("f", "6"),
            pair("g", ""),
            pair("h", ""),
            pair("i", "=7"),
        ];
        assert_eq!(parsed(text), expected);
    }

    #[test]
    fn comments_and_blank_lines_are_skipped_and_never_continued() {
        assert_eq!(
            parsed("# a=1 \\\nb=2\n\n   \n  ! c=3\r\nd=4\r\n"),
            [pair("b", "2"), pair("d", "4")]
        );
    }

    #[test]
    fn a_backslash_at_the_end_continues_a_line() {
        assert_eq!(
            parsed("fruits = apple, \\\n    banana, \\\r\n\tpear\nlast=\\\\\nnext=1\n"),
            [pair("fruits", "apple, banana, pear"), pair("last", "\\"), pair("next", "1")]
        );
        assert_eq!(parsed("open=1\\"), [pair("open", "1")]);
    }

    #[test]
    fn escapes_are_resolved() {
        assert_eq!(parsed("a\\ b\\=c=x\\ty\\u0041\\q\n"), [pair("a b=c", "x\ty\u{41}q")]);
    }

    #[test]
    fn lines_end_with_cr_or_lf_or_both() {
        let mut properties = Properties::default();
        properties.parse("# c\ra=1\r\rb=\\\r  2\nc=\\\r\n3\r\nd=4", "t").unwrap();
        let shown = properties.iter().map(|p| format!("{} {}={}", p.at, p.key, p.value));
        assert_eq!(shown.collect::<Vec<_>>(), ["t:2 a=1", "t:4 b=2", "t:6 c=3", "t:8 d=4"]);
    }

    #[test]
    fn two_escaped_surrogates_are_one_character_and_one_alone_is_an_error() {
        assert_eq!(parsed("a=\\uD83D\\uDE00\\u00e9\n"), [pair("a", "\u{1f600}\u{e9}")]);
        for lone in ["\\uD83D", "\\uDE00", "\\uDE00\\uD83D", "\\uD83Dx", "\\uD83D\\u0041"] {
            let error = Properties::default().parse(&format!("x=1\na={lone}\n"), "f").unwrap_err();
            let error = error.to_string();
            assert!(error.starts_with("f:2: ") && error.contains("half a character"), "{error}");
        }
    }

    #[test]
    fn a_file_that_is_not_utf_8_is_latin_1() {
        let path = std::env::temp_dir().join(format!("latchwork-latin-{}", std::process::id()));
        for bytes in [&b"# caf\xe9\nfieldnameprefix=\xfc"[..], "fieldnameprefix=\u{fc}".as_bytes()]
        {
            std::fs::write(&path, bytes).unwrap();
            let mut properties = Properties::default();
            let read = properties.read_file(&path);
            std::fs::remove_file(&path).unwrap();
            read.unwrap();
            assert_eq!(properties.get("fieldnameprefix").unwrap().value, "\u{fc}");
        }
    }

    #[test]
    fn errors_name_file_and_line() {
        let mut properties = Properties::default();
        let error = properties.parse("a=1\n\nb=\\u12x4\n", "f.properties").unwrap_err();
        assert!(error.to_string().starts_with("f.properties:3: "), "{error}");
        let error = properties.parse("a=1\n b=2\n=3\n", "f.properties").unwrap_err();
        assert!(error.to_string().starts_with("f.properties:3: "), "{error}");
        let error = properties.assign("recordcount").unwrap_err();
        assert_eq!(error.to_string(), "-p: `recordcount` is not of the form key=value");
    }

    #[test]
    fn the_line_of_a_continued_assignment_is_its_first() {
        let mut properties = Properties::default();
        properties.parse("a=1\nb=\\\n2\nc=3\n", "t").unwrap();
        assert_eq!(properties.get("b").unwrap().at.to_string(), "t:2");
        assert_eq!(properties.get("c").unwrap().at.to_string(), "t:4");
    }

    #[test]
    fn a_missing_file_is_a_clear_error() {
        let error = Properties::default().read_file(Path::new("/nowhere/x")).unwrap_err();
        assert!(error.to_string().starts_with("/nowhere/x: it cannot be read: "), "{error}");
    }

    #[test]
    fn a_key_that_a_file_has_twice_is_reported_with_both_lines() {
        let mut properties = Properties::default();
        properties.parse("a=1\nb=2\na=3\n\na=3\n", "f").unwrap();
        properties.parse("a=4\nb=5\n", "g").unwrap();
        properties.assign("b=6").unwrap();
        let told: Vec<_> = properties.duplicates().iter().map(Duplicate::to_string).collect();
        assert_eq!(
            told,
            [
                "f:3: `a` stands at f:1 already; the later value replaces it",
                "f:5: `a` stands at f:3 already; the later value replaces it"
            ]
        );
        assert_eq!(properties.get("a").unwrap().value, "4");
    }

    #[test]
    fn the_last_assignment_wins() {
        let mut properties = Properties::default();
        properties.parse("a=1\na=2\n", "t").unwrap();
        assert_eq!(properties.get("a").unwrap().value, "2");
        properties.assign("a=3").unwrap();
        assert_eq!(properties.get("a").unwrap().value, "3");
        assert!(properties.get("b").is_none());
    }
}
