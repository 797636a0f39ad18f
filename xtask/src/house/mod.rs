//! `cargo xtask house`: what the rules of the house find in the source tree.
//!
//! ```text
//!  Tree (packages, files, scripts, pages) ──► one check per Kind ──► findings ──► kept lists
//!                                                                                  │
//!                              fails: a finding that no kept list names            │
//!                              fails: a kept line that no finding needs  ◄─────────┘
//! ```
//!
//! The kept list of a kind, `xtask/kept/KIND.txt`, names the findings that stand for now. It can
//! only shrink: `--bless` removes what is mended, `--bless-more` also adds what is new.

mod arrows;
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
mod syntax;
mod tables;
#[cfg(test)]
mod testing;
mod tokens;
mod tree;
mod unused;
mod words;
mod workspace;

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

/// Checks the tree below `root`. Whether it is in order.
pub(crate) fn run(root: &Path, flags: &Flags) -> Result<bool, Error> {
    let rules = Rules::read(root)?;
    let mut tree = Tree::read(root)?;
    let targets = modules::build(&mut tree);
    let check = |&kind: &Kind| (kind, check(kind, &tree, &targets, &rules));
    let findings: Vec<(Kind, Vec<Finding>)> = Kind::ALL.iter().map(check).collect();
    if flags.count {
        print!("{}", count::table(&tree, &rules, &findings));
        return Ok(true);
    }
    if let Some(names) = &flags.all {
        return print_all(names, &findings);
    }
    let mut faults = 0;
    for (kind, findings) in findings {
        let mut kept = Kept::read(root, kind)?;
        if flags.bless || flags.bless_more {
            kept.bless(&findings, flags.bless_more);
            kept.write(root)?;
        }
        for fault in kept.compare(&findings) {
            println!("{fault}");
            faults += 1;
        }
    }
    if faults > 0 {
        println!("house: {faults} findings");
    } else {
        println!("house: {} files in order", tree.files.len());
    }
    Ok(faults == 0)
}

fn print_all(names: &[String], findings: &[(Kind, Vec<Finding>)]) -> Result<bool, Error> {
    for name in names {
        if !Kind::ALL.iter().any(|kind| kind.name() == name) {
            return Err(Error::Kind(name.clone()));
        }
    }
    for (kind, findings) in findings {
        if names.is_empty() || names.iter().any(|name| name == kind.name()) {
            for finding in findings {
                println!("{}:{}: {}: {}", finding.path, finding.line, kind.name(), finding.what);
            }
        }
    }
    Ok(true)
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
    }
}
