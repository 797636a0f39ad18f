//! [`Ran`]: the outcome of one run of a case.

use std::path::Path;

use latchwork_report::result::ResultDocument;

use crate::outcome::Outcome;
use crate::results;

/// The outcome of one run of a case, if it ran.
pub(crate) struct Ran {
    pub(crate) outcome: Option<Outcome>,
    pub(crate) document: Option<ResultDocument>,
}

impl Ran {
    /// Reads the results in a directory.
    pub(super) fn of(directory: &Path) -> Ran {
        let text = latchwork_files::read_text(&results::document_of(directory), results::FILE).ok();
        let document = text.and_then(|text| serde_json::from_str(&text).ok());
        Ran { outcome: results::load(directory), document }
    }

    /// Whether the run succeeded and its checks hold, so that its values enter the table.
    pub(crate) fn is_good(&self) -> bool {
        let checked = self.document.as_ref().is_some_and(ResultDocument::all_checks_ok);
        self.outcome.as_ref().is_some_and(Outcome::is_good) && checked
    }

    pub(crate) fn problem(&self) -> String {
        let Some(outcome) = &self.outcome else { return "not run".to_owned() };
        match (&outcome.problem, &self.document) {
            (Some(problem), _) => problem.clone(),
            (None, None) => "it left no result document".to_owned(),
            (None, Some(document)) if !document.all_checks_ok() => "checks failed".to_owned(),
            _ => format!("status {}", outcome.status),
        }
    }
}
