//! The settings as keys and values: for the other processes of the run, and for result documents.

use std::collections::BTreeMap;
use std::time::Duration;

use latchwork_txn::Scheme;
use latchwork_workload::tpcc::{RemoteLines, TransactionKind};
use serde_json::{Value, json};

use super::Settings;
use crate::args::Command;
use crate::log::Logs;

impl Settings {
    /// The settings that all processes of a run must share.
    pub(crate) fn to_agree_on(&self) -> BTreeMap<String, Value> {
        let mut all = self.describe();
        all.insert("record".to_owned(), self.record.is_some().into());
        all
    }

    /// The settings for a result document.
    pub(crate) fn describe(&self) -> BTreeMap<String, Value> {
        let seconds = |time: Duration| json!(time.as_secs_f64());
        let (scale, txn) = (self.population.scale(), &self.txn);
        let weights = TransactionKind::ALL.map(|kind| self.inputs.weights.percent(kind));
        let ordered = txn.scheme == Scheme::TimestampOrdering;
        let sync = self.logs.as_ref().and_then(Logs::simulated_sync);
        let ratio = match self.inputs.remote_lines {
            RemoteLines::PerOrder { percent, .. } => Some(percent),
            RemoteLines::PerLine { .. } => None,
        };
        self.common.describe(json!({
            "command": self.command.map_or("all", Command::name),
            "warehouses": self.population.warehouses(),
            "items": scale.items(),
            "customers": scale.customers(),
            "rows_per_line": self.stored.is_none().then_some(self.hot_rows.unwrap_or(0)),
            "cc": txn.scheme.name(),
            "weight": weights,
            "wait": self.terminals.wait(),
            "wal": self.wal.name(),
            "early_release": txn.early_release,
            "partitioned": self.partitioned,
            "terminals": self.terminals.rule.name(),
            "check": self.check,
            "warmup_s": seconds(self.warmup),
            "ts_block": ordered.then_some(txn.timestamp_block),
            "read_lease": ordered.then_some(txn.read_lease),
            "ts_extension": ordered.then_some(txn.extend_timestamps),
            "elder_after": txn.elder_after,
            "retry_for_s": seconds(txn.retry_for),
            "places": txn.places,
            "time_s": self.time.map(seconds),
            "count": self.count,
            "interval_s": self.interval.map(seconds),
            "sync_us": sync.map(|sync| sync.as_micros() as u64),
            "distribution_ratio": ratio,
        }))
    }
}
