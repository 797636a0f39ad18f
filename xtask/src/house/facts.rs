//! The facts about one Rust file that the checks need.
//!
//! A syntax tree cannot move between threads, so each thread reduces its files to these facts.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::commands::CommandType;
use super::scan::Comment;

/// What a file is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Part of a library or program.
    Source,
    /// Below `tests/`, `benches/` or `examples/`, or a build script.
    Support,
}

/// A Rust file.
#[derive(Debug)]
pub(crate) struct File {
    /// Relative to the root.
    pub(crate) path: String,
    /// Index of the package that it belongs to.
    pub(crate) package: usize,
    pub(crate) role: Role,
    /// Whether the whole file is test code. It is known after the module trees are built.
    pub(crate) is_test: bool,
    pub(crate) facts: Facts,
}

/// The facts from one parse of a file.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) comments: Vec<Comment>,
    /// For each line, from 0, whether there is code on it.
    pub(crate) code: Vec<bool>,
    /// The file's module and the inline modules in it; the first one is the file's.
    pub(crate) modules: Vec<Module>,
    pub(crate) items: Vec<PublicItem>,
    /// Identifiers in signatures, fields and traits that are public.
    pub(crate) surface: HashSet<String>,
    /// All identifiers, those of tests included.
    pub(crate) identifiers: HashSet<String>,
    /// The first and the last line, from 1, of each item that only tests compile.
    pub(crate) test_lines: Vec<(usize, usize)>,
    /// Line of each macro of the `assert!` family.
    pub(crate) assertions: Vec<usize>,
    /// Strings outside attributes, with their lines.
    pub(crate) strings: Vec<(usize, String)>,
    /// Names of test functions, with their lines.
    pub(crate) tests: Vec<(usize, String)>,
    pub(crate) commands: Vec<CommandType>,
    /// Calls `name!("text": ..)`: the macro's name and the text.
    pub(crate) named_entries: Vec<(String, String)>,
}

/// A module: of a file, or inline.
#[derive(Debug, Default)]
pub(crate) struct Module {
    pub(crate) name: String,
    /// The module around it, an index into [`Facts::modules`].
    pub(crate) parent: Option<usize>,
    pub(crate) is_test: bool,
    /// Declarations `mod name;`.
    pub(crate) declared: Vec<Declared>,
    /// Names of its items.
    pub(crate) items: BTreeSet<String>,
    pub(crate) uses: Vec<UseLeaf>,
    /// Its `use` declarations as they stand, for the check of their order.
    pub(crate) use_lines: Vec<UseLine>,
    /// Paths of two segments and more outside `use`, with the line of the first one.
    pub(crate) paths: BTreeMap<Vec<String>, usize>,
    /// Identifiers outside `use`.
    pub(crate) words: HashSet<String>,
}

/// A declaration `mod name;`.
#[derive(Debug)]
pub(crate) struct Declared {
    pub(crate) name: String,
    /// The attribute `path`.
    pub(crate) path: Option<String>,
    pub(crate) is_test: bool,
}

/// One name that a `use` brings in.
#[derive(Debug)]
pub(crate) struct UseLeaf {
    pub(crate) line: usize,
    pub(crate) path: Vec<String>,
    /// The name in this module; empty for a glob.
    pub(crate) alias: String,
    pub(crate) is_public: bool,
}

/// One `use` declaration.
#[derive(Debug)]
pub(crate) struct UseLine {
    pub(crate) first: usize,
    pub(crate) last: usize,
    /// The first segment.
    pub(crate) root: String,
    pub(crate) is_public: bool,
}

/// A `pub` item outside tests.
#[derive(Debug)]
pub(crate) struct PublicItem {
    pub(crate) line: usize,
    pub(crate) name: String,
    /// The type that a method or constant belongs to.
    pub(crate) owner: Option<String>,
    /// A struct, enum, union, trait or type alias.
    pub(crate) is_type: bool,
}

impl Facts {
    /// Whether only tests compile the line.
    pub(crate) fn in_test(&self, line: usize) -> bool {
        self.test_lines.iter().any(|&(first, last)| (first..=last).contains(&line))
    }
}
