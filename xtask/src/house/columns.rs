//! Comments: no comment line is longer than 100 columns. rustfmt does not wrap comments.

use super::finding::Finding;
use super::tree::Tree;

const COLUMNS_MAX: usize = 100;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        let mut last = 0;
        for comment in &file.facts.comments {
            if comment.line != last {
                examine(&file.path, comment.line, comment.columns, &comment.text, &mut findings);
            }
            last = comment.line;
        }
    }
    for (path, text) in &tree.scripts {
        for (index, line) in text.lines().enumerate() {
            let is_comment = line.trim_start().starts_with('#') && !line.starts_with("#!");
            // After code, a `#` begins a comment of a script only with a space on both sides.
            let comment =
                if is_comment { Some(line) } else { line.split_once(" # ").map(|(_, c)| c) };
            if let Some(comment) = comment {
                examine(path, index + 1, line.chars().count(), comment, &mut findings);
            }
        }
    }
    findings
}

fn examine(path: &str, line: usize, columns: usize, text: &str, into: &mut Vec<Finding>) {
    // An address cannot be wrapped.
    let has_long_address = text
        .split_whitespace()
        .any(|word| word.contains("://") && word.chars().count() > COLUMNS_MAX / 2);
    if columns > COLUMNS_MAX && !has_long_address {
        let what = format!("comment of {columns} columns: wrap it at {COLUMNS_MAX}");
        into.push(Finding::new(path, line, path, what));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Fixture;
    use super::*;

    #[test]
    fn comments_beyond_the_limit_are_found_in_sources_and_scripts() {
        let long = "x".repeat(COLUMNS_MAX - 3);
        let source = format!("//! {long}\n// {long}\nfn f() {{}} // {long}\n");
        let script = format!("#!/bin/sh {long} {long}\n# {long}yy\necho {long} # why\n# {long}\n");
        let fixture = Fixture::library("a", &source).with("scripts/run.sh", &script);
        let found: Vec<_> = check(&fixture.tree()).into_iter().map(|f| (f.path, f.line)).collect();
        let expected = [
            ("crates/a/src/lib.rs", 1),
            ("crates/a/src/lib.rs", 3),
            ("scripts/run.sh", 2),
            ("scripts/run.sh", 3),
        ];
        assert_eq!(found, expected.map(|(path, line)| (path.to_owned(), line)));
    }

    #[test]
    fn long_code_strings_and_addresses_are_no_long_comments() {
        let long = "x".repeat(COLUMNS_MAX);
        let source = format!("const A: &str = \"// {long}\";\n// https://{long}\n");
        assert!(check(&Fixture::library("a", &source).tree()).is_empty());
    }
}
