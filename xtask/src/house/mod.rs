//! `cargo xtask house`: what the rules of the house find in the source tree.
//!
//! ```text
//!  Tree (packages, files, scripts, pages) ──► one check per Kind ──► findings ──► kept lists
//!                                                                                  │
//!                              fails: a finding that no kept list names            │
//!                              fails: a kept line that no finding needs  ◄─────────┘
//! ```
//!
//! The kept list of a kind, `xtask/kept/KIND.txt`, names the tolerated findings. `--bless` removes
//! lines that no finding needs. `--bless-more` also adds the new findings.

mod arrows;
mod attributes;
mod circles;
mod columns;
mod commands;
mod count;
mod error;
mod facts;
mod finding;
mod flags;
mod imports;
mod kept;
mod modules;
mod names;
mod programs;
mod rules;
mod scan;
mod suites;
mod syntax;
mod tables;
#[cfg(test)]
mod testing;
mod tokens;
mod tree;
mod unused;
mod words;
mod workspace;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use clap::Args;

use error::Error;
use finding::{Finding, Kind};
use kept::Kept;
use modules::Target;
use rules::Rules;
use tree::Tree;

/// Flags of the task.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Rewrite the kept lists without the lines that are no longer needed. They only shrink.
    #[arg(long)]
    bless: bool,
    /// Rewrite the kept lists, and add what is new to them.
    #[arg(long, conflicts_with = "bless")]
    bless_more: bool,
    /// Print a table of counts instead of findings.
    #[arg(long)]
    count: bool,
    /// Print all findings, those of the kept lists included; of these kinds only, if any is named.
    #[arg(long, value_name = "KIND", num_args = 0.., value_delimiter = ',')]
    all: Option<Vec<String>>,
}

/// Checks the tree below `root`. Returns whether no finding is new and no kept line is unneeded.
pub(crate) fn run(root: &Path, flags: &Flags) -> Result<bool, Error> {
    let rules = Rules::read(root)?;
    let mut tree = Tree::read(root)?;
    let targets = modules::build(&mut tree, &rules);
    let check = |&kind: &Kind| (kind, check(kind, &tree, &targets, &rules));
    let findings: Vec<(Kind, Vec<Finding>)> = Kind::ALL.iter().map(check).collect();
    if flags.count {
        print(&count::table(&tree, &targets, &rules, &findings));
        return Ok(true);
    }
    if let Some(names) = &flags.all {
        print(&all(names, &findings)?);
        return Ok(true);
    }
    let mut faults = Vec::new();
    for (kind, findings) in findings {
        let mut kept = Kept::read(root, kind)?;
        if flags.bless || flags.bless_more {
            let before = kept.total();
            kept.bless(&findings, flags.bless_more);
            kept.write(root)?;
            if kept.total() != before {
                print(&format!("house: {} kept: {} from {before}\n", kind.name(), kept.total()));
            }
        }
        faults.extend(kept.compare(&findings));
    }
    let is_in_order = faults.is_empty();
    faults.push(match faults.len() {
        0 => format!("house: {} files in order", tree.files.len()),
        count => format!("house: {count} findings"),
    });
    print(&(faults.join("\n") + "\n"));
    Ok(is_in_order)
}

/// Prints to standard output. An error is ignored, because a reader such as `head` may have ended.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// All findings of the named kinds, or of every kind.
fn all(names: &[String], findings: &[(Kind, Vec<Finding>)]) -> Result<String, Error> {
    for name in names {
        if !Kind::ALL.iter().any(|kind| kind.name() == name) {
            return Err(Error::Kind(name.clone()));
        }
    }
    let mut text = String::new();
    for (kind, findings) in findings {
        let name = kind.name();
        if names.is_empty() || names.iter().any(|wanted| wanted == name) {
            for Finding { path, line, what, .. } in findings {
                let _ = writeln!(text, "{path}:{line}: {name}: {what}");
            }
        }
    }
    Ok(text)
}

fn check(kind: Kind, tree: &Tree, targets: &[Target], rules: &Rules) -> Vec<Finding> {
    match kind {
        Kind::Circles => circles::check(tree, targets),
        Kind::Arrows => arrows::check(tree, rules),
        Kind::Comments => columns::check(tree),
        Kind::Words => words::check(tree, rules),
        Kind::Imports => imports::check(tree),
        Kind::Unused => unused::check(tree),
        Kind::Flags => flags::check(tree, rules),
        Kind::Tables => tables::check(tree),
        Kind::Names => names::check(tree),
        Kind::Suites => suites::check(tree),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::testing::Fixture;
    use super::*;

    const CHECK: Flags = Flags { bless: false, bless_more: false, count: false, all: None };

    #[test]
    fn a_new_finding_fails_until_it_is_kept_and_its_line_fails_once_it_is_mended() {
        let long = format!("// {}\n", "x".repeat(100));
        let fixture = Fixture::library("a", &long).with(rules::LAYERS, "0 base a\n");
        assert!(!run(fixture.root(), &CHECK).unwrap());
        assert!(!run(fixture.root(), &Flags { bless: true, ..CHECK }).unwrap());
        assert!(run(fixture.root(), &Flags { bless_more: true, ..CHECK }).unwrap());
        assert!(run(fixture.root(), &CHECK).unwrap());

        let mended = fixture.with("crates/a/src/lib.rs", "// Short.\n");
        assert!(!run(mended.root(), &CHECK).unwrap());
        assert!(run(mended.root(), &Flags { bless: true, ..CHECK }).unwrap());
        let kept = fs::read_to_string(mended.root().join("xtask/kept/comments.txt")).unwrap();
        assert_eq!(kept, "");
    }
}
