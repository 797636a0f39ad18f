//! The points of a figure: runs with the labels that a script gave them.
//!
//! A file of points has a line for each point. The fields, separated by tabs, are the result
//! document (relative to the file of points), the command, and labels `name=value`.

use std::collections::BTreeMap;
use std::path::Path;

use latchwork_report::result::{CheckOutcome, ResultDocument, SCHEMA};
use serde_json::Value;

use crate::error::{Result, read, wrong};

/// The column of the operations per second.
pub(crate) fn throughput() -> String {
    "throughput_ops_s".to_owned()
}

/// A run.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    /// The script's labels, in its order.
    pub(crate) labels: Vec<(String, String)>,
    /// The command of the run.
    pub(crate) command: String,
    pub(crate) document: ResultDocument,
}

impl Point {
    /// Columns from the document, by name: the settings, then the measurements.
    pub(crate) fn columns(&self) -> BTreeMap<String, String> {
        let document = &self.document;
        let mut columns = BTreeMap::new();
        let mut add = |name: String, value: String| columns.insert(name, value);
        for (name, value) in &document.config {
            match value {
                Value::Object(settings) => {
                    for (setting, value) in settings {
                        add(format!("{name}.{setting}"), plain(value));
                    }
                }
                value => {
                    add(format!("config.{name}"), plain(value));
                }
            }
        }
        add("app".to_owned(), document.app.clone());
        add("git".to_owned(), document.git.clone());
        add("event_hash".to_owned(), document.event_hash.clone().unwrap_or_default());
        add("elapsed_s".to_owned(), document.elapsed_s.to_string());
        add("ops".to_owned(), document.ops.to_string());
        add("throughput_ops_s".to_owned(), document.throughput_ops_s.to_string());
        for (kind, latency) in &document.latency_us {
            add(format!("mean_us.{kind}"), latency.mean.to_string());
            add(format!("p50_us.{kind}"), latency.p50.to_string());
            add(format!("p99_us.{kind}"), latency.p99.to_string());
        }
        for (name, count) in &document.counters {
            add(format!("counters.{name}"), count.to_string());
        }
        let ops = document.ops.max(1) as f64;
        let count = |name: &str| document.counters.get(name).map(|count| *count as f64);
        if let Some(misses) = count("cache_misses") {
            add("misses_per_op".to_owned(), (misses / ops).to_string());
        }
        for (name, value) in &document.measures {
            add(name.clone(), value.to_string());
        }
        columns
    }
}

/// Text as it is, anything else as JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Reads a file of points, and the documents of all points.
pub(crate) fn load(path: &Path) -> Result<Vec<Point>> {
    let mut points = Vec::new();
    let directory = path.parent().unwrap_or(Path::new(""));
    for (index, line) in read(path)?.lines().enumerate() {
        let place = format!("{}:{}", path.display(), index + 1);
        let mut fields = line.split('\t');
        let (Some(file), Some(command)) = (fields.next(), fields.next()) else {
            return wrong(
                place,
                "a line has a result document, a command and labels, with tabs between them",
            );
        };
        let mut labels: Vec<(String, String)> = Vec::new();
        for field in fields {
            let Some((name, value)) = field.split_once('=').filter(|(name, _)| !name.is_empty())
            else {
                return wrong(place, format!("{field:?} is no label: use name=value"));
            };
            if labels.iter().any(|(other, _)| other == name) {
                return wrong(place, format!("label {name} is there twice"));
            }
            labels.push((name.to_owned(), value.to_owned()));
        }
        let document = document(&directory.join(file))?;
        points.push(Point { labels, command: command.to_owned(), document });
    }
    if points.is_empty() {
        return wrong(path.display(), "there are no points");
    }
    Ok(points)
}

fn document(path: &Path) -> Result<ResultDocument> {
    let document: ResultDocument = match serde_json::from_str(&read(path)?) {
        Ok(document) => document,
        Err(error) => return wrong(path.display(), format!("this is no result document: {error}")),
    };
    if document.schema != SCHEMA {
        let schema = document.schema;
        return wrong(
            path.display(),
            format!("its schema is {schema}, and {SCHEMA} is understood"),
        );
    }
    let failed = document.checks.iter().find(|(_, outcome)| **outcome != CheckOutcome::Ok);
    if let Some((name, _)) = failed {
        return wrong(path.display(), format!("check {name} of this run failed"));
    }
    if document.ops == 0 {
        return wrong(path.display(), "nothing was measured in this run");
    }
    Ok(document)
}
