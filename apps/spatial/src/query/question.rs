//! [`Query`]: what is asked, and about which rows.

use std::path::PathBuf;

use latchwork_files::Output;
use latchwork_report::histogram::OperationKindSet;

use crate::args::QueryKind;
use crate::file::DataFile;
use crate::geometry::{Area, Space};

/// A query, with the files that it is about.
pub(crate) struct Query {
    pub(crate) kind: QueryKind,
    pub(crate) space: Space,
    pub(crate) question: Question,
    /// The rows that are indexed.
    pub(crate) data: DataFile,
    /// The rows of the question, if a file has it.
    pub(crate) other: Option<DataFile>,
    /// The greatest distance of a pair of a join.
    pub(crate) within: f64,
    /// How many of the nearest.
    pub(crate) count: usize,
    /// Whether a scan checks the answers.
    pub(crate) check: bool,
    /// The output for all answers.
    pub(crate) csv: Option<Output>,
}

/// What a query asks.
pub(crate) enum Question {
    /// About one window or point.
    Of(Area),
    /// About each row of a file.
    Rows(PathBuf),
}

impl Query {
    /// The windows or points that are asked about one by one. A join asks about all rows at once.
    pub(crate) fn places(&self) -> Vec<Area> {
        match (&self.question, &self.other) {
            (Question::Of(area), _) => vec![*area],
            (Question::Rows(_), Some(other)) => other.rows.iter().map(|row| row.area).collect(),
            (Question::Rows(_), None) => Vec::new(),
        }
    }

    /// The name of a question, for people.
    pub(crate) fn place_label(&self, query: u64) -> &str {
        let row = self.other.as_ref().and_then(|other| other.rows.get(query as usize));
        row.map_or("", |row| row.label.as_str())
    }

    /// The name of a row of the indexed file, for people.
    pub(crate) fn label(&self, id: u64) -> &str {
        self.data.rows.get(id as usize).map_or("", |row| row.label.as_str())
    }
}

/// A query as a kind of operation.
#[derive(Clone, Copy)]
pub(crate) struct Kind(pub(crate) QueryKind);

impl OperationKindSet for Kind {
    const NAMES: &'static [&'static str] = &["WINDOW", "POINT", "NEAREST", "JOIN"];

    fn index(self) -> usize {
        self.0 as usize
    }
}
