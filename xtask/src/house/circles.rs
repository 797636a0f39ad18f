//! Circles: files of one target that import each other, directly or through others.
//!
//! A file imports another file when it names an item or a module of that file: in a `use`, in a
//! path, or by `use super::*`. A declaration `mod name;` is not an import. A `pub use` of a name
//! that the file itself does not use is not an import either: the re-export stands for the file
//! that defines the name. Tests do not count.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::Role;
use super::finding::Finding;
use super::modules::{Place, Target};
use super::tree::Tree;

/// The imports of a target: from file to file, with the line of the first import.
type Edges = BTreeMap<usize, BTreeMap<usize, usize>>;

/// Which imports count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    All,
    /// Imports by `crate`, `self` and `super` only, and only to the file of the named module.
    Direct,
}

pub(crate) fn check(tree: &Tree, targets: &[Target]) -> Vec<Finding> {
    let mut findings = BTreeMap::new();
    for target in targets {
        let edges = imports(tree, target, Reach::All);
        for circle in circles(&edges) {
            let paths: Vec<&str> = circle.iter().map(|&f| tree.files[f].path.as_str()).collect();
            let key = paths.join(" ");
            let (line, what) = describe(tree, &edges, &circle);
            findings.entry(key.clone()).or_insert_with(|| Finding::new(paths[0], line, key, what));
        }
    }
    findings.into_values().collect()
}

/// The number of files of libraries and programs in circles of imports by `crate`, `self` and
/// `super`. Re-exports are not followed. So the number is smaller, and a plain text search for
/// these paths yields the same number.
pub(crate) fn direct_files(tree: &Tree, targets: &[Target]) -> usize {
    let sources = targets.iter().filter(|target| {
        let root = &tree.files[target.modules[0].file];
        root.role == Role::Source
    });
    let files = sources.flat_map(|target| circles(&imports(tree, target, Reach::Direct)));
    files.flatten().collect::<BTreeSet<usize>>().len()
}

/// The files in circles, each once.
pub(crate) fn files(findings: &[Finding]) -> BTreeSet<&str> {
    findings.iter().flat_map(|finding| finding.key.split(' ')).collect()
}

/// Describes a circle by the shortest way from its first file back to that file.
fn describe(tree: &Tree, edges: &Edges, circle: &BTreeSet<usize>) -> (usize, String) {
    let first = *circle.iter().next().expect("a circle has files");
    let mut before = BTreeMap::new();
    let mut reached = std::collections::VecDeque::from([first]);
    let mut last = first;
    'search: while let Some(from) = reached.pop_front() {
        for &to in edges[&from].keys().filter(|to| circle.contains(to)) {
            if to == first {
                last = from;
                break 'search;
            }
            if let std::collections::btree_map::Entry::Vacant(entry) = before.entry(to) {
                entry.insert(from);
                reached.push_back(to);
            }
        }
    }
    let mut way = vec![first, last];
    while let Some(&from) = before.get(&last) {
        way.push(from);
        last = from;
    }
    way.reverse();
    let line = edges[&way[0]][&way[1]];
    let mut steps: Vec<String> = Vec::new();
    for pair in way.windows(2) {
        steps.push(format!("{}:{}", tree.files[pair[0]].path, edges[&pair[0]][&pair[1]]));
    }
    let what = format!(
        "{} files import each other ({}): move what both sides need to a file of its own",
        circle.len(),
        steps.join(" -> "),
    );
    (line, what)
}

fn imports(tree: &Tree, target: &Target, reach: Reach) -> Edges {
    let mut edges = Edges::new();
    for (index, node) in target.modules.iter().enumerate() {
        if node.is_test {
            continue;
        }
        let module = &tree.files[node.file].facts.modules[node.local];
        let from = edges.entry(node.file).or_default();
        let mut add = |place: Option<Place>, line: usize| {
            let Some(place) = place else { return };
            let file = target.file(place);
            if file != node.file && !tree.files[file].is_test {
                from.entry(file).or_insert(line);
            }
        };
        let resolve = |path: &[String]| match reach {
            Reach::All => target.resolve(tree, index, path),
            Reach::Direct if ["crate", "self", "super"].contains(&path[0].as_str()) => {
                target.resolve_directly(tree, index, path)
            }
            Reach::Direct => None,
        };
        for leaf in &module.uses {
            let used = if leaf.alias.is_empty() {
                !leaf.is_public
            } else {
                !leaf.is_public || module.words.contains(&leaf.alias)
            };
            if used {
                add(resolve(&leaf.path), leaf.line);
            }
        }
        for (path, &line) in &module.paths {
            add(resolve(path), line);
        }
    }
    let known: BTreeSet<usize> = edges.values().flat_map(|to| to.keys().copied()).collect();
    for file in known {
        edges.entry(file).or_default();
    }
    edges
}

/// Strongly connected components of more than one file (Tarjan's algorithm, without recursion).
fn circles(edges: &Edges) -> Vec<BTreeSet<usize>> {
    let mut order: BTreeMap<usize, usize> = BTreeMap::new();
    let mut low: BTreeMap<usize, usize> = BTreeMap::new();
    let (mut open, mut is_open, mut found) = (Vec::new(), BTreeSet::new(), Vec::new());
    for &root in edges.keys() {
        if order.contains_key(&root) {
            continue;
        }
        let mut calls: Vec<(usize, Vec<usize>)> = vec![enter(edges, root)];
        order.insert(root, order.len());
        low.insert(root, order[&root]);
        open.push(root);
        is_open.insert(root);
        while let Some((file, rest)) = calls.last_mut() {
            let file = *file;
            if let Some(next) = rest.pop() {
                if !order.contains_key(&next) {
                    order.insert(next, order.len());
                    low.insert(next, order[&next]);
                    open.push(next);
                    is_open.insert(next);
                    calls.push(enter(edges, next));
                } else if is_open.contains(&next) {
                    let lowest = low[&file].min(order[&next]);
                    low.insert(file, lowest);
                }
                continue;
            }
            calls.pop();
            if let Some((parent, _)) = calls.last() {
                let lowest = low[parent].min(low[&file]);
                low.insert(*parent, lowest);
            }
            if low[&file] == order[&file] {
                let mut circle = BTreeSet::new();
                while let Some(member) = open.pop() {
                    is_open.remove(&member);
                    circle.insert(member);
                    if member == file {
                        break;
                    }
                }
                if circle.len() > 1 {
                    found.push(circle);
                }
            }
        }
    }
    found
}

fn enter(edges: &Edges, file: usize) -> (usize, Vec<usize>) {
    (file, edges.get(&file).map(|to| to.keys().copied().collect()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::super::modules;
    use super::super::testing::Fixture;
    use super::*;

    fn found(fixture: &Fixture) -> Vec<Finding> {
        let mut tree = Tree::read(fixture.root()).expect("a tree");
        let targets = modules::build(&mut tree, &fixture.rules());
        check(&tree, &targets)
    }

    fn keys(fixture: &Fixture) -> Vec<String> {
        found(fixture).into_iter().map(|finding| finding.key).collect()
    }

    #[test]
    fn files_that_import_each_other_through_a_third_one_are_a_circle() {
        let fixture = Fixture::library("a", "mod one;\nmod two;\nmod three;\n")
            .with("crates/a/src/one.rs", "use crate::two::Two;\npub struct One(Two);")
            .with("crates/a/src/two.rs", "pub struct Two;\nfn f() { super::three::g(); }")
            .with("crates/a/src/three.rs", "use super::one::*;\npub fn g() {}");
        assert_eq!(
            keys(&fixture),
            ["crates/a/src/one.rs crates/a/src/three.rs crates/a/src/two.rs"]
        );
        let what = &found(&fixture)[0].what;
        assert!(
            what.contains("one.rs:1 -> crates/a/src/two.rs:2 -> crates/a/src/three.rs:1"),
            "{what}"
        );
    }

    #[test]
    fn a_glob_of_the_parent_is_an_import_and_a_declaration_is_none() {
        let child = "use super::*;\npub struct Child(Parent);";
        let one_way = Fixture::library("a", "mod child;\npub struct Parent;\n")
            .with("crates/a/src/child.rs", child);
        assert!(keys(&one_way).is_empty());
        let both =
            Fixture::library("a", "mod child;\npub struct Parent;\nfn f(_: child::Child) {}")
                .with("crates/a/src/child.rs", child);
        assert_eq!(keys(&both), ["crates/a/src/child.rs crates/a/src/lib.rs"]);
    }

    #[test]
    fn a_reexport_stands_for_the_file_behind_it() {
        let fixture =
            Fixture::library("a", "mod low;\nmod high;\npub use low::Low;\npub use high::High;")
                .with("crates/a/src/low.rs", "pub struct Low;")
                .with("crates/a/src/high.rs", "use crate::Low;\npub struct High(Low);");
        assert!(keys(&fixture).is_empty());
        let turned =
            fixture.with("crates/a/src/low.rs", "pub struct Low(Option<Box<crate::High>>);");
        assert_eq!(keys(&turned), ["crates/a/src/high.rs crates/a/src/low.rs"]);
    }

    #[test]
    fn imports_of_tests_make_no_circle() {
        let fixture = Fixture::library("a", "mod one;\nmod two;\n")
            .with("crates/a/src/one.rs", "use crate::two::Two;\npub struct One(Two);")
            .with(
                "crates/a/src/two.rs",
                "pub struct Two;\n#[cfg(test)]\nuse crate::one::One;\n#[cfg(test)]\nmod tests {\n\
                 use super::*;\nfn f(_: crate::one::One) {}\n}\n#[cfg(test)]\nfn g(_: crate::one::One) {}",
            );
        assert!(keys(&fixture).is_empty());
    }
}
