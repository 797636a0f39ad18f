//! Arrows: a crate depends only on crates of lower layers (`xtask/rules/layers.txt`).
//!
//! Dependencies of tests may go to a higher wing, if that wing does not depend on theirs.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::Finding;
use super::rules::{LAYERS, Rules};
use super::tree::Tree;
use super::workspace::Use;

pub(crate) fn check(tree: &Tree, rules: &Rules) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut wings: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in &tree.packages {
        let path = package.manifest_path();
        let Some(layer) = rules.layers.get(&package.name) else {
            let what = format!("{} stands in no layer: add it to {LAYERS}", package.name);
            findings.push(Finding::new(&path, 1, package.name.clone(), what));
            continue;
        };
        for dependency in &package.dependencies {
            let Some(below) = rules.layers.get(&dependency.name) else { continue };
            if below.wing != layer.wing {
                wings.entry(&layer.wing).or_default().insert(&below.wing);
            }
            if dependency.used == Use::Normal && below.level >= layer.level {
                let direction = if below.level == layer.level { "sideways" } else { "up" };
                let what = format!(
                    "{} (level {}) uses {} (level {}), which runs {direction}: move what it needs down, \
                     or hand it in from above",
                    package.name, layer.level, dependency.name, below.level
                );
                let key = format!("{} -> {}", package.name, dependency.name);
                findings.push(Finding::new(&path, package.line_of(dependency), key, what));
            }
        }
    }
    for package in &tree.packages {
        let Some(layer) = rules.layers.get(&package.name) else { continue };
        for dependency in package.dependencies.iter().filter(|d| d.used == Use::Test) {
            let Some(other) = rules.layers.get(&dependency.name) else { continue };
            // A dependency downwards never fails here. In a circle of wings the upward dependency
            // is reported.
            let up = other.level >= layer.level && other.wing != layer.wing;
            if up && reaches(&wings, &other.wing, &layer.wing) {
                let what = format!(
                    "tests of {} use {}, and the wing `{}` uses `{}` elsewhere: move these tests to the \
                     upper wing",
                    package.name, dependency.name, other.wing, layer.wing
                );
                let key = format!("{} -> {} in tests", package.name, dependency.name);
                let line = package.line_of(dependency);
                findings.push(Finding::new(&package.manifest_path(), line, key, what));
            }
        }
    }
    for (name, layer) in &rules.layers {
        if !tree.packages.iter().any(|package| package.name == *name) {
            let what = format!("there is no crate {name}: remove it from the layers");
            findings.push(Finding::new(LAYERS, layer.line, name.clone(), what));
        }
    }
    findings
}

fn reaches(wings: &BTreeMap<&str, BTreeSet<&str>>, from: &str, to: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(wing) = open.pop() {
        if wing == to {
            return true;
        }
        if seen.insert(wing) {
            open.extend(wings.get(wing).into_iter().flatten());
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::testing::Fixture;
    use super::*;

    fn workspace(of_low: &str, of_high: &str) -> Vec<String> {
        let fixture = Fixture::new()
            .with(LAYERS, "0 base low\n1 top high\n")
            .and_library("low", of_low, "")
            .and_library("high", of_high, "");
        check(&fixture.tree(), &fixture.rules()).into_iter().map(|found| found.key).collect()
    }

    #[test]
    fn a_dependency_that_runs_up_is_found_and_one_that_runs_down_is_not() {
        let down = "[dependencies]\nlatchwork-low.workspace = true\n";
        assert!(workspace("", down).is_empty());
        let up = "[dependencies]\nlatchwork-high.workspace = true\n";
        assert_eq!(workspace(up, ""), ["low -> high"]);
    }

    #[test]
    fn a_dependency_within_a_level_is_found() {
        let fixture = Fixture::new()
            .with(LAYERS, "0 base one two\n")
            .and_library("one", "[dependencies]\nlatchwork-two = \"1\"\n", "")
            .and_library("two", "", "");
        let found = check(&fixture.tree(), &fixture.rules());
        assert_eq!(found.len(), 1);
        assert!(found[0].what.contains("sideways"), "{}", found[0].what);
    }

    #[test]
    fn tests_may_use_an_upper_wing_unless_that_wing_uses_theirs() {
        let tests_up = "[dev-dependencies]\nlatchwork-high = \"1\"\n";
        assert!(workspace(tests_up, "").is_empty());
        let down = "[dependencies]\nlatchwork-low = \"1\"\n";
        assert_eq!(workspace(tests_up, down), ["low -> high in tests"]);
    }

    #[test]
    fn a_crate_without_a_layer_and_a_layer_without_a_crate_are_found() {
        let fixture = Fixture::new().with(LAYERS, "0 base gone\n").and_library("new", "", "");
        let found = check(&fixture.tree(), &fixture.rules());
        let found: Vec<_> = found.iter().map(|f| (f.path.as_str(), f.line)).collect();
        assert_eq!(found, [("crates/new/Cargo.toml", 1), (LAYERS, 1)]);
    }
}
