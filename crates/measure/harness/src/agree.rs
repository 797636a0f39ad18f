//! Compares the settings of all processes of one run.

use std::collections::BTreeMap;

use latchwork_membership::NodeName;
use serde_json::Value;

/// Settings that may differ between processes: whether a process touches its memory at the start,
/// the size of memory nodes, and the interval of results.
const ITS_OWN: [&str; 3] = ["prefault", "memory_mb", "interval_s"];

/// The settings as text, by name, with the program's name and version. The entries of a nested
/// table become top-level entries. Settings in [`ITS_OWN`] are left out.
pub(crate) fn as_text(
    program: &str,
    settings: BTreeMap<String, Value>,
) -> BTreeMap<String, String> {
    let mut all = BTreeMap::from([
        (" program".to_owned(), program.to_owned()),
        (" version".to_owned(), format!("{} ({})", env!("CARGO_PKG_VERSION"), crate::GIT)),
    ]);
    let text = |value: Value| match value {
        Value::String(text) => text,
        value => value.to_string(),
    };
    for (name, value) in settings {
        match value {
            Value::Object(map) => {
                all.extend(map.into_iter().map(|(name, value)| (name, text(value))))
            }
            value => _ = all.insert(name, text(value)),
        }
    }
    all.retain(|name, _| !ITS_OWN.contains(&name.as_str()));
    all
}

/// A line about the first setting with different values at two nodes. `None` if all agree.
pub(crate) fn difference(nodes: &[NodeName], all: &[BTreeMap<String, String>]) -> Option<String> {
    let (first, others) = all.split_first()?;
    let names = all.iter().flat_map(BTreeMap::keys).collect::<std::collections::BTreeSet<_>>();
    for name in names {
        let other = others.iter().zip(1..).find(|(other, _)| other.get(name) != first.get(name));
        let Some((other, place)) = other else { continue };
        let said = |settings: &BTreeMap<String, String>| {
            settings.get(name).map_or("not set", String::as_str).to_owned()
        };
        let (here, there) = (said(first), said(other));
        let (one, two) = (nodes.first()?, nodes.get(place)?);
        return Some(format!(
            "{} is {here} at node {one} and {there} at node {two}: start all processes of a run with the same flags",
            name.trim_start()
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn settings(value: Value) -> BTreeMap<String, String> {
        let Value::Object(map) = value else { panic!("a table") };
        as_text("test", map.into_iter().collect())
    }

    fn nodes() -> [NodeName; 3] {
        ["C1", "C4", "C5"].map(|name| name.parse().expect("a name"))
    }

    #[test]
    fn nodes_that_agree_go_on_whatever_is_their_own() {
        let one = settings(json!({"seed": 7, "settings": {"pause": "2us"}, "prefault": true}));
        let two = settings(json!({"seed": 7, "settings": {"pause": "2us"}, "memory_mb": 9}));
        assert_eq!(difference(&nodes(), &[one.clone(), two, one]), None);
        assert_eq!(difference(&[], &[]), None);
    }

    #[test]
    fn the_first_difference_names_the_value_and_both_nodes() {
        let one = settings(json!({"seed": 7, "settings": {"pause": "2us"}}));
        for (other, begin) in [
            (
                json!({"seed": 8, "settings": {"pause": "2us"}}),
                "seed is 7 at node C1 and 8 at node C5: ",
            ),
            (
                json!({"seed": 7, "settings": {"pause": "3us"}}),
                "pause is 2us at node C1 and 3us at node C5: ",
            ),
            (
                json!({"settings": {"pause": "2us"}}),
                "seed is 7 at node C1 and not set at node C5: ",
            ),
        ] {
            let all = [one.clone(), one.clone(), settings(other)];
            let line = difference(&nodes(), &all).expect("they differ");
            assert!(line.starts_with(begin) && !line.contains('\n'), "{line}");
        }
        // The key of the program's name begins with a blank, so this name is compared before all
        // settings.
        let Value::Object(map) = json!({"aaa": 1}) else { return };
        let another = as_text("other", map.into_iter().collect());
        let line = difference(&nodes(), &[one, another]).expect("they differ");
        assert!(line.starts_with("program is test at node C1 and other at node C4: "), "{line}");
    }
}
