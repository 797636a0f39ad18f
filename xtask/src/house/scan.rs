//! Comments and code lines of a Rust file.
//!
//! `syn` drops ordinary comments, so this scanner finds them. It knows only enough of the language
//! to distinguish comments from strings, characters and lifetimes.

/// One line of a comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Comment {
    /// Line in the file, from 1.
    pub(crate) line: usize,
    /// The length of the whole line in columns, with any code before the comment.
    pub(crate) columns: usize,
    /// The text without the comment marks.
    pub(crate) text: String,
    /// Whether rustdoc shows it.
    pub(crate) doc: bool,
}

/// What a scan finds.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    pub(crate) comments: Vec<Comment>,
    /// For each line, from 0, whether the line has code.
    pub(crate) code: Vec<bool>,
}

/// Finds the comments and code lines of a Rust source text.
pub(crate) fn scan(text: &str) -> Scan {
    let columns: Vec<usize> = text.lines().map(|line| line.chars().count()).collect();
    let mut scanner = Scanner {
        bytes: text.as_bytes(),
        text,
        at: 0,
        line: 0,
        found: Scan { comments: Vec::new(), code: vec![false; columns.len()] },
    };
    scanner.run();
    let mut found = scanner.found;
    for comment in &mut found.comments {
        comment.columns = columns.get(comment.line - 1).copied().unwrap_or(0);
    }
    found
}

struct Scanner<'a> {
    bytes: &'a [u8],
    text: &'a str,
    at: usize,
    /// From 0.
    line: usize,
    found: Scan,
}

impl Scanner<'_> {
    fn run(&mut self) {
        while let Some(&byte) = self.bytes.get(self.at) {
            match byte {
                b'\n' => {
                    self.line += 1;
                    self.at += 1;
                }
                b' ' | b'\t' | b'\r' => self.at += 1,
                b'/' if self.peek(1) == Some(b'/') => self.line_comment(),
                b'/' if self.peek(1) == Some(b'*') => self.block_comment(),
                b'"' => self.string(),
                b'\'' => self.quote(),
                _ if byte.is_ascii_alphabetic() || byte == b'_' => self.word(),
                _ => {
                    self.code();
                    self.at += 1;
                }
            }
        }
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    fn code(&mut self) {
        if let Some(line) = self.found.code.get_mut(self.line) {
            *line = true;
        }
    }

    fn comment(&mut self, text: &str, doc: bool) {
        let text = text.trim_end().to_owned();
        self.found.comments.push(Comment { line: self.line + 1, columns: 0, text, doc });
    }

    fn line_comment(&mut self) {
        let rest = &self.text[self.at..];
        let end = rest.find('\n').unwrap_or(rest.len());
        let marks = &rest[2..end];
        let doc = (marks.starts_with('/') && !marks.starts_with("//")) || marks.starts_with('!');
        let text = if doc { &marks[1..] } else { marks };
        self.comment(text, doc);
        self.at += end;
    }

    fn block_comment(&mut self) {
        let doc = matches!(self.peek(2), Some(b'*' | b'!')) && self.peek(3) != Some(b'/');
        let mut depth = 0;
        let mut begin = self.at + 2;
        while self.at < self.bytes.len() {
            if self.bytes[self.at..].starts_with(b"/*") {
                depth += 1;
                self.at += 2;
            } else if self.bytes[self.at..].starts_with(b"*/") {
                depth -= 1;
                self.at += 2;
                if depth == 0 {
                    let text = self.text[begin.min(self.at - 2)..self.at - 2].to_owned();
                    self.comment(&text, doc);
                    return;
                }
            } else {
                if self.bytes[self.at] == b'\n' {
                    let text = self.text[begin.min(self.at)..self.at].to_owned();
                    self.comment(&text, doc);
                    self.line += 1;
                    begin = self.at + 1;
                }
                self.at += 1;
            }
        }
    }

    /// A string whose backslash escapes the next byte.
    fn string(&mut self) {
        self.code();
        self.at += 1;
        while let Some(&byte) = self.bytes.get(self.at) {
            match byte {
                b'\\' if self.peek(1) != Some(b'\n') => self.at += 1,
                b'\n' => {
                    self.line += 1;
                    self.code();
                }
                b'"' => {
                    self.at += 1;
                    self.code();
                    return;
                }
                _ => {}
            }
            self.at += 1;
        }
    }

    /// A character literal or a lifetime.
    fn quote(&mut self) {
        self.code();
        let rest = &self.text[self.at + 1..];
        let mut characters = rest.char_indices();
        match characters.next() {
            Some((_, '\\')) => {
                // The escaped character may itself be a quote.
                let close = rest[2.min(rest.len())..].find('\'').map_or(rest.len(), |at| at + 3);
                self.at += 1 + close.min(rest.len());
            }
            Some(_) => match characters.next() {
                Some((at, '\'')) => self.at += at + 2,
                _ => self.at += 1,
            },
            None => self.at += 1,
        }
    }

    /// An identifier, or the prefix of a string.
    fn word(&mut self) {
        self.code();
        let begin = self.at;
        while self.bytes.get(self.at).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_') {
            self.at += 1;
        }
        let word = &self.text[begin..self.at];
        if !matches!(word, "r" | "br" | "cr") {
            return;
        }
        let hashes = self.bytes[self.at..].iter().take_while(|&&b| b == b'#').count();
        if self.peek(hashes) != Some(b'"') {
            return;
        }
        let close = format!("\"{}", "#".repeat(hashes));
        let body = self.at + hashes + 1;
        let end = self.text[body..].find(&close).map_or(self.text.len(), |at| body + at);
        for _ in self.text[body..end].matches('\n') {
            self.line += 1;
            self.code();
        }
        self.at = (end + close.len()).min(self.text.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_distinguished_from_strings_characters_and_lifetimes() {
        let text = r###"let a = "// no"; // one
let b = r#"/* " no"#; let c = '"'; /* two
three */ let d: &'a str = '\''; /// four
let e = b'\\'; // five
"###;
        let found = scan(text);
        let texts: Vec<_> = found.comments.iter().map(|c| (c.line, c.text.trim(), c.doc)).collect();
        assert_eq!(
            texts,
            [
                (1, "one", false),
                (2, "two", false),
                (3, "three", false),
                (3, "four", true),
                (4, "five", false)
            ]
        );
    }

    #[test]
    fn lines_of_comments_and_empty_lines_are_no_code() {
        let found = scan("//! Doc.\n\nfn f() {\n    // Why.\n    \"a\n\n    b\";\n}\n");
        assert_eq!(found.code, [false, false, true, false, true, true, true, true]);
    }
}
