//! Imports: `use` declarations stand in three blocks with an empty line between them.
//!
//! 1. the standard library,
//! 2. other crates, those of the workspace among them,
//! 3. this crate: `crate`, `self`, `super` and the module's own children.
//!
//! rustfmt sorts within a block. `pub use` re-exports are in blocks of their own, at any place.

use std::collections::BTreeSet;

use super::facts::{Module, UseLine};
use super::finding::Finding;
use super::tree::Tree;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Std,
    Others,
    Own,
}

impl Group {
    fn name(self) -> &'static str {
        match self {
            Group::Std => "the standard library",
            Group::Others => "other crates",
            Group::Own => "this crate",
        }
    }
}

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        for (index, module) in file.facts.modules.iter().enumerate() {
            let children: BTreeSet<&str> = file
                .facts
                .modules
                .iter()
                .filter(|child| child.parent == Some(index))
                .map(|child| child.name.as_str())
                .chain(module.declared.iter().map(|declared| declared.name.as_str()))
                .collect();
            if let Some((line, what)) = fault(module, &children, &file.facts) {
                findings.push(Finding::new(&file.path, line, file.path.clone(), what));
                break;
            }
        }
    }
    findings
}

fn group(line: &UseLine, module: &Module, children: &BTreeSet<&str>) -> Group {
    match line.root.as_str() {
        "std" | "core" | "alloc" => Group::Std,
        "crate" | "self" | "super" => Group::Own,
        root if children.contains(root) || module.items.contains(root) => Group::Own,
        _ => Group::Others,
    }
}

/// The first `use` in a wrong place.
fn fault(
    module: &Module,
    children: &BTreeSet<&str>,
    facts: &super::facts::Facts,
) -> Option<(usize, String)> {
    let private = module.use_lines.iter().filter(|line| !line.is_public);
    let placed: Vec<_> = private.map(|line| (line, group(line, module, children))).collect();
    for pair in placed.windows(2) {
        let ((above, first), (below, second)) = (pair[0], pair[1]);
        if second < first {
            let (second, first) = (second.name(), first.name());
            let what = format!("imports of {second} behind those of {first}: move them above");
            return Some((below.first, what));
        }
        let between = above.last + 1..below.first;
        let has_comment = |line| facts.comments.iter().any(|comment| comment.line == line);
        let has_code = |line: usize| facts.code.get(line - 1).copied().unwrap_or(false);
        let is_apart = between.clone().any(|line| !has_comment(line) && !has_code(line));
        if second != first && !is_apart {
            let (first, second) = (first.name(), second.name());
            let what = format!(
                "imports of {first} and of {second} in one block: put an empty line between"
            );
            return Some((below.first, what));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::testing::Fixture;
    use super::*;

    fn faults(source: &str) -> Vec<(usize, String)> {
        let fixture = Fixture::library("a", source).with("crates/a/src/child.rs", "");
        check(&fixture.tree()).into_iter().map(|f| (f.line, f.what)).collect()
    }

    #[test]
    fn the_three_groups_in_order_are_fine() {
        let source = "mod child;\n\npub use child::Re;\n\nuse std::fmt;\n\nuse clap::Args;\n\
            use latchwork_b::B;\n\nuse crate::c;\nuse child::D;\n\npub use std::mem;\n";
        assert_eq!(faults(source), []);
    }

    #[test]
    fn a_group_that_stands_too_low_is_found() {
        let found = faults("use crate::c;\n\nuse std::fmt;\n");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, 3);
        assert_eq!(faults("mod child;\nuse child::D;\n\nuse clap::Args;\n").len(), 1);
    }

    #[test]
    fn two_groups_in_one_block_are_found() {
        let found = faults("use std::fmt;\nuse clap::Args;\n");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].1.contains("in one block"), "{found:?}");
    }

    #[test]
    fn inline_modules_have_their_own_list_and_functions_have_none() {
        let fine = "use crate::a;\nmod m {\n    use std::fmt;\n}\nfn f() {\n    use std::fmt;\n}\n";
        assert_eq!(faults(fine), []);
        let wrong = "mod m {\n    use super::a;\n\n    use std::fmt;\n}\n";
        assert_eq!(faults(wrong).len(), 1);
    }
}
