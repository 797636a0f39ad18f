//! The result document of a program.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::conditions::Conditions;
use crate::histogram::{LatencySummary, Measured};
use crate::unique;

/// The version number of the document's schema.
pub const SCHEMA: u32 = 1;

/// The outcome of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckOutcome {
    /// The check found no error.
    Ok,
    /// The check found an error.
    Failed,
}

/// A part of the run with its own throughput.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ResultPhase {
    /// Seconds.
    pub elapsed_s: f64,
    /// Operations.
    pub ops: u64,
    /// Operations per second.
    pub throughput_ops_s: f64,
}

impl ResultPhase {
    /// `ops` operations in `elapsed_s` seconds.
    pub fn new(ops: u64, elapsed_s: f64) -> ResultPhase {
        let throughput = if elapsed_s > 0.0 { ops as f64 / elapsed_s } else { 0.0 };
        ResultPhase { elapsed_s, ops, throughput_ops_s: throughput }
    }
}

/// The figures of one node.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct NodeResult {
    /// `compute` or `memory`.
    pub role: String,
    /// The node's id, which is unique among the nodes of its role.
    pub id: u64,
    /// The node's counters.
    #[serde(deserialize_with = "unique::map", default)]
    pub counters: BTreeMap<String, u64>,
    /// The node's operations so far at the end of each interval, if the run was divided into
    /// intervals.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub series: Vec<u64>,
}

/// The recovery from the death of a compute node in the run. Times are milliseconds; a time that is
/// absent had not come when the run ended.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct RecoveryResult {
    /// The dead node, as `C3`.
    pub node: String,
    /// When the death was known, since all nodes of the run had come.
    pub known_ms: f64,
    /// When all other nodes had fenced the dead node, since `known_ms`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fenced_ms: Option<f64>,
    /// When no line of a living node depended on the dead node any more, since `known_ms`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub claimed_ms: Option<f64>,
    /// When no latch word named the dead node any more, since `known_ms`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub swept_ms: Option<f64>,
    /// The longest access of a living node of the run that was in flight at some time from
    /// `known_ms` to `swept_ms`, if it took a millisecond or more.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub longest_access_ms: Option<f64>,
    /// Latch words that the sweep took the dead node out of, in the whole pool. Words that living
    /// nodes changed before the sweep are not counted. Like `claimed_ms` and `lines_reverted`, it
    /// is absent if the node that swept has died later in the run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lines_released: Option<u64>,
    /// Those of them that named the dead node as the holder: its last writes to these lines, which
    /// no other node has seen, may be gone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lines_reverted: Option<u64>,
}

/// One run of one program: its settings, its measurements, and the outcomes of its checks.
///
/// A key that does not apply to a program is absent, not null.
///
/// ```
/// use latchwork_report::result::{CheckOutcome, ResultDocument};
///
/// let mut document = ResultDocument::new("ycsb", "0.1.0", "unknown");
/// document.checks.insert("records".to_owned(), CheckOutcome::Ok);
/// let json: serde_json::Value = serde_json::from_str(&document.to_json()).unwrap();
/// assert_eq!(json["schema"], 1);
/// assert_eq!(json["checks"]["records"], "ok");
/// ```
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ResultDocument {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The program.
    pub app: String,
    /// Its version.
    pub version: String,
    /// The commit of the build, or `unknown`.
    pub git: String,
    /// All settings of the run, defaults included.
    #[serde(deserialize_with = "unique::map")]
    pub config: BTreeMap<String, Value>,
    /// The event hash in hexadecimal, if the run was one simulated world. The same configuration
    /// gives the same hash.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub event_hash: Option<String>,
    /// The signal that ended the measured part early, if any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stopped: Option<String>,
    /// The load phase, if the run loaded the data.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub load: Option<ResultPhase>,
    /// The compute nodes that died in the run, in the order of their names: `C3`. Their results are
    /// in no figure, as far as they had not been exchanged before.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub dead: Vec<String>,
    /// The recoveries from these deaths, and from those of other compute nodes of the cluster in
    /// that time, in the order in which the deaths were known.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub recoveries: Vec<RecoveryResult>,
    /// A sentence about what limited the speed of the measured part, if known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limit: Option<String>,
    /// The machines and the workers' processor times, if the run was on real threads.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub conditions: Option<Conditions>,
    /// Measured seconds.
    pub elapsed_s: f64,
    /// Operations in the measured time.
    pub ops: u64,
    /// Operations per second.
    pub throughput_ops_s: f64,
    /// Aborted transactions.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub aborts: Option<u64>,
    /// Operations that failed, by kind and status, as `READ/NOT_FOUND`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "unique::map", default)]
    pub failures: BTreeMap<String, u64>,
    /// Latencies by kind of operation; latencies from intended starts have keys with `Intended-`
    /// before the kind.
    #[serde(deserialize_with = "unique::map")]
    pub latency_us: BTreeMap<String, LatencySummary>,
    /// Derived figures by name, such as ratios and costs per operation.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "unique::map", default)]
    pub measures: BTreeMap<String, f64>,
    /// The sums of all nodes' counters.
    #[serde(deserialize_with = "unique::map")]
    pub counters: BTreeMap<String, u64>,
    /// The checks by name.
    #[serde(deserialize_with = "unique::map")]
    pub checks: BTreeMap<String, CheckOutcome>,
    /// The nodes one by one.
    pub nodes: Vec<NodeResult>,
}

impl ResultDocument {
    /// A document without any measurement.
    pub fn new(app: &str, version: &str, git: &str) -> ResultDocument {
        ResultDocument {
            schema: SCHEMA,
            app: app.to_owned(),
            version: version.to_owned(),
            git: git.to_owned(),
            config: BTreeMap::new(),
            event_hash: None,
            stopped: None,
            load: None,
            dead: Vec::new(),
            recoveries: Vec::new(),
            limit: None,
            conditions: None,
            elapsed_s: 0.0,
            ops: 0,
            throughput_ops_s: 0.0,
            aborts: None,
            failures: BTreeMap::new(),
            latency_us: BTreeMap::new(),
            measures: BTreeMap::new(),
            counters: BTreeMap::new(),
            checks: BTreeMap::new(),
            nodes: Vec::new(),
        }
    }

    /// Sets the figures of the measured phase: time, operations, throughput, latencies and
    /// failures.
    pub fn set_measured(&mut self, phase: &ResultPhase, measured: &[Measured]) {
        self.elapsed_s = phase.elapsed_s;
        self.ops = phase.ops;
        self.throughput_ops_s = phase.throughput_ops_s;
        for kind in measured {
            if let Some(latency) = kind.latency {
                self.latency_us.insert(kind.name.clone(), latency);
            }
            if let Some(intended) = kind.intended {
                self.latency_us.insert(format!("Intended-{}", kind.name), intended);
            }
            for (status, count) in &kind.failed {
                self.failures.insert(format!("{}/{status}", kind.name), *count);
            }
        }
    }

    /// Whether every check found no error.
    pub fn all_checks_ok(&self) -> bool {
        self.checks.values().all(|outcome| *outcome == CheckOutcome::Ok)
    }

    /// The document as JSON for people and programs, with a newline at its end.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self)
            .expect("keys are strings and writing to memory does not fail");
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::histogram::{Latencies, OperationFailure};
    use crate::testing::OperationKind;

    fn document() -> ResultDocument {
        let mut latencies = Latencies::new();
        let us = Duration::from_micros(1);
        latencies.record(OperationKind::Read, us, Some(2 * us));
        latencies.record_failure(OperationKind::Update, OperationFailure::NotFound);
        let mut document = ResultDocument::new("ycsb", "0.1.0", "abc");
        document.set_measured(&ResultPhase::new(1, 0.5), &latencies.measured());
        document.config.insert("seed".to_owned(), 42.into());
        document.checks.insert("records".to_owned(), CheckOutcome::Failed);
        document
    }

    #[test]
    fn a_document_survives_being_written_and_read() {
        let document = document();
        let read: ResultDocument = serde_json::from_str(&document.to_json()).unwrap();
        assert_eq!(read, document);
        assert!(!read.all_checks_ok());
        let json: Value = serde_json::from_str(&document.to_json()).unwrap();
        assert_eq!(json["throughput_ops_s"], 2.0);
        assert_eq!(json["latency_us"]["READ"]["count"], 1);
        assert_eq!(json["latency_us"]["Intended-READ"]["p50"], 2.0);
        assert_eq!(json["failures"]["UPDATE/NOT_FOUND"], 1);
        assert!(json.get("aborts").is_none());
    }

    #[test]
    fn a_key_that_stands_twice_is_an_error() {
        let json = document().to_json();
        for (once, twice) in [
            ("\"seed\": 42", "\"seed\": 42, \"seed\": 43"),
            ("\"records\": \"failed\"", "\"records\": \"failed\", \"records\": \"ok\""),
            ("\"ops\": 1", "\"ops\": 1, \"ops\": 2"),
        ] {
            let error = serde_json::from_str::<ResultDocument>(&json.replacen(once, twice, 1));
            let told = error.expect_err(twice).to_string();
            assert!(told.starts_with("duplicate "), "{told}");
        }
    }

    #[test]
    fn a_phase_without_time_has_no_infinite_throughput() {
        assert_eq!(ResultPhase::new(5, 0.0).throughput_ops_s, 0.0);
    }
}
