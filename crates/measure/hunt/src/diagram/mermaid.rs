//! Prints a diagram in the syntax of Mermaid (`sequenceDiagram`), which code hosts and plug-ins of
//! mdBook draw.

use std::fmt::Write as _;

use super::{Diagram, Drawn, Step, Style};
use crate::trace::micros;

impl Diagram {
    /// The diagram in the syntax of Mermaid.
    pub fn mermaid(&self) -> String {
        let mut text = String::from("sequenceDiagram\n");
        for party in &self.parties {
            let _ = writeln!(text, "    participant {party}");
        }
        let (first, last) = match (self.parties.first(), self.parties.last()) {
            (Some(first), Some(last)) => (first.to_string(), last.to_string()),
            _ => return text,
        };
        let _ = writeln!(text, "    Note over {first},{last}: {}", escape(&self.title));
        for step in &self.steps {
            let said = said(step);
            let _ = match step.what {
                Drawn::Arrow { from, to, style } => {
                    let arrow = match style {
                        Style::There => "->>",
                        Style::Back => "-->>",
                        Style::UnderWay => "--)",
                        Style::Lost => "-x",
                    };
                    writeln!(text, "    {from}{arrow}{to}: {said}")
                }
                Drawn::Note(Some(who)) => writeln!(text, "    Note over {who}: {said}"),
                Drawn::Note(None) => writeln!(text, "    Note over {first},{last}: {said}"),
            };
        }
        text
    }
}

fn said(step: &Step) -> String {
    let gap = if step.aside.is_empty() { "" } else { " | " };
    escape(&format!("{} {}{gap}{}", micros(step.at), step.text, step.aside))
}

/// Escapes characters of Mermaid's syntax. A semicolon or a line break ends a statement, and a
/// number sign starts an entity.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '#' => escaped.push_str("#35;"),
            ';' => escaped.push_str("#59;"),
            '\n' | '\r' => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}
