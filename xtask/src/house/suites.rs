//! Suites: the tests of a package are one program.
//!
//! Each test program links all crates below it, so many small programs take most of the time of a
//! build. Only `loom` is separate, because it is built with other atomics.

use super::finding::Finding;
use super::tree::Tree;

/// Test programs that do not count.
const APART: [&str; 1] = ["loom"];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, package) in tree.packages.iter().enumerate() {
        let folder = format!("{}/tests/", package.folder);
        let of_package = tree.files.iter().filter(|file| file.package == index);
        let inside = of_package.filter_map(|file| file.path.strip_prefix(&folder));
        let programs: Vec<&str> =
            inside.filter_map(program).filter(|name| !APART.contains(name)).collect();
        if programs.len() > 1 {
            let path = format!("{}/Cargo.toml", package.folder);
            let what = format!(
                "{} test programs: {}; make them modules of tests/suite/main.rs",
                programs.len(),
                programs.join(", ")
            );
            findings.push(Finding::new(&path, 1, package.folder.clone(), what));
        }
    }
    findings
}

/// The name of the test program that has this root file. `path` is relative to `tests`.
fn program(path: &str) -> Option<&str> {
    match path.split_once('/') {
        None => path.strip_suffix(".rs"),
        Some((name, "main.rs")) => Some(name),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Fixture;
    use super::*;

    #[test]
    fn a_second_test_program_is_found_and_loom_and_modules_are_not() {
        let fixture = Fixture::library("a", "")
            .and_library("b", "", "")
            .with("crates/a/tests/suite/main.rs", "mod one;")
            .with("crates/a/tests/suite/one.rs", "")
            .with("crates/a/tests/loom.rs", "")
            .with("crates/b/tests/suite/main.rs", "")
            .with("crates/b/tests/other.rs", "");
        let found = check(&fixture.tree());
        let found: Vec<_> = found.iter().map(|finding| finding.path.as_str()).collect();
        assert_eq!(found, ["crates/b/Cargo.toml"]);
    }
}
