//! The names of workloads and of seeded bugs on the command line.

use latchwork_hunt::{Scenario, SeededBug, TreeIndex, Workload};

/// A kind of workload, and an example of it.
#[derive(Clone, Debug)]
pub(crate) struct Kind(pub(crate) Workload);

/// The workload with this name, as in scenario files.
pub(crate) fn kind(name: &str) -> Result<Kind, String> {
    let file = format!("[workload.{}]\n", name.replace('-', "_"));
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    let scenario = plain.then(|| Scenario::parse(&file));
    match scenario {
        Some(Ok(scenario)) => Ok(Kind(scenario.workload)),
        Some(Err(error)) => Err(error.to_string()),
        None => Err("use a name such as lines".to_owned()),
    }
}

/// The seeded bug with this name.
pub(crate) fn plant(name: &str) -> Result<SeededBug, String> {
    let named = SeededBug::ALL.into_iter().find(|plant| seeded_bug_name(*plant) == name);
    named.ok_or_else(|| {
        let names: Vec<String> = SeededBug::ALL.into_iter().map(seeded_bug_name).collect();
        format!("use one of {}", names.join(", "))
    })
}

/// The index of the workload `tree` with this name.
pub(crate) fn tree_index(name: &str) -> Result<TreeIndex, String> {
    let named = TreeIndex::ALL.into_iter().find(|index| words(index) == name);
    named.ok_or_else(|| {
        let names: Vec<String> = TreeIndex::ALL.iter().map(words).collect();
        format!("use one of {}", names.join(", "))
    })
}

/// A seeded bug's name on the command line.
pub(crate) fn seeded_bug_name(plant: SeededBug) -> String {
    words(&plant)
}

/// The name of a variant in words with hyphens.
fn words(variant: &impl std::fmt::Debug) -> String {
    let mut name = String::new();
    for c in format!("{variant:?}").chars() {
        if c.is_ascii_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}

/// The name of a workload.
pub(crate) fn workload_name(workload: &Workload) -> String {
    let table = toml::Table::try_from(workload).unwrap_or_default();
    table.into_iter().next().map_or_else(String::new, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bugs_are_named_as_on_the_command_line() {
        assert_eq!(plant("no-settling"), Ok(SeededBug::NoSettling));
        assert!(plant("no_settling").unwrap_err().contains("no-registered-wait"));
    }

    #[test]
    fn a_workload_is_known_by_the_name_that_files_have() {
        assert_eq!(workload_name(&kind("lines").unwrap().0), "lines");
        assert!(kind("g").unwrap_err().contains("lines"));
        assert!(kind("a]\nb").is_err());
    }
}
