//! The table of `cargo xtask house --count`.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::circles;
use super::facts::{File, Role};
use super::finding::{Finding, Kind};
use super::modules::Target;
use super::programs;
use super::rules::Rules;
use super::tree::Tree;
use super::unused;

/// The counts of a wing, or of a folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Wing {
    files: usize,
    code: usize,
    test_code: usize,
    assertions: usize,
    /// Public items of libraries.
    items: usize,
}

impl Wing {
    /// Counts a file. A line is code if it is neither empty nor only a comment. Test code is in
    /// files below `tests/`, or in items with `#[cfg(test)]`. Benchmarks and examples count as
    /// code.
    fn add(&mut self, file: &File, is_test: bool) {
        self.files += 1;
        let is_test_line = |line: usize| is_test || file.facts.in_test(line);
        for (index, _) in file.facts.code.iter().enumerate().filter(|(_, is_code)| **is_code) {
            if is_test_line(index + 1) {
                self.test_code += 1;
            } else {
                self.code += 1;
            }
        }
        let outside = file.facts.assertions.iter().filter(|&&line| !is_test_line(line));
        self.assertions += outside.count();
    }

    fn plus(&mut self, other: Wing) {
        self.files += other.files;
        self.code += other.code;
        self.test_code += other.test_code;
        self.assertions += other.assertions;
        self.items += other.items;
    }
}

pub(crate) fn table(
    tree: &Tree,
    targets: &[Target],
    rules: &Rules,
    findings: &[(Kind, Vec<Finding>)],
) -> String {
    let mut out = String::new();
    for (kind, findings) in findings {
        row(&mut out, kind.name(), &[findings.len()], unit(*kind));
        if *kind == Kind::Circles {
            row(&mut out, "  files in them", &[circles::files(findings).len()], "");
            let direct = circles::direct_files(tree, targets);
            row(&mut out, "  by direct paths", &[direct], "files of libraries and programs");
            let tests = findings.iter().filter(|found| is_support(tree, &found.path)).count();
            row(&mut out, "  of test programs", &[tests], "circles");
        }
        if *kind == Kind::Names {
            let names: std::collections::BTreeSet<_> =
                findings.iter().filter_map(|found| found.key.split(' ').next()).collect();
            row(&mut out, "  different names", &[names.len()], "");
        }
    }
    out.push('\n');
    wings(&mut out, tree, rules);
    out.push('\n');
    let title = ["program", "longest", "all"];
    let _ = writeln!(out, "{:<24}{:>9}{:>9}  flags", title[0], title[1], title[2]);
    for program in programs::programs(tree, rules) {
        row(&mut out, &program.name, &[program.longest(), program.all()], "");
    }
    out
}

fn unit(kind: Kind) -> &'static str {
    match kind {
        Kind::Circles => "circles",
        Kind::Arrows => "dependencies",
        Kind::Comments => "lines beyond 100 columns",
        Kind::Words => "words",
        Kind::Imports => "files",
        Kind::Unused => "public items",
        Kind::Flags => "flags and programs",
        Kind::Tables => "pages",
        Kind::Names => "types that share a name",
        Kind::Suites => "packages",
    }
}

fn row(out: &mut String, name: &str, numbers: &[usize], unit: &str) {
    let mut line = format!("{name:<24}");
    for number in numbers {
        let _ = write!(line, "{number:>9}");
    }
    let _ = writeln!(out, "{}", format!("{line}  {unit}").trim_end());
}

fn wings(out: &mut String, tree: &Tree, rules: &Rules) {
    let mut wings: BTreeMap<(u32, &str), Wing> = BTreeMap::new();
    let mut lowest: BTreeMap<&str, u32> = BTreeMap::new();
    for layer in rules.layers.values() {
        let level = lowest.entry(&layer.wing).or_insert(layer.level);
        *level = layer.level.min(*level);
    }
    for file in &tree.files {
        let layer = rules.layers.get(&tree.packages[file.package].name);
        let wing = layer.map_or("(no wing)", |layer| layer.wing.as_str());
        let level = lowest.get(wing).copied().unwrap_or(u32::MAX);
        let is_test = file.is_test || is_below(tree, file, "/tests/");
        let wing = wings.entry((level, wing)).or_default();
        wing.add(file, is_test);
        if unused::is_library(tree, file) {
            wing.items += file.facts.items.len();
        }
    }
    let mut total = Wing::default();
    let _ =
        writeln!(out, "{:<24}{:>9}{:>9}{:>9}{:>9}", "wing", "files", "code", "tests", "asserts");
    for ((_, name), wing) in &wings {
        total.plus(*wing);
        row(out, name, &[wing.files, wing.code, wing.test_code, wing.assertions, wing.items], "");
    }
    row(out, "all", &[total.files, total.code, total.test_code, total.assertions, total.items], "");
}

fn is_below(tree: &Tree, file: &File, folder: &str) -> bool {
    file.path[tree.packages[file.package].folder.len()..].starts_with(folder)
}

fn is_support(tree: &Tree, path: &str) -> bool {
    tree.by_path.get(path).is_some_and(|&file| tree.files[file].role == Role::Support)
}

#[cfg(test)]
mod tests {
    use super::super::testing::Fixture;
    use super::*;

    #[test]
    fn code_and_assertions_of_tests_are_counted_apart() {
        let source = "//! Doc.\n\nfn f(a: u8) {\n    // Why.\n    assert!(a > 0, \"{}\", assert(a));\n    \
            debug_assert_eq!(a, 1);\n}\n\n#[cfg(test)]\nmod tests {\n    fn t() {\n        \
            assert_ne!(1, 2);\n    }\n}\n#[cfg(test)]\nmod more;\nimpl A {\n    #[cfg(test)]\n    \
            fn only() {}\n}\n";
        let fixture = Fixture::library("a", source)
            .with("crates/a/src/more.rs", "fn t() { assert!(true); }\n")
            .with("crates/a/src/suite/mod.rs", "fn t() { assert!(true); }\n")
            .with("xtask/rules/tests.txt", "crates/a/src/suite\n")
            .with("crates/a/tests/t.rs", "fn t() { assert!(true); }\n");
        let tree = fixture.tree();
        let mut all = Wing::default();
        for file in &tree.files {
            all.add(file, file.is_test || is_below(&tree, file, "/tests/"));
        }
        assert_eq!(all, Wing { files: 4, code: 6, test_code: 13, assertions: 2, items: 0 });
    }
}
