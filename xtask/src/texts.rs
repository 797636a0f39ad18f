//! The texts of the tree, and the prose in them.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};

/// Sources, scripts, pages and rules: the text of each file by its path from the root.
pub(crate) type Texts = BTreeMap<String, String>;

/// Something that breaks a rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) path: String,
    /// From 1.
    pub(crate) line: usize,
    /// What is wrong, and what to do.
    pub(crate) what: String,
}

impl Finding {
    pub(crate) fn new(path: &str, line: usize, what: String) -> Finding {
        Finding { path: path.to_owned(), line, what }
    }
}

/// Reads everything below `root`, except build outputs and hidden folders other than `.ci`.
pub(crate) fn read(root: &Path) -> Result<Texts, String> {
    let mut texts = Texts::new();
    let mut open = vec![String::new()];
    while let Some(folder) = open.pop() {
        let fail = |cause| format!("cannot read {folder:?}: {cause}");
        for entry in fs::read_dir(root.join(&folder)).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            if entry.file_type().map_err(fail)?.is_dir() {
                let is_hidden = name.starts_with('.') && name != ".ci";
                if !is_hidden && name != "target" && path != "docs/book" {
                    open.push(path);
                }
            } else if [".rs", ".md", ".sh", ".toml"].iter().any(|end| path.ends_with(end))
                || [".ci/", "xtask/"].iter().any(|folder| path.starts_with(folder))
            {
                let text = fs::read_to_string(root.join(&path));
                texts.insert(path.clone(), text.map_err(|c| format!("cannot read {path}: {c}"))?);
            }
        }
    }
    Ok(texts)
}

/// The lines of a file of rules that are neither empty nor a comment, with their numbers.
pub(crate) fn rules<'a>(texts: &'a Texts, path: &str) -> Vec<(usize, &'a str)> {
    let lines = texts.get(path).into_iter().flat_map(|text| text.lines());
    let numbered = lines.enumerate().map(|(index, line)| (index + 1, line.trim()));
    numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).collect()
}

/// The number of the first line that has `part`, or 1.
pub(crate) fn line_of(text: &str, part: &str) -> usize {
    text.lines().position(|line| line.contains(part)).map_or(1, |index| index + 1)
}

/// Lines of a file with their numbers, without blocks of code between fences.
#[derive(Debug, Default)]
pub(crate) struct Prose {
    pub(crate) comments: Vec<(usize, String)>,
    /// Lines of pages, and names of functions with a space for each underscore.
    pub(crate) others: Vec<(usize, String)>,
}

pub(crate) fn prose(path: &str, text: &str) -> Result<Prose, String> {
    let mut prose = Prose::default();
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    if path.ends_with(".rs") {
        prose = source(path, text)?;
    } else if path.ends_with(".md") {
        prose.others = lines.map(|(number, line)| (number, line.to_owned())).collect();
    } else if path.ends_with(".sh") || path.starts_with(".ci/") {
        for (number, line) in lines.filter(|(_, line)| !line.starts_with("#!")) {
            // After code, a `#` begins a comment only with a space on both sides.
            let is_comment = line.trim_start().starts_with('#');
            let comment = if is_comment { Some(line) } else { line.split_once(" # ").map(|c| c.1) };
            prose.comments.extend(comment.map(|comment| (number, comment.to_owned())));
        }
    }
    for lines in [&mut prose.comments, &mut prose.others] {
        let mut is_code = false;
        lines.retain(|(_, line)| {
            let is_fence = line.trim_start_matches([' ', '/', '!', '#']).starts_with("```");
            is_code ^= is_fence;
            !is_code && !is_fence
        });
    }
    Ok(prose)
}

/// The tokens of a source.
pub(crate) fn tokens(path: &str, text: &str) -> Result<TokenStream, String> {
    text.parse().map_err(|cause: proc_macro2::LexError| {
        format!("{path}:{}: {cause}", cause.span().start().line)
    })
}

/// Blanks out the code of a source: what remains are its comments.
fn source(path: &str, text: &str) -> Result<Prose, String> {
    let mut source = Source { text, rest: text.as_bytes().to_vec(), others: Vec::new() };
    source.read(tokens(path, text)?);
    let rest = String::from_utf8_lossy(&source.rest);
    let lines = rest.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let comments = lines.map(|(index, line)| (index + 1, line.to_owned())).collect();
    Ok(Prose { comments, others: source.others })
}

struct Source<'a> {
    text: &'a str,
    rest: Vec<u8>,
    others: Vec<(usize, String)>,
}

impl Source<'_> {
    fn read(&mut self, stream: TokenStream) {
        let mut is_name = false;
        for token in stream {
            // The tokens of a doc comment have its whole text, which stays.
            let range = token.span().byte_range();
            let text = &self.text[range.clone()];
            if text.starts_with("//") || text.starts_with("/*") {
                continue;
            }
            if let TokenTree::Group(group) = &token {
                self.blank(range.start..range.start + 1);
                self.blank(range.end - 1..range.end);
                self.read(group.stream());
                continue;
            }
            self.blank(range);
            let TokenTree::Ident(name) = token else { continue };
            if is_name {
                let line = name.span().start().line;
                self.others.push((line, name.to_string().replace('_', " ")));
            }
            is_name = name == "fn";
        }
    }

    fn blank(&mut self, range: Range<usize>) {
        for byte in self.rest[range].iter_mut().filter(|byte| **byte != b'\n') {
            *byte = b' ';
        }
    }
}
