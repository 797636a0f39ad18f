//! Names: a public type has a name that no other crate defines.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::Finding;
use super::tree::Tree;
use super::unused::is_library;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut by_name: BTreeMap<&str, BTreeMap<&str, (&str, usize)>> = BTreeMap::new();
    for file in tree.files.iter().filter(|file| is_library(tree, file)) {
        let package = tree.packages[file.package].name.as_str();
        for item in file.facts.items.iter().filter(|item| item.is_type) {
            let crates = by_name.entry(&item.name).or_default();
            crates.entry(package).or_insert((&file.path, item.line));
        }
    }
    let mut findings = Vec::new();
    for (name, crates) in by_name.into_iter().filter(|(_, crates)| crates.len() > 1) {
        for (package, (path, line)) in &crates {
            let others: BTreeSet<&str> =
                crates.keys().copied().filter(|other| other != package).collect();
            let others = others.into_iter().collect::<Vec<_>>().join(", ");
            let what = format!("`{name}` is also a type of {others}: give it a word more");
            findings.push(Finding::new(path, *line, format!("{name} {package}"), what));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::testing::Fixture;
    use super::*;

    #[test]
    fn a_type_name_of_two_crates_is_found_and_private_ones_are_not() {
        let fixture = Fixture::library("a", "pub struct State;\npub struct Own;\nstruct Hidden;")
            .and_library("b", "", "pub mod m { pub enum State {} }\npub struct Hidden;");
        let found = check(&fixture.tree());
        let keys: Vec<_> = found.iter().map(|finding| finding.key.as_str()).collect();
        assert_eq!(keys, ["State a", "State b"]);
    }

    #[test]
    fn an_alias_of_a_type_of_the_same_name_is_that_type() {
        let fixture = Fixture::library("a", "pub struct Worker<P>(P);").and_library(
            "b",
            "",
            "pub type Worker = a::Worker<u8>;",
        );
        assert!(check(&fixture.tree()).is_empty());
    }
}
