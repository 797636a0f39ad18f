//! Tables: less than 60 % of the lines of a page are table rows, because a page explains in
//! sentences.
//!
//! Lines between `<!-- NAME: begin -->` and `<!-- NAME: end -->` do not count, because a program
//! fills them.

use super::finding::Finding;
use super::tree::Tree;

const PERCENT_MAX: usize = 60;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.pages.iter().filter(|(path, _)| path.starts_with("docs/")) {
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        let (mut rows, mut all, mut first) = (0, 0, None);
        let (mut in_code, mut generated) = (false, false);
        for line in lines {
            if line.starts_with("<!-- ") {
                generated = line.ends_with(": begin -->");
                continue;
            }
            if generated {
                continue;
            }
            all += 1;
            in_code ^= line.trim_start().starts_with("```");
            if line.trim_start().starts_with('|') && !in_code {
                rows += 1;
                first = first.or(Some(line));
            }
        }
        if rows * 100 > all * PERCENT_MAX {
            let line = text.lines().position(|line| Some(line) == first).map_or(1, |at| at + 1);
            let percent = rows * 100 / all;
            let what = format!(
                "{percent} % of this page are table rows: say in sentences what the tables show, or \
                 generate them into a page of reference"
            );
            findings.push(Finding::new(path, line, path.clone(), what));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::testing::Fixture;
    use super::*;

    #[test]
    fn a_page_of_tables_is_found_and_a_page_with_one_is_not() {
        let rows = "| a | b |\n".repeat(7);
        let fixture = Fixture::new()
            .with("docs/tables.md", &format!("# Tables\n\n{rows}\nOne.\nTwo.\n"))
            .with("docs/text.md", &format!("# Text\n\n{rows}\n{}", "Line.\n".repeat(4)))
            .with("docs/code.md", &format!("```text\n{rows}```\n"))
            .with(
                "docs/made.md",
                &format!("One.\n<!-- a: begin -->\n{rows}<!-- a: end -->\nTwo.\n"),
            )
            .with("docs/both.md", &format!("<!-- a: begin -->\n<!-- a: end -->\n{rows}Two.\n"));
        let found = check(&fixture.tree());
        let found: Vec<_> = found.iter().map(|f| (f.path.as_str(), f.line)).collect();
        assert_eq!(found, [("docs/both.md", 3), ("docs/tables.md", 3)]);
    }
}
