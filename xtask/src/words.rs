//! Words: terms that the project does not use, in comments, pages and names of functions.
//! `xtask/rules/words.txt` lists them, each with what to write instead.

use crate::texts::{Finding, Prose, Texts, rules};

const WORDS: &str = "xtask/rules/words.txt";

/// The terms with what to write instead.
pub(crate) struct Words(Vec<(String, String)>);

impl Words {
    pub(crate) fn read(texts: &Texts) -> Result<Words, String> {
        let mut words = Vec::new();
        for (line, rule) in rules(texts, WORDS) {
            let form = || format!("{WORDS}:{line}: write `TERM, TERM.. -> what to write`");
            let (terms, instead) = rule.split_once("->").ok_or_else(form)?;
            for term in terms.split(',') {
                words.push((term.trim().to_lowercase(), instead.trim().to_owned()));
            }
        }
        Ok(Words(words))
    }

    pub(crate) fn check(&self, path: &str, prose: &Prose, findings: &mut Vec<Finding>) {
        for (number, text) in prose.comments.iter().chain(&prose.others) {
            // Code between backticks does not count.
            let text = text.split('`').step_by(2).collect::<Vec<_>>().join(" `` ").to_lowercase();
            // An apostrophe belongs to its word. A hyphen separates words.
            let parts = text.split(|c: char| !(c.is_alphanumeric() || "_'".contains(c)));
            let mut parts: Vec<&str> = parts
                .map(|part| part.trim_matches('\'').trim_end_matches("'s"))
                .filter(|part| !part.is_empty())
                .collect();
            // So that a space is on both sides of each word.
            parts.insert(0, "");
            parts.push("");
            let text = parts.join(" ");
            for (term, instead) in &self.0 {
                if text.contains(&format!(" {term} ")) {
                    findings.push(Finding::new(path, *number, format!("\"{term}\": {instead}")));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::texts::prose;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let rules = "# Why.\nlasting, who -> write durable\n\nis told -> write: is notified\n";
        let texts = Texts::from([(WORDS.to_owned(), rules.to_owned())]);
        let mut findings = Vec::new();
        let words = Words::read(&texts).unwrap();
        words.check(path, &prose(path, text).unwrap(), &mut findings);
        let mut lines: Vec<usize> = findings.into_iter().map(|finding| finding.line).collect();
        lines.sort();
        lines
    }

    #[test]
    fn a_listed_word_is_found_in_comments_pages_and_names_of_functions() {
        let source = "// Everything lasting,\nfn f() { g(\"who\"); } /*\n Lasting yet */\n\
            /// One is told.\n#[test]\nfn who_is_late_waits() {}\n";
        assert_eq!(lines("a.rs", source), [1, 3, 4, 6]);
        assert_eq!(lines("a.md", "First.\n\nLasting's meaning.\n"), [3]);
        assert_eq!(lines("a.sh", "lasting # a lasting one\n"), [1]);
    }

    #[test]
    fn code_and_parts_of_words_are_left_out() {
        let source = "// `lasting` everlasting who_knows outlasting\nfn lasts() { lasting(); }\n\
            /// ```\n/// // lasting\n/// ```\nstruct A;";
        assert_eq!(lines("a.rs", source), [0; 0]);
        assert_eq!(lines("a.md", "Those whose.\n```text\nlasting\n```\n"), [0; 0]);
    }
}
