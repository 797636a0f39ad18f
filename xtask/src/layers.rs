//! Layers: a crate uses only crates of lower levels (`xtask/rules/layers.txt`). Its tests may use
//! any crate that does not use theirs.

use std::collections::BTreeMap;

use crate::packages::Package;
use crate::texts::{Finding, Texts, line_of, rules};

const LAYERS: &str = "xtask/rules/layers.txt";

pub(crate) fn check(packages: &[Package], texts: &Texts) -> Result<Vec<Finding>, String> {
    let mut findings = Vec::new();
    let mut levels = BTreeMap::new();
    for (number, rule) in rules(texts, LAYERS) {
        let parts: Vec<&str> = rule.split_whitespace().collect();
        let level = parts[0].parse::<u32>();
        let level = level.map_err(|_| format!("{LAYERS}:{number}: write `LEVEL WING CRATE..`"))?;
        for name in parts.into_iter().skip(2) {
            if !packages.iter().any(|package| package.name == name) {
                let what = format!("there is no crate {name}: remove it");
                findings.push(Finding::new(LAYERS, number, what));
            }
            if levels.insert(name, level).is_some() {
                let what = format!("{name} stands in two layers: remove one");
                findings.push(Finding::new(LAYERS, number, what));
            }
        }
    }
    for package in packages {
        let name = package.name.as_str();
        let mut report = |used: &str, what: String| {
            let manifest = texts.get(&package.manifest).map_or("", String::as_str);
            findings.push(Finding::new(&package.manifest, line_of(manifest, used), what));
        };
        let Some(level) = levels.get(name) else {
            report("name", format!("{name} stands in no layer: add it to {LAYERS}"));
            continue;
        };
        for used in &package.uses {
            let Some(below) = levels.get(used.as_str()).filter(|below| *below >= level) else {
                continue;
            };
            let what = format!(
                "{name} (level {level}) uses {used} (level {below}): move what it needs down, or \
                 hand it in from above"
            );
            report(used, what);
        }
        for used in package.tests_use.iter().filter(|used| uses(packages, used, name)) {
            let what = format!("tests of {name} use {used}, which uses {name}: move them there");
            report(used, what);
        }
    }
    Ok(findings)
}

/// Whether a package uses another one, directly or through others.
fn uses(packages: &[Package], name: &str, wanted: &str) -> bool {
    let mut seen = vec![name];
    let mut at = 0;
    while let Some(&name) = seen.get(at) {
        let package = packages.iter().find(|package| package.name == name);
        for used in package.into_iter().flat_map(|package| &package.uses) {
            if !seen.contains(&used.as_str()) {
                seen.push(used);
            }
        }
        at += 1;
    }
    seen[1..].contains(&wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, uses: &[&str], tests_use: &[&str]) -> Package {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let (name, manifest) = (name.to_owned(), format!("{name}/Cargo.toml"));
        Package {
            name,
            manifest,
            uses: owned(uses),
            tests_use: owned(tests_use),
            ..Package::default()
        }
    }

    fn found(rules: &str, packages: &[Package]) -> Vec<String> {
        let manifest = "[package]\n\n[dependencies]\nlatchwork-high.workspace = true\n".to_owned();
        let texts =
            [(LAYERS.to_owned(), rules.to_owned()), ("low/Cargo.toml".to_owned(), manifest)];
        let found = check(packages, &Texts::from(texts)).unwrap();
        let lines = found.into_iter().map(|f| format!("{}:{}: {}", f.path, f.line, f.what));
        lines.map(|line| line.split([';', ':']).take(3).collect::<Vec<_>>().join(":")).collect()
    }

    const RULES: &str = "# Why.\n0 base low side\n1 top high\n";

    #[test]
    fn a_crate_that_uses_one_of_its_own_or_a_higher_level_is_found() {
        let (low, high) = (package("low", &[], &[]), package("high", &["low"], &[]));
        let side = package("side", &["low"], &[]);
        let found_of = |low: Package| {
            found(RULES, &[low, package("high", &[], &[]), package("side", &[], &[])])
        };
        assert_eq!(found(RULES, &[low, high, package("side", &[], &[])]), [""; 0]);
        let up = found_of(package("low", &["high"], &[]));
        assert_eq!(up, ["low/Cargo.toml:4: low (level 0) uses high (level 1)"]);
        let sideways = found(RULES, &[package("low", &[], &[]), package("high", &[], &[]), side]);
        assert_eq!(sideways, ["side/Cargo.toml:1: side (level 0) uses low (level 0)"]);
    }

    #[test]
    fn tests_may_use_a_higher_crate_unless_that_one_uses_theirs() {
        let low = || package("low", &[], &["high"]);
        let side = |uses: &[&str]| package("side", uses, &[]);
        let high = package("high", &["side"], &[]);
        assert_eq!(found(RULES, &[low(), side(&[]), high]), [""; 0]);
        let high = package("high", &["side"], &[]);
        let through =
            found("0 base low\n1 base side\n2 base high\n", &[low(), side(&["low"]), high]);
        assert_eq!(through, ["low/Cargo.toml:4: tests of low use high, which uses low"]);
    }

    #[test]
    fn a_crate_without_a_layer_and_a_layer_without_a_crate_are_found() {
        let found = found("0 base gone\n", &[package("new", &[], &[])]);
        let expected = [
            "xtask/rules/layers.txt:1: there is no crate gone",
            "new/Cargo.toml:1: new stands in no layer",
        ];
        assert_eq!(found, expected);
    }
}
