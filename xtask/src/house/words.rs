//! Words: terms that the project does not use, in comments, pages, messages and names of tests.
//!
//! `xtask/rules/words.txt` lists the words, each with a replacement. In pages and comments, code
//! between backticks does not count. A string counts if it has three words or more and is outside
//! tests, because such strings are messages for people.

use std::collections::HashMap;

use super::finding::Finding;
use super::rules::{Rules, Word};
use super::tree::Tree;

pub(crate) fn check(tree: &Tree, rules: &Rules) -> Vec<Finding> {
    let list = List::new(&rules.words);
    let mut findings = Vec::new();
    for file in &tree.files {
        let facts = &file.facts;
        let mut report = |line: usize, text: &str, counts: fn(&Word) -> bool| {
            list.find(&file.path, line, text, counts, &mut findings);
        };
        for comment in &facts.comments {
            report(comment.line, &without_code(&comment.text), |word| word.in_comments);
        }
        for (line, name) in &facts.tests {
            report(*line, &name.replace('_', " "), |word| word.in_tests);
        }
        if file.is_test || is_test_target(tree, file.package, &file.path) {
            continue;
        }
        for (line, text) in &facts.strings {
            if !facts.in_test(*line) && text.split_whitespace().count() >= 3 {
                report(*line, text, |word| word.in_strings);
            }
        }
    }
    for (path, text) in &tree.scripts {
        for (index, line) in text.lines().enumerate() {
            if line.trim_start().starts_with('#') {
                let text = without_code(line);
                list.find(path, index + 1, &text, |word| word.in_comments, &mut findings);
            }
        }
    }
    for (path, text) in &tree.pages {
        let mut in_code = false;
        for (index, line) in text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                in_code = !in_code;
            } else if !in_code {
                let text = without_code(line);
                list.find(path, index + 1, &text, |word| word.in_pages, &mut findings);
            }
        }
    }
    findings.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    findings
}

fn is_test_target(tree: &Tree, package: usize, path: &str) -> bool {
    path[tree.packages[package].folder.len()..].starts_with("/tests/")
}

/// The text with code between backticks replaced by a word that is on no list.
fn without_code(text: &str) -> String {
    let mut prose = String::new();
    for (index, part) in text.split('`').enumerate() {
        prose.push_str(if index % 2 == 0 { part } else { " `code` " });
    }
    prose
}

/// The words, by the first part of each.
struct List<'a>(HashMap<&'a str, Vec<&'a Word>>);

impl<'a> List<'a> {
    fn new(words: &'a [Word]) -> List<'a> {
        let mut list: HashMap<&str, Vec<&Word>> = HashMap::new();
        for word in words {
            if let Some(first) = word.words.first() {
                list.entry(first).or_default().push(word);
            }
        }
        List(list)
    }

    fn find(
        &self,
        path: &str,
        line: usize,
        text: &str,
        counts: fn(&Word) -> bool,
        into: &mut Vec<Finding>,
    ) {
        let text = text.to_lowercase();
        // An apostrophe belongs to its word. A hyphen separates words.
        let parts: Vec<&str> = text
            .split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '\''))
            .map(|part| part.trim_matches('\'').trim_end_matches("'s"))
            .filter(|part| !part.is_empty())
            .collect();
        for at in 0..parts.len() {
            for word in self.0.get(parts[at]).into_iter().flatten() {
                let found = parts[at..].iter().zip(&word.words).all(|(part, word)| part == word);
                if found && parts.len() - at >= word.words.len() && counts(word) {
                    let what = format!("\"{}\": {}", word.words.join(" "), word.instead);
                    into.push(Finding::new(path, line, path, what));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Fixture;
    use super::*;

    const RULES: &str = "lasting -> write durable\nwho [in comments tests] -> name the thing\n\
        is told -> write: is notified\n";

    fn lines(source: &str, page: &str) -> Vec<(String, usize)> {
        let fixture = Fixture::library("a", source)
            .with("xtask/rules/words.txt", RULES)
            .with("docs/page.md", page);
        check(&fixture.tree(), &fixture.rules()).into_iter().map(|f| (f.path, f.line)).collect()
    }

    #[test]
    fn a_listed_word_is_found_in_comments_messages_pages_and_names_of_tests() {
        let source = "// Everything lasting,\nfn f() { panic!(\"it is not lasting yet\"); }\n\
            /// One is told.\n#[test]\nfn who_is_late_waits() {}\n";
        let found = lines(source, "First.\n\nLasting's meaning.\n");
        let source = [1, 2, 3, 5].map(|line| ("crates/a/src/lib.rs".to_owned(), line));
        assert_eq!(found[..4], source);
        assert_eq!(found[4..], [("docs/page.md".to_owned(), 3)]);
    }

    #[test]
    fn code_parts_of_words_and_strings_of_tests_are_left_out() {
        let source = "// `lasting` everlasting who_knows outlasting\nfn lasting() { g(\"lasting\"); }\n\
            #[cfg(test)]\nmod tests {\nfn f() { panic!(\"it is not lasting yet\"); }\n}\n";
        assert!(lines(source, "Those who know.\n```text\nlasting\n```\n").is_empty());
    }
}
