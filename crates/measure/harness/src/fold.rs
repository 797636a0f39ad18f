//! Folds long lines of output for people, so that they fit a terminal. A folded line continues on
//! the next line, indented.

use std::io::{self, Write};

use latchwork_strict::strict_assert;

/// Columns of a terminal of the usual width.
pub const COLUMNS: usize = 80;

/// Columns that remain for a line after the name of a process (`C58 | `), which `cluster run`
/// prints before it.
pub const COLUMNS_RELAYED: usize = COLUMNS - 6;

/// Maximum indent of a continued line.
const INDENT_MAX: usize = 34;
const _: () = assert!(INDENT_MAX < COLUMNS_RELAYED / 2, "a continued line has room for words");

/// Folds the lines of `text` to at most [`COLUMNS`] columns.
///
/// A folded line continues below the text after its last gap of two or more blanks, as in `check
/// records ok`. A word that is too long for a line, such as a path, is not broken.
pub fn folded(text: &str) -> String {
    folded_to(COLUMNS, text)
}

/// As [`folded`], to this number of columns.
pub fn folded_to(columns: usize, text: &str) -> String {
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        fold(columns, line, &mut out);
    }
    out
}

fn fold(columns: usize, line: &str, out: &mut String) {
    let (text, end) = match line.strip_suffix('\n') {
        Some(text) => (text, "\n"),
        None => (line, ""),
    };
    if text.chars().count() <= columns {
        out.push_str(line);
        return;
    }
    let indent = indent(text);
    let (head, rest): (String, String) =
        (text.chars().take(indent).collect(), text.chars().skip(indent).collect());
    out.push_str(&head);
    strict_assert!(indent <= INDENT_MAX, "a continued line begins at column {indent}");
    let mut column = indent;
    for (number, word) in rest.split(' ').filter(|word| !word.is_empty()).enumerate() {
        let length = word.chars().count();
        if number > 0 && column + 1 + length > columns {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            column = indent;
        } else if number > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out.push_str(end);
}

/// The column at which continued lines begin: after the last gap of two or more blanks, within
/// [`INDENT_MAX`] columns. Without a gap, 2.
fn indent(text: &str) -> usize {
    let letters: Vec<char> = text.chars().take(INDENT_MAX + 1).collect();
    let is_gap = |at: usize| at >= 2 && letters[at - 1] == ' ' && letters[at - 2] == ' ';
    (1..letters.len()).rev().find(|at| letters[*at] != ' ' && is_gap(*at)).unwrap_or(2)
}

/// Writes the output of `write`, [folded] to [`COLUMNS_RELAYED`].
pub(crate) fn write(
    out: &mut dyn Write,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut text = Vec::new();
    let written = write(&mut text);
    let text = String::from_utf8_lossy(&text);
    out.write_all(folded_to(COLUMNS_RELAYED, &text).as_bytes())?;
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_goes_on_under_its_text_and_loses_no_word() {
        let words = "transactions ".repeat(9);
        for (head, indent) in [
            ("run    ", 7),
            ("       ", 7),
            ("check  records          ok     ", 31),
            ("plain text and ", 2),
        ] {
            let line = format!("{head}{}\n", words.trim());
            let text = folded(&line);
            assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
            let second = text.lines().nth(1).expect("it is folded");
            assert!(second.starts_with(&format!("{}tr", " ".repeat(indent))), "{text}");
            let all = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(all(&text), all(&line));
        }
        let short = format!("{}\n\n  last", "x".repeat(COLUMNS));
        assert_eq!(folded(&short), short);
        let path = format!("see    {}/x and more", "y".repeat(90));
        assert_eq!(folded(&path), format!("see    {}/x\n       and more", "y".repeat(90)));
    }
}
