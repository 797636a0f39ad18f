//! The module tree of each target, and which file a path leads to.

use std::collections::BTreeMap;

use super::facts::{Facts, Role};
use super::rules::Rules;
use super::tree::Tree;

/// A library, program, test, benchmark or example: a root file and its modules.
#[derive(Debug)]
pub(crate) struct Target {
    /// The root module comes first.
    pub(crate) modules: Vec<Node>,
}

/// A module of a target.
#[derive(Debug)]
pub(crate) struct Node {
    /// Index of its file in [`Tree::files`].
    pub(crate) file: usize,
    /// Index in the file's [`Facts::modules`].
    pub(crate) local: usize,
    pub(crate) parent: Option<usize>,
    pub(crate) children: BTreeMap<String, usize>,
    pub(crate) is_test: bool,
    /// Whether it is a file's own module, and not an inline one.
    pub(crate) is_file: bool,
}

/// What a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Module(usize),
    /// An item in a file.
    Item(usize),
}

/// The longest chain of re-exports that is followed.
const DEPTH_MAX: usize = 12;

/// Builds the module trees of all targets, and marks the files of tests.
pub(crate) fn build(tree: &mut Tree, rules: &Rules) -> Vec<Target> {
    for file in &mut tree.files {
        file.is_test = rules.tests.iter().any(|folder| file.path.starts_with(folder.as_str()));
    }
    let targets = targets(tree);
    for module in targets.iter().flat_map(|target| &target.modules) {
        tree.files[module.file].is_test |= module.is_test && module.is_file;
    }
    targets
}

fn targets(tree: &Tree) -> Vec<Target> {
    let mut targets = Vec::new();
    for (index, file) in tree.files.iter().enumerate() {
        let folder = &tree.packages[file.package].folder;
        if is_root(&file.path[folder.len() + 1..], file.role) {
            let mut target = Target { modules: Vec::new() };
            target.add(tree, index, None, file.facts.modules[0].is_test);
            targets.push(target);
        }
    }
    targets
}

/// Whether Cargo compiles the file, named within its package, as the root of a target.
fn is_root(path: &str, role: Role) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let is_support = role == Role::Support;
    match parts.as_slice() {
        ["src", "lib.rs" | "main.rs"] | ["src", "bin", _] | ["src", "bin", _, "main.rs"] => true,
        ["build.rs"] | [_, _] | [_, _, "main.rs"] => is_support,
        _ => false,
    }
}

impl Target {
    /// Adds the modules of a file: its own, inline ones, and the files that they declare.
    fn add(&mut self, tree: &Tree, file: usize, parent: Option<usize>, is_test: bool) -> usize {
        let facts = &tree.files[file].facts;
        let first = self.modules.len();
        for (local, module) in facts.modules.iter().enumerate() {
            let around = module.parent.map(|parent| first + parent);
            let is_test = is_test
                || tree.files[file].is_test
                || module.is_test
                || around.is_some_and(|m| self.modules[m].is_test);
            self.modules.push(Node {
                file,
                local,
                parent: around.or(parent),
                children: BTreeMap::new(),
                is_test,
                is_file: local == 0,
            });
            if let Some(around) = around {
                self.modules[around].children.insert(module.name.clone(), first + local);
            }
        }
        for (local, module) in facts.modules.iter().enumerate() {
            for declared in &module.declared {
                let inline = inline_path(facts, local);
                let root = parent.is_none();
                let path = &tree.files[file].path;
                let Some(child) = find(tree, path, root, &inline, declared) else { continue };
                if self.depth(first) > DEPTH_MAX {
                    continue;
                }
                let is_test = self.modules[first + local].is_test || declared.is_test;
                let child = self.add(tree, child, Some(first + local), is_test);
                self.modules[first + local].children.insert(declared.name.clone(), child);
            }
        }
        first
    }

    fn depth(&self, module: usize) -> usize {
        let mut depth = 0;
        let mut at = module;
        while let Some(parent) = self.modules[at].parent {
            depth += 1;
            at = parent;
        }
        depth
    }

    /// What the path names in a module. `None` for a path of another crate, or an unknown path.
    pub(crate) fn resolve(&self, tree: &Tree, module: usize, path: &[String]) -> Option<Place> {
        self.follow(tree, module, path, 0)
    }

    /// Like [`Target::resolve`], but does not follow `use`: a re-export stands for the module that
    /// contains it.
    pub(crate) fn resolve_directly(
        &self,
        tree: &Tree,
        module: usize,
        path: &[String],
    ) -> Option<Place> {
        self.follow(tree, module, path, DEPTH_MAX)
    }

    /// The file of a place.
    pub(crate) fn file(&self, place: Place) -> usize {
        match place {
            Place::Module(module) => self.modules[module].file,
            Place::Item(file) => file,
        }
    }

    fn follow(&self, tree: &Tree, from: usize, path: &[String], depth: usize) -> Option<Place> {
        let (first, rest) = path.split_first()?;
        let mut place = match first.as_str() {
            "crate" => Place::Module(0),
            "self" => Place::Module(from),
            "super" => Place::Module(self.modules[from].parent?),
            name => self.lookup(tree, from, name, depth)?,
        };
        for name in rest {
            let Place::Module(module) = place else { break };
            place = match name.as_str() {
                "super" => Place::Module(self.modules[module].parent?),
                "self" => place,
                // An item that a macro defines is unknown here, so its module stands for it.
                name => self
                    .lookup(tree, module, name, depth)
                    .unwrap_or(Place::Item(self.modules[module].file)),
            };
        }
        Some(place)
    }

    fn lookup(&self, tree: &Tree, module: usize, name: &str, depth: usize) -> Option<Place> {
        let node = &self.modules[module];
        if let Some(&child) = node.children.get(name) {
            return Some(Place::Module(child));
        }
        let facts = &tree.files[node.file].facts.modules[node.local];
        if facts.items.contains(name) {
            return Some(Place::Item(node.file));
        }
        if depth == DEPTH_MAX {
            return None;
        }
        for leaf in &facts.uses {
            // A `use name::..` would look for its own name again, so it is skipped.
            let own = leaf.path.first().is_some_and(|first| first == name) && leaf.path.len() == 1;
            if leaf.alias == name && !own {
                return self.follow(tree, module, &leaf.path, depth + 1);
            }
        }
        for leaf in facts.uses.iter().filter(|leaf| leaf.alias.is_empty()) {
            if leaf.path.first().is_some_and(|first| first == name) {
                continue;
            }
            let target = self.follow(tree, module, &leaf.path, depth + 1);
            let Some(Place::Module(target)) = target else { continue };
            if target != module
                && let Some(found) = self.lookup(tree, target, name, depth + 1)
            {
                return Some(found);
            }
        }
        None
    }
}

/// Names of the inline modules around and including a module of a file.
fn inline_path(facts: &Facts, mut local: usize) -> Vec<&str> {
    let mut names = Vec::new();
    while let Some(parent) = facts.modules[local].parent {
        names.push(facts.modules[local].name.as_str());
        local = parent;
    }
    names.reverse();
    names
}

/// The file of a declared module.
fn find(
    tree: &Tree,
    path: &str,
    root: bool,
    inline: &[&str],
    declared: &super::facts::Declared,
) -> Option<usize> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    if let Some(given) = &declared.path {
        return tree.by_path.get(&join(folder, given)).copied();
    }
    let mut below = folder.to_owned();
    if !root && name != "mod.rs" {
        below = format!("{below}/{}", name.trim_end_matches(".rs"));
    }
    for name in inline {
        below = format!("{below}/{name}");
    }
    let name = declared.name.trim_start_matches("r#");
    let candidates = [format!("{below}/{name}.rs"), format!("{below}/{name}/mod.rs")];
    candidates.iter().find_map(|candidate| tree.by_path.get(candidate).copied())
}

/// Joins a folder and a relative path, and removes `..`.
fn join(folder: &str, relative: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').collect();
    for part in relative.split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}
