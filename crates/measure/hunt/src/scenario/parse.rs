//! Reads scenarios from files and writes them.

use toml::de::{DeTable, DeValue};

use super::{Scenario, ScenarioError};

/// Parses the scenario in `text`.
pub(super) fn parse(text: &str) -> Result<Scenario, ScenarioError> {
    let scenario = read(text)?;
    scenario.check().map_err(|error| {
        let line = error.key().and_then(|key| find(text, key)).map(|at| line_of(text, at));
        error.with_line(line)
    })?;
    Ok(scenario)
}

/// Reads `text`. Fails if a value is not in its range.
fn read(text: &str) -> Result<Scenario, ScenarioError> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().map(|span| line_of(text, span.start));
        let key = error.span().and_then(|span| key_at(text, span.start));
        let said = error.message().trim().replace('\n', ", ");
        ScenarioError::on_line(line, said).with_key(key)
    })
}

/// Checks the values of a scenario that a program built. The check writes the scenario and reads it
/// again. So the range of each key is defined only once.
pub(super) fn values(scenario: &Scenario) -> Result<(), ScenarioError> {
    let text = toml::to_string(scenario)
        .map_err(|error| ScenarioError::on_line(None, error.to_string()))?;
    read(&text).map(|_| ()).map_err(ScenarioError::without_line)
}

pub(super) fn to_toml(scenario: &Scenario) -> String {
    // Writing TOML fails for maps with keys that are not strings. A scenario has no such map.
    toml::to_string(scenario).expect("a scenario is a table of plain values")
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count()
}

/// The key of the value at `at`, in dotted form.
fn key_at(text: &str, at: usize) -> Option<String> {
    fn search(table: &DeTable<'_>, at: usize) -> Option<String> {
        table.iter().find_map(|(name, value)| {
            let name = name.get_ref();
            match value.get_ref() {
                DeValue::Table(inner) => search(inner, at).map(|key| format!("{name}.{key}")),
                _ => (value.span().start == at).then(|| name.to_string()),
            }
        })
    }
    search(DeTable::parse(text).ok()?.get_ref(), at)
}

/// The position of `key` in the text. If the text does not have the key, the position of its table.
fn find(text: &str, key: &str) -> Option<usize> {
    let document = DeTable::parse(text).ok()?;
    let mut table = document.get_ref();
    let mut found = None;
    for part in key.split('.') {
        let (name, value) = table.iter().find(|(name, _)| name.get_ref() == part)?;
        found = Some(name.span().start);
        match value.get_ref() {
            DeValue::Table(inner) => table = inner,
            _ => return found,
        }
    }
    found
}
