//! The rules that are data: `xtask/rules/layers.txt`, `words.txt` and `flags.txt`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::error::Error;

/// The place of a crate in the layers.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    /// The level, from 0, which is the lowest.
    pub(crate) level: u32,
    pub(crate) wing: String,
    /// Its line in `layers.txt`.
    pub(crate) line: usize,
}

/// A word that the project does not use.
#[derive(Clone, Debug)]
pub(crate) struct Word {
    /// The word or words, in lower case.
    pub(crate) words: Vec<String>,
    pub(crate) instead: String,
    pub(crate) in_comments: bool,
    pub(crate) in_pages: bool,
    pub(crate) in_strings: bool,
    pub(crate) in_tests: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// By the package's short name.
    pub(crate) layers: BTreeMap<String, Layer>,
    pub(crate) words: Vec<Word>,
    /// Flag names that are synonyms of another name: from the wrong name to the right name.
    pub(crate) synonyms: BTreeMap<String, String>,
    /// Types whose flags a macro declares: the type's name, the macro's, and the file.
    pub(crate) tables: BTreeMap<String, (String, String)>,
    /// Flags that a function adds to the programs that call it: the path of the function, the
    /// flags.
    pub(crate) starts: Vec<(Vec<String>, Vec<String>)>,
    /// Folders whose files are test code although other builds compile them too.
    pub(crate) tests: Vec<String>,
}

pub(crate) const LAYERS: &str = "xtask/rules/layers.txt";
const WORDS: &str = "xtask/rules/words.txt";
const FLAGS: &str = "xtask/rules/flags.txt";
const TESTS: &str = "xtask/rules/tests.txt";

impl Rules {
    pub(crate) fn read(root: &Path) -> Result<Rules, Error> {
        let mut rules = Rules::default();
        each(root, LAYERS, |line, text| rules.layer(line, text))?;
        each(root, WORDS, |_, text| rules.word(text))?;
        each(root, FLAGS, |_, text| rules.flag(text))?;
        each(root, TESTS, |_, folder| {
            rules.tests.push(format!("{}/", folder.trim_end_matches('/')));
            Ok(())
        })?;
        Ok(rules)
    }

    fn layer(&mut self, line: usize, text: &str) -> Result<(), String> {
        let parts: Vec<&str> = text.split_whitespace().collect();
        let [level, wing, names @ ..] = parts.as_slice() else {
            return Err("write `LEVEL WING CRATE..`".to_owned());
        };
        let level = level.parse().map_err(|_| format!("{level} is no level: write a number"))?;
        for name in names {
            let layer = Layer { level, wing: (*wing).to_owned(), line };
            if self.layers.insert((*name).to_owned(), layer).is_some() {
                return Err(format!("{name} stands in two layers: remove one"));
            }
        }
        Ok(())
    }

    fn word(&mut self, text: &str) -> Result<(), String> {
        let form = "write `WORD, WORD [in comments pages strings tests] -> what to write`";
        let (left, instead) = text.split_once("->").ok_or(form)?;
        let (names, places) = match left.split_once('[') {
            Some((names, places)) => (names, places.trim_end().trim_end_matches(']')),
            None => (left, "in comments pages strings tests"),
        };
        let places: Vec<&str> = places.split_whitespace().collect();
        let known = ["in", "comments", "pages", "strings", "tests"];
        if let Some(unknown) = places.iter().find(|place| !known.contains(place)) {
            return Err(format!("no place `{unknown}`: {form}"));
        }
        let is_in = |place: &str| places.contains(&place);
        for name in names.split(',') {
            self.words.push(Word {
                words: name.split_whitespace().map(str::to_lowercase).collect(),
                instead: instead.trim().to_owned(),
                in_comments: is_in("comments"),
                in_pages: is_in("pages"),
                in_strings: is_in("strings"),
                in_tests: is_in("tests"),
            });
        }
        Ok(())
    }

    fn flag(&mut self, text: &str) -> Result<(), String> {
        let form = "write `WRONG, WRONG -> RIGHT`, `table TYPE = MACRO FILE` or \
            `start FUNCTION = FLAG..`";
        if let Some((name, right)) = text.split_once("->") {
            for wrong in name.split(',') {
                self.synonyms.insert(wrong.trim().to_owned(), right.trim().to_owned());
            }
            return Ok(());
        }
        let (left, right) = text.split_once('=').ok_or(form)?;
        let right: Vec<&str> = right.split_whitespace().collect();
        match (left.split_whitespace().collect::<Vec<_>>().as_slice(), right.as_slice()) {
            (["table", name], [source, path]) => {
                let table = ((*source).to_owned(), (*path).to_owned());
                self.tables.insert((*name).to_owned(), table);
            }
            (["start", function], flags) => {
                let function = function.split("::").map(str::to_owned).collect();
                let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
                self.starts.push((function, flags));
            }
            _ => return Err(form.to_owned()),
        }
        Ok(())
    }
}

/// Calls `take` with each line that is neither empty nor a comment. A missing file has no lines.
fn each(
    root: &Path,
    path: &str,
    mut take: impl FnMut(usize, &str) -> Result<(), String>,
) -> Result<(), Error> {
    let text = match fs::read_to_string(root.join(path)) {
        Ok(text) => text,
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(cause) => return Err(Error::read(path, cause)),
    };
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if !line.is_empty() && !line.starts_with('#') {
            take(index + 1, line).map_err(|what| Error::Rule {
                path: path.to_owned(),
                line: index + 1,
                what,
            })?;
        }
    }
    Ok(())
}
