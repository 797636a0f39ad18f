//! Programs and the flags that their help shows.

use std::collections::{BTreeMap, BTreeSet};

use super::commands::{CommandType, Field};
use super::facts::File;
use super::rules::Rules;
use super::tree::Tree;
use super::unused::is_library;

/// The longest chain of flattened types. A type that flattens itself would never end.
const DEPTH_MAX: usize = 16;

/// A program and its flags.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) line: usize,
    /// The visible flags of each command, by the command's name. The program itself has the empty
    /// name. `--help` and `--version` do not count.
    pub(crate) commands: BTreeMap<String, BTreeSet<String>>,
}

impl Program {
    /// The number of flags that its longest help text shows.
    pub(crate) fn longest(&self) -> usize {
        self.commands.values().map(BTreeSet::len).max().unwrap_or(0)
    }

    /// The number of flags of all its commands. Each name counts once.
    pub(crate) fn all(&self) -> usize {
        self.commands.values().flatten().collect::<BTreeSet<_>>().len()
    }
}

/// All programs, by name.
pub(crate) fn programs(tree: &Tree, rules: &Rules) -> Vec<Program> {
    let mut programs = Vec::new();
    let programs_only = types(tree).filter(|(file, _)| !is_library(tree, file));
    for (file, command) in programs_only.filter(|(_, command)| command.is_program) {
        let name = command.program.clone().unwrap_or_else(|| file_name(tree, file));
        let mut commands = BTreeMap::new();
        let known = Known { tree, rules };
        expand(known, file, command, "", &known.added(file), &mut commands, 0);
        programs.push(Program { name, path: file.path.clone(), line: command.line, commands });
    }
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    programs
}

/// All types that declare flags, outside tests.
pub(crate) fn types(tree: &Tree) -> impl Iterator<Item = (&File, &CommandType)> {
    let files = tree.files.iter().filter(|file| {
        let inside = &file.path[tree.packages[file.package].folder.len()..];
        !file.is_test && !inside.starts_with("/tests/")
    });
    files.flat_map(|file| file.facts.commands.iter().map(move |command| (file, command)))
}

/// The tree and the rules with which flags are looked up.
#[derive(Clone, Copy)]
struct Known<'a> {
    tree: &'a Tree,
    rules: &'a Rules,
}

impl Known<'_> {
    /// Flags of a type that declares them by a macro in a table.
    fn table(self, name: &str) -> BTreeSet<String> {
        let Some((source, path)) = self.rules.tables.get(name) else { return BTreeSet::new() };
        let file = self.tree.by_path.get(path).map(|&file| &self.tree.files[file]);
        let entries = file.into_iter().flat_map(|file| &file.facts.named_entries);
        entries.filter(|(name, _)| name == source).map(|(_, flag)| flag.clone()).collect()
    }

    /// Flags that a function of the harness adds to the programs of the file's package.
    fn added(self, file: &File) -> BTreeSet<String> {
        let calls = |function: &Vec<String>| {
            let others = self.tree.files.iter().filter(|other| other.package == file.package);
            others
                .flat_map(|other| &other.facts.modules)
                .any(|module| module.paths.contains_key(function))
        };
        let starts = self.rules.starts.iter().filter(|(function, _)| calls(function));
        starts.flat_map(|(_, flags)| flags.iter().cloned()).collect()
    }
}

/// The name that Cargo gives to the program in this file.
fn file_name(tree: &Tree, file: &File) -> String {
    let package = &tree.packages[file.package];
    let inside = &file.path[package.folder.len() + 1..];
    match inside.split('/').collect::<Vec<_>>().as_slice() {
        ["src", "bin" | "examples", name, ..] | ["examples" | "benches", name, ..] => {
            name.trim_end_matches(".rs").to_owned()
        }
        _ => package.name.clone(),
    }
}

/// The type with that name: in the same file, else in the same package, else in any package.
fn named<'a>(tree: &'a Tree, from: &File, name: &str) -> Option<(&'a File, &'a CommandType)> {
    types(tree).filter(|(_, command)| command.name == name).min_by_key(|(file, _)| {
        if file.path == from.path {
            0
        } else if file.package == from.package {
            1
        } else {
            2
        }
    })
}

/// Collects the visible flags of a command and of its subcommands.
fn expand(
    known: Known<'_>,
    file: &File,
    command: &CommandType,
    name: &str,
    inherited: &BTreeSet<String>,
    into: &mut BTreeMap<String, BTreeSet<String>>,
    depth: usize,
) {
    let mut own = Own { visible: inherited.clone(), global: inherited.clone(), ..Own::default() };
    own.collect(known, file, &command.fields, depth);
    expand_variants(known, file, command, name, &own.global, into, depth);
    for subcommands in &own.subcommands {
        if let Some((file, command)) = named(known.tree, file, subcommands) {
            expand_variants(known, file, command, name, &own.global, into, depth);
        }
    }
    into.insert(name.to_owned(), own.visible);
}

fn expand_variants(
    known: Known<'_>,
    file: &File,
    command: &CommandType,
    name: &str,
    inherited: &BTreeSet<String>,
    into: &mut BTreeMap<String, BTreeSet<String>>,
    depth: usize,
) {
    for (variant, fields) in &command.variants {
        let name = format!("{name} {}", variant.to_lowercase());
        let mut own =
            Own { visible: inherited.clone(), global: inherited.clone(), ..Own::default() };
        own.collect(known, file, fields, depth);
        for subcommands in &own.subcommands {
            if let Some((file, command)) = named(known.tree, file, subcommands)
                && depth < DEPTH_MAX
            {
                expand_variants(known, file, command, &name, &own.global, into, depth + 1);
            }
        }
        into.insert(name, own.visible);
    }
}

/// The flags that one type declares itself.
#[derive(Default)]
struct Own {
    visible: BTreeSet<String>,
    /// Flags that subcommands have too.
    global: BTreeSet<String>,
    /// Types of subcommands.
    subcommands: Vec<String>,
}

impl Own {
    fn collect(&mut self, known: Known<'_>, file: &File, fields: &[Field], depth: usize) {
        for field in fields {
            match field {
                Field::Flag(flag) if flag.is_hidden => {}
                Field::Flag(flag) => {
                    self.visible.insert(flag.long.clone());
                    if flag.is_global {
                        self.global.insert(flag.long.clone());
                    }
                }
                Field::Flatten(name) if depth < DEPTH_MAX => {
                    if let Some((file, command)) = named(known.tree, file, name) {
                        self.collect(known, file, &command.fields, depth + 1);
                    } else {
                        let table = known.table(name);
                        self.visible.extend(table.iter().cloned());
                        self.global.extend(table);
                    }
                }
                Field::Flatten(_) => {}
                Field::Subcommand(name) => self.subcommands.push(name.clone()),
            }
        }
    }
}
