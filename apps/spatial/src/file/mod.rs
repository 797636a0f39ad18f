//! Rows of places or boxes, read from a CSV file.
//!
//! ```text
//!   path ──► files: bounded, UTF-8, without a byte-order mark
//!               │
//!           csv: records ──► Columns, by the names of the first line
//!               │
//!           number ──► Space::boxed ──► Row
//! ```
//!
//! A row without coordinates is counted and left out. All else that is wrong ends the program with
//! one line that names the file, the line and the column.

mod columns;
mod number;

use std::path::{Path, PathBuf};

use csv::{ErrorKind, ReaderBuilder, StringRecord, Trim};
use latchwork_files::{InputKind, read_text};
use latchwork_harness::AppError;

use crate::geometry::{Area, Space};
pub(crate) use columns::ColumnNames;
use columns::Columns;

const KIND: InputKind = InputKind { name: "a CSV file", bytes_max: 1 << 30 };

/// The most characters of a row's name.
const LABEL_MAX: usize = 40;

/// A row with coordinates.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Row {
    /// Its place or box.
    pub(crate) area: Area,
    /// Its name, for people.
    pub(crate) label: String,
    /// Its line in the file, from 1.
    pub(crate) line: u64,
}

/// The rows of a file. The id of a row in the index is its position here.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct DataFile {
    /// The path, as it was given.
    pub(crate) path: PathBuf,
    /// The rows with coordinates.
    pub(crate) rows: Vec<Row>,
    /// Rows whose fields for coordinates are all empty.
    pub(crate) rows_without: u64,
    /// Rows of which some of these fields are empty.
    pub(crate) rows_partial: u64,
    /// The names of the columns of coordinates: longitudes, then latitudes.
    pub(crate) columns: [Vec<String>; 2],
}

impl DataFile {
    /// Reads the rows of a file.
    ///
    /// # Errors
    /// What is wrong with the file, and where.
    pub(crate) fn read(
        path: &Path,
        names: &ColumnNames,
        space: Space,
    ) -> Result<DataFile, AppError> {
        let wrong = |what: String| AppError::Usage(format!("{}: {what}", path.display()));
        let text = read_text(path, KIND).map_err(|error| wrong(error.to_string()))?;
        DataFile::parse(path, &text, names, space).map_err(wrong)
    }

    /// As [`read`](DataFile::read), of the text of a file. The error is without its path.
    fn parse(
        path: &Path,
        text: &str,
        names: &ColumnNames,
        space: Space,
    ) -> Result<DataFile, String> {
        let mut reader = ReaderBuilder::new().trim(Trim::All).from_reader(text.as_bytes());
        let header = reader.headers().map_err(|error| broken(&error, text))?.clone();
        let columns = Columns::choose(&header, names)?;
        let mut file = DataFile {
            path: path.to_owned(),
            rows: Vec::new(),
            rows_without: 0,
            rows_partial: 0,
            columns: columns.names(&header),
        };
        let mut record = StringRecord::new();
        let mut last = 0;
        while reader.read_record(&mut record).map_err(|error| broken(&error, text))? {
            let line;
            (last, line) = begin(text, record.position());
            let fields = columns.fields(&record);
            match fields.iter().filter(|(_, text)| text.is_empty()).count() {
                0 => {
                    let area = columns.area(&header, &record, space);
                    let area = area.map_err(|what| format!("line {line}, {what}"))?;
                    let label = match columns.label(&record, LABEL_MAX) {
                        label if label.is_empty() => format!("line {line}"),
                        label => label,
                    };
                    file.rows.push(Row { area, label, line });
                }
                empty if empty == fields.len() => file.rows_without += 1,
                _ => file.rows_partial += 1,
            }
        }
        // The reader takes the end of the text for the end of a quoted field.
        if text.get(last..).is_some_and(|record| record.matches('"').count() % 2 == 1) {
            let line = 1 + text[..last].matches('\n').count();
            return Err(format!(
                "line {line}: a quoted field is not closed before the end of the file; is the file cut off?"
            ));
        }
        Ok(file)
    }

    /// The name of the file, without its directories.
    pub(crate) fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or(self.path.as_os_str());
        name.to_string_lossy().into_owned()
    }

    /// The noun for its rows.
    pub(crate) fn noun(&self) -> &'static str {
        if self.columns[0].len() > 1 { "boxes" } else { "places" }
    }

    /// All rows of the file.
    pub(crate) fn rows_of_file(&self) -> u64 {
        self.rows.len() as u64 + self.rows_without + self.rows_partial
    }

    /// A hash of all rows, which is equal for equal rows.
    pub(crate) fn digest(&self) -> u64 {
        self.rows.iter().fold(0, |so_far, row| {
            let [[west, south], [east, north]] = [row.area.low(), row.area.high()];
            let numbers = [west, south, east, north].map(f64::to_bits);
            let bytes = row.label.bytes().map(u64::from);
            numbers.into_iter().chain(bytes).fold(so_far, crate::digest::add)
        })
    }

    /// The rows in words, for a table.
    pub(crate) fn in_words(&self) -> Vec<String> {
        let mut words =
            vec![format!("{} rows, {} with coordinates", self.rows_of_file(), self.rows.len())];
        let reasons = [
            (self.rows_without, "without coordinates"),
            (self.rows_partial, "with a part of their coordinates"),
        ];
        let omitted = reasons.iter().filter(|(count, _)| *count > 0);
        words.extend(omitted.map(|(count, why)| format!("{count} rows {why} are left out")));
        words
    }
}

/// The first byte of a record, and its line. The reader's position may be in front of the end of
/// the line before.
fn begin(text: &str, position: Option<&csv::Position>) -> (usize, u64) {
    let (byte, line) = position.map_or((0, 1), |at| (at.byte() as usize, at.line()));
    let rest = text.get(byte..).unwrap_or_default();
    let ends = rest.len() - rest.trim_start_matches(['\r', '\n']).len();
    (byte + ends, line + rest[..ends].matches('\n').count() as u64)
}

/// What the reader found wrong, with the line.
fn broken(error: &csv::Error, text: &str) -> String {
    match error.kind() {
        ErrorKind::UnequalLengths { pos, expected_len, len } => {
            let (begin, line) = begin(text, pos.as_ref());
            let is_last =
                text.get(begin..).is_some_and(|rest| rest.trim_end().lines().count() <= 1);
            let hint = if is_last { "; is the file cut off?" } else { "" };
            format!("line {line}: it has {len} fields, and the first line has {expected_len}{hint}")
        }
        _ => error.to_string().replace(char::is_control, " "),
    }
}

#[cfg(test)]
mod tests;
