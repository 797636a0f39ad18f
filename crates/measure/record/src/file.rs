//! Histories in files: a header line of JSON, and a line for each transaction.

use std::collections::HashMap;
use std::io::{self, BufRead, Read as _, Write};
use std::path::{Path, PathBuf};

use latchwork_files::{Input, InputError, InputKind};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    RecordedOperation, RecordedTransaction, RowVersion, TransactionHistory, TransactionId,
    TransactionOutcome,
};

/// The version of the file format. The crate writes and reads only this version.
const FORMAT: u32 = 1;

/// The name of the format in the first line of a file.
const NAME: &str = "latchwork-history";

const HEAD: InputKind = InputKind { name: "the first line of a history", bytes_max: 4 << 10 };
/// Far more than real transactions need: 100,000 operations take some 10 MiB.
const LINE: InputKind = InputKind { name: "a line of a history", bytes_max: 256 << 20 };

#[derive(Serialize, Deserialize)]
struct Header {
    format: String,
    version: u32,
    base: RowVersion,
}

/// Why a history could not be read or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// The system returned an error.
    #[error("{}: {doing} failed: {cause}", file.display())]
    Io {
        /// The failed action.
        doing: &'static str,
        /// The file.
        file: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// The file is not a history.
    #[error("{}: this is no history: its first line is to be {{\"format\":\"{NAME}\",\"version\":{FORMAT},\"base\":..}}", file.display())]
    Foreign {
        /// The file.
        file: PathBuf,
    },
    /// The file has another version of the format.
    #[error("{}: a history of version {found}, and this program reads {FORMAT}: record it anew, or use the program that wrote it", file.display())]
    Version {
        /// The file.
        file: PathBuf,
        /// The file's version.
        found: u32,
    },
    /// A line does not hold a transaction.
    #[error("{}, line {line}: {problem}", file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The mistake.
        problem: String,
    },
    /// A transaction was read twice: a file was named twice or copied, or it has a line twice.
    #[error(
        "{}, line {line}: transaction {id} stands in {}, line {first_line}, already; name each \
         process's own history once",
        file.display(), first_file.display()
    )]
    Twice {
        /// The transaction.
        id: TransactionId,
        /// The file of the first reading.
        first_file: PathBuf,
        /// The line in that file, from 1.
        first_line: usize,
        /// The file of the second reading.
        file: PathBuf,
        /// The line in that file, from 1.
        line: usize,
    },
}

impl HistoryError {
    pub(crate) fn io(doing: &'static str, file: &Path, cause: io::Error) -> HistoryError {
        HistoryError::Io { doing, file: file.to_owned(), cause }
    }
}

pub(crate) fn header(base: RowVersion) -> Vec<u8> {
    let header = Header { format: NAME.to_owned(), version: FORMAT, base };
    line(&header)
}

/// A value as one line of JSON. The `expect` holds because the keys of all written maps are text.
pub(crate) fn line(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).expect("plain structures have a form in JSON");
    line.push(b'\n');
    line
}

impl TransactionHistory {
    /// Reads a file that a [`Recording`](crate::Recording) wrote, of at most `bytes_max` bytes.
    ///
    /// # Errors
    /// [`HistoryError`] if the file cannot be read, is larger than `bytes_max`, or is not a sound
    /// history.
    pub fn load(path: &Path, bytes_max: u64) -> Result<TransactionHistory, HistoryError> {
        TransactionHistory::load_all([path], bytes_max)
    }

    /// Reads the recordings of the processes of one run, at most `bytes_max` bytes from each file.
    ///
    /// # Errors
    /// As [`load`](TransactionHistory::load); [`HistoryError::Twice`] also when two files have one
    /// transaction.
    pub fn load_all(
        paths: impl IntoIterator<Item = impl AsRef<Path>>,
        bytes_max: u64,
    ) -> Result<TransactionHistory, HistoryError> {
        let mut all = Reading::default();
        for path in paths {
            all.add_file(path.as_ref(), bytes_max)?;
        }
        Ok(all.history)
    }

    /// Reads a history from `from`. Errors name `path`.
    ///
    /// # Errors
    /// As [`load`](TransactionHistory::load).
    pub fn read(from: impl BufRead, path: &Path) -> Result<TransactionHistory, HistoryError> {
        let mut one = Reading::default();
        one.add(from, path)?;
        Ok(one.history)
    }

    /// Writes the history in the form that [`load`](TransactionHistory::load) reads.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn write(&self, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
        out.write_all(&header(self.base))?;
        self.transactions.iter().try_for_each(|transaction| out.write_all(&line(transaction)))
    }
}

/// A history during its assembly from files.
#[derive(Default)]
struct Reading {
    history: TransactionHistory,
    files: Vec<PathBuf>,
    /// For each transaction, the index of its file in `files`, and its line.
    seen: HashMap<TransactionId, (usize, usize)>,
}

impl Reading {
    fn add_file(&mut self, path: &Path, bytes_max: u64) -> Result<(), HistoryError> {
        let kind = InputKind { name: "a history", bytes_max };
        let file = Input::open(path, kind)
            .map_err(|error| HistoryError::io("opening", path, error.into()))?;
        self.add(io::BufReader::with_capacity(1 << 18, file), path)
    }

    fn add(&mut self, mut from: impl BufRead, path: &Path) -> Result<(), HistoryError> {
        self.files.push(path.to_owned());
        let place = self.files.len() - 1;
        let file = || path.to_owned();
        let mut line = Vec::new();
        let mut next = |line: &mut Vec<u8>, kind: InputKind| {
            line.clear();
            let failed = |cause| HistoryError::io("reading", path, cause);
            let mut bounded = (&mut from).take(kind.bytes_max + 1);
            let count = bounded.read_until(b'\n', line).map_err(failed)?;
            match count as u64 > kind.bytes_max {
                true => Err(failed(InputError::TooLarge { kind }.into())),
                false => Ok(count),
            }
        };
        next(&mut line, HEAD)?;
        let head = latchwork_files::text(std::mem::take(&mut line));
        let head = head.map_err(|error| HistoryError::io("reading", path, error.into()))?;
        let header: Header = serde_json::from_str(&head)
            .ok()
            .filter(|header: &Header| header.format == NAME)
            .ok_or_else(|| HistoryError::Foreign { file: file() })?;
        if header.version != FORMAT {
            return Err(HistoryError::Version { file: file(), found: header.version });
        }
        self.history.base = self.history.base.max(header.base);
        for number in 2.. {
            if next(&mut line, LINE)? == 0 {
                break;
            }
            let wrong =
                |problem: String| HistoryError::Line { file: file(), line: number, problem };
            let transaction: RecordedTransaction = serde_json::from_slice(&line).map_err(|error| {
                let whole = line.ends_with(b"\n");
                let cut = "the line is not whole; its recording did not end: remove it to check what stands before";
                // serde's message quotes text of the file, which may contain line breaks.
                let said = error.to_string().replace(char::is_control, "\u{fffd}");
                wrong(if whole { said } else { cut.to_owned() })
            })?;
            sound(&transaction).map_err(wrong)?;
            let id = transaction.id;
            if let Some((first, first_line)) = self.seen.insert(id, (place, number)) {
                let first_file = self.files[first].clone();
                return Err(HistoryError::Twice {
                    id,
                    first_file,
                    first_line,
                    file: file(),
                    line: number,
                });
            }
            self.history.transactions.push(transaction);
        }
        Ok(())
    }
}

/// Refuses transactions that end before they begin, and commits with writes but without a
/// timestamp. The checker relies on both.
fn sound(transaction: &RecordedTransaction) -> Result<(), String> {
    if transaction.end < transaction.begin {
        return Err(format!("{} ends before it begins", transaction.id));
    }
    let is_write =
        |operation: &RecordedOperation| matches!(operation, RecordedOperation::Write { .. });
    let is_committed = matches!(transaction.outcome, TransactionOutcome::Committed { cts: 0 });
    if is_committed && transaction.operations.iter().any(is_write) {
        return Err(format!("{} is committed with writes and without a timestamp", transaction.id));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bug, found by fuzzing: an error that quoted several lines of the file was itself several
    /// lines long.
    #[test]
    fn an_error_is_one_line_whatever_it_quotes() {
        let line = br#"{"node":0,"worker":0,"sequence":0,"begin":1,"end":2,"outcome":{"a\nb":0},"operations":[]}"#;
        let text = [&header(0), &line[..], b"\n"].concat();
        let error = TransactionHistory::read(&text[..], Path::new("h"))
            .expect_err("no outcome")
            .to_string();
        assert!(error.contains("`a\u{fffd}b`") && !error.contains('\n'), "{error:?}");
    }
}
