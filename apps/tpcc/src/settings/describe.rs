//! The settings as keys and values: for the other processes of the run, and for result documents.

use std::collections::BTreeMap;
use std::time::Duration;

use latchwork_harness::ClusterFlags;
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
        let mut config = ClusterFlags::describe(&self.cluster);
        let mut add = |name: &str, value: Value| config.insert(name.to_owned(), value);
        let seconds = |time: Duration| json!(time.as_secs_f64());
        let scale = self.population.scale();
        let weight = |kind| self.inputs.weights.percent(kind);
        let weights = TransactionKind::ALL.map(weight);
        add("command", self.command.map_or("all", Command::name).into());
        add("fabric", self.fabric.name().into());
        add("warehouses", self.population.warehouses().into());
        add("items", scale.items().into());
        add("customers", scale.customers().into());
        add("cc", self.txn.scheme.name().into());
        add("weight", json!(weights));
        add("wait", self.wait.into());
        add("wal", self.wal.name().into());
        add("early_release", self.txn.early_release.into());
        add("partitioned", self.partitioned.into());
        add("roaming", self.roaming.into());
        add("check", self.check.into());
        add("warmup_s", seconds(self.warmup));
        if self.txn.scheme == Scheme::TimestampOrdering {
            add("ts_block", self.txn.timestamp_block.into());
            add("read_lease", self.txn.read_lease.into());
            add("ts_extension", self.txn.extend_timestamps.into());
        }
        add("elder_after", self.txn.elder_after.into());
        add("retry_for_s", seconds(self.txn.retry_for));
        add("places", self.txn.places.into());
        let ratio = match self.inputs.remote_lines {
            RemoteLines::PerOrder { percent, .. } => Some(json!(percent)),
            RemoteLines::PerLine { .. } => None,
        };
        let optional = [
            ("nic", self.fabric.nic().map(Value::from)),
            ("time_s", self.time.map(seconds)),
            ("count", self.count.map(Value::from)),
            ("interval_s", self.interval.map(seconds)),
            (
                "sync_us",
                self.logs
                    .as_ref()
                    .and_then(Logs::simulated_sync)
                    .map(|sync| json!(sync.as_micros() as u64)),
            ),
            ("distribution_ratio", ratio),
        ];
        let optional = optional.into_iter();
        config.extend(optional.filter_map(|(name, value)| Some((name.to_owned(), value?))));
        config
    }
}
