//! Unused: public items of libraries that nothing outside their crate names.
//!
//! The check searches for identifiers, and reports an item only if it is certainly unused. An item
//! counts as used when its name occurs in one of these places:
//!
//! - anywhere in another crate, or in a test, benchmark or example of its own crate;
//! - in code in a page, in another crate's comments, or in an example of a doc comment;
//! - in a public signature, because callers need the type without naming it.

use std::collections::{HashMap, HashSet};

use super::facts::Role;
use super::finding::Finding;
use super::tree::Tree;

/// The packages that name an identifier.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Users {
    One(usize),
    Many,
}

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut users: HashMap<&str, Users> = HashMap::new();
    let mut surface: HashMap<usize, HashSet<&str>> = HashMap::new();
    let mut spans = Vec::new();
    for file in &tree.files {
        // Tests, benchmarks and examples count as users outside of their crate.
        let user = match file.role {
            Role::Source if !is_program(tree, file.package, &file.path) => Users::One(file.package),
            _ => Users::Many,
        };
        for name in &file.facts.identifiers {
            add(&mut users, name, user);
        }
        let comments = file.facts.comments.iter().map(|comment| comment.text.as_str());
        spans.push((file.package, code_words(comments)));
        let names = file.facts.surface.iter().map(String::as_str);
        surface.entry(file.package).or_default().extend(names);
    }
    for (package, words) in &spans {
        for word in &words.in_spans {
            add(&mut users, word, Users::One(*package));
        }
        for word in &words.in_blocks {
            add(&mut users, word, Users::Many);
        }
    }
    let pages: Vec<Code> = tree.pages.iter().map(|(_, text)| code_words(text.lines())).collect();
    for word in pages.iter().flat_map(|words| words.in_spans.iter().chain(&words.in_blocks)) {
        add(&mut users, word, Users::Many);
    }

    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| is_library(tree, file)) {
        let package = &tree.packages[file.package].name;
        for item in &file.facts.items {
            let name = item.name.as_str();
            let is_used = users.get(name) == Some(&Users::Many)
                || surface.get(&file.package).is_some_and(|names| names.contains(name));
            if !is_used {
                let item_name = match &item.owner {
                    Some(owner) => format!("{owner}::{name}"),
                    None => name.to_owned(),
                };
                let what = format!(
                    "nothing outside {package} names `{item_name}`: make it pub(crate), or remove it"
                );
                let key = format!("{package} {item_name}");
                findings.push(Finding::new(&file.path, item.line, key, what));
            }
        }
    }
    findings
}

/// Whether the file is part of a library, and not only of its tests.
pub(crate) fn is_library(tree: &Tree, file: &super::facts::File) -> bool {
    tree.libraries[file.package]
        && file.role == Role::Source
        && !file.is_test
        && !is_program(tree, file.package, &file.path)
}

/// Whether the file is the root of a program beside a library.
fn is_program(tree: &Tree, package: usize, path: &str) -> bool {
    let inside = &path[tree.packages[package].folder.len()..];
    inside == "/src/main.rs" || inside.starts_with("/src/bin/")
}

fn add<'a>(users: &mut HashMap<&'a str, Users>, name: &'a str, user: Users) {
    users
        .entry(name)
        .and_modify(|known| {
            if *known != user {
                *known = Users::Many;
            }
        })
        .or_insert(user);
}

/// Identifiers in code within a text.
#[derive(Default)]
struct Code {
    /// Between backticks.
    in_spans: HashSet<String>,
    /// Between fences.
    in_blocks: HashSet<String>,
}

fn code_words<'a>(lines: impl Iterator<Item = &'a str>) -> Code {
    let mut code = Code::default();
    let mut in_block = false;
    for line in lines {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if in_block {
            code.in_blocks.extend(words(line));
        } else {
            for span in line.split('`').skip(1).step_by(2) {
                code.in_spans.extend(words(span));
            }
        }
    }
    code
}

fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::super::testing::Fixture;
    use super::*;

    fn keys(fixture: &Fixture) -> Vec<String> {
        check(&fixture.tree()).into_iter().map(|finding| finding.key).collect()
    }

    const LIBRARY: &str = "pub struct Thing;\nimpl Thing {\n    pub fn used(&self) {}\n    \
        pub fn forgotten(&self) {}\n}\npub(crate) fn inner() { Thing.forgotten(); }\n";

    #[test]
    fn a_public_item_that_no_other_crate_names_is_found() {
        let user = "fn f(thing: latchwork_a::Thing) { thing.used(); }";
        let fixture = Fixture::library("a", LIBRARY).and_library("b", "", user);
        assert_eq!(keys(&fixture), ["a Thing::forgotten"]);
    }

    #[test]
    fn names_in_integration_tests_pages_and_doc_examples_are_uses() {
        let fixture = Fixture::library("a", LIBRARY)
            .with("crates/a/tests/t.rs", "fn f(thing: latchwork_a::Thing) {}")
            .with("docs/page.md", "Call `Thing::used`.")
            .with("crates/a/src/more.rs", "//! ```\n//! thing.forgotten();\n//! ```\n");
        assert!(keys(&fixture).is_empty());
    }

    #[test]
    fn a_type_in_a_public_signature_is_used_and_one_in_a_private_signature_is_not() {
        let source = "pub struct Seen;\npub struct Unseen;\npub fn f() -> Option<Seen> { None }\n\
            fn g() -> Option<Unseen> { None }\n";
        let fixture = Fixture::library("a", source).and_library("b", "", "fn h() { a::f(); }");
        assert_eq!(keys(&fixture), ["a Unseen"]);
    }

    #[test]
    fn unit_tests_are_no_users() {
        let source = "pub fn f() {}\n#[cfg(test)]\nmod tests { fn t() { super::f(); } }\n";
        assert_eq!(keys(&Fixture::library("a", source)), ["a f"]);
    }
}
