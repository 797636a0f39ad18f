//! Parsing a profile. Every error is one line that names the file, the line, and often an accepted
//! value.

use std::ops::Range;

use serde::de::DeserializeOwned;

use super::error::ProfileError;

pub(super) fn parsed<T: DeserializeOwned>(text: &str, file: &str) -> Result<T, ProfileError> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        let span = error.span().unwrap_or(0..0);
        let line = 1 + text[..span.start].matches('\n').count();
        let what = problem(error.message());
        let problem = match statement(text, &span) {
            Some(statement) => format!("{statement}: {what}"),
            None => what,
        };
        ProfileError::Bad { file: file.to_owned(), line, problem }
    })
}

/// The message of the TOML reader, as one line in this crate's words.
fn problem(message: &str) -> String {
    match message.split_once(", expected ") {
        Some((found, expected)) if found.starts_with("invalid type") => {
            format!("must be {expected}")
        }
        _ => message.replace('\n', ", "),
    }
}

/// The line on which `span` starts, without its comment. `None` when the span covers several lines.
fn statement<'a>(text: &'a str, span: &Range<usize>) -> Option<&'a str> {
    let start = text[..span.start].rfind('\n').map_or(0, |newline| newline + 1);
    let before = text.get(start..span.end)?;
    if before.trim().is_empty() || before.contains('\n') {
        return None;
    }
    let rest = text[span.end..].lines().next().unwrap_or_default();
    let end = span.end + rest.find('#').unwrap_or(rest.len());
    Some(text[start..end].trim())
}
