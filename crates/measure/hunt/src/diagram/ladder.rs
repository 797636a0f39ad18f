//! Prints a diagram in plain text: a vertical line (lifeline) for each node, with time running
//! downwards.

use std::fmt;

use super::{Diagram, Drawn, Step, Style};
use crate::trace::{TraceParty, micros};

/// The width of the time column, with the gap after it, in characters.
const TIME: usize = 14;

/// The maximum width of text on the right of the last lifeline, in characters.
const MARGIN: usize = 44;

/// The number of characters between two lifelines, for up to four nodes and for more nodes.
const FEW: usize = 38;
const MANY: usize = 30;
const _: () = assert!(TIME < MARGIN && MANY < FEW, "a column has room for its text");

impl fmt::Display for Diagram {
    /// The diagram in plain text, with box-drawing characters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paper = Paper::new(&self.parties);
        writeln!(f, "{}, time in us", self.title)?;
        let names = paper.heads();
        writeln!(f, "{names}")?;
        for step in &self.steps {
            for row in paper.rows(step) {
                writeln!(f, "{row}")?;
            }
        }
        writeln!(f, "{names}")
    }
}

struct Paper<'a> {
    parties: &'a [TraceParty],
    gap: usize,
}

/// The characters of one row.
struct Row(Vec<char>);

impl Row {
    fn put(&mut self, at: usize, text: &str) {
        for (i, c) in text.chars().enumerate() {
            if self.0.len() <= at + i {
                self.0.resize(at + i + 1, ' ');
            }
            self.0[at + i] = c;
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text: String = self.0.iter().collect();
        f.write_str(text.trim_end())
    }
}

impl Paper<'_> {
    fn new(parties: &[TraceParty]) -> Paper<'_> {
        Paper { parties, gap: if parties.len() > 4 { MANY } else { FEW } }
    }

    fn column(&self, party: TraceParty) -> usize {
        let index = self.parties.iter().position(|other| *other == party).unwrap_or(0);
        TIME + 2 + index * (self.gap + 1)
    }

    fn is_last(&self, party: TraceParty) -> bool {
        self.parties.last() == Some(&party)
    }

    fn heads(&self) -> Row {
        let mut row = Row(Vec::new());
        for party in self.parties {
            row.put(self.column(*party) - 1, &party.to_string());
        }
        row
    }

    fn lifelines(&self) -> Row {
        let mut row = Row(Vec::new());
        for party in self.parties {
            row.put(self.column(*party), "│");
        }
        row
    }

    fn rows(&self, step: &Step) -> Vec<Row> {
        let mut rows = match step.what {
            Drawn::Arrow { from, to, style } if from != to => self.arrow(step, from, to, style),
            Drawn::Arrow { from, .. } | Drawn::Note(Some(from)) => self.note(step, from),
            Drawn::Note(None) => {
                let width = (self.parties.len().max(1) - 1) * (self.gap + 1) + MARGIN;
                let lines = wrap(&step.text, width);
                let mut rows = vec![self.lifelines()];
                rows.extend(lines.iter().map(|line| {
                    let mut row = Row(Vec::new());
                    row.put(TIME + 2, &format!("═══ {line}"));
                    row
                }));
                let mut first = Row(rows[1].0.clone());
                first.put(0, &time(step));
                rows[1] = first;
                return rows;
            }
        };
        if let Some(first) = rows.first_mut() {
            first.put(0, &time(step));
        }
        rows
    }

    fn note(&self, step: &Step, who: TraceParty) -> Vec<Row> {
        let at = self.column(who);
        let width = if self.is_last(who) { MARGIN } else { self.gap - 2 };
        let gap = if step.aside.is_empty() { "" } else { ": " };
        let lines = wrap(&format!("{}{gap}{}", step.text, step.aside), width);
        let rows = lines.iter().enumerate().map(|(i, line)| {
            let mut row = self.lifelines();
            if i == 0 {
                row.put(at, "●");
            }
            row.put(at + 2, line);
            row
        });
        rows.collect()
    }

    fn arrow(&self, step: &Step, from: TraceParty, to: TraceParty, style: Style) -> Vec<Row> {
        let (start, end) = (self.column(from), self.column(to));
        let (low, high) = (start.min(end), start.max(end));
        let right = start < end;
        // The text leaves room for a piece of the arrow on both sides, and for the head.
        let lines = wrap(&step.text, high - low - 8);
        let mut rows: Vec<Row> = Vec::new();
        let (last, above) = lines.split_last().map_or(("", &[][..]), |(l, a)| (l.as_str(), a));
        for line in above {
            let mut row = self.lifelines();
            row.put(low + 4, line);
            rows.push(row);
        }
        let mut row = self.lifelines();
        let dash = if matches!(style, Style::Back | Style::UnderWay) { "╌" } else { "─" };
        let end_of_line = if style == Style::Lost { low + (high - low) * 2 / 3 } else { high };
        let (first, beyond) = match right {
            true => (low + 1, end_of_line),
            false => (high - (end_of_line - low) + 1, high),
        };
        for at in first..beyond {
            let crosses = self.parties.iter().any(|party| self.column(*party) == at);
            row.put(at, if crosses { "┼" } else { dash });
        }
        row.put(start, if right { "├" } else { "┤" });
        let head = match (style, right) {
            (Style::Lost, _) => "x",
            (_, true) => "►",
            (_, false) => "◄",
        };
        row.put(if right { beyond - 1 } else { first }, head);
        if !last.is_empty() {
            row.put(low + 4, &format!(" {last} "));
        }
        let mut below = None;
        if !step.aside.is_empty() {
            if self.is_last(to) {
                row.put(end + 2, &step.aside);
            } else {
                let mut note = self.lifelines();
                note.put(end + 2, &format!("({})", step.aside));
                below = Some(note);
            }
        }
        rows.push(row);
        rows.extend(below);
        rows
    }
}

fn time(step: &Step) -> String {
    format!("{:>width$}", micros(step.at), width = TIME - 1)
}

/// Breaks `text` into lines of at most `width` characters, at spaces where possible.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let mut word = word.to_owned();
        loop {
            let line = lines.last_mut().expect("at least one");
            let gap = usize::from(!line.is_empty());
            if line.chars().count() + gap + word.chars().count() <= width {
                if gap == 1 {
                    line.push(' ');
                }
                line.push_str(&word);
                break;
            }
            if !line.is_empty() {
                lines.push(String::new());
                continue;
            }
            let cut = word.char_indices().nth(width.max(1)).map_or(word.len(), |(at, _)| at);
            let rest = word.split_off(cut);
            line.push_str(&word);
            if rest.is_empty() {
                break;
            }
            word = rest;
            lines.push(String::new());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::wrap;

    #[test]
    fn text_is_broken_at_spaces_and_words_that_are_too_long_anywhere() {
        assert_eq!(wrap("ask Write #7 pri 2", 12), ["ask Write #7", "pri 2"]);
        assert_eq!(wrap("0123456789abc de", 5), ["01234", "56789", "abc", "de"]);
        assert_eq!(wrap("", 5), [""]);
    }
}
