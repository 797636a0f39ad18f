//! Comments: no line of prose in one is beyond 100 columns. rustfmt does not wrap comments.

use crate::texts::{Finding, Prose};

const COLUMNS_MAX: usize = 100;

pub(crate) fn check(path: &str, text: &str, prose: &Prose, findings: &mut Vec<Finding>) {
    let lines: Vec<&str> = text.lines().collect();
    for (number, comment) in &prose.comments {
        let columns = lines[number - 1].chars().count();
        // Neither an address nor a row of a table can be wrapped.
        let is_row = comment.trim_start_matches([' ', '/', '!']).starts_with('|');
        if columns > COLUMNS_MAX && !is_row && !comment.contains("://") {
            let what = format!("comment of {columns} columns: wrap it at {COLUMNS_MAX}");
            findings.push(Finding::new(path, *number, what));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::texts::prose;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let mut findings = Vec::new();
        check(path, text, &prose(path, text).unwrap(), &mut findings);
        findings.into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn comments_beyond_the_limit_are_found_in_sources_and_scripts() {
        let long = "x".repeat(COLUMNS_MAX - 3);
        let source = format!(
            "//! {long}\n// {long}\nfn f() {{}} // {long}\n/// {long} [a]\nfn g() {{ /*\n {long} é\n */ }}"
        );
        assert_eq!(lines("a.rs", &source), [1, 3, 4]);
        let script = format!("#!/bin/sh {long} {long}\n# {long}yy\necho {long} # why\n# {long}\n");
        assert_eq!(lines("a.sh", &script), [2, 3]);
    }

    #[test]
    fn long_code_strings_addresses_and_rows_of_tables_are_no_long_comments() {
        let long = "x".repeat(COLUMNS_MAX);
        let source = format!(
            "const A: &str = \"// {long}\";\nconst B: &str = r#\"\n// \" {long}\"#;\n\
             fn f<'a>() -> &'a {long} {{ '\"'; '\\''; }}\n// https://{long}\n/// | {long} |\n/// ```\n/// {long}\n/// ```\nstruct C;"
        );
        assert_eq!(lines("a.rs", &source), [0; 0]);
    }
}
