//! [`ScenarioError`]: a mistake in a scenario.

use std::fmt;

/// A mistake in a scenario, with the line of its file if the line is known.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct ScenarioError {
    line: Option<usize>,
    key: Option<String>,
    text: String,
}

impl ScenarioError {
    /// A mistake in the value of `key`, which is in dotted form.
    pub(crate) fn of_key(key: &str, text: String) -> ScenarioError {
        ScenarioError { line: None, key: Some(key.to_owned()), text }
    }

    /// A mistake on a line of the file, counted from 1.
    pub(crate) fn on_line(line: Option<usize>, text: String) -> ScenarioError {
        ScenarioError { line, key: None, text }
    }

    /// The line of the file, counted from 1, if known.
    pub fn line(&self) -> Option<usize> {
        self.line
    }

    /// The key with the mistake, if known.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    pub(crate) fn with_line(self, line: Option<usize>) -> ScenarioError {
        ScenarioError { line: self.line.or(line), ..self }
    }

    pub(crate) fn without_line(self) -> ScenarioError {
        ScenarioError { line: None, ..self }
    }

    pub(crate) fn with_key(self, key: Option<String>) -> ScenarioError {
        ScenarioError { key: self.key.or(key), ..self }
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Keys and quoted text from a file may contain line breaks.
        let in_a_line = |text: &str| text.replace(char::is_control, "\u{fffd}");
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if let Some(key) = &self.key {
            write!(f, "{}: ", in_a_line(key))?;
        }
        f.write_str(&in_a_line(&self.text))
    }
}

#[cfg(test)]
mod tests {
    use crate::Scenario;

    /// Bug, found by fuzzing: an error that quoted a text or a key with a line break was several
    /// lines long.
    #[test]
    fn an_error_is_one_line_whatever_it_quotes() {
        for text in ["network = \"two\\nlines\"", "[settings]\n\"two\\nlines\" = 2"] {
            let error = Scenario::parse(text).expect_err(text).to_string();
            assert!(error.contains("two\u{fffd}lines") && !error.contains('\n'), "{error:?}");
        }
    }
}
