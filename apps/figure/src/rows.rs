//! Rows of a figure: its points, the nodes of each point, or the nodes of each point over time.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::error::{Result, wrong};
use crate::point::Point;

/// The kinds of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RowKind {
    /// A point.
    #[default]
    Points,
    /// A compute node of a point, with the columns `node`, `role`, `ops`, `throughput_ops_s`. If
    /// some nodes only write, `role` is `writer` or `reader`.
    Nodes,
    /// A compute node of a point at one time, with the columns `node`, `role`, `time_us`, and `ops`
    /// (so far).
    Time,
}

/// A row: text by column.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    /// The labels in the script's order, and the labels of the row's kind.
    pub(crate) labels: Vec<(String, String)>,
    /// All other columns.
    pub(crate) columns: BTreeMap<String, String>,
}

/// A selection of rows: for each named column the values that a row may have.
pub(crate) type Selection = BTreeMap<String, OneOrMore>;

/// The valid values of a column.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(crate) enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl OneOrMore {
    fn has(&self, text: &str) -> bool {
        match self {
            OneOrMore::One(one) => one == text,
            OneOrMore::More(more) => more.iter().any(|one| one == text),
        }
    }
}

impl Row {
    pub(crate) fn text(&self, column: &str) -> Option<&str> {
        let label = self.labels.iter().find(|(name, _)| name == column);
        label.map(|(_, value)| value.as_str()).or(self.columns.get(column).map(String::as_str))
    }

    /// The number in a column.
    ///
    /// # Errors
    /// When the column has none.
    pub(crate) fn number(&self, column: &str) -> Result<f64> {
        let number = self.text(column).and_then(|text| text.parse::<f64>().ok());
        match number.filter(|number| number.is_finite()) {
            Some(number) => Ok(number),
            None => wrong(self.name(), format!("there is no number in column {column}")),
        }
    }

    /// Whether the row is selected. A row without a named column is not selected.
    pub(crate) fn is(&self, selection: &Selection) -> bool {
        selection.iter().all(|(name, wanted)| self.text(name).is_some_and(|text| wanted.has(text)))
    }

    /// The row in words.
    pub(crate) fn name(&self) -> String {
        let labels: Vec<_> =
            self.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("point {}", labels.join(" "))
    }
}

/// The rows of a kind.
///
/// # Errors
/// For rows over time: a point was run without a series.
pub(crate) fn rows(points: &[Point], kind: RowKind) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for point in points {
        let row = Row { labels: point.labels.clone(), columns: point.columns() };
        if kind == RowKind::Points {
            rows.push(row);
            continue;
        }
        let document = &point.document;
        // Node ids count from 1, and writers come first.
        let writers = document.config.get("writer_nodes").and_then(serde_json::Value::as_u64);
        for node in document.nodes.iter().filter(|node| node.role == "compute") {
            let mut of_node = row.clone();
            let add = |row: &mut Row, name: &str, value: String| {
                row.columns.remove(name);
                row.labels.push((name.to_owned(), value));
            };
            add(&mut of_node, "node", node.id.to_string());
            if let Some(writers) = writers.filter(|writers| *writers > 0) {
                let role = if node.id <= writers { "writer" } else { "reader" };
                add(&mut of_node, "role", role.to_owned());
            }
            if kind == RowKind::Nodes {
                let Some(ops) = node.counters.get("ops") else {
                    return wrong(row.name(), "its nodes do not tell their operations");
                };
                let elapsed_s = document.elapsed_s;
                let throughput = if elapsed_s > 0.0 { *ops as f64 / elapsed_s } else { 0.0 };
                add(&mut of_node, "ops", ops.to_string());
                add(&mut of_node, "throughput_ops_s", throughput.to_string());
                rows.push(of_node);
                continue;
            }
            let step_us = row.number("config.series_us")?;
            let end_us = document.elapsed_s * 1e6;
            for (index, ops) in node.series.iter().enumerate() {
                // Operations that ended after the end of the measured time may have an interval of
                // their own.
                if step_us * index as f64 >= end_us {
                    break;
                }
                let mut at = of_node.clone();
                let time_us = (step_us * (index + 1) as f64).min(end_us);
                add(&mut at, "time_us", time_us.to_string());
                add(&mut at, "ops", ops.to_string());
                rows.push(at);
            }
        }
    }
    if rows.is_empty() {
        return wrong("the points", "none of them tells of its compute nodes");
    }
    Ok(rows)
}

#[cfg(test)]
pub(crate) mod tests {
    use latchwork_report::result::{NodeResult, ResultDocument};

    use super::*;

    /// A point with these labels and this throughput, on two nodes. The first node did a quarter.
    pub(crate) fn point(labels: &str, throughput: f64) -> Point {
        let mut document = ResultDocument::new("microbench", "0.1.0", "0123456789ab");
        document.throughput_ops_s = throughput;
        document.elapsed_s = 2.0;
        document.ops = 400;
        document.config.insert("series_us".to_owned(), 500_000.into());
        document.config.insert("writer_nodes".to_owned(), 1.into());
        document.config.insert("settings".to_owned(), serde_json::json!({"lease": "256"}));
        document.measures.insert("hit_ratio".to_owned(), 0.5);
        document.counters.insert("cache_misses".to_owned(), 200);
        for (id, share) in [(1, 1), (2, 3)] {
            document.nodes.push(NodeResult {
                role: "compute".to_owned(),
                id,
                counters: [("ops".to_owned(), 100 * share)].into(),
                series: (1..=5).map(|step| 25 * step.min(4) * share).collect(),
            });
        }
        let labels = labels.split(' ').filter_map(|label| label.split_once('='));
        let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Point { labels, command: "microbench".to_owned(), document }
    }

    pub(crate) fn selection(text: &str) -> Selection {
        toml::from_str(&text.replace(' ', "\n")).expect("a selection")
    }

    #[test]
    fn a_point_has_its_labels_its_flags_and_what_was_measured() {
        let row = &rows(&[point("series=SELCC threads=8", 2e6)], RowKind::Points).unwrap()[0];
        assert_eq!(row.text("series"), Some("SELCC"));
        assert_eq!(row.text("settings.lease"), Some("256"));
        assert_eq!(row.number("throughput_ops_s"), Ok(2e6));
        assert_eq!(row.number("misses_per_op"), Ok(0.5));
        let line = row.number("series").unwrap_err().to_string();
        assert_eq!(line, "point series=SELCC threads=8: there is no number in column series");
        assert!(row.is(&selection("series='SELCC' threads=['4','8']")));
        assert!(!row.is(&selection("series='SEL'")) && !row.is(&selection("serie='SELCC'")));
    }

    #[test]
    fn nodes_and_times_are_rows_of_their_own() {
        let points = [point("series=a", 1.0)];
        let all = rows(&points, RowKind::Nodes).unwrap();
        let of = |row: &Row| (row.text("node").map(str::to_owned), row.number("throughput_ops_s"));
        let nodes: Vec<_> = all.iter().map(of).collect();
        assert_eq!(nodes, [(Some("1".to_owned()), Ok(50.0)), (Some("2".to_owned()), Ok(150.0))]);
        let roles: Vec<_> = all.iter().map(|row| row.text("role")).collect();
        assert_eq!(roles, [Some("writer"), Some("reader")]);
        let times = rows(&points, RowKind::Time).unwrap();
        let last = times.last().unwrap();
        assert_eq!(times.len(), 8);
        assert_eq!((last.number("time_us"), last.number("ops")), (Ok(2e6), Ok(300.0)));
    }
}
